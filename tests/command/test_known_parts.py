"""Rebuilding a command from its known parts."""

from __future__ import annotations

import pytest

from vllm_doctor.command import parse
from vllm_doctor.command.known_parts import rebuild
from vllm_doctor.command.render import render

_A_SHELL = "values that only a shell can compute"
_VARIABLES = "variables that are not vLLM's or could load code"
_A_PROGRAM = "a program around vLLM that is not known"


@pytest.mark.parametrize(("typed", "offer", "omitted"), [
    ("vllm serve ~/models/llama --download-dir ~user/x:@a,b+c%d-e=f", "vllm serve ~/models/llama --download-dir ~user/x:@a,b+c%d-e=f", ()),
    ("vllm serve '~/a' --host \"~/b\" --port ~/$X", "vllm serve '~/a' --host '~/b' --port ~/$X", ()),
    ("vllm serve ~/a* --host ~{b,c}", "vllm serve '~/a*' --host '~{b,c}'", ()),
    ('vllm serve $MODEL $EXTRA_ARGS --port "$PORT"', 'vllm serve $MODEL $EXTRA_ARGS --port "$PORT"', ()),
    ("vllm serve m --host $A* --port $A;evil", "vllm serve m --port $A", ("other commands", _A_SHELL)),
    ("HF_HOME=~/hf vllm serve m", "HF_HOME=~/hf vllm serve m", ()),
    ("HF_HOME='~/hf' env HF_A=\"$B/c\" vllm serve m", "HF_HOME='~/hf' env HF_A=\"$B/c\" vllm serve m", ()),
    ("CUDA_VISIBLE_DEVICES=$GPU HF_HOME=$HOME/hf vllm serve m", "CUDA_VISIBLE_DEVICES=$GPU HF_HOME=$HOME/hf vllm serve m", ()),
    ("HF_HOME=$(evil) LD_PRELOAD=$X vllm serve m", "vllm serve m", (_A_SHELL, _VARIABLES)),
    ("docker run -v ~/.cache/huggingface:/root/x -e HF_HOME=~/hf --env=HF_X=$Y vllm/vllm-openai --model m",
     "docker run -v ~/.cache/huggingface:/root/x -e HF_HOME=~/hf -e HF_X=$Y vllm/vllm-openai --model m", ()),
    ("export HF_HOME=~/hf HF_A=$B/c LD_PRELOAD=/x HF_C=$(evil); echo HF_HOME=/evil; vllm serve m",
     "HF_HOME=~/hf HF_A=$B/c vllm serve m", ("other commands",)),
    ('docker run -e "HF_TOKEN=$HF_TOKEN" -e "LD_PRELOAD=$X" -e HF_HOME vllm/vllm-openai --model m',
     'docker run -e "HF_TOKEN=$HF_TOKEN" -e HF_HOME vllm/vllm-openai --model m', (_VARIABLES,)),
    ("docker run --oom-score-adj -500 -v $(pwd)/m:/m -e HF_X=`evil` vllm/vllm-openai --model m",
     "docker run --oom-score-adj -500 vllm/vllm-openai --model m", (_A_SHELL,)),
    ("uvx --from vllm==0.11.0 vllm serve m", "uvx --from vllm==0.11.0 vllm serve m", ()),
    ("uv run --with 'vllm[audio]<0.12' vllm serve m", "uv run --with 'vllm[audio]<0.12' vllm serve m", ()),
    ("srun --container-image nvcr.io#a/b vllm serve m", "srun --container-image 'nvcr.io#a/b' vllm serve m", ()),
    ("srun -N 1 --comment 'a b' vllm serve m", "srun -N 1 vllm serve m", (_A_PROGRAM,)),
    ("srun --exclusive --prolog=/evil vllm serve m", "srun --exclusive vllm serve m", (_A_PROGRAM,)),
    ("apptainer exec --env MY=1 img.sif vllm serve m", "apptainer exec img.sif vllm serve m", (_VARIABLES,)),
    ("mpirun -np 2 -x LD_LIBRARY_PATH=/x -x VLLM_USE_V1=1 vllm serve m", "mpirun -np 2 -x VLLM_USE_V1=1 vllm serve m", (_VARIABLES,)),
    ("env -i MY=1 vllm serve m", "env -i vllm serve m", (_VARIABLES,)),
    ("bash -c \"vllm serve $MODEL --host 'a b'\"", "bash -c \"vllm serve $MODEL --host 'a b'\"", ()),
    ("bash -c \"vllm serve $MODEL --host 'a!b'\"", "bash -c 'vllm serve $MODEL --host '\"'\"'a!b'\"'\"''", ()),
    ('bash -c "vllm serve m --host x"', "bash -c 'vllm serve m --host x'", ()),
    ('bash -c "HF_HOME=$X/hf exec vllm serve m --api-key $(evil) --host \\`evil\\`"', 'bash -c "HF_HOME=$X/hf exec vllm serve m"', (_A_SHELL,)),
    ('image: vllm/vllm-openai\ncommand: ["--model", "${MODEL}", "--host=${H:-x}"]', 'command: ["--model", "${MODEL}", "--host=${H:-x}"]', ()),
    ('image: vllm/vllm-openai\nargs: ["--model=$(MODEL)", "--port={{ .Values.port }}", "-tp", "$(TP)"]',
     'args: ["--model=$(MODEL)", "--port={{ .Values.port }}", "-tp", "$(TP)"]', ()),
    ('image: vllm/vllm-openai\nargs: ["--model", "m", "--host=$(evil x)", "--port={{ evil | x }}"]', 'args: ["--model", "m"]', (_A_SHELL,)),
    ("image: vllm/vllm-openai\ncommand: >\n  --model m --host $(evil)", "command: >\n  --model m", (_A_SHELL,)),
    ('command: ["sh", "-c", "vllm serve m --host $(EVIL)"]', "sh -c 'vllm serve m'", (_A_SHELL,)),
])  # fmt: skip
def test_a_word_keeps_the_meaning_it_has_for_a_shell(typed: str, offer: str, omitted: tuple[str, ...]) -> None:
    command = parse(typed)
    assert command is not None
    rebuilt, left_out = rebuild(command)
    assert (render(rebuilt), left_out) == (offer, omitted)


