"""Inputs that are malformed or extreme in one way each: files that are generated, and the shell lines that read them.

`v` is the command, `fake NAME` a client that prints what the log holds. Each line has the statuses it may end with.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import tarfile
import zipfile
from pathlib import Path
from typing import NamedTuple

_ERROR = b"ERROR 05-06 10:00:01 [core.py:489] "
_DIGITS = "9" * 400
_HEAD = b"Traceback (most recent call last):\n"
_CALL = b'  File "/opt/venv/vllm/v1/worker/a.py", line 1, in f\n    raise x\n'
_KV = ("ValueError: To serve at least one request with the models's max seq len ({0}), ({0}.{0} GiB KV cache is needed, which is larger "
       "than the available KV cache memory (-{0}.{0} GiB). Based on the available memory, the estimated maximum model length is {0}.\n")
_OOM = ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {0}.{0} GiB. GPU {0} has a total capacity of {0}.{0} GiB of which {0} "
        "MiB is free. Process {0} has {0} GiB memory in use.\n")
_START = "INFO 05-06 10:00:03 [api_server.py:1043] vLLM API server version {0}.{0}.{0}\n"
_ARGS = "INFO 05-06 10:00:03 [utils.py:328] non-default args: {{'model': 'm', 'max_model_len': {0}, 'port': {0}, 'gpu_memory_utilization': 0.{0}}}\n"

LOGS: dict[str, bytes] = {
    "one-line": _ERROR + b"abc def " * 1_000_000,
    "one-word": b"a" * 8_000_000,
    "no-newline-error": b"x" * 3_000_000 + b" CUDA out of memory. Tried to allocate 2.00 GiB",
    "brackets": _ERROR + b"[({" * 500_000 + b"\n",
    "json-nested": b'{"log":' * 100_000 + b'"x"' + b"}" * 100_000 + b"\n",
    "json-list": b"[" * 200_000 + b"]" * 200_000 + b"\n",
    "json-string": b'{"log": "' + b'\\"\\n\\u0000\\ud800' * 100_000 + b'", "stream": "stderr"}\n',
    "args-nested": b"INFO 05-06 10:00:03 [utils.py:328] non-default args: {'a': " + b"[" * 50_000 + b"\n",
    "namespace-nested": b"INFO 05-06 10:00:03 [api_server.py:1044] args: Namespace(" + b"a=Namespace(" * 20_000 + b"\n",
    "digits-kv": (_START + _ARGS + _KV).format(_DIGITS).encode(),
    "digits-oom": (_START + _ARGS + _OOM).format(_DIGITS).encode(),
    "digits-5000": (_START + _ARGS + _KV + _OOM).format("1" * 5000).encode(),
    "digits-unicode": (_START + _ARGS + _KV + _OOM).format("\u0663\u06f3\u00b2\u2462" * 80).encode(),
    "digits-line": b"1" * 2_000_000 + b"\n",
    "floats": (_START + _ARGS + _KV + _OOM).format("1e999").encode() + (_OOM.format("nan") + _KV.format("inf")).encode(),
    "negative": (_ARGS + _KV + _OOM).format("-0").encode(),
    "zeros": (_START + _ARGS + _KV + _OOM).format("0").encode(),
    "stamps": b"".join(b"ERROR 99-99 99:99:%02d [core.py:%s] x\n" % (n, b"9" * 300) for n in range(90)),
    "years": b"9999999999-99-99T99:99:99.%sZ stderr F ERROR x\n" % (b"9" * 500) * 50,
    "ranks": f"(Worker_TP{_DIGITS} pid={_DIGITS}) ERROR 05-06 10:00:01 [core.py:489] RuntimeError: x\n".encode() * 20,
    "nul": b"\0" * 4_000_000,
    "nul-between": b"\0".join(bytes([byte]) for byte in _ERROR + b"CUDA out of memory.") + b"\n",
    "bytes": bytes(range(256)) * 4_000,
    "random": os.urandom(500_000),
    "utf8-cut": (_ERROR + "\u20ac".encode()[:2] + b"\xc0\xaf\xed\xa0\x80\xf4\x90\x80\x80\xff\n") * 200,
    "utf16-odd": b"\xff\xfe" + (_ERROR + b"CUDA out of memory\n").decode().encode("utf-16-le") + b"\n",
    "utf16-lone": b"\xfe\xff" + b"\xd8\x00" * 5_000 + b"\x00\n",
    "utf32": "ERROR 05-06 10:00:01 [core.py:489] x\n".encode("utf-32") * 50,
    "boms": b"\xef\xbb\xbf" * 20_000 + b"\xff\xfe\xfe\xff" + _ERROR + b"x\n",
    "ansi": b"\x1b[31m" * 300_000 + _ERROR + b"\x1b]8;;http://x\x07\x1b[999999999999999999m x\n",
    "ansi-open": (b"\x1b[" + b"1;" * 2_000 + b"\n\x1b]0;" + b"t" * 5_000 + b"\n\x1bP" + b"q" * 5_000 + b"\n") * 30,
    "bidi": (_ERROR + "\u202e\u2066\u200b\u2028\u0085\u000b x\u0301".encode() * 500 + b"\n") * 100,
    "carriage": b"Loading:  50%|#####| 1/2 [00:01<00:01]\r" * 60_000 + b"\n",
    "backspaces": b"abc\b\b\b" * 200_000 + b"\n",
    "newlines": b"\n" * 2_000_000,
    "blanks": b" \t\v\f\xc2\xa0" * 300_000 + b"\n",
    "frames": _HEAD + _CALL * 30_000 + b"ValueError: x\n",
    "tracebacks": (_HEAD + _CALL + b"ValueError: x\n\nDuring handling of the above exception, another exception occurred:\n\n") * 8_000,
    "heads": _HEAD * 60_000,
    "carets": _HEAD + _CALL + b"    " + b"^~" * 300_000 + b"\nRuntimeError: " + b": " * 200_000 + b"\n",
    "exception-lines": _HEAD + _CALL + b"RuntimeError: x\n" + b"  more\n" * 100_000,
    "starts": (_START.format("0.8.5") * 2).encode() * 6_000,
    "commands": b"$ vllm serve m --x \\\n" * 20_000,
    "quotes": b"vllm serve 'm" + b"'\"'\"'" * 100_000 + b"\n",
    "substitutions": b"vllm serve m --x " + b"$(`" * 50_000 + b"\n",
    "sources": b"".join(b"pod-%d/c | ERROR 05-06 10:00:01 [core.py:489] x\n" % n for n in range(20_000)),
    "yaml-args": b"args:\n" + b"".join(b" " * n + b"- a:\n" for n in range(1_500)),
    "keys": b"api_key=" * 50_000 + b"\nAuthorization: Bearer " + b"sk-" * 50_000 + b"\n",
    "templates": _ERROR + b"{{ 9**9**9 }}{% for x in y %}${x}<script>%s%n\n" * 500,
    "words": b"".join(b"ValueError%d: %s\n" % (n, b"word " * 30) for n in range(10_000)),
    "nccl": _ERROR + b"NCCL WARN Got completion " * 20_000 + b"\n",
    "empty": b"",
}


class Case(NamedTuple):
    """A shell line, and the statuses it may end with."""

    name: str
    line: str
    statuses: tuple[int, ...] = (0, 1)


_FILES = [Case(f"log-{name}", f"v diagnose {name}.log --format {form}")
          for name, form in zip(LOGS, ("text", "json", "html", "agent", "markdown", "sarif", "junit", "command", "github", "jsonl") * 9, strict=False)]
_PACKED = [Case(f"packed-{name}", f"v diagnose {name}", statuses) for name, statuses in (
    ("bomb.gz", (0, 1)), ("bomb.xz", (0, 1)), ("bomb.bz2", (0, 1)), ("members.gz", (0, 1)), ("cut.gz", (0, 1, 2)), ("cut.xz", (0, 1, 2)),
    ("bomb.zip", (0, 1)), ("many.zip", (0, 1)), ("many.tar", (0, 1)), ("odd.tar", (0, 1, 2)), ("locked.zip", (0, 1, 2)), ("size.tar", (0, 1, 2)),
    ("only-links.tar", (0, 1, 2)), ("empty.zip", (0, 1, 2)), ("gz-gz-gz", (0, 1, 2)))]
_DOORS = [
    Case("bundle-random", "v bundle random.log --output b1.zip"), Case("bundle-surrogates", "v bundle utf16-lone.log --output b2.zip"),
    Case("bundle-digits", "v bundle digits-5000.log --output b3.zip"), Case("bundle-ansi", "v bundle ansi.log --output b4.zip"),
    Case("bundle-full", "v bundle digits-kv.log --output /dev/full", (2,)), Case("bundle-folder", "v bundle .", (2,)),
    Case("bundle-archive", "v bundle many.zip --output b5.zip", (0, 1, 2)), Case("bundle-stdin-empty", "v bundle - --output b6.zip </dev/null", (0, 1, 2)),
    Case("agent-surrogates", "v diagnose json-string.log --format agent"), Case("agent-full", "v diagnose digits-kv.log --format agent >/dev/full", (2,)),
    *(Case(f"mcp-{n}", f"v mcp --root . <mcp{n}", (0, 2)) for n in range(7)),
    Case("mcp-closed-stdout", "v mcp --root . <mcp0 >&-", (0, 2)), Case("mcp-full", "v mcp --root . <mcp0 >/dev/full", (0, 2)),
    *(Case(f"{option}-{kind}", f"KIND={kind} v diagnose --{option} {value}", (0, 1, 2)) for option, value in
      (("pod", "ns/pod"), ("docker", "box"), ("journal", "vllm.service"), ("slurm", "12")) for kind in ("random", "json-nested", "one-line", "digits-5000", "empty")),
    Case("pod-name", "KIND=empty v diagnose --pod '-x/--help'", (0, 1, 2)), Case("docker-dies", "KIND=none v diagnose --docker box", (2,)),
    Case("fleet", "v fleet [a-e]*.log --jobs 1 >/dev/null", (0, 1, 2)), Case("fleet-odd", "v fleet *.tar many.zip locked.zip c*.gz no-such dir loop --jobs 1", (0, 1, 2)),
    Case("fleet-full", "v fleet empty.log digits-kv.log --jobs 1 >/dev/full", (2,)), Case("fleet-out", "v fleet digits-*.log nul.log utf*.log --jobs 1 --out t", (0, 1, 2)),
    Case("fleet-out-full", "v fleet empty.log --jobs 1 --out /dev/full", (2,)),
    Case("watch-random", "v watch <random.log >/dev/null"), Case("watch-digits", "v watch <digits-5000.log >/dev/null"),
    Case("run-random", "v run -- cat json-string.log nul-between.log >/dev/null", (0, 1)),
    Case("fifo", "mkfifo f1; cat digits-kv.log >f1 & v diagnose f1"), Case("folder", "v diagnose dir", (0, 1, 2)), Case("loop", "v diagnose loop", (2,)),
    Case("size-digits", "v size --from digits-5000.log", (0, 1, 2)), Case("size-json", "v size config-deep", (2,)), Case("size-numbers", "v size config-digits --gpu 24GiB", (0, 1, 2)),
    Case("against", "v diagnose digits-kv.log --against digits-5000.log"), Case("together", "v diagnose --together digits-kv.log random.log ranks.log"),
    Case("timeline", "v diagnose --timeline stamps.log years.log"), Case("explain", "v explain \"$(head -c 3000 random.log | tr -d '\\0')\"", (2,)),
]
CASES = [*_FILES, *_PACKED, *_DOORS]
"""All cases; the statuses were written down before the first run."""


def write(folder: Path) -> None:
    """Write the inputs into a folder."""
    for name, data in LOGS.items():
        (folder / f"{name}.log").write_bytes(data)
    log = LOGS["digits-kv"]
    zeros = bytes(1 << 25)
    for name, pack in (("gz", gzip.compress), ("xz", lzma.compress), ("bz2", bz2.compress)):
        (folder / f"bomb.{name}").write_bytes(pack(log) + pack(zeros))
    (folder / "members.gz").write_bytes(gzip.compress(b"x\n") * 10_000)
    (folder / "cut.gz").write_bytes(gzip.compress(os.urandom(9_000))[:-4_000])
    (folder / "cut.xz").write_bytes(lzma.compress(log)[:20])
    (folder / "gz-gz-gz").write_bytes(gzip.compress(gzip.compress(gzip.compress(log))))
    with zipfile.ZipFile(folder / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(20):
            archive.writestr(f"{number}.log", zeros)
    with zipfile.ZipFile(folder / "many.zip", "w") as archive:
        for number in range(10_000):
            archive.writestr(f"{number}.log", "x\n")
    with zipfile.ZipFile(folder / "empty.zip", "w"):
        pass
    locked = bytearray((folder / "empty.zip").read_bytes())
    with zipfile.ZipFile(folder / "locked.zip", "w") as archive:
        archive.writestr("a.log", log)
    locked = bytearray((folder / "locked.zip").read_bytes())
    locked[6] |= 1  # encrypted, says the member and the directory
    locked[locked.index(b"PK\x01\x02") + 8] |= 1
    (folder / "locked.zip").write_bytes(locked)
    _write_tars(folder)
    (folder / "dir").mkdir()
    (folder / "loop").symlink_to("loop")
    _write_requests(folder)
    for name, text in (("config-deep", '{"a":' * 100_000), ("config-digits", json.dumps({"model_type": "llama", "hidden_size": 10**300, "num_hidden_layers": 10**18, "num_attention_heads": 0}))):
        (folder / name).mkdir()
        (folder / name / "config.json").write_text(text, encoding="utf-8")
    (folder / "bin").mkdir()
    for name in ("kubectl", "docker", "podman", "journalctl", "sacct", "scontrol"):
        client = folder / "bin" / name
        client.write_text('#!/bin/sh\n[ "$KIND" = none ] && { echo "$KIND \x1b[2J" >&2; exit 3; }\ncat "$LOGS/$KIND.log"\n', encoding="utf-8")
        client.chmod(0o755)


def _write_tars(folder: Path) -> None:
    kinds = (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE, b"Z")
    for name, with_log in (("odd.tar", True), ("only-links.tar", False)):
        with tarfile.open(folder / name, "w") as archive:
            for number, kind in enumerate(kinds):
                info = tarfile.TarInfo(f"../{number}\x1b[2J.log")
                info.type, info.linkname = kind, "/etc/passwd"
                archive.addfile(info)
            if with_log:
                _add(archive, "/absolute.log", LOGS["digits-kv"])
    with tarfile.open(folder / "many.tar", "w") as archive:
        for number in range(10_000):
            _add(archive, f"{number}.log", b"x\n")
    with tarfile.open(folder / "size.tar", "w") as archive:
        _add(archive, "a.log", b"x\n")
    data = bytearray((folder / "size.tar").read_bytes())
    data[124:136] = b"\x80" + b"\xff" * 11  # a member larger than any disk; the checksum is that of the header
    data[148:156] = b" " * 8
    data[148:156] = b"%06o\0 " % sum(data[:512])
    (folder / "size.tar").write_bytes(data)


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    archive.addfile(info, io.BytesIO(data))


def _write_requests(folder: Path) -> None:
    """Write what a client of the server for agents may send."""
    hello = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}})

    def call(**arguments: object) -> str:
        return json.dumps({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "diagnose", "arguments": arguments}})

    texts = (
        f"{hello}\n{call(text=chr(0xD800) * 50 + ' CUDA out of memory ' + chr(0xDFFF))}\n",
        f"{hello}\n" + '{"jsonrpc":"2.0","id":3,"method":"tools/call","params":' + "[" * 100_000 + "\n",
        f"{hello}\n{call(path='bomb.gz')}\n{call(path='/dev/zero')}\n{call(path='loop')}\n{call(path='a' + chr(0))}\n{call(path=chr(0xD800))}\n",
        f"{hello}\n{call(text=5)}\n{call()}\n{call(text='x', path='y')}\n[]\n1\nnull\n\"x\"\n{{\n",
        f"{hello}\n" + json.dumps({"jsonrpc": "2.0", "id": 10**400, "method": chr(0xDC00), "params": {}}) + '\n{"jsonrpc":"2.0","id":1e999,"method":"ping"}\n',
        f"{hello}\n{call(text=LOGS['digits-5000'].decode())}\n{call(text='x' * 3_000_000)}\n",
        "\0\xff\n" * 100,
    )
    for number, text in enumerate(texts):
        (folder / f"mcp{number}").write_bytes(text.encode("latin-1", "replace"))
