"""Look up which versions of other packages each vLLM release requires, and which ones its tests ran with."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from vllm_doctor.catalog.name_table import row_of, version_of

_DISTRIBUTIONS = {  # import name -> name on the package index, if they differ in more than dashes
    "PIL": "pillow", "cv2": "opencv-python-headless", "yaml": "pyyaml", "zmq": "pyzmq", "google": "protobuf",
    "flashinfer": "flashinfer-python", "lmformatenforcer": "lm-format-enforcer", "cpuinfo": "py-cpuinfo",
    "pythonjsonlogger": "python-json-logger", "opentelemetry": "opentelemetry-api", "openai_harmony": "openai-harmony",
    "cutlass": "nvidia-cutlass-dsl", "partial_json_parser": "partial-json-parser",
}  # fmt: skip


def _row(name: str) -> list[Any] | None:
    return row_of("=" + _DISTRIBUTIONS.get(name, name.lower().replace("_", "-")))


class Requirement(NamedTuple):
    """The requirement of one vLLM release for a package.

    `asked` is the release's own requirement, `tested` the version in the lock file of its tests ("" if it has none),
    and `wanted` the requirement to install: with an upper bound from `tested` if the release sets none itself.
    """

    package: str
    asked: str
    tested: str
    wanted: str


_OTHER_DISTRIBUTIONS = {  # the same of packages that others require
    "attr": "attrs", "bs4": "beautifulsoup4", "Crypto": "pycryptodome", "dateutil": "python-dateutil",
    "dotenv": "python-dotenv", "docx": "python-docx", "fitz": "PyMuPDF", "flash_attn": "flash-attn", "git": "GitPython",
    "jose": "python-jose", "jwt": "PyJWT", "multipart": "python-multipart",
    "neuronx_distributed": "neuronx-distributed", "neuronx_distributed_inference": "neuronx-distributed-inference",
    "torch_neuronx": "torch-neuronx", "neuronxcc": "neuronx-cc", "OpenSSL": "pyOpenSSL",
    "pkg_resources": "setuptools", "pptx": "python-pptx", "skimage": "scikit-image", "sklearn": "scikit-learn",
    "socks": "PySocks", "websocket": "websocket-client", "win32api": "pywin32",
}  # fmt: skip


def distribution_of(module: str) -> str:
    """Return the name on the package index of the package that has a module; the module's own if none is known."""
    return _DISTRIBUTIONS.get(module) or _OTHER_DISTRIBUTIONS.get(module, module)


def is_required(package: str) -> bool:
    """Return whether any release requires a package, by its import name."""
    return _row(package) is not None


def requirement(package: str, release: str) -> Requirement | None:
    """Return the requirement of a release for a package, by its import name, or None."""
    row = _row(package)
    specifier = _at(row[1]["r"], release) if row else None
    if row is None or specifier is None:
        return None
    name = row[0].removeprefix("=")
    if specifier.startswith("["):  # an extra
        extra = f"vllm{specifier}=={release}"
        return Requirement(name, extra, "", extra)
    parts = [part for part in specifier.split(",") if part]
    tested = _at(row[1].get("t", []), release) or ""
    wanted = list(parts)
    if not any(part.startswith(("==", "~=", "<")) for part in parts):
        cap = re.match(r"(\d+)\.(\d+)", tested or _next_minimum(row[1]["r"], release))
        wanted += [f"<{cap[1]}.{int(cap[2]) + 1}"] if cap else []
    return Requirement(name, name + _specifier(parts), tested, name + _specifier(wanted))


def _specifier(parts: list[str]) -> str:
    """Return the specifier with the lower bound first."""
    return ",".join(sorted(parts, key=lambda part: (part.startswith("<"), part.startswith("!"))))


def _at(points: list[list[Any]], release: str) -> str | None:
    current: str | None = None
    for start, value in points:
        if version_of(start) <= version_of(release):
            current = value
    return current


def _next_minimum(points: list[list[Any]], release: str) -> str:
    """Return the next higher minimum version that a later release requires; "" if there is none."""
    for start, value in points:
        if version_of(start) > version_of(release) and value and (match := re.search(r"[>=]=([\d.]+)", value)):
            return match[1]
    return ""
