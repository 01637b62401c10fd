"""Archives that are damaged or hold archives: one clear line each, and what could be read is reported."""

from __future__ import annotations

import gzip
import io
import lzma
import tarfile
import zipfile
from pathlib import Path

import pytest

from vllm_doctor import diagnose
from vllm_doctor.logs.inputs import open_logs


def read(path: Path) -> list[tuple[bytes, tuple[str, ...]]]:
    """Return the content and the notes of each log of an archive."""
    with open_logs(str(path)) as logs:
        return [(b"".join(log.chunks(1000)), log.notes) for log in logs]


def zipped(path: Path, name: str, data: bytes, method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr(name, data)
    return path


def test_an_archive_within_an_archive_is_named(tmp_path: Path) -> None:
    inner = io.BytesIO()
    with tarfile.open(fileobj=inner, mode="w:gz") as archive:
        info = tarfile.TarInfo("server.log")
        info.size = 5
        archive.addfile(info, io.BytesIO(b"line\n"))
    path = zipped(tmp_path / "outer.zip", "inner.tar.gz", inner.getvalue())
    assert read(path) == [(b"", (f"{path}!inner.tar.gz: an archive within an archive: unpack it",))]


def test_a_damaged_member_is_read_up_to_the_damage(tmp_path: Path) -> None:
    text = b"".join(b"line %d of a log\n" % number for number in range(20_000))
    path = zipped(tmp_path / "a.zip", "a.log", text, zipfile.ZIP_LZMA)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x55
    path.write_bytes(data)
    [(found, notes)] = read(path)
    assert found
    assert text.startswith(found[:1000])
    assert notes == ("The archive is cut or damaged: the report is on what could be read of it.",)


def test_a_member_without_a_name(tmp_path: Path) -> None:
    path = zipped(tmp_path / "a.zip", "x", b"line\n")
    path.write_bytes(path.read_bytes().replace(b"x", b"\0"))
    assert read(path) == [(b"line\n", ())]


@pytest.mark.parametrize("zeros", [1, 300, 1024, 10_240])
def test_zeros_behind_the_content_are_no_damage(zeros: int, tmp_path: Path) -> None:
    path = tmp_path / "a.log.gz"
    path.write_bytes(gzip.compress(b"line\n") + b"\0" * zeros)
    assert read(path) == [(b"line\n", ())]


def test_compressed_bytes_are_unpacked_wherever_they_are(tmp_path: Path) -> None:
    data = lzma.compress(b"ValueError: bolt 7 is not a widget\n")
    path = tmp_path / "a.log.xz"
    path.write_bytes(data)
    for source in (path, data, bytearray(data), io.BytesIO(data)):
        failure = diagnose(source).failure
        assert failure is not None
        assert failure.message == "bolt 7 is not a widget"
