"""A checkout's index of the rules in the user's cache."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from vllm_doctor.diagnosis.engine import diagnose
from vllm_doctor.errors import RuleError
from vllm_doctor.options import Options
from vllm_doctor.rulebase import cache, compiler, loader
from vllm_doctor.rulebase.index import builtin

OWN = Path(__file__).resolve().parent / "my-rule.yaml"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A folder of rules, whose index is made of the files' texts."""
    rules = tmp_path / "rules"
    (rules / "model").mkdir(parents=True)
    (rules / "phases.yaml").write_text("one\n", encoding="utf-8")
    (rules / "model" / "a.yaml").write_text("two\n", encoding="utf-8")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(compiler, "make", lambda found: b"".join(
        path.read_bytes() for path in sorted(found.rglob("*.yaml"), key=lambda path: path.name)))
    return str(rules)


def refuse(_: Path) -> bytes:
    raise AssertionError("it is in the cache")


def test_what_has_not_changed_is_not_made_again(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache.cached(folder) == b"two\none\n"
    monkeypatch.setattr(compiler, "make", refuse)
    assert cache.cached(folder) == b"two\none\n"


def test_a_changed_a_new_and_a_lost_file_are_seen(folder: str) -> None:
    cache.cached(folder)
    path = Path(folder, "model", "a.yaml")
    path.write_text("2\n", encoding="utf-8")
    assert cache.cached(folder) == b"2\none\n"
    os.utime(path, ns=(0, 0))  # as large as before
    path.write_text("3\n", encoding="utf-8")
    assert cache.cached(folder) == b"3\none\n"
    Path(folder, "b.yaml").write_text("new\n", encoding="utf-8")
    assert cache.cached(folder) == b"3\nnew\none\n"
    path.unlink()
    assert cache.cached(folder) == b"new\none\n"


def test_what_others_could_have_written_is_not_read(folder: str, tmp_path: Path) -> None:
    cache.cached(folder)
    kept_in = tmp_path / "cache" / "vllm-doctor"
    (kept,) = kept_in.iterdir()
    assert kept_in.stat().st_mode & 0o777 == 0o700
    kept.write_bytes(kept.read_bytes().replace(b"two\none", b"two\nbad"))
    assert cache.cached(folder) == b"two\nbad\n"
    kept_in.chmod(0o777)
    assert cache.cached(folder) == b"two\none\n"


def test_without_a_cache_it_is_made_each_time(folder: str, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("no folder\n", encoding="utf-8")
    assert cache.cached(folder) == b"two\none\n"
    assert cache.cached(folder) == b"two\none\n"


# --- rules of a user ---


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's folder with one rule."""
    builtin()  # from where it is
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    made = tmp_path / "own"
    made.mkdir()
    (made / OWN.name).write_text(OWN.read_text(encoding="utf-8"), encoding="utf-8")
    return made


def test_a_users_rules_are_compiled_once(own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = loader.load((own,))
    (name,) = base.rules.keys() - builtin().rules.keys()
    assert base.rules[name].path == str(own / OWN.name)
    assert all(pattern.own for pattern in base.rules[name].any)
    assert [wording.pattern.own for wording in base.wordings if wording.rule == name] == [True] * len(base.rules[name].any)
    assert len(base.anchors) == len(base.markers) + len(base.facts) + len(base.wordings)
    monkeypatch.setattr(compiler, "make_own", refuse)
    assert loader.load((own,)) is base  # with all that was made from it
    elsewhere = own.rename(tmp_path / "elsewhere")
    assert loader.load((elsewhere,)).rules[name].path == str(elsewhere / OWN.name)


def test_what_comes_from_the_cache_is_what_the_file_says(own: Path) -> None:
    made, kept = loader.load((own,)), loader.load((str(own) + os.sep,))
    assert made is not kept
    (name,) = made.rules.keys() - builtin().rules.keys()
    test = made.rules[name].tests[0]
    reports = [diagnose(str(test["log"]).encode(), Options(rules=(folder,))) for folder in (str(own), str(own) + os.sep)]
    assert [report.primary for report in reports] == [name, name]
    assert reports[0].findings == reports[1].findings


def test_a_users_rule_overrides_one_of_ours(own: Path) -> None:
    text = OWN.read_text(encoding="utf-8")
    ours = "port-in-use"
    (own / OWN.name).write_text(text.replace("id: my-rule", f"id: {ours}", 1), encoding="utf-8")
    base = loader.load((own,))
    assert len(base.rules) == len(builtin().rules)
    assert base.rules[ours].path == str(own / OWN.name)
    assert {wording.pattern.own for wording in base.wordings if wording.rule == ours} == {True}
    assert base.anchors[-1] == base.wordings[-1 + len(base.wordings)].pattern.anchor


def test_a_changed_rule_is_read_anew_and_a_bad_one_told_each_time(own: Path) -> None:
    before = loader.load((own,))
    path = own / OWN.name
    path.write_text(path.read_text(encoding="utf-8").replace("severity: error", "severity: wrong"), encoding="utf-8")
    for _ in range(2):
        with pytest.raises(RuleError, match=OWN.name):
            loader.load((own,))
    path.write_text(OWN.read_text(encoding="utf-8"), encoding="utf-8")
    assert loader.load((own,)) is before


def test_few_indexes_are_kept(own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "_MOST", 3)
    text = OWN.read_text(encoding="utf-8")
    for number in range(5):
        (own / OWN.name).write_text(f"{text}# {number}\n", encoding="utf-8")
        loader.load((own,))
        os.utime(max((tmp_path / "cache" / "vllm-doctor").iterdir(), key=os.path.getmtime), ns=(number, number))
    kept = sorted(path.stat().st_mtime_ns for path in (tmp_path / "cache" / "vllm-doctor").iterdir())
    assert kept == [2, 3, 4]