@pytest.mark.parametrize(("typed", "offer", "arguments"), [
    ("LLM(model='m#1',  # the 'model'\n    quantization='awq',  # don't\n    # not (this,\n    seed=1,  # short\n)  # end",
     "LLM(model='m#1',\n    quantization='awq',\n    seed=1,\n)", {"model": "m#1", "quantization": "awq", "seed": 1}),
    ("LLM('m', max_model_len=1024*8, seed=2 - 1, dtype='a' 'b')", "LLM('m', max_model_len=1024*8, seed=2 - 1)", {"model": "m"}),
    ("LLM('m', max_model_len=9**9**9, seed=evil(), dtype=args.dtype)", "LLM('m', dtype=args.dtype)", {"model": "m"}),
])  # fmt: skip
def test_a_call_keeps_its_arguments_without_comments(typed: str, offer: str, arguments: dict[str, object]) -> None:
    command = parse(typed)
    assert command is not None
    assert command.arguments() == arguments
    assert render(rebuild(command)[0]) == offer


@pytest.mark.parametrize("inner", [
    "$(touch x)/bin/vllm serve m -tp $TP",
    "docker run --rm $(touch x)/vllm/vllm-openai --model m -tp $TP",
    "$(touch x)/python -m vllm.entrypoints.openai.api_server --model m -tp $TP",
    "python -$(touch x) -m vllm.entrypoints.openai.api_server --model m -tp $TP",
])
def test_a_shell_around_the_command_runs_nothing_of_it(inner: str) -> None:
    command = parse(f'bash -c "{inner}"')
    if command is not None:
        offer = render(rebuild(command)[0])
        assert '"$(' not in offer.replace("'\"'\"'", "")
        assert offer.startswith("bash -c '")
