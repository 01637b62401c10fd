"""Reading the user's command in every form it is typed in, and writing it back as it was."""

from __future__ import annotations

import shlex
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vllm_doctor import command
from vllm_doctor.command import Command, CommandFinder
from vllm_doctor.command.change_flags import change
from vllm_doctor.command.render import render, render_patch
from vllm_doctor.command.words import split


def parsed(text: str) -> Command:
    found = command.parse(text)
    assert found is not None, text
    return found


SHELL = [
    "vllm serve org/m --port 8000 -tp 2 --enforce-eager",
    "CUDA_VISIBLE_DEVICES=0,1 nohup python3 -m vllm.entrypoints.openai.api_server --model=$MODEL --max_model_len=8 > x.log 2>&1 &",
    "sudo -E numactl --cpunodebind 0 /opt/venv/bin/vllm serve org/m  --port   8000",
    "docker run --gpus all --ipc=host -e A=b -v /x:/x -p5000:5000 --rm -it vllm/vllm-openai:v0.8.5 --model org/m",
    "podman run --rm docker.io/vllm/vllm-openai:latest org/m --max-model-len 4096",
    "source venv/bin/activate && export V=1; vllm serve org/m --hf-overrides '{\"a\": 1}' 2>&1 | tee log",
    'bash -c "cd /x && vllm serve org/m --port \\"8\\" $EXTRA" > log',
    "uv run vllm serve ./m -O3 --served-model-name a b -- # comment",
    "torchrun --nproc-per-node 2 -m vllm.entrypoints.openai.api_server --model org/m",
    "vllm bench latency --model org/m --input-len 32 --max-model-len 4096",
    "vllm run-batch -i in.jsonl -o out.jsonl --model org/m --max-model-len 4096",
]


@pytest.mark.parametrize("text", SHELL)
def test_a_shell_command_is_written_back_as_typed(text: str) -> None:
    found = parsed(text)
    assert found.form == "shell"
    assert render(found) == text
    assert render_patch(found) is None
    assert found.complete


def test_reads_model_values_and_arguments() -> None:
    found = parsed(
        "vllm serve --trust-remote-code org/m --max_model_len 8K -tp 2 --gpu-memory-utilization=0.95 "
        "--served-model-name a b --no-enable-prefix-caching --limit-mm-per-prompt.image 4 --allowed-origins '[\"*\"]'"
    )
    assert found.entry == "serve"
    assert found.model == "org/m"
    assert found.value("--max-model-len") == "8K"
    assert found.value("--tensor-parallel-size") == "2"
    assert found.value("--trust-remote-code") == ""
    assert found.value("--enable-prefix-caching") == "false"
    assert found.value("--no-enable-prefix-caching") == ""
    assert found.value("--limit-mm-per-prompt.image") == "4"
    assert found.value("--served-model-name") == "a b"
    assert found.value("--port") is None
    assert found.arguments() == {
        "trust_remote_code": True,
        "max_model_len": 8192,
        "tensor_parallel_size": 2,
        "gpu_memory_utilization": 0.95,
        "served_model_name": ["a", "b"],
        "enable_prefix_caching": False,
        "limit_mm_per_prompt": {"image": 4},
        "allowed_origins": ["*"],
        "model": "org/m",
    }


def test_what_only_the_shell_knows_is_unknown() -> None:
    found = parsed('vllm serve "$MODEL" --port ${PORT:-8000} --max-model-len $(cat len) --dtype half')
    assert found.model is None
    assert found.value("--port") is None
    assert found.arguments() == {"dtype": "half"}


def test_an_unambiguous_beginning_of_a_flag_is_found() -> None:
    assert parsed("vllm serve org/m --gpu-memory-util 0.9").value("--gpu-memory-utilization") == "0.9"


def test_the_last_of_a_repeated_flag_counts_and_json_keys_are_seen() -> None:
    found = parsed('vllm serve m --port 1 --port 2 --compilation-config \'{"mode": {"a": 3}}\'')
    assert found.value("--port") == "2"
    assert found.value("--compilation-config.mode.a") == "3"


def test_negative_numbers_are_values() -> None:
    assert parsed("vllm serve m --max-model-len -1 --port 8").value("--max-model-len") == "-1"


