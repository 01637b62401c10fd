"""A checkout's index of the rules in the user's cache."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from vllm_doctor import rule_cache, rule_compiler


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A folder of rules, whose index is made of the files' texts."""
    rules = tmp_path / "rules"
    (rules / "model").mkdir(parents=True)
    (rules / "phases.yaml").write_text("one\n", encoding="utf-8")
    (rules / "model" / "a.yaml").write_text("two\n", encoding="utf-8")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(rule_compiler, "make", lambda found: b"".join(
        path.read_bytes() for path in sorted(found.rglob("*.yaml"), key=lambda path: path.name)))
    return str(rules)


def refuse(_: Path) -> bytes:
    raise AssertionError("it is in the cache")


def test_what_has_not_changed_is_not_made_again(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert rule_cache.cached(folder) == b"two\none\n"
    monkeypatch.setattr(rule_compiler, "make", refuse)
    assert rule_cache.cached(folder) == b"two\none\n"


def test_a_changed_a_new_and_a_lost_file_are_seen(folder: str) -> None:
    rule_cache.cached(folder)
    path = Path(folder, "model", "a.yaml")
    path.write_text("2\n", encoding="utf-8")
    assert rule_cache.cached(folder) == b"2\none\n"
    os.utime(path, ns=(0, 0))  # as large as before
    path.write_text("3\n", encoding="utf-8")
    assert rule_cache.cached(folder) == b"3\none\n"
    Path(folder, "b.yaml").write_text("new\n", encoding="utf-8")
    assert rule_cache.cached(folder) == b"3\nnew\none\n"
    path.unlink()
    assert rule_cache.cached(folder) == b"new\none\n"


def test_what_others_could_have_written_is_not_read(folder: str, tmp_path: Path) -> None:
    rule_cache.cached(folder)
    cache = tmp_path / "cache" / "vllm-doctor"
    (kept,) = cache.iterdir()
    assert cache.stat().st_mode & 0o777 == 0o700
    kept.write_bytes(kept.read_bytes().replace(b"one", b"bad"))
    assert rule_cache.cached(folder) == b"two\nbad\n"
    cache.chmod(0o777)
    assert rule_cache.cached(folder) == b"two\none\n"


def test_without_a_cache_it_is_made_each_time(folder: str, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("no folder\n", encoding="utf-8")
    assert rule_cache.cached(folder) == b"two\none\n"
    assert rule_cache.cached(folder) == b"two\none\n"
