"""What is fuzzed: each target takes any bytes and raises nothing, in bounded time."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import jsonschema
import yaml

from vllm_doctor.authoring.rule_tests import run_tests
from vllm_doctor.catalog.releases import Releases
from vllm_doctor.diagnosis.engine import Diagnosis, diagnose
from vllm_doctor.errors import DoctorError, RuleError
from vllm_doctor.facts.store import FactStore, convert, read_settings
from vllm_doctor.fastpath import line_skipper
from vllm_doctor.options import Options
from vllm_doctor.reports import to_json, to_text
from vllm_doctor.rulebase.loader import builtin, load
from vllm_doctor.rulebase.user_rules import read_rule
from vllm_doctor.templating import renderer
from vllm_doctor.templating.evaluator import UNKNOWN, ExpressionError, parameters, parse
from vllm_doctor.templating.filters import names as filter_names
from vllm_doctor.templating.parser import read_text

ROOT = Path(__file__).resolve().parent.parent.parent
SCHEMA = jsonschema.Draft202012Validator(json.loads((ROOT / "schema" / "report.schema.json").read_text()))
KINDS = ("int", "gib", "float", "bool", "capability", "version", "text")
KNOWN: Mapping[str, object] = {
    "small": 7, "prime": 999999999999999989, "huge": 10**30, "infinite": float("inf"), "none": float("nan"), "zero": 0,
    "minus": -0.5, "share": 0.9, "yes": True, "word": "eager", "text": "a, b=c {}()[]'\"\\ " * 1000,
    "list": ("a", "b"), "releases": Releases.every(), "phase": "weights", "model": "org/model-7b", "version": "0.8.5",
}
_STATISTICS = (b"(APIServer pid=7) INFO 11-05 10:00:%02d [loggers.py:122] Engine 000: Avg prompt throughput: 3.1 tokens/s, Avg generation "
               b"throughput: 24.0 tokens/s, Running: %d reqs, Waiting: %d reqs, GPU KV cache usage: %d.5%%, Prefix cache hit rate: 12.3%%\n")
ANSWERED = b'(APIServer pid=7) INFO:     127.0.0.1:51414 - "POST /v1/completions HTTP/1.1" 200 OK\n'
BUSY = (ANSWERED * 3 + b"x" * 300 + b"\n"
        + b"".join(_STATISTICS % (at, at % 3, at % 2, at * 4) for at in range(24)))
WORDS_LIMIT = 10**6  # characters a rule's words may grow to


def report(data: bytes) -> None:
    """A log: a report that fits the schema, and no terminal escape in its text."""
    diagnosed = diagnose(data)
    SCHEMA.validate(to_json.document(diagnosed))
    assert "\x1b" not in to_text.render(diagnosed)


def skimmed(data: bytes) -> None:
    """A busy server's log, of which only what is worth reading is read: the same report wherever the bytes are cut.

    What comes again and again is read in short, so half of the logs repeat what is fuzzed.
    """
    times = 14 if len(data) % 2 else 1
    log = BUSY + (data + b"\n" + ANSWERED) * times + BUSY
    whole, cut = Diagnosis(), Diagnosis()
    before, line_skipper.READ_WHOLE = line_skipper.READ_WHOLE, 2
    try:
        whole.feed(log)
        size = times * (1 + len(data) % 97)
        for at in range(0, len(log), size):
            cut.feed(log[at:at + size])
        rendered = to_json.render(whole.finish())
        assert rendered == to_json.render(cut.finish())
    finally:
        line_skipper.READ_WHOLE = before
    assert json.loads(rendered)["source"]["bytes"] == len(log)


def facts(data: bytes) -> None:
    """The values of a log: what is a fact can be compared and merged, what is none is left out."""
    text = data.decode("utf-8", "replace")
    names = {(name.type, name.merge, str(name.ignore)): key for key, name in builtin().names.items()}.values()  # one of each kind
    for line in text.split("\n"):
        for kind in KINDS:
            convert(kind, line)
        store = FactStore(builtin().names)
        for name in names:
            store.add(name, line, 1)
            store.add(name, "1", 2)
        settings = read_settings(line)
        for value in settings.values.values() if settings else ():
            for name in names:
                store.add(name, value, 3)
        json.dumps(store.values())


def check_message(text: str) -> None:
    """An error is one line."""
    assert len(text.splitlines()) == 1, text


def rule(data: bytes) -> None:
    """A rule file: one clear line, or a rule that can be tested and can fire."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "my-rule.yaml"
        path.write_bytes(data)
        try:
            base = load((folder,))
        except RuleError as error:
            error_text = str(error)
            check_message(error_text)
            assert error_text.startswith(f"{path}:"), error_text
            return
        drafted = base.rules[read_rule(path).id]
        run_tests(drafted, (folder,))
        log = "\n".join(str(test["log"]) for test in drafted.tests)
        try:
            to_text.render(diagnose(log.encode("utf-8", "replace"), Options(rules=(folder,))))
        except DoctorError as error:
            raise AssertionError(error) from error


