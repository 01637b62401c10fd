"""The sites of a small release, the logs that reach them, and how the answers on them are judged."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import raise_sites
from raise_sites import Site

SOURCE = '''
def check(count, name):
    """Raise nothing: raise ValueError("in a docstring")."""
    if count > 4:
        raise ValueError(f"{count} widgets of {name!r} are too many")
    assert name, "a widget has no name"
    logger.error("Lost %d widgets of %s", count, name)
    try:
        pass
    except KeyError:
        raise
    raise NotImplementedError
'''


@pytest.fixture
def release(tmp_path: Path) -> Path:
    for name in ("v1/worker/widgets.py", "third_party/widgets.py"):
        path = tmp_path / "vllm-0.20.2" / "vllm" / name
        path.parent.mkdir(parents=True)
        path.write_text(SOURCE)
    return tmp_path / "vllm-0.20.2"


def site(path: str, function: str, exception: str, message: str, code: str = "raise X(") -> Site:
    return Site(path, 7, function, exception, message, code)


def test_the_sites_of_a_release_with_sample_values(release: Path) -> None:
    found = [(one.path, one.line, one.function, one.exception, one.message) for one in raise_sites.sites(release)]
    assert found == [
        ("v1/worker/widgets.py", 5, "check", "ValueError", "17 widgets of 'name' are too many"),
        ("v1/worker/widgets.py", 6, "check", "AssertionError", "a widget has no name"),
        ("v1/worker/widgets.py", 7, "check", "", "Lost 7 widgets of 7"),
    ]


def test_a_sample_is_the_same_each_time(release: Path) -> None:
    found = list(raise_sites.sites(release))
    chosen = raise_sites.sampled(found, 2)
    assert len(chosen) == 2
    assert raise_sites.sampled(reversed(found), 2) == chosen
    assert raise_sites.sampled(found, 0) == sorted(found, key=raise_sites._order)


def test_a_log_names_the_release_and_shows_the_calls() -> None:
    lines, begin = raise_sites.log_of(site("v1/worker/widgets.py", "load", "ValueError", "no widget"), "0.20.2")
    assert lines[0].endswith("vLLM API server version 0.20.2")
    assert lines[begin - 1].endswith("Traceback (most recent call last):")
    assert lines[begin + 6].endswith("ValueError: no widget")
    assert lines[-1].endswith("Engine core initialization failed. See root cause above. Failed core proc(s): {}")


@pytest.mark.parametrize(("where", "kind", "named"), [
    (("v1/worker/widgets.py", "load", "ValueError", "the widget of layer 4 is too wide"), "object", "ValueError"),
    (("v1/metrics/perf.py", "parse", "InvalidWidget", "no widget of kind 4"), "object", "InvalidWidget"),
    (("config/compilation.py", "check", "ValueError", "Invalid compilation mode: max. Valid modes are: NONE"),
     "rule", "flag-value-invalid"),
    (("multimodal/media/connector.py", "_load_file_url", "RuntimeError",
      "Cannot load local files without `--allowed-local-media-path`."), "request", "media-source-refused"),
    (("v1/structured_output/utils.py", "convert_lark_to_ebnf", "ValueError", "Mismatched quotes in widget on line 17"),
     "object", "ValueError"),
    (("v1/executor/widgets.py", "run", "", "WorkerProc hit an exception."), "cascade", "WorkerProc hit an exception."),
])
def test_the_answer_on_a_site(where: tuple[str, str, str, str], kind: str, named: str) -> None:
    assert raise_sites.answer(site(*where), "0.20.2") == (kind, named)


def test_the_command_prints_a_table_and_fails_on_wrong_answers(
        release: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "sites.md"
    assert raise_sites.main([str(release), "--list", "object", "--table", str(table)]) == 0
    out = capsys.readouterr().out
    assert "object: ValueError: v1/worker/widgets.py:5 (check) ValueError: 17 widgets of 'name' are too many" in out
    assert "| v1/worker | 3 |  |  |  | 3 |  |  |  |  |" in table.read_text()
