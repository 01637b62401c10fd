"""Text of a client or of the model is never a command and never chooses the cause."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from nightly import some
from planted_logs import BANNER, COMMANDS, HARMLESS, KV, MARK, PLACES, PRINTED, SERVES, SPOOFS, TYPED, WRAPPERS
from planted_shapes import SHAPES

from vllm_doctor.command import CommandFinder, parse
from vllm_doctor.command.command_in_line import find_command
from vllm_doctor.command.known_parts import rebuild
from vllm_doctor.command.render import render
from vllm_doctor.diagnosis.engine import diagnose
from vllm_doctor.logs.lines import Line
from vllm_doctor.logs.untrusted_text import HIDDEN, UntrustedTable, UntrustedText
from vllm_doctor.options import Options
from vllm_doctor.reports.model import Report

ROOT = Path(__file__).resolve().parents[2]
BASH = shutil.which("bash")


def offered(report: Report) -> str:
    """All that a reader could run or set."""
    return json.dumps([[fix.flags, fix.unset, fix.env, fix.steps, fix.command, fix.patch]
                       for finding in report.findings for fix in finding.fixes])


def commands(report: Report) -> list[str]:
    return [fix.command for finding in report.findings for fix in finding.fixes if fix.command]


def assert_runs_in_bash(texts: list[str]) -> None:
    if BASH is None:
        pytest.skip("no bash")
    for text in texts:
        checked = subprocess.run([BASH, "-n", "-c", text], capture_output=True, text=True, check=False)
        assert checked.returncode == 0, (text, checked.stderr)


def test_the_table_is_large_enough() -> None:
    assert len(SHAPES) >= 100
    assert all(MARK in text for text in (*COMMANDS.values(), *SPOOFS.values()))


def assert_changes_nothing(shape: str, place: str, texts: Sequence[str], *, together: Sequence[str] = ()) -> None:
    """A client's text is not offered, and the cause is that of the same log with a harmless one; also of several texts in one log."""
    make, log = SHAPES[shape], PLACES[place].log
    expected = diagnose(log(make(HARMLESS) + "\n").encode())
    for text in texts:
        report = diagnose(log(make(text) + "\n").encode())
        assert MARK not in offered(report), text
        if (shape, text) == ("validation-field", SPOOFS["banner"]):
            continue  # uvicorn prints it raw: a whole forged record, which reads like a real one (SECURITY.md)
        if (shape, text) in {("template-key", SPOOFS["traceback"]), ("media-requests", SPOOFS["traceback"])}:
            continue  # open: a whole traceback in a request's exception hides that this request failed, and nothing else
        assert (report.primary, report.status) == (expected.primary, expected.status), text
    if together:
        report = diagnose(log("".join(f"{make(text)}\n" for text in together)).encode())
        assert MARK not in offered(report)
        if report.primary != expected.primary:  # so many requests, whatever they say, may be a cause
            expected = diagnose(log(f"{make(HARMLESS)}\n" * len(together)).encode())
        assert (report.primary, report.status) == (expected.primary, expected.status)


FOUR_PLACES = ["serving, printed arguments", "starting, nothing known", "restarted, typed", "healthy"]
TELLING_PLACES = ["starting, nothing known", "healthy"]  # where no fault of a serving server hides one that is planted


# Each shape in one of the places where a spoof tells most; in the other places each night.
TRIED = [pytest.param(shape, place, id=f"{shape}-{place}", marks=() if place == TELLING_PLACES[number % 2] else pytest.mark.exhaustive)
         for number, shape in enumerate(SHAPES) for place in FOUR_PLACES]


@pytest.mark.parametrize(("shape", "place"), TRIED)
def test_planted_text_is_never_offered_and_never_the_cause(shape: str, place: str) -> None:
    """All commands at once in each shape, and one of them alone; spoofs in each shape, where they tell most. Each in each place each night."""
    number = [*SHAPES].index(shape)
    texts = [[*COMMANDS.values()][(number + FOUR_PLACES.index(place) * 3) % len(COMMANDS)]]
    if place in TELLING_PLACES:
        texts += [*SPOOFS.values()][(number + TELLING_PLACES.index(place)) % 2::2]
    assert_changes_nothing(shape, place, texts, together=[*COMMANDS.values()])


