"""No expression of the rules or the program takes more than linear time, and a whole log takes at most two seconds.

`rules lint` looks at each rule's patterns (tests/test_rules.py runs it over all); here are those of facts, phases and
the program, and whole logs. With VLLM_DOCTOR_LOGS=5000 in the environment that many are tried each night.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable
from operator import attrgetter
from pathlib import Path
from time import thread_time

import pytest
from attack_logs import SIZE, logs
from expressions import Expression, compiled_while, expressions, expressions_of_redaction
from leak_places import TOKENS
from nightly import some

from vllm_doctor.cli.diagnose_logs import render
from vllm_doctor.diagnosis.engine import diagnose
from vllm_doctor.options import Options
from vllm_doctor.rulebase.lint import check_linear, lint
from vllm_doctor.rulebase.loader import builtin
from vllm_doctor.rulebase.model import Pattern
from vllm_doctor.rulebase.regex_check import slow_code, slow_frames, slow_pattern
from vllm_doctor.rulebase.slow_regex_texts import attack_texts
from vllm_doctor.rulebase.user_rules import read_rule
from vllm_doctor.text.patterns import portable

BASE = builtin()
ROOT = Path(__file__).resolve().parents[2]
TOLD = [*(marker.pattern for marker in BASE.markers), *BASE.facts]
CODE = expressions()
REDACTION = list(expressions_of_redaction())
# Expressions that are given no more than the beginning, or the end, of a longer text.
LONGEST = {"failures.exception_lines._ASSERTS": 1_000, "failures.exception_lines._QUOTED": 1_000, "failures.frames._CHECKOUT": 1_000,
           "failures.error_lines._FATAL": 500, "failures.error_lines._USAGE": 500, "failures.error_lines._OVER": 500}
WINDOWS = {"redact tables_and_manifests": 2_000}  # longer lines are left out
EXPRESSIONS = 60  # that the ordinary run tries
SECONDS = 2.0  # for a log of 64 KiB
LOGS = int(os.environ.get("VLLM_DOCTOR_LOGS", "300"))
FORMATS = ("text", "json", "jsonl", "markdown", "html", "sarif", "junit", "github", "gitlab", "command", "agent")
DIGITS = "9" * 5_000


@pytest.mark.parametrize("pattern", TOLD, ids=lambda pattern: str(pattern.id))
def test_wordings_of_facts_and_phases(pattern: Pattern) -> None:
    assert list(check_linear(pattern)) == []


def test_healthy_lines() -> None:
    source = portable(BASE.healthy)
    assert slow_code(re.compile(source).fullmatch, source, longest=SIZE) is None


def test_expressions_of_the_program_are_found() -> None:
    assert len(CODE) > 250
    assert {"vllm_doctor.events.reader._FRAME", "vllm_doctor.events.single_line_tracebacks._CALL"} <= {expression.place for expression in CODE}


@pytest.mark.parametrize("expression", some(CODE, EXPRESSIONS, name=attrgetter("place")))
def test_expressions_of_the_program(expression: Expression) -> None:
    compiled = re.compile(expression.source, expression.flags)
    flags = expression.flags & ~re.UNICODE if isinstance(expression.source, bytes) else expression.flags
    for method in sorted(expression.methods):
        search = _use(compiled, method)
        assert slow_code(search, expression.source, flags, LONGEST.get(expression.place.removeprefix("vllm_doctor."), SIZE)) is None, method


def test_expressions_of_redaction_are_found() -> None:
    assert len(REDACTION) > 200
    assert {"redact named_values", "redact tables_and_manifests", "redact quoting", "redact url_secrets"} <= {expression.place.partition(":")[0] for expression in REDACTION}


@pytest.mark.parametrize("expression", some(REDACTION, EXPRESSIONS, name=attrgetter("place")))
def test_expressions_of_redaction(expression: Expression) -> None:
    """Each row of each table, and what else the modules compile."""
    compiled = re.compile(expression.source)
    for method in expression.methods:
        assert slow_code(_use(compiled, method), expression.source, expression.flags, WINDOWS.get(expression.place.partition(":")[0], SIZE)) is None, method


def test_expressions_made_at_run_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are made from tables or from words of the log: of `redact`, of untrusted text, of earlier tracebacks."""
    texts = [f"{before}{(alphabet * 9)[:length]}{behind}" for before, alphabet, length, behind in TOKENS.values()]
    texts += [path.read_text(encoding="utf-8", errors="replace") for path in sorted((ROOT / "tests/security").glob("*.py"))]
    texts += [path.read_text(encoding="utf-8", errors="replace") for path in sorted((ROOT / "fixtures/logs").glob("*.log"))[::12]]

    def run() -> None:
        for text in texts:
            render([diagnose(text.encode(), Options())], "html", {"color": "never", "width": 100, "verbose": True, "language": "en"})

    at_run_time = compiled_while(run, monkeypatch)
    assert len(at_run_time) > 60
    slow = {}
    for expression in at_run_time:
        compiled = re.compile(expression.source, expression.flags)
        flags = expression.flags & ~re.UNICODE if isinstance(expression.source, bytes) else expression.flags
        for method in sorted(expression.methods):
            if found := slow_code(_use(compiled, method), expression.source, flags, SIZE):
                slow[expression.source, method] = str(found)
    assert slow == {}, "\n".join(map(str, slow))