def expression(data: bytes) -> None:
    """A condition or a value of a rule: an error in one line, or a value, and UNKNOWN where a fact is missing."""
    source = data.decode("utf-8", "replace")
    try:
        parsed = parse(source)
    except ExpressionError as error:
        check_message(str(error))
        return
    parsed.holds(KNOWN)
    value = parsed.value(KNOWN)
    assert value is UNKNOWN or len(repr(value)) < WORDS_LIMIT
    parsed.value({})


def template(data: bytes) -> None:
    """The words of a rule: an error in one line, or words of a bounded length."""
    source = data.decode("utf-8", "replace")
    try:
        for paragraph in renderer.split_paragraphs(source):
            read_text(paragraph)
    except ExpressionError as error:
        check_message(str(error))
        return
    for known in (KNOWN, {}):
        rendered = renderer.render_paragraphs(source, known)
        assert len(rendered) <= len(source) * len(str(KNOWN["text"]))
        assert renderer.with_ellipses(source, known) is not None


def filters(data: bytes) -> None:
    """A filter with hostile values, which the bytes choose: an answer, or UNKNOWN."""
    names, values = filter_names(), sorted(KNOWN)
    for at in range(0, len(data), 8):
        chosen, *arguments = data[at:at + 8]
        name = names[chosen % len(names)]
        value, *others = [values[index % len(values)] for index in arguments[:len(parameters(name))]] or ["small"]
        expression(f"{value} | {name}({', '.join(others)})".encode())


TARGETS: Mapping[str, Callable[[bytes], None]] = {
    function.__name__: function for function in (report, skimmed, facts, rule, expression, template, filters)
}


def seeds(target: str) -> list[bytes]:
    """What mutation starts from: real logs, the built-in rules and what stands in them, and tokens that did harm."""
    rules = [path.read_bytes() for path in sorted((ROOT / "rules").rglob("*.yaml")) if b"\nmatch:" in path.read_bytes()]
    if target == "rule":
        return [*rules[::24], *(text.encode() for text in HARMFUL_YAML)]
    if target == "filters":
        return [bytes((number, *range(start, start + 7))) for number in range(len(filter_names())) for start in range(len(KNOWN))]
    if target in {"report", "skimmed"}:
        return [path.read_bytes()[-6000:] for path in sorted((ROOT / "fixtures" / "logs").rglob("*.log"))[::8]]
    if target == "facts":
        lines = [line for path in sorted((ROOT / "fixtures" / "logs").rglob("*.log"))[::8]
                 for line in path.read_bytes().split(b"\n") if b"args: " in line or b"with config: " in line]
        return [*lines[:20], *(text.encode() for text in HARMFUL_VALUES)]
    found = [text for item in rules[::4] for text in _texts(yaml.load(item, Loader=yaml.CSafeLoader))]
    if target == "expression":
        return [text.encode() for text in found if "|" in text and "{" not in text][:150] + [
            text.encode() for text in HARMFUL_EXPRESSIONS]
    return [text.encode() for text in found if "{{" in text][:150] + [
        f"{{{{ {text} }}}}".encode() for text in HARMFUL_EXPRESSIONS]


def _texts(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for item in items for text in _texts(item)]


