"""Unpack the Python files of every final vLLM release, for the tools that read vLLM's sources.

    python tools/sdists.py [DIR] [--since 0.2.0] [--only 0.33.0 ...]

DIR is the argument, else $VLLM_DOCTOR_SDISTS, else the user's cache directory. For each final release (with its
.postN, without release candidates) DIR/vllm-<version>/ receives vllm/**/*.py, setup.py, pyproject.toml, PKG-INFO
and the requirement files. The archive is deleted as soon as it is unpacked; nothing is built, imported or run. A release whose directory exists
is skipped, so an interrupted run is resumed by repeating it.

The package index is the one pip is configured for: pip's own session and link collector are used, because
`pip download` would run the build backend of every source distribution to learn its metadata.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Any

from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import InvalidVersion, Version

if TYPE_CHECKING:
    from collections.abc import Iterator

PROJECT = "vllm"
FIRST_RELEASE = "0.2.0"
LARGEST_WHEEL = 60_000_000  # bytes; CUDA wheels are hundreds of megabytes and carry the same Python files
LARGEST_FILE = 5_000_000  # bytes of one unpacked file
CHUNK = 1 << 20
METADATA = ("setup.py", "pyproject.toml", "PKG-INFO")


class IndexProblem(Exception):  # noqa: N818 - told as a problem, not as a failure of this program
    """An error of the package index, or of a file in it."""


def default_directory() -> Path:
    """Return $VLLM_DOCTOR_SDISTS, or a directory in the user's cache."""
    if configured := os.environ.get("VLLM_DOCTOR_SDISTS"):
        return Path(configured)
    cache = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA") or Path.home() / ".cache"
    return Path(cache) / "vllm-doctor" / "sdists"


class PipIndex:
    """The package index that pip is configured for, read with pip's session (proxies, certificates, credentials)."""

    def __init__(self) -> None:
        from pip._internal.commands import create_command  # noqa: PLC0415 - pip is not always there
        from pip._internal.index.collector import LinkCollector  # noqa: PLC0415

        command: Any = create_command("download")
        options, _ = command.parse_args([])
        self._context = command.main_context()
        self._context.__enter__()
        self.session: Any = command.get_default_session(options)
        self._collector: Any = LinkCollector.create(self.session, options=options)

    def close(self) -> None:
        """Close the connections."""
        self._context.__exit__(None, None, None)

    def links(self, project: str) -> list[Any]:
        """Return all file links of a project in the index's order. Raises IndexProblem if no index lists it."""
        from pip._internal.index.collector import parse_links  # noqa: PLC0415
        from pip._internal.models.link import Link  # noqa: PLC0415

        found: list[Any] = []
        for url in self._collector.search_scope.get_index_urls_locations(project):
            if url.startswith("file:"):
                continue  # local indexes hold wheels built here, not the published sources
            page = self._collector.fetch_response(Link(url))
            if page is not None:
                found.extend(parse_links(page))
        if not found:
            raise IndexProblem(f"no package index that pip is configured for lists {project}")
        return found

    def size(self, link: Any) -> int | None:
        """Return the bytes of a file, None if the index does not say."""
        response = self.session.head(link.url_without_fragment, allow_redirects=True)
        length = response.headers.get("Content-Length")
        return int(length) if response.ok and length else None

    def download(self, link: Any, into: IO[bytes]) -> None:
        """Write a file to `into`. Raises IndexProblem if it is not available or its SHA-256 differs."""
        expected = (getattr(link, "_hashes", None) or {}).get("sha256") or (
            link.hash if link.hash_name == "sha256" else None
        )
        if not expected:
            raise IndexProblem(f"the index gives no sha256 for {link.filename}")
        digest = hashlib.sha256()
        response = self.session.get(
            link.url_without_fragment, headers={"Accept-Encoding": "identity"}, stream=True
        )
        if not response.ok:
            raise IndexProblem(f"{link.filename}: HTTP status {response.status_code}")
        for chunk in response.iter_content(CHUNK):
            digest.update(chunk)
            into.write(chunk)
        into.flush()
        if digest.hexdigest() != expected:
            raise IndexProblem(f"{link.filename}: sha256 {digest.hexdigest()}, the index says {expected}")


def version_of(filename: str) -> tuple[Version, str] | None:
    """Return the version and kind ("sdist" or "wheel") of a distribution's file name; None for other names."""
    try:
        if filename.endswith(".whl"):
            return parse_wheel_filename(filename)[1], "wheel"
        return parse_sdist_filename(filename)[1], "sdist"
    except (InvalidSdistFilename, InvalidWheelFilename, InvalidVersion):
        return None


