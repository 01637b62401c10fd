"""The phrases of a few small releases, and the files that they are stored under."""

from __future__ import annotations

import json
import lzma
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import build_raised_texts

OLD = """
def check(count, name):
    raise ValueError(f"The {count} bent widgets of {name} do not fit together")
"""
NEW = """
def check(count, name):
    assert name, "a widget has no name"
    if count > 4:
        raise ValueError(f"The {count} bent widgets of {name} do not fit together")
    logger.error("Lost %d of the widgets in this bent box", count)
    raise ValueError("too short")
"""


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / "vllm" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def rows_of(*releases: Path) -> list[list[str]]:
    texts: build_raised_texts.Paths = {}
    shared: build_raised_texts.Paths = {}
    for release in releases:
        build_raised_texts.add_release(release, texts, shared, {})
    return build_raised_texts.rows(texts, shared)


def test_a_phrase_belongs_to_the_file_of_the_newest_release(tmp_path: Path) -> None:
    old = write(tmp_path / "vllm-0.6.0", {"config.py": OLD})
    new = write(tmp_path / "vllm-0.20.2", {"lora/widgets.py": NEW, "third_party/widgets.py": NEW})
    assert rows_of(old, new) == [["vllm/lora/widgets.py", "do not fit together", "of the widgets in this bent box",
                                  "widget has no name"]]


def test_a_phrase_of_two_features_is_left_out(tmp_path: Path) -> None:
    texts = 'raise ValueError("the bent widget must be straight")\nraise ValueError("only {} of the {} bent box")\n'
    other = 'raise ValueError("Sorry, but the bent widget must be straight here")\n'
    release = write(tmp_path / "vllm-0.20.2", {"lora/widgets.py": texts, "v1/spec_decode/widgets.py": other})
    assert rows_of(release) == [["vllm/lora/widgets.py", "only of the bent box"],
                                ["vllm/v1/spec_decode/widgets.py", "sorry but the bent widget must be"]]


def test_a_text_that_two_features_had_in_one_release_is_left_out(tmp_path: Path) -> None:
    both = write(tmp_path / "vllm-0.19.0", {"v1/executor/ray_executor.py": OLD, "v1/executor/plain.py": OLD})
    one = write(tmp_path / "vllm-0.20.2", {"v1/executor/ray_executor.py": OLD})
    assert rows_of(one) == [["vllm/v1/executor/ray_executor.py", "do not fit together"]]
    assert rows_of(both, one) == []


def test_a_text_whose_file_moved_belongs_to_the_newest_file(tmp_path: Path) -> None:
    old = write(tmp_path / "vllm-0.19.0", {"v1/executor/plain.py": OLD})
    new = write(tmp_path / "vllm-0.20.2", {"v1/executor/ray_executor.py": OLD})
    assert rows_of(old, new) == [["vllm/v1/executor/ray_executor.py", "do not fit together"]]


def test_the_command_writes_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "sources" / "vllm-0.6.0", {"lora/widgets.py": OLD})
    table = tmp_path / "table.jsonl.xz"
    assert build_raised_texts.main([str(tmp_path / "sources"), "-o", str(table)]) == 0
    assert "vllm-0.6.0" in capsys.readouterr().err
    assert [json.loads(line) for line in lzma.decompress(table.read_bytes()).decode().splitlines()] == [
        ["vllm/lora/widgets.py", "do not fit together"]]