@pytest.mark.exhaustive
@pytest.mark.parametrize("place", FOUR_PLACES)
@pytest.mark.parametrize("shape", SHAPES)
def test_every_planted_text_in_every_shape_and_place(shape: str, place: str) -> None:
    assert_changes_nothing(shape, place, (*COMMANDS.values(), *SPOOFS.values()))


SIX_SHAPES = ["error-info", "generated", "template-asgi", "chat-print", "nginx", "generated-yaml"]
FAILING = [name for name in PLACES if name != "healthy"]


@pytest.mark.parametrize(("shape", "wrapper", "place"), some(product(SIX_SHAPES, WRAPPERS, FAILING), 80))
def test_places_and_wrappers(shape: str, wrapper: str, place: str) -> None:
    """All texts in one log; each by itself each night, as are the other combinations."""
    planted = "".join(f"{SHAPES[shape](text)}\n" for text in COMMANDS.values())
    assert MARK not in offered(diagnose(WRAPPERS[wrapper](PLACES[place].log(planted)).encode()))


@pytest.mark.exhaustive
@pytest.mark.parametrize("place", FAILING)
@pytest.mark.parametrize("wrapper", WRAPPERS)
@pytest.mark.parametrize("shape", SIX_SHAPES)
def test_every_place_and_wrapper(shape: str, wrapper: str, place: str) -> None:
    for text in COMMANDS.values():
        log = PLACES[place].log(SHAPES[shape](text) + "\n")
        assert MARK not in offered(diagnose(WRAPPERS[wrapper](log).encode())), text


WORD = st.text(st.sampled_from("abevil -$`;|&<>\"'\\(){}\n=/x"), max_size=40)


@settings(max_examples=60)
@given(shape=st.sampled_from(sorted(SHAPES)), text=WORD, place=st.sampled_from(sorted(PLACES)))
def test_any_text_keeps_the_cause_and_the_command(shape: str, text: str, place: str) -> None:
    planted = f"{text} vllm serve evil/model --max-model-len 40960 {text}"
    report = diagnose(PLACES[place].log(SHAPES[shape](planted) + "\n").encode())
    assert MARK not in offered(report)
    assert_runs_in_bash(commands(report))


@pytest.mark.parametrize("line", [
    "chatbot history: [[{0!r}, {0!r}]]", "my-script said {0}", "(APIServer pid=1) INFO 10-08 20:36:41 [middleware.py:7] body {0}",
    '{{"role": "user", "text": "{0}"}}', "10.0.0.5 - {0} [08/Oct/2026:20:36:41 +0000] 502", 'INFO:     10.0.0.1:555 - "{0} / HTTP/1.1" 400 Bad Request',
])
@pytest.mark.parametrize("text", ["oom", "unrecognized", "environment", "remote-code", "nccl", "killed"])
def test_a_serving_server_reports_faults_with_a_level_or_a_traceback(line: str, text: str) -> None:
    report = diagnose((TYPED + BANNER + PRINTED + SERVES + line.format(SPOOFS[text]) + "\n").encode())
    assert report.primary is None
    assert MARK not in offered(report)


@pytest.mark.parametrize("level", ["INFO", "WARNING", "ERROR"])
@pytest.mark.parametrize("text", ["Killed", "Killed python", "Segmentation fault (core dumped)", "Aborted (core dumped)", "Bus error"])
def test_a_record_does_not_speak_for_the_shell(level: str, text: str) -> None:
    log = TYPED + BANNER + PRINTED + SERVES + f"(APIServer pid=1) {level} 10-08 20:36:41 [middleware.py:7] {text}\n"
    report = diagnose(log.encode())
    assert (report.primary, report.status) == (None, "serving")
    assert diagnose((TYPED + BANNER + PRINTED + SERVES + text + "\n").encode()).primary == "process-killed-no-traceback" or text == "Bus error"


