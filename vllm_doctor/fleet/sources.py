"""Paths, globs and URLs -> the files to read, in the order of their names.

Local files need nothing; everything with a scheme (`s3://`, `gs://`, `https://`) is listed and opened by fsspec.
"""

from __future__ import annotations

import glob
import importlib
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO, Any, cast

from vllm_doctor.errors import InputError, reason
from vllm_doctor.fleet.model import LogFile
from vllm_doctor.logs.inputs import Logs, logs_in, open_logs

_NO_LOGS = (  # in a folder; a file that is named is always read
    ".avro", ".bin", ".cfg", ".css", ".csv", ".db", ".gguf", ".gif", ".html", ".ini", ".ipynb", ".jpeg", ".jpg", ".js",
    ".json", ".lock", ".md", ".npy", ".npz", ".onnx", ".parquet", ".pdf", ".pkl", ".png", ".pt", ".pth", ".py", ".pyc",
    ".rst", ".safetensors", ".sh", ".so", ".sqlite", ".svg", ".toml", ".whl", ".xml", ".yaml", ".yml",
)
_TABLES = ("starts.jsonl", "findings.jsonl")
_VERSIONS = ("ETag", "etag", "md5", "md5Hash", "LastModified", "last_modified", "mtime", "updated", "created")


def find(targets: Sequence[str]) -> list[LogFile]:
    """Return the files that paths, globs and URLs name, each once, sorted by name.

    A folder stands for all the logs below it. What cannot be listed is returned with its problem.
    """
    listed = [file for target in targets for file in (_remote(target) if is_remote(target) else _local(target))]
    found: dict[str, LogFile] = {}
    for (_, path), file in sorted((_place(file.url), file) for file in listed):
        found.setdefault(path, file)
    return sorted(found.values(), key=lambda file: file.url)


def _place(url: str) -> tuple[bool, str]:
    """Return whether a name is that of a link, and of which file it is."""
    try:
        return (False, url) if is_remote(url) else (os.path.islink(url), os.path.realpath(url))
    except ValueError:  # a NUL character
        return False, url


def is_remote(url: str) -> bool:
    """Return whether a name has a scheme, so that fsspec opens it."""
    return "://" in url


@contextmanager
def open_source(url: str) -> Iterator[Logs]:
    """Open the logs of a file or URL. Raises InputError, and whatever a file system of fsspec raises."""
    if not is_remote(url):
        with open_logs(url) as logs:
            yield logs
        return
    with cast("IO[bytes]", _fsspec(url).open(url, "rb").open()) as file:
        yield logs_in(file, url)


def one_file(url: str) -> LogFile:
    """Return one file with its size and version; with its problem if it cannot be listed."""
    files = list(_remote(url) if is_remote(url) else _local(url))
    return next((file for file in files if file.url == url), LogFile(url))


def _fsspec(url: str) -> Any:
    try:
        return importlib.import_module("fsspec")
    except ImportError as error:
        raise InputError(f"{url}: reading URLs needs the extra: pip install 'vllm-log-doctor[fleet]'") from error


def _local(target: str) -> Iterator[LogFile]:
    paths = [target] if os.path.lexists(target) or not glob.has_magic(target) else glob.glob(target, recursive=True)
    if not paths:
        yield LogFile(target, problem="no file matches")
    for path in paths:
        if os.path.isdir(path):
            yield from _below(path)
        else:
            yield _status(path)


def _below(folder: str) -> Iterator[LogFile]:
    """Yield the logs below a folder; hidden files, and files that are no logs by their names, are left out."""
    problems: list[OSError] = []
    for place, folders, names in os.walk(folder, onerror=problems.append):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            if is_log_name(name):
                yield _status(os.path.join(place, name))
    for problem in problems:
        yield LogFile(str(problem.filename), problem=reason(problem))


def is_log_name(name: str) -> bool:
    """Return whether a file of a folder may be a log, by its name."""
    lower = name.lower()
    if lower.startswith(".") or lower in _TABLES:
        return False
    return not lower.endswith(_NO_LOGS)


def _status(path: str) -> LogFile:
    try:
        status = os.stat(path)
    except (OSError, ValueError) as error:
        return LogFile(path, problem=reason(error))
    if not stat.S_ISREG(status.st_mode):
        return LogFile(path, problem="is not a regular file")
    return LogFile(path, status.st_size, str(status.st_mtime_ns))


def _remote(target: str) -> Iterator[LogFile]:
    try:
        files, path = _fsspec(target).core.url_to_fs(target)
        files.invalidate_cache()
        yield from _listed(target, files, path)
    except Exception as error:  # noqa: BLE001 - each file system raises errors of its own
        yield LogFile(target, problem=problem_of(error))


def _listed(target: str, files: Any, path: str) -> Iterable[LogFile]:
    if glob.has_magic(path):
        found = [entry for entry in files.glob(path, detail=True).values() if entry["type"] == "file"]
    elif files.isdir(path):
        found = [entry for name, entry in files.find(path, detail=True).items() if is_log_name(name.rsplit("/", 1)[-1])]
    else:
        return [_entry(target, files.info(path))]
    if not found:
        return [LogFile(target, problem="no file matches")]
    return [_entry(files.unstrip_protocol(entry["name"]), entry) for entry in found]


def _entry(url: str, entry: Mapping[str, Any]) -> LogFile:
    version = next((str(entry[name]) for name in _VERSIONS if entry.get(name)), None)
    return LogFile(url, entry.get("size"), version)


def problem_of(error: Exception) -> str:
    """Return why a file cannot be read, in one line."""
    if isinstance(error, FileNotFoundError):  # of fsspec: its text is the path
        return "no such file or directory"
    text = " ".join(reason(error).split())
    return text if isinstance(error, (InputError, OSError)) and text else f"{type(error).__name__}: {text}".strip(" :")
