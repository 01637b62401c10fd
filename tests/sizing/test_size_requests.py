from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from model_configs import TINY, folder
from test_size import planned

from vllm_doctor.errors import InputError
from vllm_doctor.sizing.request_lengths import read_requests

if TYPE_CHECKING:
    from pathlib import Path


def written(path: Path, *lines: Any) -> Path:
    file = path / "requests.jsonl"
    file.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))
    return file


def test_percentiles_of_lengths(tmp_path: Path) -> None:
    found = read_requests(written(tmp_path, *({"prompt_tokens": n, "completion_tokens": 10} for n in range(1, 201))))
    assert found.prompts.percentiles == {50: 100, 95: 190, 99: 198}
    assert (found.prompts.longest, found.count, found.counted) == (200, 200, "")
    assert found.needed == 208  # 198 + 10


@pytest.mark.parametrize(("line", "prompt", "output"), [
    ({"input_len": 7, "output_len": 3}, 7, 3),
    ({"usage": {"prompt_tokens": 7, "completion_tokens": 3}}, 7, 3),
    ({"prompt": "a" * 40, "max_tokens": 16}, 10, 16),
    ({"prompt": list(range(1000)), "max_tokens": 16}, 1000, 16),
    ({"prompt": "a" * 41, "completion": "b" * 8}, 11, 2),
    ({"custom_id": "1", "body": {"messages": [{"role": "user", "content": "a" * 40}], "max_tokens": 5}}, 14, 5),
    ({"messages": [{"role": "user", "content": [{"type": "text", "text": "a" * 40}, {"type": "image_url"}]}]}, 15, None),
    ({"conversations": [{"from": "human", "value": "a" * 40}, {"from": "gpt", "value": "b" * 40}]}, 14, 10),
])
def test_what_a_line_may_be(tmp_path: Path, line: dict[str, Any], prompt: int, output: int | None) -> None:
    found = read_requests(written(tmp_path, line))
    assert found.prompts.longest == prompt
    assert (found.outputs.longest if found.outputs else None) == output


def test_text_is_estimated_and_said_so(tmp_path: Path) -> None:
    found = read_requests(written(tmp_path, {"prompt": "hello"}, "not json", "[]", {"no": "prompt"}, ""))
    assert (found.count, found.skipped) == (1, 3)
    assert "four" in found.counted or "4 characters" in found.counted


@pytest.mark.parametrize("lines", [(), ("not json",), ({"no": "prompt"},), ({"prompt_tokens": True},), ({"prompt_tokens": -1},)])
def test_files_without_a_prompt(tmp_path: Path, lines: tuple[Any, ...]) -> None:
    with pytest.raises(InputError, match="no line has"):
        read_requests(written(tmp_path, *lines))
    with pytest.raises(InputError, match="no such file"):
        read_requests(tmp_path / "nowhere.jsonl")


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    file = tmp_path_factory.getbasetemp() / "any.jsonl"
    file.write_bytes(data + b'\n{"prompt_tokens": 5}')
    assert read_requests(file).count >= 1


def test_the_plan_for_the_requests(tmp_path: Path) -> None:
    file = written(tmp_path, *({"prompt_tokens": 1000 + n, "completion_tokens": 200} for n in range(100)))
    status, found = planned(folder(tmp_path, TINY), "--gpu", "8GiB", "--requests", file)
    assert status == 0
    assert found["requests"]["prompt_tokens"] == {"p50": 1049, "p95": 1094, "p99": 1098, "longest": 1099}
    assert found["requests"]["needed_max_model_len"] == found["launch"]["max_model_len"] == 1312