HARMFUL_EXPRESSIONS = (
    "(" * 240 + "1" + ")" * 240, "-" * 400 + "1", "not " * 120 + "1", "1 | gib" * 60, "prime | largest_divisor(prime - 1)",
    "small | aligned_parallel(prime, 11)", "5 | round_to(-1000000000)", "small ** huge", "'x' * 1000000000", "-'a'", "-[1]",
    "1 | since('x')", "word | since('x')", "1 | contains(2)", "word | reached('x')", "1e400 | floor_to(1e-300)", "list[0]",
    "word.upper()", "''.__class__.__mro__", "text | replace('a', text)", "small if yes", "(1, 2) | count", "[[[[1]]]] == 1",
    "{% if yes %}" * 60 + "{% endif %}" * 60, "{% for a in text %}{% for b in text %}x{% endfor %}{% endfor %}",
    "{% include '/etc/passwd' %}", "{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}", "}} {{", "7.0\u07c3", "9" * 5000, "1 ~ 2", "1 | nope", "1 is nope",
)
HARMFUL_VALUES = (
    "9" * 400, "1e999", "-1e999", "nan", "inf", "9" * 5000, "0x" + "f" * 5000, "1" * 400 + " GiB", "9" * 400 + "k",
    "args: Namespace(a=" + "9" * 400 + ", b=1e999, c=-1e999, d=[[]], e={}, f=X(a=Y()))",
    "non-default args: {1: 'x', None: 'y', (): 'z'}", "args: Namespace(" + "a=[" * 300, "non-default args: {'a': " + "{'a': " * 300, "torch.", "0.0.0.0.0", "v" * 400,
    "Initializing a V1 LLM engine (v0.8.5) with config: " + "a=A(" * 300,
)
_RULE = (ROOT / "tests" / "my-rule.yaml").read_text(encoding="utf-8")
_CHANGES = (
    ("", ""), ("It is.", "!!python/object/apply:os.system ['true']"), ("It is.", "2001-01-01"), ("It is.", "2001-99-99"),
    ("It is.", "!!binary aGk="), ("id: my-rule", "id: 2001-01-01"), ("It is.", '"\\ud800"'), ("It is.", "x\x00"),
    ("fixes:", "let: {a: !!int abc}\nfixes:"), ("fixes:", "let: {a: " + "9" * 6000 + "}\nfixes:"),
    ("fixes:", "let: {1: x, on: y, null: z, [a]: b, {c: d}: e}\nfixes:"), ("fixes:", "let: !!set {a, b}\nfixes:"),
    ("fixes:", "let: {a: .inf, b: .nan, c: -.inf}\nfixes:"), ("fixes:", "references: &a [*a]\nfixes:"),
    ("fixes:", "references: &a [x]\nlet: {b: *a}\nfixes:"), ("fixes:", "<<: {id: x}\nfixes:"), ("It is.", "[" * 2000),
    ("It is.", "{a: " * 1000), ("wrong\nexplain", "'" + "(" * 400 + ")" * 400 + "'\nexplain"),
    ("pattern: something is wrong", "pattern: 'something{99999999999999}'"), ("pattern: something is wrong", "pattern: '[[:x:]]'"),
    ("pattern: something is wrong", "pattern: '(a|aa)+$'\n      frames: '(a|aa)+$'"),
    ("pattern: something is wrong", "pattern: x\n      vllm: '~=1'"), ("It is.", "'{{ ''x'' * 1000000000 }}'"),
    ("It is.", "'{{ 9 ** 9 ** 9 ** 9 }}'"), ("It is.", "'{{ " + "(" * 300 + "1" + ")" * 300 + " }}'"), ("It is.", "'{{ 1 | nope }}'"),
    ("It is.", "'{{ x }}'"), ("any:", "when: ['prime | largest_divisor(2)', '" + "(" * 200 + "']\n  any:"), ("action: upgrade-vllm", "set: {--max-model-len: 1e400}"),
    ("action: upgrade-vllm", "set: {--max-model-len.x.y: '9 * 9', '': 1, ' ': 2, '--': 3}"), ("action: upgrade-vllm", "action: upgrade-vllm, vllm: '>=0.Q'"), ("action: upgrade-vllm", "env: {'A B': 1, '': 2, '$(x)': 3}"),
    ("fires: message}", "fires: message, facts: {a: {b: [c]}}, first_fix: {a: [b]}, no_fix: [c], vllm: x, command: 'vllm serve \"'}"),
)
HARMFUL_YAML = (*(_RULE.replace(old, new, 1) for old, new in _CHANGES), "", "[]", "x", "---\n---\n", "\ufeff" + _RULE, _RULE + "\n---\n" + _RULE,
                "a: &a [x,x]\nb: &b [*a,*a]\nc: [*b,*b]\n", "%YAML 9.9\n---\n" + _RULE, "%TAG ! tag:x,2000:\n---\n" + _RULE)
