"""A plain `diagnose` loads nothing that it does not use: whatever costs a start must stay away from it."""

from __future__ import annotations

import importlib
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import vllm_doctor
from vllm_doctor import patterns
from vllm_doctor.rule_compiler import make
from vllm_doctor.rule_index import NAME
from vllm_doctor.starts import _STAGES

ROOT = Path(__file__).resolve().parent.parent
DEAR = {
    "bz2", "click", "contextlib", "dataclasses", "datetime", "difflib", "gzip", "hashlib", "html", "importlib", "importlib.metadata", "inspect", "jinja2", "lzma", "packaging", "pathlib",
    "rich", "shutil", "tempfile", "tomllib", "typing", "urllib.parse", "warnings", "yaml", "zstandard",
    "vllm_doctor.command.arguments", "vllm_doctor.gpus", "vllm_doctor.language", "vllm_doctor.lint", "vllm_doctor.needles", "vllm_doctor.report.to_html", "vllm_doctor.report.to_markdown",
    "vllm_doctor.rule_compiler", "vllm_doctor.schema", "vllm_doctor.settings", "vllm_doctor.sizing", "vllm_doctor.web",
}
PROGRAM = """
import sys
before = set(sys.modules)
from vllm_doctor import rule_index
from vllm_doctor.cli import main
rules = sys.argv.pop(1)
rule_index.rules_folder = lambda: rules
try:
    main()
except SystemExit as end:
    print(int(end.code), *set(sys.modules) - before, file=sys.stderr)
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of rules as the wheel has it."""
    folder = tmp_path_factory.mktemp("rules")
    (folder / NAME).write_bytes(make(ROOT / "rules"))
    return folder


@pytest.mark.parametrize(("name", "options"), [
    ("fatkv-cpu-space-17", ()),
    ("model-lora-rank-64", ()),
    ("arg-misspelt-max-modle-len", ()),
    ("fatkv-cpu-space-17", ("--format", "text", "--color", "never", "--max-fixes=2")),
])
def test_nothing_dear_is_loaded(installed: Path, tmp_path: Path, name: str, options: tuple[str, ...]) -> None:
    log = ROOT / "fixtures" / "logs" / f"{name}.log"
    done = subprocess.run([sys.executable, "-c", PROGRAM, installed, "diagnose", log, *options], capture_output=True, text=True,
                          cwd=tmp_path, check=True)
    status, *loaded = done.stderr.split()
    assert status == "1"
    assert "What to change" in done.stdout
    spared = DEAR - {"difflib"} if "misspelt" in name else DEAR
    assert spared.intersection(loaded) == set()


def test_few_expressions_are_compiled(installed: Path, tmp_path: Path) -> None:
    log = ROOT / "fixtures" / "logs" / "fatkv-cpu-space-17.log"
    counted = PROGRAM.replace("*set(sys.modules) - before", "len(re._cache)").replace("import sys", "import re, sys")
    done = subprocess.run([sys.executable, "-c", counted, installed, "diagnose", log], capture_output=True, text=True,
                          cwd=tmp_path, check=True)
    assert 50 < int(done.stderr.split()[1]) < 100  # each is a fivehundredth of the start


@pytest.mark.parametrize("words", [
    ("fixtures/logs/arg-block-size-17.log",),
    ("fixtures/logs/arg-block-size-17.log", "fixtures/logs/healthy/tiny-load.log"),
    ("no-such.log",),
    ("tests",),
    ("no-such.log", "fixtures/logs/healthy/tiny-load.log"),
    (),
    ("--format", "json", "fixtures/logs/arg-block-size-17.log"),
    ("fixtures/logs/arg-block-size-17.log", "--format=github", "-q", "--fail-on", "never"),
    ("--color=always", "--max-fixes", "1", "-v", "-"),
    ("fixtures/logs/arg-block-size-17.log", "--only", "no-such-rule"),
    ("fixtures/logs/arg-block-size-17.log", "--vllm-version", "new"),
    ("no-such.log", "--isolated", "--settings", "no-such.toml"),
])
def test_without_the_parser_as_with_it(words: tuple[str, ...]) -> None:
    log = (ROOT / "fixtures/logs/mem-utilization-0.1.log").read_bytes()
    plain, parsed = (
        subprocess.run([sys.executable, "-c", program, "diagnose", *words], input=log, capture_output=True, cwd=ROOT, check=False)
        for program in ("from vllm_doctor.cli import main; main()", "from vllm_doctor.cli.root import cli; cli(prog_name='vllm-doctor')"))
    assert (plain.returncode, plain.stdout, plain.stderr) == (parsed.returncode, parsed.stdout, parsed.stderr)
    wrong = any(word in {"tests", "new"} or word.startswith("no-such") for word in words)
    assert plain.returncode == (2 if wrong else 0 if "never" in words else 1)


def test_a_problem_goes_nowhere_when_stderr_is_closed() -> None:
    done = subprocess.run(["sh", "-c", '"$0" -m vllm_doctor diagnose no-such.log 2>&-', sys.executable], capture_output=True,
                          cwd=ROOT, check=False)
    assert (done.returncode, done.stdout) == (2, b"")


def test_every_pattern_compiles() -> None:
    modules = [importlib.import_module(found.name)
               for found in pkgutil.walk_packages(vllm_doctor.__path__, "vllm_doctor.") if "__main__" not in found.name]
    lazy = [value for module in modules for value in vars(module).values() if isinstance(value, patterns._Lazy)]
    assert len({value.pattern for value in lazy}) > 100


def _cued() -> dict[str, patterns._Cued]:
    modules = [importlib.import_module(found.name)
               for found in pkgutil.walk_packages(vllm_doctor.__path__, "vllm_doctor.") if "__main__" not in found.name]
    values = [value for module in modules for value in vars(module).values()]
    return {value._made[0]: value for value in values if isinstance(value, patterns._Cued)}


@pytest.mark.parametrize("regex", _cued())
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_what_a_pattern_matches_holds_a_cue(regex: str, data: st.DataObject) -> None:
    text = data.draw(st.from_regex(re.compile(regex)))
    cues = _cued()[regex]._cues
    assert any(cue in text for cue in cues) or not re.search(regex, text)


@pytest.mark.parametrize("stage", _STAGES, ids=lambda stage: stage[0])
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_what_tells_a_stage_of_a_start_holds_its_words(stage: tuple[str, tuple[str, ...], re.Pattern[str]], data: st.DataObject) -> None:
    _, words, pattern = stage
    text = data.draw(st.from_regex(re.compile(pattern.pattern)))
    assert any(word in text for word in words)


def test_a_pattern_with_cues_is_used_as_any_other() -> None:
    pattern = patterns.lazy(r"a(\d)", cues=("a",))
    assert (pattern.match("b1"), pattern.search("b1"), pattern.fullmatch("b1"), pattern.sub("-", "b1")) == (None, None, None, "b1")
    assert "pattern" not in vars(pattern)
    assert [pattern.match("xa1", 1)[1], pattern.search("xa1")[1], pattern.fullmatch("a1")[1], pattern.sub("-", "xa1")] == ["1", "1", "1", "x-"]
    assert pattern.match("b1") is None


def test_a_lazy_pattern_is_used_as_any_other() -> None:
    pattern = patterns.lazy(r"(?P<word>A)\d", 2)
    assert pattern.sub("-", "xa1A2") == "x--"
    assert (pattern.flags & 2, pattern.groupindex["word"], pattern.pattern) == (2, 1, r"(?P<word>A)\d")
