"""Several logs: the summary first, by fingerprint; one reading, several files; a log that cannot be read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from report_sample import CAUSE, FAILED, HEALTHY, UNEXPLAINED
from test_formats import as_a_runner_reads

from vllm_doctor.cli.root import cli
from vllm_doctor.reports import summary
from vllm_doctor.reports.model import Evidence, Report, Source

ROOT = Path(__file__).resolve().parents[2]
LOGS = ROOT / "fixtures" / "logs"
LOG = (LOGS / "fatkv-cpu-space-1.log").read_bytes()
HEALTHY_LOG = (LOGS / "healthy" / "tiny-awq-serving.log").read_bytes()


def run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(cli, ["diagnose", *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


def named(report: Report, path: str, **changes: object) -> Report:
    return report._replace(source=Source(path, 1, 1, 1, 1), **changes)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, data in {"a.log": LOG, "b.log": LOG.replace(b"8064", b"8048").replace(b"7079", b"81"), "ok.log": HEALTHY_LOG}.items():
        (tmp_path / name).write_bytes(data)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_summary_comes_first_then_each(folder: Path) -> None:
    status, out, err = run("a.log", "ok.log", "b.log")
    assert (status, err) == (1, "")
    assert out.startswith("""\
3 logs: 2 failed, 1 serving

  2 x CPU KV cache too small for --max-model-len 131072
      cpu-kv-cache-space-too-small
      a.log, b.log
  1 x Healthy: serving on port 8101. KV cache 524,288 tokens, 64 requests of 8,192
      ok.log

== a.log

✗ CPU KV cache""")
    assert [line for line in out.splitlines() if line.startswith("== ")] == ["== a.log", "== ok.log", "== b.log"]


def test_one_log_has_no_summary(folder: Path) -> None:
    assert run("a.log")[1].startswith("✗ CPU KV cache")


def test_the_order_is_failures_first_the_most_frequent_first() -> None:
    other = CAUSE._replace(id="another-cause", title="Another", evidence=(Evidence(9, "RuntimeError: another"),))
    same = CAUSE._replace(evidence=(Evidence(7, CAUSE.evidence[0].text.replace("1", "2")), *CAUSE.evidence[1:]))
    reports = [named(HEALTHY, "h1"), named(HEALTHY, "h2"), named(HEALTHY, "h3"), named(FAILED, "o", primary=other.id, findings=(other,)),
               named(FAILED, "c1"), named(FAILED, "c2", findings=(same,)), named(UNEXPLAINED, "u1")]
    groups = summary.groups(reports)
    assert [(group.id, [report.source.path for report in group.reports]) for group in groups] == [
        (CAUSE.id, ["c1", "c2"]), ("another-cause", ["o"]), ("unexplained-failure", ["u1"]), ("", ["h1", "h2", "h3"])]
    text = summary.render(reports)
    assert text.startswith("7 logs: 4 failed, 3 serving\n\n  2 x ")
    assert "  1 x KeyError: 'layers.31'\n" in text


def test_many_are_counted_and_the_first_named() -> None:
    text = summary.render([named(HEALTHY, f"log-{number}") for number in range(120)], 60)
    assert "  120 x Healthy: serving" in text
    assert "log-7 and 112 more" in text
    assert max(map(len, text.splitlines())) <= 60


def test_a_hostile_name_is_inert() -> None:
    text = summary.render([named(HEALTHY, "a\n::error::EVIL ##[x]\u202e\x1b[31m"), named(HEALTHY, "b")])
    assert as_a_runner_reads(text) == []
    assert "\u202e" not in text
    assert "\x1b" not in text


def test_the_starts_of_one_log(folder: Path) -> None:
    (folder / "twice.log").write_bytes(LOG + LOG)
    out = run("twice.log", "--run", "all")[1]
    assert out.startswith("2 starts in 1 log: 2 failed\n\n  2 x ")
    assert "twice.log, run 1 of 2, twice.log, run 2 of 2" in out


def test_json_is_the_contracts(folder: Path) -> None:
    document = json.loads(run("a.log", "ok.log", "--format", "json")[1])
    assert list(document) == ["reports"]
    assert [report["source"]["path"] for report in document["reports"]] == ["a.log", "ok.log"]


def test_one_that_cannot_be_read_does_not_hide_the_others(folder: Path) -> None:
    status, out, err = run("gone.log", "a.log", "ok.log", "--fail-on", "never")
    assert status == 2
    assert err == "vllm-doctor: gone.log: no such file or directory\n"
    assert out.startswith("2 logs: 1 failed, 1 serving")
    assert run("gone.log", "gone too.log")[:2] == (2, "")


def test_several_formats_from_one_reading(folder: Path) -> None:
    status, out, _ = run("a.log", "--format", "github", "--report", "junit=x.xml", "--report", "text=x.txt", "--report", "json=x.json")
    assert status == 1
    assert out.startswith("::error file=a.log,line=74,")
    assert (folder / "x.xml").read_text().startswith("<?xml")
    assert json.loads((folder / "x.json").read_text())["primary"] == "cpu-kv-cache-space-too-small"
    assert (folder / "x.txt").read_text() == run("a.log")[1]


def test_a_file_is_not_coloured_unless_asked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vllm_doctor.cli.diagnose_logs.colored", lambda choice, _: choice != "never")  # as on a terminal
    run("a.log", "--report", "text=x.txt", "--output", "y.txt")
    assert "\x1b" not in (folder / "x.txt").read_text() + (folder / "y.txt").read_text()


@pytest.mark.parametrize("value", ["junit", "=x", "pdf=x", "html="])
def test_a_report_that_is_none(folder: Path, value: str) -> None:
    status, _, err = run("a.log", "--report", value)
    assert status == 2
    assert "is not FORMAT=FILE" in err