@pytest.mark.parametrize("text", ["{'model': 'evil/model'}", "Namespace(model='evil/model')"])
def test_arguments_begin_no_start_of_a_server_that_printed_its_version(text: str) -> None:
    name = "args: " if text.startswith("N") else "non-default args: "
    log = BANNER + PRINTED + SERVES + f"(APIServer pid=1) INFO 10-08 20:36:41 [middleware.py:7] {name}{text}\n"
    assert diagnose(log.encode()).status == "serving"
    assert diagnose((log + BANNER + PRINTED).encode()).status == "starting"


@pytest.mark.parametrize("path", ["/v1/hello there", "/v1/completions?a b", "/v1/x/--evil y"])
def test_a_path_with_blanks_is_still_refused(path: str) -> None:
    log = BANNER + PRINTED + SERVES + f'INFO:     10.0.0.1:555 - "POST {path} HTTP/1.1" 404 Not Found\n'
    assert diagnose(log.encode()).primary == "http-4xx-client-errors"


@pytest.mark.parametrize("line", [
    "Out of memory: Killed process 77 (VLLM::EngineCor) total-vm:1kB, anon-rss:2kB",
    "[13850.912648] Out of memory: Killed process 77 (VLLM::EngineCor) total-vm:1kB, anon-rss:2kB",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB. GPU 0 has a total capacity of 23.64 GiB of which 5.00 MiB is free.",
    "Segmentation fault (core dumped)", "vllm-1 exited with code 137", "start.sh: line 12:   431 Killed                  vllm serve m",
])
def test_faults_of_the_machine_still_count_while_the_server_serves(line: str) -> None:
    report = diagnose((TYPED + BANNER + PRINTED + SERVES + line + "\n").encode())
    assert report.primary is not None


def test_a_command_of_several_words_in_one_is_a_shells() -> None:
    assert find_command("""history: [['sudo sh -c "x"; vllm serve evil --max-model-len 7', 'hi']]""") is None
    assert find_command("""CMD ["/bin/bash", "-lc", "vllm serve m --max-model-len 7"]""") is not None
    assert find_command("""Command '['/opt/bin/vllm', 'serve', 'm', '--max-model-len', '7']' died""") is not None


@pytest.mark.parametrize("shape", ["added-id", "finished-id", "nginx", "nginx-path", "router-session", "validation-value-error"])
def test_no_command_is_read_from_raw_lines_behind_a_clients_words(shape: str) -> None:
    planted = SHAPES[shape]("x") + "\n\nhi\n$ vllm serve evil/model --max-model-len 40960\n"
    assert MARK not in offered(diagnose((planted + BANNER + KV).encode()))


TAILS = {
    "| sh": "a pipe", "; curl -s evil": "other commands", "&& evil": "other commands", "|| evil": "other commands", "> /tmp/evil": "a redirection",
    "2>&1 | tee evil": "a redirection", "&": "running in the background",
}


@pytest.mark.parametrize(("tail", "kind"), TAILS.items())
def test_the_rest_of_a_typed_line_is_left_out(tail: str, kind: str) -> None:
    report = diagnose((f"$ vllm serve m --max-model-len 40960 {' ' * 400}{tail}\n" + BANNER + KV).encode())
    assert MARK not in offered(report)
    assert commands(report)[0] == "vllm serve m --max-model-len 32768"
    assert any(note.startswith("Not included in the rebuilt command: ") and kind in note for note in report.notes)
    assert not any(MARK in note for note in report.notes)


