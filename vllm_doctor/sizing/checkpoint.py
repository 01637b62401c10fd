"""Measure the weights of a local model folder from the headers of its safetensors files.

The tensor data is never read. If the folder only has an index, Git LFS pointers or another format, the total size is
known but the tensors are not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

from vllm_doctor.errors import InputError
from vllm_doctor.messages import message
from vllm_doctor.text_files import read_bytes

_MAX_HEADER_BYTES = 100 << 20  # bytes; safetensors' own bound
_LFS_SIZE = re.compile(rb"version https://git-lfs\.github\.com/spec/v1\n(?s:.{0,400}?)^size (\d{1,18})$", re.MULTILINE)


class Tensor(NamedTuple):
    """One tensor of a checkpoint: name, safetensors dtype, number of elements, size in bytes."""

    name: str
    dtype: str
    elements: int
    size: int


class Checkpoint(NamedTuple):
    """All weights of a folder: `total` in bytes, and `source`, a phrase that says where the total comes from.

    `tensors` is empty if only the total is known.
    """

    total: int
    tensors: tuple[Tensor, ...]
    source: str
    files: int

    @property
    def by_dtype(self) -> dict[str, int]:
        """Return the bytes of each dtype, the largest first."""
        sizes: dict[str, int] = {}
        for tensor in self.tensors:
            sizes[tensor.dtype] = sizes.get(tensor.dtype, 0) + tensor.size
        return dict(sorted(sizes.items(), key=lambda item: -item[1]))


def read_checkpoint(folder: Path) -> Checkpoint | None:
    """Return the weights in a folder, or None if it has none. Raises InputError for an invalid safetensors file."""
    files = sorted(path for path in folder.glob("*.safetensors") if path.is_file())
    # As vLLM does: a consolidated file (Mistral's own format) repeats what the others hold.
    split = [path for path in files if not path.name.startswith("consolidated")]
    files = _indexed(folder, split or files)
    if files:
        return _safetensors(folder, files)
    index = folder / "model.safetensors.index.json"
    if (total := _index_total(index)) is not None:
        return Checkpoint(total, (), message("{name}; the files are missing", name=index.name), 0)
    for pattern in ("*.gguf", "*.bin", "*.pt", "*.pth"):
        matches = [path for path in sorted(folder.glob(pattern))
                 if path.is_file() and not path.name.startswith(("training_args", "optimizer", "tokenizer"))]
        if matches:
            size = sum(_lfs_pointer_size(path) or path.stat().st_size for path in matches)
            source = message("the size of {count} {pattern} file(s)", count=len(matches), pattern=pattern)
            return Checkpoint(size, (), source, len(matches))
    return None


def _indexed(folder: Path, files: list[Path]) -> list[Path]:
    """Return the files that the index names, as vLLM loads them (filter_duplicate_safetensors_files); else all."""
    weight_map = _index(folder / "model.safetensors.index.json").get("weight_map")
    named = set(map(str, weight_map.values())) if isinstance(weight_map, dict) else set()
    return [path for path in files if path.name in named] or files


def _safetensors(folder: Path, files: list[Path]) -> Checkpoint:
    pointers = [size for path in files if (size := _lfs_pointer_size(path)) is not None]
    if pointers:
        if len(pointers) != len(files):
            raise InputError(f"{folder}: some of the weights are Git LFS pointers and some are not")
        source = message("{name}; the files are missing", name="Git LFS pointers")
        return Checkpoint(sum(pointers), (), source, len(files))
    tensors = tuple(tensor for path in files for tensor in _tensors(path))
    index = _index_total(folder / "model.safetensors.index.json")
    total = sum(tensor.size for tensor in tensors)
    if index is not None and index > total * 1.02:
        source = message("model.safetensors.index.json; some of its files are not there")
        return Checkpoint(index, (), source, len(files))
    source = message("the headers of {count} safetensors file(s)", count=len(files))
    return Checkpoint(total, tensors, source, len(files))


def _tensors(path: Path) -> Iterator[Tensor]:
    header = _header(path)
    for name, entry in header.items():
        if name == "__metadata__" or not isinstance(entry, dict):
            continue
        shape, offsets, dtype = entry.get("shape"), entry.get("data_offsets"), entry.get("dtype")
        sizes, ends = _as_counts(shape), _as_counts(offsets)
        if sizes is None or ends is None or len(ends) != 2 or not isinstance(dtype, str):
            raise InputError(f"{path}: its header has an invalid entry for {name!r}")
        yield Tensor(name, dtype, prod(sizes), max(0, ends[1] - ends[0]))


def _as_counts(value: Any) -> list[int] | None:
    """Return the value if it is a list of non-negative integers, else None."""
    if isinstance(value, list) and all(isinstance(one, int) and one >= 0 for one in value):
        return value
    return None


def _header(path: Path) -> dict[str, Any]:
    """Return the JSON header of a safetensors file: eight bytes of length (little-endian), then JSON."""
    if not path.is_file():
        raise InputError(f"{path}: not a regular file")
    try:
        with path.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            if not 2 <= size <= _MAX_HEADER_BYTES:
                raise InputError(f"{path}: not a safetensors file")
            header = json.loads(file.read(size))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: its header cannot be read ({error})") from error
    if not isinstance(header, dict):
        raise InputError(f"{path}: not a safetensors file")
    return header


def _index(path: Path) -> dict[str, Any]:
    """Return the index of a checkpoint; empty if there is none."""
    try:
        found = json.loads(read_bytes(path, _MAX_HEADER_BYTES).decode())
    except (InputError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _index_total(path: Path) -> int | None:
    metadata = _index(path).get("metadata")
    total = metadata.get("total_size") if isinstance(metadata, dict) else None
    return int(total) if isinstance(total, (int, float)) and total > 0 else None


def _lfs_pointer_size(path: Path) -> int | None:
    """Return the file size that a Git LFS pointer names, or None if the file is not a pointer."""
    try:
        if path.stat().st_size > 1024:
            return None
        match = _LFS_SIZE.search(path.read_bytes())
    except OSError:
        return None
    return int(match.group(1)) if match else None
