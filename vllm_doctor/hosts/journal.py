"""Read the log of a systemd unit."""

from __future__ import annotations

from collections.abc import Iterator

from vllm_doctor.errors import InputError
from vllm_doctor.hosts.client import ByteStream, checked_name, client, stream_output
from vllm_doctor.logs.inputs import Log

_BEGINNING = 4096
_NO_ENTRIES = b"-- No entries --"


def unit_logs(unit: str) -> Iterator[Log]:
    """Yield the unit's log since the last boot; systemd itself writes into it how the process ended.

    Raises InputError, also for a unit without a log.
    """
    checked_name(unit, "--journal", "vllm.service")
    argv = [client("journalctl"), f"--unit={unit}", "--boot", "--no-pager", "--output=cat"]
    notes: list[str] = []
    yield Log(ByteStream(_not_empty(stream_output(argv, notes), unit), notes), f"journal of {unit}")


def _not_empty(pieces: Iterator[bytes], unit: str) -> Iterator[bytes]:
    first = next(pieces, b"")
    if first[:_BEGINNING].strip() in {b"", _NO_ENTRIES}:
        raise InputError(f"--journal {unit}: the journal has no entries of this unit since the last boot")
    yield first
    yield from pieces