def test_container_image_and_environment() -> None:
    found = parsed("docker run -e HF_TOKEN=x --env VLLM_USE_V1=0 --gpus all vllm/vllm-openai:v0.8.5.post1 --model m")
    assert (found.entry, found.image, found.image_version) == (
        "image",
        "vllm/vllm-openai:v0.8.5.post1",
        "0.8.5.post1",
    )
    assert dict(found.environment) == {"HF_TOKEN": "x", "VLLM_USE_V1": "0"}


@pytest.mark.parametrize("image", ["vllm/vllm-openai:v0.11.0", "registry.local/vllm-cpu", "ee2917e260bb"])
def test_serve_behind_an_image_is_no_model(image: str) -> None:
    found = parsed(f"docker run --name vllm-a -p 1:1 {image} serve /models/a --max-model-len 16000")
    assert (found.entry, found.model, found.value("--max-model-len")) == ("serve", "/models/a", "16000")
    assert render(found).endswith(f"{image} serve /models/a --max-model-len 16000")


def test_an_image_behind_a_variable_is_known_by_its_flags() -> None:
    found = parsed("docker run --name=vllm-a -v $M:/m $IMAGE --model /m -tp 4 --max-model-len 4096")
    assert (found.entry, found.value("--max-model-len")) == ("image", "4096")
    assert render(change(found, {"--max-model-len": "2048"})).endswith("$IMAGE --model /m -tp 4 --max-model-len 2048")
    assert command.parse("docker run --name=vllm-a $IMAGE --model /m --port 1") is None


@pytest.mark.parametrize("text", [
    "vllm serve /models/a --max-model-len = 4096 --enforce-eager",
    "vllm serve vllm serve /models/a --port 1",
    "vllm serve /models/a fast --port 1",
])
def test_stray_words_of_a_command_that_is_given_are_kept(text: str) -> None:
    assert render(parsed(text)) == text


def test_serve_behind_an_image_goes_where_the_model_is_refused_as_a_word() -> None:
    found = parsed("docker run vllm/vllm-openai serve /models/a --port 1")
    assert render(change(found, {"--model": "/models/a"})) == "docker run vllm/vllm-openai --model /models/a --port 1"
    assert render(change(found, {"--model": "/models/b"})) == "docker run vllm/vllm-openai serve /models/b --port 1"
    found = parsed("docker run rocm/vllm vllm serve /models/a")
    assert render(change(found, {"--model": "/models/a"})) == "docker run rocm/vllm vllm serve /models/a"


def test_an_image_of_another_server_is_no_command() -> None:
    assert command.parse("docker run --name vllm-a other/server serve /models/a --max-model-len 16000") is None
    assert command.parse("docker run --name vllm-a ee2917e260bb /models/a") is None


@pytest.mark.parametrize(
    "prompt",
    [
        "$ ", "# ", "root@host:/llm# ", "(base) user@h:~$ ", "(vllm) [me@node ~]$ ", "+ ", "++ exec ", "> ", "!",
        "PS C:\\work> ", "C:\\> ", "sh-5.1# ", "user@mac ~/dir % ", "\u279c ", "~/proj$ ", "In [3]: !", "bash-4.2$ ",
    ],
)  # fmt: skip
def test_a_prompt_is_not_part_of_the_command(prompt: str) -> None:
    found = parsed(prompt + "A=1 vllm serve m --port 80")
    assert found.model == "m"
    assert render(found).removeprefix("exec ") == "A=1 vllm serve m --port 80"