def _use(compiled: re.Pattern[str] | re.Pattern[bytes], method: str) -> Callable[[str], object]:
    text_of: Callable[[str], str | bytes] = str.encode if isinstance(compiled.pattern, bytes) else str  # type: ignore[assignment]
    if method in {"search", "match", "fullmatch"}:
        return lambda text: getattr(compiled, method)(text_of(text))
    return lambda text: sum(1 for _ in compiled.finditer(text_of(text)))  # type: ignore[arg-type]


@pytest.mark.parametrize("source", [
    r"(?:\w+\s?)+$", r"(?:a|a)*b", r"\s*\s*[xy]", r"NCCL WARN .*?(?:Got completion .*?(?:error|status=)\s?12\b)", r"\w+ online quantization",
    r"--[\w.-]+\S*: ", r"(?P<x>[\w./+-]{1,300}\.so[\w.]*): cannot", r"error: (?=.*?x.*?y)\w+", "out of memory.*and .* is reserved",
])
def test_slow_patterns_are_found(source: str) -> None:
    assert slow_pattern(source) is not None


@pytest.mark.parametrize("source", [r"(?s)^(?=.*a/.*b/)(?!.*c/.*d/)", r"\A(?:.*\n)*.*x/(?:\n.*)*\n.*y:z$"])
def test_slow_calls_are_found(source: str) -> None:
    assert slow_frames(source) is not None


@pytest.mark.parametrize("source", [r"\b\w{1,40} online quantization", r"KV cache size: [\d,]+ tokens", r"error: .{0,200}?(?:a|b) refused"])
def test_linear_patterns_pass(source: str) -> None:
    assert slow_pattern(source) is None


def test_lint_refuses_a_slow_rule_of_the_user_with_the_text_as_the_proof(tmp_path: Path) -> None:
    path = tmp_path / "my-rule.yaml"
    source = (Path(__file__).parent.parent / "my-rule.yaml").read_text(encoding="utf-8")
    path.write_text(re.sub(r"(?m)^( +(?:- )?)pattern: .*$", r"\1pattern: 'boom.*boom.*boom.*bang'", source), encoding="utf-8")
    told = [str(problem) for problem in lint(read_rule(path), BASE) if "too slow" in str(problem)]
    assert len(told) == 1
    assert re.search(r"pattern is too slow: .*'boom.*' \* n.* takes .* ms for \d+ characters, ", told[0])


def _drawn(count: int, seed: int) -> list[tuple[str, str, str]]:
    """Logs of some patterns, the same ones in each run: the pattern, the kind of log, the log."""
    sources = {pattern.regex: (pattern.id, pattern.anchor) for pattern in TOLD}
    for wording in BASE.wordings:
        name = f"{wording.rule}: {wording.pattern.id}"
        for source in (wording.pattern.regex, wording.pattern.frames, wording.pattern.not_frames):
            sources.setdefault(source, (name, wording.pattern.anchor))
    sources.update({expression.source: (expression.place, "") for expression in CODE if isinstance(expression.source, str)})
    sources.pop("", None)
    drawn = []
    choose = random.Random(seed)
    for source in choose.choices(sorted(sources), k=count):
        name, anchor = sources[source]
        if tried := list(attack_texts(source)):
            kind, log = choose.choice(list(logs(choose.choice(tried), anchor)))
            drawn.append((name, kind, log[:SIZE]))
    return drawn


def _seconds(path: Path, formats: tuple[str, ...] = ("json", "text")) -> float:
    started = thread_time()
    report = diagnose(path, Options())
    for format_ in formats:
        render([report], format_, {"color": "never", "width": 100, "verbose": True, "timeline": False, "language": "en"})
    return thread_time() - started


