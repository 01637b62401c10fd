"""Let the compiled part of an old release load beside a libstdc++ older than GCC 13. Run with the environment's python.

Wheels before about 0.11 ask for GLIBCXX_3.4.32, which Debian 12 does not have. The one function behind it is a constructor that
every older libstdc++ calls by itself: the need is made weak in the file, and a library with that function is loaded first (needs g++).
"""

from __future__ import annotations

import struct
import subprocess
import sys
import sysconfig
from pathlib import Path

WANTED = b"GLIBCXX_3.4.32"
VERSION_NEEDS, WEAK = 0x6FFFFFFE, 2  # SHT_GNU_verneed, VER_FLG_WEAK
SOURCE = """#include <iostream>
static std::ios_base::Init one;
extern "C" void ios_init() __asm__("_ZSt21ios_base_library_initv");
extern "C" void ios_init() {}
"""


def main() -> None:
    """Do nothing where it loads."""
    said = subprocess.run([sys.executable, "-c", "import torch, vllm._C"], capture_output=True, text=True, check=False).stderr
    if f"{WANTED.decode()}' not found" not in said:
        return
    site = Path(sysconfig.get_paths()["purelib"])
    library = site / "vllm" / "_C.abi3.so"
    changed = with_weak_need(library.read_bytes())
    library.unlink()  # the file may be a link to the installer's cache
    library.write_bytes(changed)
    source, shim = site / "ios_init.cpp", site / "libiosinit.so"
    source.write_text(SOURCE, encoding="utf-8")
    subprocess.run(["g++", "-shared", "-fPIC", "-O1", "-o", str(shim), str(source)], check=True)
    (site / "00_ios_init.pth").write_text(f"import ctypes; ctypes.CDLL({str(shim)!r}, ctypes.RTLD_GLOBAL)\n", encoding="utf-8")


def with_weak_need(content: bytes) -> bytes:
    """The library with every need of that version marked weak, so that the loader accepts its absence."""
    data = bytearray(content)
    table = struct.unpack_from("<Q", data, 0x28)[0]
    size, count = struct.unpack_from("<HH", data, 0x3A)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, table + at * size) for at in range(count)]
    for section in sections:
        if section[1] == VERSION_NEEDS:
            _weaken(data, section[4], sections[section[6]][4])
    return bytes(data)


def _weaken(data: bytearray, at: int, names: int) -> None:
    following = 1
    while following:
        _, entries, _, first, following = struct.unpack_from("<HHIII", data, at)
        entry = at + first
        for _ in range(entries):
            _, flags, _, name, step = struct.unpack_from("<IHHII", data, entry)
            if data[names + name:data.index(0, names + name)] == WANTED:
                struct.pack_into("<H", data, entry + 4, flags | WEAK)
            entry += step
        at += following


if __name__ == "__main__":
    main()
