"""The compiled rules of a checkout in the user's cache, and the rules of a user's folder."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from vllm_doctor.errors import RuleError
from vllm_doctor.rulebase import compiler, loader
from vllm_doctor.rulebase.compiled_rules import rule_base
from vllm_doctor.rulebase.compiler import compile_rules
from vllm_doctor.rulebase.folders import builtin_folder
from vllm_doctor.rulebase.loader import builtin, cached_document

OWN = Path(__file__).resolve().parents[1] / "my-rule.yaml"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of rules that is compiled to the texts of its files."""
    rules = tmp_path / "rules"
    (rules / "model").mkdir(parents=True)
    (rules / "phases.yaml").write_text("one", encoding="utf-8")
    (rules / "model" / "a.yaml").write_text("two", encoding="utf-8")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(compiler, "compile_rules", lambda found: {path.name: path.read_text(encoding="utf-8") for path in found.rglob("*.yaml")})
    return rules


def refuse(_: Path) -> dict[str, Any]:
    raise AssertionError("it is in the cache")


def test_unchanged_rules_are_not_compiled_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = {"phases.yaml": "one", "a.yaml": "two"}
    assert cached_document(folder) == expected
    monkeypatch.setattr(compiler, "compile_rules", refuse)
    assert cached_document(folder) == expected


def test_a_changed_a_new_and_a_lost_file_are_noticed(folder: Path) -> None:
    cached_document(folder)
    path = folder / "model" / "a.yaml"
    path.write_text("2", encoding="utf-8")
    assert cached_document(folder)["a.yaml"] == "2"
    os.utime(path, ns=(0, 0))  # as large as before
    path.write_text("3", encoding="utf-8")
    assert cached_document(folder)["a.yaml"] == "3"
    (folder / "b.yaml").write_text("new", encoding="utf-8")
    assert cached_document(folder).keys() == {"phases.yaml", "a.yaml", "b.yaml"}
    path.unlink()
    assert cached_document(folder).keys() == {"phases.yaml", "b.yaml"}


def test_a_cache_that_others_can_write_to_is_not_read(folder: Path, tmp_path: Path) -> None:
    cached_document(folder)
    kept_in = tmp_path / "cache" / "vllm-doctor"
    (kept,) = kept_in.iterdir()
    assert kept_in.stat().st_mode & 0o777 == 0o700
    kept.write_bytes(kept.read_bytes().replace(b"two", b"bad"))
    assert cached_document(folder)["a.yaml"] == "bad"
    kept_in.chmod(0o777)
    assert cached_document(folder)["a.yaml"] == "two"


def test_a_damaged_cache_is_replaced(folder: Path, tmp_path: Path) -> None:
    cached_document(folder)
    (kept,) = (tmp_path / "cache" / "vllm-doctor").iterdir()
    kept.write_bytes(kept.read_bytes()[:-5])
    assert cached_document(folder)["a.yaml"] == "two"


def test_without_a_cache_they_are_compiled_each_time(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("no folder\n", encoding="utf-8")
    assert cached_document(folder)["a.yaml"] == "two"
    assert cached_document(folder)["a.yaml"] == "two"


def test_the_document_gives_the_rules_of_the_files() -> None:
    """Also after JSON, as the wheel and the cache hold it."""
    folder = builtin_folder()
    fresh = rule_base(compile_rules(folder), str(folder))
    assert fresh.rules == builtin().rules
    assert fresh.anchors == builtin().anchors
    assert len(fresh.anchors) == len(fresh.markers) + len(fresh.facts) + len(fresh.wordings)
    assert fresh.stalls == builtin().stalls
    assert fresh.names == builtin().names


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A user's folder with one rule."""
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / OWN.name).write_bytes(OWN.read_bytes())
    return folder


def test_a_users_rules_are_added_once(own: Path) -> None:
    base = loader.load((own,))
    (name,) = base.rules.keys() - builtin().rules.keys()
    assert base.rules[name].path == str(own / OWN.name)
    assert [wording.pattern.own for wording in base.wordings if wording.rule == name] == [True] * len(base.rules[name].any)
    assert loader.load((own,)) is base  # with all that was derived from it


def test_a_users_rule_overrides_one_of_ours(own: Path) -> None:
    ours = next(iter(builtin().rules))
    text = OWN.read_text(encoding="utf-8")
    (own / OWN.name).write_text(text.replace("id: my-rule", f"id: {ours}", 1), encoding="utf-8")
    base = loader.load((own,))
    assert base.rules.keys() == builtin().rules.keys()
    assert base.rules[ours].path == str(own / OWN.name)
    assert {wording.pattern.own for wording in base.wordings if wording.rule == ours} == {True}


def test_a_changed_rule_is_read_again_and_a_bad_one_reported_each_time(own: Path) -> None:
    before = loader.load((own,))
    path = own / OWN.name
    text = path.read_text(encoding="utf-8")
    path.write_text(text + "nonsense: 1\n", encoding="utf-8")
    for _ in range(2):
        with pytest.raises(RuleError, match="nonsense"):
            loader.load((own,))
    path.write_text(text.replace("id: my-rule", "id: my-rule-2"), encoding="utf-8")
    assert "my-rule-2" in loader.load((own,)).rules
    assert "my-rule-2" not in before.rules


def test_a_broken_expression_of_a_rule_is_reported_with_its_file(tmp_path: Path) -> None:
    rules = tmp_path / "rules"
    shutil.copytree(builtin_folder(), rules)
    broken = next(rules.rglob("port-in-use.yaml"))
    broken.write_text(re.sub(r"(?m)^      pattern: .*$", "      pattern: '(?P<port>a)(?P<port>b)'", broken.read_text(encoding="utf-8"), count=1), encoding="utf-8")
    with pytest.raises(RuleError, match=r"port-in-use\.yaml:1:1: `pattern` of `.+`: redefinition of group name 'port'"):
        compile_rules(rules)


def test_two_rules_of_a_user_with_one_id_are_refused(own: Path) -> None:
    rule = next(own.rglob("*.yaml"))
    (own / "more").mkdir()
    (own / "more" / rule.name).write_text(rule.read_text(encoding="utf-8"), encoding="utf-8")
    with pytest.raises(RuleError, match=r"the id `.*` is also in"):
        loader.load([own])


def test_a_rule_file_with_another_ending_is_refused(own: Path) -> None:
    (own / "workflow.yml").write_text("on: push\n", encoding="utf-8")
    loader.load([own])
    (own / "rule.yml").write_text("id: a\nmatch:\n", encoding="utf-8")
    with pytest.raises(RuleError, match=r"rule\.yml: the name of a rule file ends in \.yaml"):
        loader.load([own])
