"""Let the compiled part of a release load beside a libstdc++ older than that of its build. Run with the environment's python.

Debian 12 has neither GLIBCXX_3.4.32 (GCC 13), which wheels before about 0.11 need, nor CXXABI_1.3.15 (GCC 14), which 0.11.2 needs.
One function is behind each: a constructor that every older libstdc++ calls by itself, and the call of std::terminate where an exception
leaves a noexcept function. The need is made weak in the file, and a library with both functions is loaded first (needs g++).
"""

from __future__ import annotations

import struct
import subprocess
import sys
import sysconfig
from pathlib import Path

WANTED = (b"GLIBCXX_3.4.32", b"CXXABI_1.3.15")
VERSION_NEEDS, WEAK = 0x6FFFFFFE, 2  # SHT_GNU_verneed, VER_FLG_WEAK
SOURCE = """#include <exception>
#include <iostream>
static std::ios_base::Init one;
extern "C" void ios_init() __asm__("_ZSt21ios_base_library_initv");
extern "C" void ios_init() {}
extern "C" void __cxa_call_terminate(void*) { std::terminate(); }
"""


def main() -> None:
    """Do nothing where it loads."""
    said = subprocess.run([sys.executable, "-c", "import torch, vllm._C"], capture_output=True, text=True, check=False).stderr
    if not any(f"{name.decode()}' not found" in said for name in WANTED):
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
    """The library with every need of those versions marked weak, so that the loader accepts its absence."""
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
            if data[names + name:data.index(0, names + name)] in WANTED:
                struct.pack_into("<H", data, entry + 4, flags | WEAK)
            entry += step
        at += following


if __name__ == "__main__":
    main()
