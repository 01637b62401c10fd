"""The weights of a local model folder: the bytes of each tensor, from the headers of its safetensors files.

Nothing of the tensors themselves is read. Where only an index, a Git LFS pointer or another format is there, the total
is known and the tensors are not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from vllm_doctor.errors import InputError
from vllm_doctor.text_files import read_bytes

_MOST_HEADER = 100 << 20  # bytes; safetensors' own bound
_WIDTHS = {"F64": 8, "I64": 8, "U64": 8, "F32": 4, "I32": 4, "U32": 4, "F16": 2, "BF16": 2, "I16": 2, "U16": 2}
_LFS_SIZE = re.compile(rb"version https://git-lfs\.github\.com/spec/v1\n(?s:.*?)^size (\d+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor of a checkpoint: its name, safetensors' dtype, its elements and bytes."""

    name: str
    dtype: str
    elements: int
    size: int


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """All weights of a folder. `tensors` is empty where only the total is known; `told` says where it is from."""

    total: int
    tensors: tuple[Tensor, ...]
    told: str
    files: int

    @property
    def by_dtype(self) -> dict[str, int]:
        """Bytes by dtype, the most first."""
        found: dict[str, int] = {}
        for tensor in self.tensors:
            found[tensor.dtype] = found.get(tensor.dtype, 0) + tensor.size
        return dict(sorted(found.items(), key=lambda item: -item[1]))


def read_checkpoint(folder: Path) -> Checkpoint | None:
    """The weights in a folder, or None when there are none. Raises InputError for a file that is no safetensors."""
    files = sorted(path for path in folder.glob("*.safetensors") if path.is_file())
    # As vLLM does: a consolidated file (Mistral's own format) repeats what the others hold.
    split = [path for path in files if not path.name.startswith("consolidated")]
    files = split or files
    if files:
        return _safetensors(folder, files)
    index = folder / "model.safetensors.index.json"
    if (total := _index_total(index)) is not None:
        return Checkpoint(total, (), f"{index.name}; the files themselves are not there", 0)
    for pattern in ("*.gguf", "*.bin", "*.pt", "*.pth"):
        found = [path for path in sorted(folder.glob(pattern))
                 if path.is_file() and not path.name.startswith(("training_args", "optimizer", "tokenizer"))]
        if found:
            size = sum(_pointed(path) or path.stat().st_size for path in found)
            return Checkpoint(size, (), f"the size of {len(found)} {pattern} file(s)", len(found))
    return None


def _safetensors(folder: Path, files: list[Path]) -> Checkpoint:
    pointers = [size for path in files if (size := _pointed(path)) is not None]
    if pointers:
        if len(pointers) != len(files):
            raise InputError(f"{folder}: some of the weights are Git LFS pointers and some are not")
        return Checkpoint(sum(pointers), (), "Git LFS pointers; the files themselves are not there", len(files))
    tensors = tuple(tensor for path in files for tensor in _tensors(path))
    index = _index_total(folder / "model.safetensors.index.json")
    total = sum(tensor.size for tensor in tensors)
    if index is not None and index > total * 1.02:
        return Checkpoint(index, (), "model.safetensors.index.json; some of its files are not there", len(files))
    return Checkpoint(total, tensors, f"the headers of {len(files)} safetensors file(s)", len(files))


def _tensors(path: Path) -> Iterator[Tensor]:
    header = _header(path)
    for name, entry in header.items():
        if name == "__metadata__" or not isinstance(entry, dict):
            continue
        shape, offsets, dtype = entry.get("shape"), entry.get("data_offsets"), entry.get("dtype")
        sizes, ends = _whole(shape), _whole(offsets)
        if sizes is None or ends is None or len(ends) != 2 or not isinstance(dtype, str):
            raise InputError(f"{path}: its header says nothing sensible of {name!r}")
        yield Tensor(name, dtype, prod(sizes), max(0, ends[1] - ends[0]))


def _whole(value: Any) -> list[int] | None:
    """The value, if it is a list of whole numbers from 0."""
    if isinstance(value, list) and all(isinstance(one, int) and one >= 0 for one in value):
        return value
    return None


def _header(path: Path) -> dict[str, Any]:
    """The JSON header: eight bytes of length, little-endian, then the text."""
    if not path.is_file():
        raise InputError(f"{path}: is not a regular file")
    try:
        with path.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            if not 2 <= size <= _MOST_HEADER:
                raise InputError(f"{path}: not a safetensors file")
            header = json.loads(file.read(size))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: its header cannot be read ({error})") from error
    if not isinstance(header, dict):
        raise InputError(f"{path}: not a safetensors file")
    return header


def _index_total(path: Path) -> int | None:
    try:
        total = json.loads(read_bytes(path, _MOST_HEADER).decode())["metadata"]["total_size"]
    except (InputError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return int(total) if isinstance(total, (int, float)) and total > 0 else None


def _pointed(path: Path) -> int | None:
    """The size that a Git LFS pointer stands for, or None when the file is none."""
    try:
        if path.stat().st_size > 1024:
            return None
        found = _LFS_SIZE.search(path.read_bytes())
    except OSError:
        return None
    return int(found.group(1)) if found else None


def width(dtype: str) -> int:
    """Bytes of one element of a safetensors dtype; 1 for the eight-bit ones and for any not known."""
    return _WIDTHS.get(dtype, 1)
