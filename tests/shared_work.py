"""What several tests need and takes long to make: made once, by whichever process of pytest-xdist needs it first."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

try:
    import fcntl
except ImportError:  # Windows: each process makes its own
    fcntl = None  # type: ignore[assignment]

Made = TypeVar("Made")
WORKER = os.environ.get("PYTEST_XDIST_WORKER", "")
folder: Path | None = None
"""Where the processes of this run of the tests find what others made; conftest.py sets it."""


def shared(name: str, make: Callable[[], Made]) -> Made:
    """Return what `make` returns, or returned in another process."""
    if folder is None or fcntl is None:
        return make()
    path = folder / f"{name}.pickle"
    with _locked(path.with_suffix(".lock")):
        if path.exists():
            found: Made = pickle.loads(path.read_bytes())  # noqa: S301 - of these tests
            return found
        result = make()
        path.write_bytes(pickle.dumps(result))
        return result


def shared_parts(parts: Mapping[str, Callable[[], Made]]) -> list[Made]:
    """Return what each part makes, in order. Two processes that need them at once begin at either end."""
    names = list(parts)
    results = {name: shared(name, parts[name]) for name in (names[::-1] if WORKER.endswith(("1", "3", "5", "7", "9")) else names)}
    return [results[name] for name in names]


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