def releases(links: list[Any], since: Version) -> dict[Version, dict[str, list[Any]]]:
    """Return the final releases since `since`, oldest first, each with its links by kind."""
    found: dict[Version, dict[str, list[Any]]] = {}
    for link in links:
        parsed = version_of(link.filename)
        if parsed is None or parsed[0].is_prerelease or parsed[0].is_devrelease or parsed[0] < since:
            continue
        found.setdefault(parsed[0], {"sdist": [], "wheel": []})[parsed[1]].append(link)
    return dict(sorted(found.items()))


def wanted(path: PurePosixPath) -> bool:
    """Return whether the tools need a path of the distribution."""
    if path.is_absolute() or ".." in path.parts:
        return False
    if path.parts[0] == PROJECT:
        return path.suffix == ".py"
    return str(path) in METADATA or (path.parts[0].startswith("requirements") and path.suffix == ".txt")


def members(archive: Path) -> Iterator[tuple[PurePosixPath, bytes]]:
    """Yield path and content of the needed files of an sdist or a wheel."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            for entry in wheel.infolist():
                path = PurePosixPath(entry.filename)
                if not entry.is_dir() and wanted(path) and entry.file_size <= LARGEST_FILE:
                    yield path, wheel.read(entry)
        return
    with tarfile.open(archive) as sdist:
        for member in sdist:
            parts = PurePosixPath(member.name).parts[1:]  # the first is vllm-<version>
            if (
                not (member.isfile() and parts and wanted(PurePosixPath(*parts)))
                or member.size > LARGEST_FILE
            ):
                continue
            content = sdist.extractfile(member)
            if content is not None:
                yield PurePosixPath(*parts), content.read()


def unpacked(folder: Path) -> dict[Version, Path]:
    """Return the folders of the releases that were unpacked completely, oldest first."""
    paths = (path for path in folder.glob(f"{PROJECT}-*") if path.is_dir() and path.suffix != ".partial")
    return dict(sorted((Version(path.name.removeprefix(f"{PROJECT}-")), path) for path in paths))


def unpack(archive: Path, target: Path) -> int:
    """Write the needed files under `target`, which only appears when complete. Return their number."""
    partial = target.with_name(target.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    count = 0
    for path, content in members(archive):
        file = partial / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        count += 1
    if count == 0:
        raise IndexProblem(f"{archive.name} holds no Python file of {PROJECT}")
    partial.rename(target)
    return count


def choose(index: PipIndex, links: dict[str, list[Any]]) -> tuple[Any, str]:
    """Return the file to read a release from: its sdist, else a small wheel. Raises IndexProblem if there is none."""
    if links["sdist"]:
        return links["sdist"][0], "sdist"
    for link in links["wheel"]:
        size = index.size(link)
        if size is not None and size < LARGEST_WHEEL:
            return link, "wheel"
    raise IndexProblem(f"no sdist, and no wheel under {LARGEST_WHEEL // 1_000_000} MB")


def fetch(index: PipIndex, version: Version, links: dict[str, list[Any]], directory: Path) -> str:
    """Fetch one release into `directory` and return what was done."""
    target = directory / f"{PROJECT}-{version}"
    if target.is_dir():
        return "there already"
    link, kind = choose(index, links)
    with tempfile.TemporaryDirectory(prefix=".download-", dir=directory) as folder:
        archive = Path(folder) / link.filename
        with archive.open("wb") as file:
            index.download(link, file)
        size = archive.stat().st_size
        count = unpack(archive, target)
    return f"{count} files from the {kind} ({size / 1e6:.1f} MB)"


def main(arguments: list[str] | None = None) -> int:
    """Fetch the releases and return the exit status: 0 if all are there or have no source, 1 if one failed."""
    parser = argparse.ArgumentParser(description="Unpack the Python files of every final vLLM release.")
    parser.add_argument("directory", nargs="?", type=Path, default=None, metavar="DIR")
    parser.add_argument("--since", type=Version, default=Version(FIRST_RELEASE), metavar="VERSION")
    parser.add_argument("--only", type=Version, nargs="+", default=[], metavar="VERSION")
    options = parser.parse_args(arguments)
    directory: Path = options.directory or default_directory()
    directory.mkdir(parents=True, exist_ok=True)
    index = PipIndex()
    failures = 0
    try:
        for version, links in releases(index.links(PROJECT), options.since).items():
            if options.only and version not in options.only:
                continue
            try:
                outcome = fetch(index, version, links, directory)
            except IndexProblem as problem:
                missing = not links["sdist"]
                outcome = f"skipped: {problem}" if missing else f"FAILED: {problem}"
                failures += not missing
            except (OSError, tarfile.TarError, zipfile.BadZipFile) as problem:
                outcome = f"FAILED: {problem}"
                failures += 1
            print(f"{version}: {outcome}", flush=True)
    except IndexProblem as problem:
        print(f"sdists: {problem}", file=sys.stderr)
        return 1
    finally:
        index.close()
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