@pytest.mark.parametrize(("typed", "offer"), [
    ("sudo -E vllm serve m", "vllm serve m"),
    ("sudo -u vllm vllm serve m", "vllm serve m"),
    ("sudo -u vllm nohup vllm serve m", "nohup vllm serve m"),
    ("kubectl exec -it vllm-0 -- vllm serve m", "vllm serve m"),
    ("sudo kubectl exec -it vllm-0 -- env VLLM_USE_V1=1 vllm serve m", "env VLLM_USE_V1=1 vllm serve m"),
    ("sudo -u ray vllm serve m", "vllm serve m"),
    ("sudo -E -g docker vllm serve m", "vllm serve m"),
    ("sudo ssh gpu-7 vllm serve m", "vllm serve m"),
    ("timeout 60 kubectl exec x -- vllm serve m", "timeout 60 vllm serve m"),
    ("singularity exec --nv image.sif vllm serve m", "singularity exec --nv image.sif vllm serve m"),
    ("LD_PRELOAD=/tmp/evil.so VLLM_USE_V1=1 vllm serve m", "VLLM_USE_V1=1 vllm serve m"),
    ("BASH_ENV=/tmp/evil PYTHONPATH=/evil vllm serve m", "vllm serve m"),
    ("cd /evil && export CUDA_VISIBLE_DEVICES=0 && vllm serve m", "CUDA_VISIBLE_DEVICES=0 vllm serve m"),
    ("vllm serve m --api-key $(evil)", "vllm serve m"),
    ("vllm serve m --api-key `evil`", "vllm serve m"),
    ("vllm serve 'a b' --port 1", "vllm serve 'a b' --port 1"),
    ("vllm serve $MODEL --port ${PORT:-8000}", "vllm serve $MODEL --port ${PORT:-8000}"),
    ("vllm serve m --middleware my.own", "vllm serve m --middleware my.own"),
    ("docker run --gpus all -e HF_TOKEN=x -e LD_PRELOAD=/evil -v /m:/m vllm/vllm-openai --model m",
     "docker run --gpus all -e HF_TOKEN=x -v /m:/m vllm/vllm-openai --model m"),
    ("bash -c 'evil; vllm serve m | tee x'", "bash -c 'vllm serve m'"),
    ("ssh host 'vllm serve m'", "vllm serve m"),
    ("srun -N 1 --prolog=/evil vllm serve m", "srun -N 1 vllm serve m"),
    ("nohup vllm serve m > log 2>&1 &", "nohup vllm serve m"),
    ("vllm serve m <<EOF", "vllm serve m"),
])
def test_what_is_offered_is_made_of_known_parts(typed: str, offer: str) -> None:
    command = parse(typed)
    assert command is not None
    rebuilt, _ = rebuild(command)
    assert render(rebuilt) == offer
    assert_runs_in_bash([render(rebuilt)])


def test_printed_arguments_count() -> None:
    report = diagnose((TYPED.replace("40960", "777") + BANNER + PRINTED + KV).encode())
    assert commands(report)[0] == "vllm serve Qwen/Qwen3-8B --max-model-len 32768"
    assert "--max-model-len 40960" in commands(report)[1]
    assert any("(--max-model-len); the printed ones are used" in note for note in report.notes)


def test_another_model_than_printed_is_not_the_servers_command() -> None:
    report = diagnose(("$ LD_PRELOAD=/x vllm serve evil/model --max-model-len 40960\n" + BANNER + PRINTED + KV).encode())
    assert MARK not in offered(report)


@pytest.mark.parametrize("name", ["BASH_ENV", "LD_PRELOAD", "PYTHONPATH", "VLLM_PLUGINS", "NO_SUCH_THING"])
def test_a_log_names_no_variable_to_set(name: str) -> None:
    log = TYPED + BANNER + f"ValueError: Invalid value 'x' for {name}. Valid options: ['/tmp/evil', 'y']\n"
    report = diagnose(log.encode())
    assert MARK not in offered(report)
    assert not any(name in fix.env for finding in report.findings for fix in finding.fixes)


@pytest.mark.parametrize("name", ["--trust-remote-code", "-x", "--middleware evil.mod"])
def test_no_value_that_begins_with_a_dash_is_offered(name: str) -> None:
    log = TYPED + BANNER + PRINTED + SERVES + SHAPES["error-info"](name) + "\n"
    assert name not in offered(diagnose(log.encode()))


def test_the_command_given_by_the_user_is_rebuilt_as_well() -> None:
    report = diagnose((BANNER + KV).encode(), Options(command="vllm serve m --max-model-len 40960 | tee log"))
    assert commands(report)[0] == "vllm serve m --max-model-len 32768"


@pytest.fixture(scope="module")
def table() -> UntrustedTable:
    return UntrustedTable(yaml.safe_load((ROOT / "rules" / "untrusted_text.yaml").read_text()))


