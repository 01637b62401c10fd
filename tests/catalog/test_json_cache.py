"""The cache of parsed files: what cannot be written is made again, and leaves nothing behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from vllm_doctor.catalog import json_cache


def test_without_a_home_directory_the_value_is_made_each_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", no_home)
    assert json_cache.cached(tmp_path, [], lambda: ["bolt"]) == ["bolt"]


def test_a_failed_write_leaves_no_file_behind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(_path: Path, _target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(Path, "replace", refuse)
    assert json_cache.cached(tmp_path / "widgets", [], lambda: ["bolt"]) == ["bolt"]
    assert list((tmp_path / "vllm-doctor").iterdir()) == []