@pytest.mark.parametrize(
    ("text", "rendered"),
    [
        ("Command '['/x/bin/vllm', 'serve', 'org/m', '--dtype', 'a b']' returned non-zero", "/x/bin/vllm serve org/m --dtype 'a b'"),
        ('cmd: ["python3", "-m", "vllm.entrypoints.openai.api_server", "--model", "m"]', "python3 -m vllm.entrypoints.openai.api_server --model m"),
        ("Running command: vllm serve org/m --port 1", "vllm serve org/m --port 1"),
        ("2025-01-01 10:00:01 INFO launcher - executing: `vllm serve org/m --port 1`", "vllm serve org/m --port 1"),
        ("ExecStart=/opt/venv/bin/vllm serve org/m --port 1", "/opt/venv/bin/vllm serve org/m --port 1"),
        ("\u547d\u4ee4\uff1avllm serve org/m --port 1", "vllm serve org/m --port 1"),
        ("start.sh: line 12:    88 Killed                  vllm serve org/m --port 1", "vllm serve org/m --port 1"),
        ("start.sh: line 12:    88 Bus error               (core dumped) vllm serve org/m --port 1", "vllm serve org/m --port 1"),
        ("[1]+  Exit 1                  nohup vllm serve org/m --port 1", "nohup vllm serve org/m --port 1"),
        ("a.sh: line 9: 41 Illegal instruction     (core dumped) python -m ipex_llm.vllm.cpu.entrypoints.openai.api_server --port 1", "python -m ipex_llm.vllm.cpu.entrypoints.openai.api_server --port 1"),
        ("root 4021 99.0 2.1 123 456 ? Sl 10:00 1:02 python3 /usr/bin/vllm serve org/m --port 1", "python3 /usr/bin/vllm serve org/m --port 1"),
    ],
)  # fmt: skip
def test_commands_in_other_lines(text: str, rendered: str) -> None:
    assert render(parsed(text)) == rendered


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello world",
        "usage: vllm serve [model_tag] [options]",
        "vllm serve: error: unrecognized arguments: --x",
        "INFO 11-20 09:29:53 [factories.py:89] Restart vllm serve with --enable-scale-out to enable them.",
        "With `vllm serve`, you should provide the model as a positional argument",
        "vllm serve crashed with exit code 1",
        "watchdog: 1 Killed vllm serve and its workers",
        "python -m ipex_llm.vllm.xpu.tools --model m",
        "from vllm.entrypoints.openai.api_server import main",
        "vllm bench serve --model m",
        "vllm chat --url x",
        "docker exec -it vllm bash",
        "docker run -it vllm/vllm-openai bash",
        "docker logs -f vllm",
        "python train.py --vllm_num_engines 8",
        "pip install vllm==0.8.5",
        'File "/usr/lib/vllm/entrypoints/openai/api_server.py", line 1024, in <module>',
    ],
)
def test_what_is_no_command(text: str) -> None:
    assert command.parse(text) is None


def test_line_continuations_are_joined_and_kept() -> None:
    text = "docker run --gpus all \\\n    vllm/vllm-openai:v0.9.0 \\\n    --model m \\\n    --port 80"
    found = parsed(text)
    assert render(found) == "docker run --gpus all vllm/vllm-openai:v0.9.0 --model m --port 80"
    assert render(found, multiline=True) == text


@pytest.mark.parametrize("blanks", [" ", "\t ", " \r"])
def test_blanks_behind_a_backslash_are_no_argument(blanks: str) -> None:
    found = parsed(f"vllm serve m --max-model-len 8192 \\{blanks}\n  --port 80")
    assert found.arguments() == {"model": "m", "max_model_len": 8192, "port": 80}
    assert render(found) == "vllm serve m --max-model-len 8192 --port 80"


def test_a_key_of_the_short_form_of_the_compilation_config() -> None:
    found = parsed("vllm serve m -O.mode 3 -O.cudagraph_mode=NONE -O2")
    assert found.arguments() == {
        "model": "m", "compilation_config": {"mode": 3, "cudagraph_mode": "NONE"}, "optimization_level": 2}
    assert render(change(found, {"--compilation-config.mode": "0"})) == "vllm serve m -O.mode 0 -O.cudagraph_mode=NONE -O2"


@pytest.mark.parametrize("text", [
    "docker run --entrypoint vllm IMG serve m --port 1", "docker run --entrypoint=/usr/bin/vllm $IMG serve m --port 1",
    "docker.exe run vllm/vllm-openai serve m --port 1", "/usr/bin/docker run vllm/vllm-openai serve m --port 1",
])
def test_vllm_may_be_the_entrypoint_of_a_container(text: str) -> None:
    found = parsed(text)
    assert (found.entry, found.arguments()) == ("serve", {"model": "m", "port": 1})
    assert render(change(found, {"--model": "m", "--port": "2"})) == (
        text.replace("--port 1", "--port 2") if "entrypoint" in text else text.replace("serve m --port 1", "--model m --port 2"))


@pytest.mark.parametrize("program", ["bash", "/bin/sh", "python3"])
def test_another_entrypoint_of_a_container_is_no_server(program: str) -> None:
    assert command.parse(f"docker run --entrypoint {program} vllm/vllm-openai serve m") is None


