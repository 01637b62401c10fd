"""[tool.vllm-doctor] in pyproject.toml and vllm-doctor.toml."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import pytest
from click.testing import CliRunner
from test_schema import GOOD

from vllm_doctor.cli import project_settings
from vllm_doctor.cli.root import cli
from vllm_doctor.errors import InputError

ROOT = Path(__file__).resolve().parents[2]
LOG = str(ROOT / "fixtures" / "logs" / "fatkv-cpu-space-1.log")
CAUSE = "cpu-kv-cache-space-too-small"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder two levels below one with a file of settings, as the working directory."""
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    monkeypatch.chdir(inner)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1767225600")  # 2026-01-01
    return tmp_path


def told(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(cli, ["diagnose", LOG, *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


def report(*arguments: str) -> dict:
    return json.loads(told("--format", "json", *arguments)[1])


def own(folder: Path, text: str) -> None:
    (folder / "vllm-doctor.toml").write_text(text, encoding="utf-8")


def ignore(rule_id: str = CAUSE, more: str = "") -> str:
    return f'[[ignore]]\nid = "{rule_id}"\nreason = "known, see OPS-7"\n{more}\n'


def test_every_key(project: Path) -> None:
    (project / "own").mkdir()
    own(project, 'rules = ["own"]\nonly = ["a-b"]\nfail-on = "warning"\nmax-fixes = 2\nformat = "json"\n' + ignore("x", "expires = 2026-03-01"))
    found = project_settings.find()
    assert found == project_settings.Settings(
        str(project / "vllm-doctor.toml"), (str(project / "own"),), ("a-b",),
        (project_settings.Ignore("x", "known, see OPS-7", date(2026, 3, 1)),), "warning", 2, "json")


def test_the_nearest_file_counts_and_a_project_without_our_table_does_not(project: Path) -> None:
    assert project_settings.find() is None
    (project / "pyproject.toml").write_text('[tool.vllm-doctor]\nfail-on = "never"\n', encoding="utf-8")
    (project / "a" / "pyproject.toml").write_text("[tool.other]\nx = 1\n", encoding="utf-8")
    assert project_settings.find().path == str(project / "pyproject.toml")
    assert told()[0] == 0
    own(project, 'fail-on = "error"\n')
    assert project_settings.find().path == str(project / "vllm-doctor.toml")
    own(project / "a", '[tool.vllm-doctor]\nfail-on = "never"\n')  # with its table's name, as in pyproject.toml
    assert project_settings.find().path == str(project / "a" / "vllm-doctor.toml")
    assert told()[0] == 0


def test_a_broken_project_that_is_not_ours_does_not_matter(project: Path) -> None:
    (project / "pyproject.toml").write_text("[tool.other\n", encoding="utf-8")
    assert told()[0] == 1
    (project / "pyproject.toml").write_text("[tool.vllm-doctor\n", encoding="utf-8")
    status, out, err = told()
    assert (status, out) == (2, "")
    assert err.startswith(f"vllm-doctor: {project}/pyproject.toml: is no TOML: ")
    assert "line 1" in err


@pytest.mark.parametrize("text", [
    '[tool.vllm-doctor]\nfail-on = "never"', '[ tool . "vllm-doctor" ]\nfail-on = "never"', 'tool.vllm-doctor.fail-on = "never"',
    '[tool]\nvllm-doctor.fail-on = "never"', "[ 'tool' ] # ours\nvllm-doctor = {fail-on = 'never'}",
])
def test_however_the_table_is_written(project: Path, text: str) -> None:
    (project / "pyproject.toml").write_text(f'[project]\nname = "vllm-doctor"\n\n{text}\n' if text[0] == "[" else text, encoding="utf-8")
    assert project_settings.find() is not None
    assert told()[0] == 0


def test_a_project_that_only_names_us_is_not_parsed(project: Path) -> None:
    (project / "pyproject.toml").write_text('dependencies = ["vllm-doctor"\n[tool.other]\n', encoding="utf-8")  # no TOML
    assert project_settings.find() is None


def test_what_is_typed_counts_before(project: Path) -> None:
    own(project, 'fail-on = "never"\nmax-fixes = 1\nformat = "json"\n')
    status, out, _ = told()
    assert status == 0
    assert json.loads(out)["primary"] == CAUSE
    assert told("--fail-on", "error")[0] == 1
    assert told("--format", "text")[1].startswith("✗ ")
    assert told("--isolated")[0] == 1
    assert told("--isolated")[1].startswith("✗ ")


def test_a_file_named(project: Path, tmp_path: Path) -> None:
    own(project, 'fail-on = "error"\n')
    other = tmp_path / "ci.toml"
    other.write_text('fail-on = "never"\n', encoding="utf-8")
    assert told("--settings", str(other))[0] == 0
    assert told("--settings", str(other), "--isolated")[0] == 2
    assert told("--settings", "/nowhere.toml")[2] == "vllm-doctor: /nowhere.toml: no such file or directory\n"


def test_ignores_add_up_and_one_asked_for_is_looked_for(project: Path) -> None:
    ids = {finding["id"] for finding in report()["findings"]}
    assert {CAUSE, "engine-core-init-failed"} <= ids
    own(project, ignore())
    assert CAUSE not in {finding["id"] for finding in report()["findings"]}
    left = {finding["id"] for finding in report("--ignore", "engine-core-init-failed")["findings"]}
    assert not {CAUSE, "engine-core-init-failed"} & left
    assert report("--only", CAUSE)["primary"] == CAUSE


def test_only(project: Path) -> None:
    own(project, 'only = ["engine-core-init-failed"]\n')
    assert [finding["id"] for finding in report()["findings"]] == ["engine-core-init-failed"]
    assert [finding["id"] for finding in report("--only", CAUSE)["findings"]] == [CAUSE]


@pytest.mark.parametrize(("expires", "counts"), [("2026-01-02", True), ("2026-01-01", True), ("2025-12-31", False), ('"2025-12-31"', False),
                                                 ("2025-12-31T10:00:00Z", False)])
def test_an_expired_ignore_is_absent_and_told(project: Path, expires: str, counts: bool) -> None:
    own(project, ignore(more=f"expires = {expires}"))
    current = report()
    assert (current["primary"] != CAUSE) is counts
    note = f"The ignore of {CAUSE} expired on 2025-12-31 and counts no more ({project}/vllm-doctor.toml: known, see OPS-7)."
    assert (note not in current["notes"]) is counts
    assert ("expired on 2025-12-31" not in " ".join(told()[1].split())) is counts


def test_without_an_expiry_the_clock_is_not_asked(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own(project, ignore())
    monkeypatch.setattr(project_settings, "today", lambda: pytest.fail("asked"))
    assert report()["primary"] != CAUSE


def test_own_rules_lie_beside_the_file(project: Path, tmp_path: Path) -> None:
    rules = project / "ops" / "rules"
    rules.mkdir(parents=True)
    (rules / "my-rule.yaml").write_text(GOOD, encoding="utf-8")
    own(project, 'rules = ["ops/rules"]\n')
    assert told("--why", "my-rule")[0] == 0
    assert "does not fire" in told("--why", "my-rule")[1]
    assert CliRunner().invoke(cli, ["explain", "my-rule"]).exit_code == 0
    assert told("--why", "my-rule", "--isolated")[0] == 2


def test_a_working_directory_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert project_settings.find() is None
    monkeypatch.undo()


@pytest.mark.parametrize(("text", "words"), [
    ('fail_on = "never"', "unknown key `fail_on`; did you mean `fail-on`?"),
    ("colour = true", "unknown key `colour`; known are rules, only, ignore, fail-on, max-fixes, format"),
    ('fail-on = "fatal"', "`fail-on` is one of error, warning, info, never, not 'fatal'"),
    ("fail-on = 1", "`fail-on` is one of"),
    ('format = "xml"', "`format` is one of"),
    ("max-fixes = 0", "`max-fixes` is a number from 1, not 0"),
    ("max-fixes = true", "`max-fixes` is a number from 1"),
    ('rules = "ops"', "`rules` is a list of texts"),
    ('rules = ["ops"]', "`rules` names no folder: ops"),
    ("only = [1]", "`only` is a list of texts"),
    (f'only = ["{CAUSE}s"]', f"no rule has the id `{CAUSE}s`; did you mean `{CAUSE}`?"),
    (f'ignore = ["{CAUSE}"]', f'`ignore` needs a reason: {{id = "{CAUSE}", reason = "…"}}'),
    (f'ignore = "{CAUSE}"', "`ignore` is a list of tables"),
    (f'[[ignore]]\nid = "{CAUSE}"', "`ignore`: an entry has no `reason`"),
    (f'[[ignore]]\nid = "{CAUSE}"\nreason = " "', "`ignore`: an entry has no `reason`"),
    ('[[ignore]]\nreason = "x"', "`ignore`: an entry has no `id`"),
    (ignore(more='until = "2026-03-01"'), "`ignore`: unknown key `until`; known are id, reason, expires"),
    (ignore(more='expires = "soon"'), "`expires` is a date such as 2026-12-31, not 'soon'"),
    (ignore(more="expires = 10:00:00"), "`expires` is a date"),
    (ignore("no-such-rule-at-all"), "no rule has the id `no-such-rule-at-all`"),
    ("tool = 1", "unknown key `tool`"),
    ('[tool]\nvllm-doctor = "x"', "tool.vllm-doctor is a table"),
])
def test_what_is_wrong_is_one_line(project: Path, text: str, words: str) -> None:
    own(project, text + "\n")
    status, out, err = told()
    assert (status, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert err.startswith(f"vllm-doctor: {project}/vllm-doctor.toml: ")
    assert words in err


@pytest.mark.parametrize("data", [b"\xff\xfe", b"x = ", b"\x00"])
def test_bytes_that_are_no_toml(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "vllm-doctor.toml"
    path.write_bytes(data)
    with pytest.raises(InputError, match="is no TOML"):
        project_settings.read(path)


def test_watch_takes_them_too(project: Path) -> None:
    own(project, 'fail-on = "never"\nformat = "json"\n' + ignore("engine-core-init-failed", "expires = 2025-12-31"))
    import subprocess
    import sys

    done = subprocess.run([sys.executable, "-m", "vllm_doctor", "watch"], input=Path(LOG).read_bytes(), capture_output=True, timeout=60, check=False)
    assert done.returncode == 0
    assert done.stdout == Path(LOG).read_bytes()
    assert b"The ignore of engine-core-init-failed expired on 2025-12-31" in done.stderr
    assert "✗ CPU KV cache too small".encode() in done.stderr  # text: the format is of diagnose