@pytest.mark.parametrize(("text", "shown"), [
    ("INFO 10-08 20:36:41 [logger.py:59] Generated response x: output: 'a'", "INFO 10-08 20:36:41 [logger.py:59] Generated response \u2026"),
    ("Received request c-1: prompt: 'a', params: SamplingParams(prompt_logprobs=5)", "Received request \u2026: prompt_logprobs=5"),
    ("The model `gpt-4` does not exist.", "The model `gpt-4` does not exist."),
    ("The model `gpt 4; x` does not exist.", "The model `\u2026` does not exist."),
    ("The model `a` does not exist. b` does not exist.", "The model `\u2026` does not exist."),
    ("The model `EngineDeadError` does not exist.", "The model `\u2026` does not exist."),
    ('INFO:     1.2.3.4:5 - "GET /v1/models?x=1 HTTP/1.1" 200 OK', 'INFO:     1.2.3.4:5 - "GET /v1/models?\u2026 HTTP/1.1" 200 OK'),
    ('INFO:     1.2.3.4:5 - "GET /A%20B HTTP/1.1" 404 Not Found', 'INFO:     1.2.3.4:5 - "GET \u2026 HTTP/1.1" 404 Not Found'),
    ('INFO:     Killed by 1.2.3.4:0 - "GET /health HTTP/1.1" 200 OK', 'INFO:     \u2026:0 - "GET /health HTTP/1.1" 200 OK'),
    ('INFO:     [2001:db8::1]:5 - "GET /health HTTP/1.1" 200 OK', 'INFO:     [2001:db8::1]:5 - "GET /health HTTP/1.1" 200 OK'),
    ("ValueError: a fault of the server", "ValueError: a fault of the server"),
    ("WARNING: Unknown kv_cache_quant_algo 'bolt; vllm serve evil", "WARNING: Unknown kv_cache_quant_algo '\u2026"),
    ("Found kv_scale in the checkpoint (e.g. a.b), but not found", "Found kv_scale in the checkpoint (e.g. \u2026"),
])
def test_untrusted_text_is_hidden(table: UntrustedTable, text: str, shown: str) -> None:
    assert table.hide(text).text == shown


def test_an_open_quote_goes_on_until_a_record(table: UntrustedTable) -> None:
    reader = UntrustedText(table)
    lines = ["Prompt: 'a", "$ vllm serve evil", "b'", "CUDA out of memory", "Prompt: 'a", "INFO 10-08 20:36:41 [a.py:1] b"]
    shown = [reader.read(Line(number, text)).text for number, text in enumerate(lines, 1)]
    assert shown == [f"Prompt: {HIDDEN}", HIDDEN, f"{HIDDEN}'", "CUDA out of memory", f"Prompt: {HIDDEN}", lines[-1]]


def test_names_are_hidden_behind_the_first_line_of_a_record(table: UntrustedTable) -> None:
    reader = UntrustedText(table)
    shown = [reader.read(Line(number, text)) for number, text in enumerate(SHAPES["media-domain"]("evil x").split("\n"), 1)]
    assert shown[-1].text.endswith(f"Input URL domain: {HIDDEN}")
    assert all(line.refusal for line in shown)


def test_every_shape_is_hidden_but_for_names(table: UntrustedTable) -> None:
    for entry in table.records:
        said = "sudo sh -c evil; vllm serve x"
        shown = table.hide(entry.marker + (repr(said) if entry.text == "quoted" else said))
        assert shown.refusal or MARK not in shown.text, entry.id


def test_long_lines_take_linear_time(table: UntrustedTable) -> None:
    for unit in ("'", "\\'", '"GET ', "The model `", "' does not exist", "Received request ", "prompt_logprobs=1 "):
        for marker in ("Error with model ", "'input': '", "Generated response "):
            table.hide(marker + unit * (200_000 // len(unit)))


def test_the_finder_forgets_what_a_failing_server_printed() -> None:
    finder = CommandFinder()
    for number, text in enumerate((TYPED + BANNER + "$ vllm serve evil\nERROR x\n" + BANNER).splitlines(), 1):
        finder.feed(number, text)
        if "version" in text:
            finder.start_run()
    assert finder.command is not None
    assert finder.command.model == "Qwen/Qwen3-8B"