def test_each_item_of_a_list_in_a_config_file_is_a_value() -> None:
    text = "model: m\nserved-model-name: [a, b c]\nallowed-origins: []"
    found = parsed(text)
    assert found.arguments() == {"model": "m", "served_model_name": ["a", "b c"], "allowed_origins": []}
    assert render(found) == text
    assert render(change(found, {"--served-model-name": "x y"})) == text.replace("[a, b c]", '["x", "y"]')


def test_a_cut_quote_is_closed() -> None:
    found = parsed('vllm serve m --speculative-config \'{"method": "ng')
    assert not found.complete
    assert shlex.split(render(found))[-1] == '{"method": "ng'


# Python


def test_a_python_call() -> None:
    found = parsed("llm = LLM(model='org/m', max_model_len=8192, enforce_eager=True, quantization=args.q, **kw)")
    assert (found.form, found.entry, found.model) == ("python", "call", "org/m")
    assert found.arguments() == {"model": "org/m", "max_model_len": 8192, "enforce_eager": True}
    assert render_patch(found) == {
        "kind": "python",
        "text": "llm = LLM(model='org/m', max_model_len=8192, enforce_eager=True, quantization=args.q, **kw)",
    }


def test_a_python_call_over_several_lines() -> None:
    text = (
        "engine_args = AsyncEngineArgs(\n    'org/m',\n    limit_mm_per_prompt={\"image\": 2},  # two\n    dtype=x,\n)"
    )
    found = parsed(text)
    assert found.model == "org/m"
    assert found.value("--limit-mm-per-prompt") == '{"image":2}'
    assert render(found) == text.replace("  # two", "")


# Documents


def test_a_vllm_config_file() -> None:
    text = (
        "# serving\nmodel: org/m\nport: 8000  # public\n\nmax-model-len: 8k\nenforce-eager: true\n"
        "served-model-name:\n  - a\n  - b\ncompilation-config:\n  mode: 3"
    )
    found = parsed(text)
    assert (found.form, found.model) == ("yaml", "org/m")
    assert found.value("--max-model-len") == "8k"
    assert found.value("--served-model-name") == "a b"
    assert found.arguments()["compilation_config"] == {"mode": 3}
    assert found.arguments()["enforce_eager"] is True
    assert render_patch(found) == {"kind": "yaml", "text": text}


COMPOSE = """\
services:
  vllm:
    image: vllm/vllm-openai:v0.8.5
    ports: ["8000:8000"]
    environment:
      - VLLM_USE_V1=0
    command: >
      --model org/m
      --max-model-len 8192
      --enforce-eager
    volumes:
      - ./x:/x
"""


def test_compose_with_a_folded_command() -> None:
    found = parsed(COMPOSE)
    assert (found.form, found.entry, found.model) == ("compose", "image", "org/m")
    assert dict(found.environment) == {"VLLM_USE_V1": "0"}
    assert render(found) == "command: >\n  --model org/m\n  --max-model-len 8192\n  --enforce-eager"


@pytest.mark.parametrize(
    ("text", "style"),
    [
        ('    image: vllm/vllm-openai\n    command: ["--model", "m", "--port", "8000"]', 'command: ["--model", "m", "--port", "8000"]'),
        ("    image: vllm/vllm-openai\n    command: --model m --port 8000", "command: '--model m --port 8000'"),
        ("    image: vllm/vllm-openai\n    command:\n    - --model\n    - m\n    - --port\n    - 8000", "command:\n  - --model\n  - m\n  - --port\n  - '8000'"),
    ],
)  # fmt: skip
def test_compose_keeps_the_style_of_the_command(text: str, style: str) -> None:
    assert parsed(text).form == "compose"
    assert render(parsed(text)) == style


KUBERNETES = """\
    spec:
      containers:
      - name: vllm
        image: vllm/vllm-openai:v0.10.0
        command: ["vllm", "serve"]
        args:
        - org/m
        - --max-model-len=8192
        - "--tensor-parallel-size"
        - "2"
        - --port=$(PORT)
        env:
        - name: HF_TOKEN
          valueFrom: {secretKeyRef: {name: s, key: t}}
        - name: VLLM_USE_V1
          value: "1"
      - name: other
        image: busybox
        args: ["sleep"]
"""


