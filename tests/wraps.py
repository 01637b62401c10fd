"""What stands around a server's lines, for tests."""

from __future__ import annotations

import json
import re
import zlib


def docker(line: bytes) -> bytes:
    text = {"log": line.decode(errors="replace"), "stream": "stdout", "time": "2025-11-20T11:42:48.123456789Z"}
    return json.dumps(text, separators=(",", ":")).encode() + b"\n"


def kubectl(line: bytes) -> bytes:
    return b"2025-11-20T11:42:48.123456789Z " + line


def compose(line: bytes) -> bytes:
    return b"vllm-openai-1  | " + line


def compose_with_times(line: bytes) -> bytes:
    return b"vllm-openai-1  | 2025-11-20T11:42:48.123456789Z " + line


def journald(line: bytes) -> bytes:
    return b"Nov 20 11:42:48 gpu-node1 vllm-serve[8684]: " + line


def journald_iso(line: bytes) -> bytes:
    return b"2025-11-20T11:42:48+0100 gpu-node1 vllm-serve[8684]: " + line


def coloured(line: bytes) -> bytes:
    return re.sub(rb"^\((\w+ pid=\d+)\)", b"\x1b[1;36m(\\1)\x1b[0;0m", line)


def windows(line: bytes) -> bytes:
    return line.removesuffix(b"\n") + b"\r\n"


def two_services(line: bytes) -> bytes:
    """Of two servers, each of which writes the lines that begin alike."""
    return b"vllm-%d  | " % (1 + (zlib.crc32(line[:9]) >> 4) % 2) + line


SOURCES = {compose: b"vllm-openai-1", compose_with_times: b"vllm-openai-1", journald: b"gpu-node1 vllm-serve[8684]",
           journald_iso: b"gpu-node1 vllm-serve[8684]"}
WRAPS = [docker, kubectl, compose, compose_with_times, journald, journald_iso, coloured, windows]