@pytest.mark.parametrize(("count", "seed"), [(20, 21), pytest.param(LOGS, 22, marks=pytest.mark.exhaustive)])
def test_whole_logs_take_at_most_two_seconds(tmp_path: Path, count: int, seed: int) -> None:
    path = tmp_path / "server.log"
    slow = {}
    for name, kind, log in _drawn(count, seed):
        path.write_text(log, encoding="utf-8", errors="replace")
        seconds = _seconds(path)
        if seconds > SECONDS:
            slow[name, kind] = seconds
    assert slow == {}


@pytest.mark.parametrize("text", [
    'Traceback (most recent call last):\n  File "/x/aiohttp/b.py", line 1, in f' + "aiohttp/a.py:f" * 20 + "!\n    x\nTimeoutError\n",
    "NCCL WARN Got completion " * 640, "libcudart" * 7_000, "block: [ Assertion `" * 3_000, "0" * SIZE, " " * SIZE, "(" * SIZE, "{'a': " * 10_000,
    "error: argument --" + "x" * 60_000, "| " * 32_000, '"' * SIZE, "\\" * SIZE, "=" * SIZE, "/v1" * 20_000, "vllm serve " * 5_900, "api_key='" * 7_000,
], ids=lambda text: str(text[:20]))
def test_hostile_texts_take_at_most_two_seconds(tmp_path: Path, text: str) -> None:
    path = tmp_path / "server.log"
    for log in (text, f"ERROR 05-06 10:00:01 [core.py:489] {text}", text.replace(" ", "\n"), f"$ vllm serve {text}"):
        path.write_text(log[:SIZE], encoding="utf-8")
        assert _seconds(path) < SECONDS, log[:60]


def _with_digits(share: slice) -> list[str]:
    """Logs of rule tests with thousands of digits in the place of some of their numbers."""
    rules = [read_rule(Path(rule.path)) for name, rule in sorted(BASE.rules.items()) if name[0] in "acknptu"]
    texts = [str(test["log"]) for rule in rules for test in rule.tests if "log" in test]
    choose = random.Random(5)
    changed = []
    for text in choose.sample(texts, 120)[share]:
        places = [match.span() for match in re.finditer(r"\d+", text)]
        for begin, end in choose.sample(places, min(2, len(places))):
            changed.append(text[:begin] + DIGITS + text[end:])
        changed.append(re.sub(r"(?<![\d:.-])\d+(?![\d:-])", "9" * 400, text))
    return changed


@pytest.mark.parametrize("share", [slice(20), pytest.param(slice(20, 120), marks=pytest.mark.exhaustive)])
def test_numbers_of_thousands_of_digits(tmp_path: Path, share: slice) -> None:
    path = tmp_path / "server.log"
    for place, log in enumerate(_with_digits(share)):
        path.write_text(log, encoding="utf-8")
        _seconds(path, (FORMATS[place % len(FORMATS)],))


@pytest.mark.parametrize("line", [
    f"(Worker_TP{DIGITS} pid=1) ERROR 05-06 10:00:01 [core.py:489] RuntimeError: x", f"(VllmWorker rank={DIGITS} pid=1) INFO 05-06 10:00:01 [core.py:489] x",
    f"[rank {DIGITS}] x | INFO 05-06 10:00:01 [core.py:489] x", f"INFO 05-06 10:00:01 [api_server.py:1043] vLLM API server version {DIGITS}.1.{DIGITS}",
    f"$ vllm serve /models/x --port {DIGITS} --max-model-len {DIGITS}k --tensor-parallel-size=0x{DIGITS} --hf-overrides '{{\"a\": {DIGITS}}}'",
    f"INFO 05-06 10:00:01 [api_server.py:1] non-default args: {{'max_model_len': {DIGITS}, 'port': 1e{DIGITS}, 'seed': 0x{DIGITS}, 'gpu_memory_utilization': 0.{DIGITS}}}",
    f'{{"log": "INFO 05-06 10:00:01 [core.py:489] x", "stream": "stdout", "time": {DIGITS}}}',
], ids=lambda line: str(line[:24]))
def test_a_line_with_thousands_of_digits(tmp_path: Path, line: str) -> None:
    path = tmp_path / "server.log"
    path.write_text(f"{line}\n{line}\n", encoding="utf-8")
    assert _seconds(path, FORMATS) < SECONDS