def test_a_kubernetes_manifest() -> None:
    found = parsed(KUBERNETES)
    assert (found.form, found.model) == ("kubernetes", "org/m")
    assert found.value("--tensor-parallel-size") == "2"
    assert found.value("--port") is None
    assert dict(found.environment) == {"HF_TOKEN": None, "VLLM_USE_V1": "1"}
    assert render(found) == (
        "args:\n  - org/m\n  - '--max-model-len=8192'\n  - --tensor-parallel-size\n  - '2'\n  - '--port=$(PORT)'"
    ).replace("'--max-model-len=8192'", "--max-model-len=8192")


def test_kubernetes_with_a_shell_in_it() -> None:
    found = parsed('command: ["/bin/sh", "-c"]\nargs: ["vllm serve org/m --max_model_len 1024"]\nenv: []')
    assert (found.form, found.model) == ("kubernetes", "org/m")
    changed = change(found, {"--max-model-len": "512"})
    assert render(changed) == 'args: ["vllm serve org/m --max_model_len 512"]'


def test_kubectl_describe() -> None:
    found = parsed(
        "    Image:         vllm/vllm-openai:v0.9.2\n    Host Port:     0/TCP\n    Args:\n      --model\n      /models/x\n"
        "      --max-model-len=8192\n    State:          Running\n    Environment:\n      VLLM_USE_V1:  1\n"
    )
    assert (found.form, found.model) == ("kubernetes", "/models/x")
    assert found.value("--max-model-len") == "8192"
    assert dict(found.environment) == {"VLLM_USE_V1": "1"}


def test_a_document_of_something_else_is_none() -> None:
    assert command.parse("image: nginx\ncommand: [nginx, -g, daemon off]") is None
    assert command.parse("a: 1\nb: 2") is None


# Properties

arguments = st.lists(st.text(min_size=1).filter(lambda text: "\x00" not in text), max_size=6)


@given(arguments)
def test_words_are_split_as_a_shell_does(values: list[str]) -> None:
    text = shlex.join(values)
    tokens, complete = split(text)
    assert [token.word.value for token in tokens] == values
    assert complete


@given(st.text(alphabet=st.sampled_from("ab \t\n'\"\\$`;|&()<>#={}-"), max_size=40))
def test_any_text_is_split_and_nothing_is_lost(text: str) -> None:
    tokens, complete = split(text)
    if complete:
        joined = "".join(token.word.gap if i else "" for i, token in enumerate(tokens))
        assert len(joined) <= len(text)
        assert all(token.word.text in text for token in tokens)


@given(
    st.text(max_size=60),
    st.sampled_from(["", "$ ", "args:\n- ", "LLM(", "command: [", "model: ", "Args:\n  "]),
)
def test_nothing_raises(text: str, lead: str) -> None:
    for found in (command.parse(lead + text), command.parse(lead + "vllm serve m " + text)):
        if found is not None:
            render(found)
            found.arguments()


@pytest.mark.parametrize(
    "unit",
    ["vllm ;", "docker run vllm ", "'vllm serve' ", "$(", "vllm serve '", "vllm/entrypoints/", "-m vllm ", "\\", "`",
     "export a=1;", '"vllm serve', "LLM(a,", "args:\n- vllm serve x\n", "command: vllm\n", "[", "user@host:", "a: ", "(x)"],
)  # fmt: skip
def test_long_input_takes_linear_time(unit: str) -> None:
    start = time.process_time()
    text = unit * (60_000 // len(unit))
    for whole in (text, "$ vllm serve " + text, text + " vllm serve m"):
        command.parse(whole)
    assert time.process_time() - start < 6


def test_escaped_quotes_of_a_call_take_linear_time() -> None:
    start = time.process_time()
    command.parse('llm = LLM(model="x", ' + '\\"' * 8_000 + " #")
    assert time.process_time() - start < 1


def test_the_words_of_a_config_file_are_masked_once() -> None:
    parsed = command.parse("model: m\nserved-model-name: [a, sk-widget]\n")
    assert parsed is not None
    assert render(parsed.masked(lambda text: text.replace("sk-widget", "***"))) == "model: m\nserved-model-name: [a, ***]"


def test_an_image_that_does_not_stand_before_the_program_is_none() -> None:
    finder = CommandFinder()
    finder.feed(1, "$ docker run --runtime=x -m vllm.entrypoints.openai.api_server --port=5000 a b vllm/vllm-openai:v0.4.2")
    finder.finish()
    assert finder.command is None or finder.command.image is None
