"""Changing a command: only what is named changes."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vllm_doctor import command
from vllm_doctor.command import Command
from vllm_doctor.command.change_flags import change
from vllm_doctor.command.render import render, render_patch


def parsed(text: str) -> Command:
    found = command.parse(text)
    assert found is not None, text
    return found


@pytest.mark.parametrize(
    ("text", "wanted", "changed"),
    [
        ("vllm serve m --max_model_len 8192 --port 1", {"--max-model-len": "4096"}, "vllm serve m --max_model_len 4096 --port 1"),
        ("vllm serve m --max-model-len=8192 > log", {"--max-model-len": "4096"}, "vllm serve m --max-model-len=4096 > log"),
        ("vllm serve m -tp 4 2>&1 | tee x", {"--tensor-parallel-size": "2"}, "vllm serve m -tp 2 2>&1 | tee x"),
        ("vllm serve m --gpu-memory-util 0.9", {"--gpu-memory-utilization": "0.8"}, "vllm serve m --gpu-memory-util 0.8"),
        ("vllm serve m 2>&1 | tee x &", {"--max-num-seqs": "64"}, "vllm serve m --max-num-seqs 64 2>&1 | tee x &"),
        ("vllm serve m", {"--enforce-eager": ""}, "vllm serve m --enforce-eager"),
        ("vllm serve m \u2014port 1 \u2013tp 2", {"--port": "1"}, "vllm serve m --port 1 -tp 2"),
        ("vllm serve m --max\u2011num\u2011seqs 8", {"--port": "1"}, "vllm serve m --max-num-seqs 8 --port 1"),
        ("vllm serve m --no-enforce-eager --port 1", {"--enforce-eager": ""}, "vllm serve m --enforce-eager --port 1"),
        ("vllm serve m --enable-prefix-caching", {"--no-enable-prefix-caching": ""}, "vllm serve m --no-enable-prefix-caching"),
        ("vllm serve m --port 1 --port 2", {"--port": "3"}, "vllm serve m --port 3"),
        ("vllm serve m --served-model-name a b --port 1", {"--served-model-name": "c d"}, "vllm serve m --served-model-name c d --port 1"),
        ("vllm serve m", {"--compilation-config": '{"mode": 0}'}, "vllm serve m --compilation-config '{\"mode\": 0}'"),
        ("vllm serve m --compilation-config.mode 3", {"--compilation-config": '{"mode":0}'}, "vllm serve m --compilation-config '{\"mode\":0}'"),
        ("vllm serve m --compilation-config.mode 3", {"--compilation-config.mode": "0"}, "vllm serve m --compilation-config.mode 0"),
        ("vllm serve m --limit-mm-per-prompt '{\"image\":4,\"video\":1}'", {"--limit-mm-per-prompt.video": "0"}, "vllm serve m --limit-mm-per-prompt '{\"image\":4,\"video\":0}'"),
        ("vllm serve m", {"--limit-mm-per-prompt.video": "0"}, "vllm serve m --limit-mm-per-prompt.video 0"),
        ("vllm serve old/m --port 1", {"--model": "new/m"}, "vllm serve new/m --port 1"),
        ("vllm serve --port 1", {"--model": "new/m"}, "vllm serve new/m --port 1"),
        ("python -m vllm.entrypoints.openai.api_server --model old", {"--model": "new"}, "python -m vllm.entrypoints.openai.api_server --model new"),
        ("python -m vllm.entrypoints.openai.api_server old --port 1", {"--model": "new"}, "python -m vllm.entrypoints.openai.api_server --model new --port 1"),
        ("docker run vllm/vllm-openai:v0.10.0 m --port 1", {"--model": "m"}, "docker run vllm/vllm-openai:v0.10.0 --model m --port 1"),
        ("docker run vllm/vllm-openai:v0.20.0 m --port 1", {"--model": "new"}, "docker run vllm/vllm-openai:v0.20.0 new --port 1"),
        ("vllm serve $MODEL --port $PORT", {"--dtype": "half"}, "vllm serve $MODEL --port $PORT --dtype half"),
        ("bash -c 'vllm serve m --port 1' | cat", {"--port": "2"}, "bash -c 'vllm serve m --port 2' | cat"),
        ('ssh h "vllm serve m --hf-overrides \\"{}\\" $X"', {"--port": "2"}, 'ssh h "vllm serve m --hf-overrides \\"{}\\" $X --port 2"'),
        ("vllm serve m # why", {"--port": "2"}, "vllm serve m --port 2 # why"),
    ],
)  # fmt: skip
def test_a_flag_is_set(text: str, wanted: dict[str, str], changed: str) -> None:
    assert render(change(parsed(text), wanted)) == changed


@pytest.mark.parametrize(
    ("text", "unset", "changed"),
    [
        ("vllm serve m --swap_space 4 --port 1", "--swap-space", "vllm serve m --port 1"),
        ("vllm serve m --swap-space=4 --port 1", "--swap-space", "vllm serve m --port 1"),
        ("vllm serve m --enforce-eager", "--enforce-eager", "vllm serve m"),
        ("vllm serve m --no-enable-prefix-caching", "--enable-prefix-caching", "vllm serve m"),
        ("vllm serve m --enable-prefix-caching", "--no-enable-prefix-caching", "vllm serve m --enable-prefix-caching"),
        ("vllm serve m --unknown-thing x --port 1", "--unknown-thing", "vllm serve m --port 1"),
        ("vllm serve m --compilation-config.mode 3", "--compilation-config", "vllm serve m"),
        ("vllm serve m --limit-mm-per-prompt '{\"image\":4,\"video\":1}'", "--limit-mm-per-prompt.video", "vllm serve m --limit-mm-per-prompt '{\"image\":4}'"),
        ("vllm serve m --port 1", "--swap-space", "vllm serve m --port 1"),
    ],
)  # fmt: skip
def test_a_flag_is_removed(text: str, unset: str, changed: str) -> None:
    assert render(change(parsed(text), {}, [unset])) == changed


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("vllm serve m", "A='b c' vllm serve m"),
        ("A=1 vllm serve m", "A='b c' vllm serve m"),
        ("cd /x && nohup vllm serve m > log &", "cd /x && A='b c' nohup vllm serve m > log &"),
        ("export A=1; vllm serve m", "export A=1; A='b c' vllm serve m"),
        ("sudo vllm serve m", "sudo env A='b c' vllm serve m"),
        ("sudo env B=1 vllm serve m", "sudo env B=1 A='b c' vllm serve m"),
        ("env -i B=1 vllm serve m", "env -i B=1 A='b c' vllm serve m"),
        ("docker run --gpus all vllm/vllm-openai --model m", "docker run --gpus all -e 'A=b c' vllm/vllm-openai --model m"),
        ("docker run -e A=1 vllm/vllm-openai --model m", "docker run -e A='b c' vllm/vllm-openai --model m"),
        ("docker run --env=A=1 vllm/vllm-openai --model m", "docker run --env='A=b c' vllm/vllm-openai --model m"),
        ("docker exec -it box vllm serve m", "docker exec -it -e 'A=b c' box vllm serve m"),
        ("bash -c 'vllm serve m'", "bash -c 'A='\"'\"'b c'\"'\"' vllm serve m'"),
        ("LLM('m', seed=1)", 'import os  # before vLLM is imported\nos.environ["A"] = "b c"\nLLM(\'m\', seed=1)'),
        ("model: m", "# in the environment: A=b c\nmodel: m"),
        ("image: vllm/vllm-openai\ncommand: [--model, m]", "command: [\"--model\", \"m\"]\nenvironment:\n  - 'A=b c'"),
        ("image: vllm/vllm-openai\nenvironment:\n  B: c\ncommand: [--model, m]", "command: [\"--model\", \"m\"]\nenvironment:\n  A: 'b c'"),
        ("image: vllm/vllm-openai\nargs: [--model, m]", "args: [\"--model\", \"m\"]\nenv:\n  - name: A\n    value: 'b c'"),
    ],
)  # fmt: skip
def test_a_variable_is_set_where_the_form_has_it(text: str, changed: str) -> None:
    found = change(parsed(text), {}, (), {"A": "b c"})
    assert render(found) == changed
    assert dict(found.environment)["A"] == "b c"


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        (
            "llm = LLM(model='m', max_model_len=8192)",
            (
                "llm = LLM(model='m', max_model_len=4096, enforce_eager=True, "
                "compilation_config={'mode': 0}, enable_prefix_caching=False)"
            ),
        ),
        (
            "LLM(\n    'm',\n    enable_prefix_caching=True,\n)",
            (
                "LLM(\n    'm',\n    enable_prefix_caching=False,\n    max_model_len=4096,\n    enforce_eager=True,\n"
                "    compilation_config={'mode': 0},\n)"
            ),
        ),
        (
            "model: m\nmax-model-len: 8192 # long\nenable-prefix-caching: true\nport: 1",
            (
                "model: m\nmax-model-len: 4096\nno-enable-prefix-caching: true\nport: 1\nenforce-eager: true\n"
                "compilation-config: '{\"mode\":0}'"
            ),
        ),
        (
            "image: vllm/vllm-openai\ncommand: >\n  --model m\n  --max_model_len 8192",
            (
                "command: >\n  --model m\n  --max_model_len 4096\n  --enforce-eager\n"
                "  --compilation-config '{\"mode\":0}'\n  --no-enable-prefix-caching"
            ),
        ),
        (
            "command: [vllm, serve]\nargs:\n- m\n- --max-model-len=8192",
            (
                "args:\n  - m\n  - --max-model-len=4096\n  - --enforce-eager\n  - --compilation-config\n"
                "  - '{\"mode\":0}'\n  - --no-enable-prefix-caching"
            ),
        ),
        (
            "command: [vllm, serve, m]\nargs:\n- --port\n- '1'",
            (
                "args:\n  - --port\n  - '1'\n  - --max-model-len\n  - '4096'\n"
                "  - --enforce-eager\n  - --compilation-config\n  - '{\"mode\":0}'\n  - --no-enable-prefix-caching"
            ),
        ),
    ],
)
def test_documents_are_changed_in_their_own_form(text: str, changed: str) -> None:
    wanted = {"--max-model-len": "4096", "--enforce-eager": "", "--compilation-config": '{"mode":0}'}
    found = change(parsed(text), {**wanted, "--no-enable-prefix-caching": ""})
    assert render(found) == changed
    patch = render_patch(found)
    assert patch is not None
    assert patch["text"] == changed


values = st.text(min_size=1, max_size=12).filter(lambda text: "\x00" not in text and not text.startswith("-"))


@given(values, values)
def test_a_shell_reads_the_intended_words(value: str, variable: str) -> None:
    found = parsed("docker run vllm/vllm-openai --model m --max_model_len=1 --dtype x > log")
    changed = change(found, {"--max-model-len": value, "--dtype": value, "--host": value}, (), {"A": variable})
    assert shlex.split(render(changed), posix=True) == [
        "docker", "run", "-e", f"A={variable}", "vllm/vllm-openai", "--model", "m", f"--max_model_len={value}",
        "--dtype", value, "--host", value, ">", "log",
    ]  # fmt: skip


@given(values)
def test_a_nested_shell_reads_the_intended_words(value: str) -> None:
    for quote in "'\"":
        changed = change(parsed(f"bash -c {quote}vllm serve m --dtype x{quote}"), {"--dtype": value})
        if quote == '"' and set(value) & set("$`"):
            continue  # escaped as a shell wants it, which shlex does not undo
        inner = shlex.split(render(changed))[2]
        assert shlex.split(inner) == ["vllm", "serve", "m", "--dtype", value]


@given(st.dictionaries(st.sampled_from(["--port", "--dtype", "--host", "--swap-space"]), values, max_size=4))
def test_changes_are_read_back_and_change_nothing_else(wanted: dict[str, str]) -> None:
    before = parsed("A=1 vllm serve org/m --enforce-eager --port 1 --unknown 2 -tp 2 | tee log")
    after = parsed(render(change(before, wanted)))
    for flag, value in wanted.items():
        assert after.value(flag) == value
    for flag in {"--model", "--enforce-eager", "--port", "--unknown", "-tp"} - set(wanted):
        assert after.value(flag) == before.value(flag)
    assert after.environment == before.environment
    assert render(after).endswith(" | tee log")
    assert change(change(before, wanted), wanted) == change(before, wanted)


@given(values)
def test_yaml_and_json_values_are_read_back(value: str) -> None:
    import yaml

    for text in ("image: vllm/vllm-openai\nargs:\n- --dtype\n- x", "image: vllm/vllm-openai\nargs: [--dtype, x]"):
        rendered = render(change(parsed(text), {"--dtype": value}))
        if value.isprintable():
            assert yaml.safe_load(rendered) == {"args": ["--dtype", value]}


def test_a_model_that_stands_under_another_key_is_changed_there() -> None:
    found = change(parsed("command: [vllm, serve, m]\nargs:\n- --port\n- '1'"), {"--model": "new"})
    assert render(found) == 'command: ["vllm", "serve"]\nargs:\n  - new\n  - --port\n  - \'1\''


def test_the_outer_shell_expands_what_it_did_and_no_more() -> None:
    found = change(parsed("bash -c \"vllm serve '$M' --host x\""), {"--host": "a$b"})
    assert render(found) == """bash -c "vllm serve '$M' --host 'a\\$b'\""""
