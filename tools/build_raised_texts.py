"""Generate vllm_doctor/catalog/raised_texts.jsonl.xz: phrases of vLLM's errors, by the file that raises them.

    python tools/build_raised_texts.py SDISTS_DIR [-o vllm_doctor/catalog/raised_texts.jsonl.xz]

SDISTS_DIR is what tools/sdists.py wrote; of each minor version the last release is read. The texts are those of raise, assert and error logs (see raise_sites.py);
nothing is imported or run. The same sources give the same rows. `xz -dc raised_texts.jsonl.xz` prints them:

    ["vllm/lora/peft_helper.py", "is greater than max_lora_rank", "only supports rslora"]

A phrase is a part of a text between two values, at most LONGEST words of it. It is stored under the path that the file
has in the newest release with the text, if all texts that contain the phrase are of the same feature (features.yaml)
and if it is LONGEST words long or has a rare one: other software has errors such as "object has no attribute" as well.
A text that files of several features had in one release belongs to none of them.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import lzma
import re
import sys
import warnings
from collections import defaultdict
from functools import cache
from pathlib import Path

from raise_sites import SKIPPED, SiteReader
from sdists import unpacked

from vllm_doctor.catalog.features import feature_of_path
from vllm_doctor.catalog.raised_texts import words_of

LONGEST = 7
SHORTEST = 3
LEAST_CHARACTERS = 16
RARE = 8  # features at most in whose texts a rare word occurs
VALUE = re.compile(r"%[-+\d.]*[sdfrx]|\n")

Paths = dict[str, set[str]]  # literal text -> paths of the newest release that has it


def texts_of(content: bytes) -> frozenset[str]:
    """Return the literal parts of the errors of a file."""
    reader = SiteReader("", [])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            reader.visit(ast.parse(content))
        except SyntaxError:
            return frozenset()
    return frozenset(piece for parts in reader.texts for part in parts if isinstance(part, str)
                     for piece in VALUE.split(part))


@cache
def feature_of(path: str) -> str | None:
    """Return the feature of a file."""
    return feature_of_path(path)


def add_release(release: Path, texts: Paths, shared: Paths, read: dict[bytes, frozenset[str]]) -> None:
    """Note the texts of a release, and those that its files of several features have; the oldest release is first."""
    found: Paths = defaultdict(set)
    for path in sorted((release / "vllm").rglob("*.py")):
        name = path.relative_to(release).as_posix()
        if SKIPPED.search(name.removeprefix("vllm/")):
            continue
        content = path.read_bytes()
        digest = hashlib.sha256(content).digest()
        if digest not in read:
            read[digest] = texts_of(content)
        for text in read[digest]:
            found[text].add(name)
    texts.update(found)
    for text, paths in found.items():
        if len({feature_of(path) for path in paths}) > 1:
            shared.setdefault(text, set()).update(paths)


def last_of_each_minor(folder: Path) -> list[Path]:
    """Return the last release of each minor version, oldest first."""
    found: dict[tuple[int, ...], Path] = {}
    for version, root in unpacked(folder).items():
        found[version.release[:2]] = root
    return list(found.values())


def phrase_of(words: list[str]) -> str | None:
    """Return the part of a text by which it is recognized, or None if it is too short."""
    phrase = " ".join(words[:LONGEST])
    return phrase if len(words) >= SHORTEST and len(phrase) >= LEAST_CHARACTERS else None


def rows(texts: Paths, shared: Paths) -> list[list[str]]:
    """Return the rows of the table, sorted by path."""
    features: dict[str, set[str | None]] = defaultdict(set)  # those of the texts that contain a word, or a run of words
    for text, paths in texts.items():
        words = words_of(text).split()
        here = {feature_of(path) for path in (*paths, *shared.get(text, ()))}
        for begin in range(len(words)):
            for size in (1, *range(SHORTEST, min(LONGEST, len(words) - begin) + 1)):
                features[" ".join(words[begin:begin + size])] |= here
    by_path: dict[str, set[str]] = defaultdict(set)
    for text, paths in texts.items():
        phrase = phrase_of(words_of(text).split())
        if phrase is None or len(features[phrase]) > 1 or None in features[phrase]:
            continue
        words = phrase.split()
        if len(words) == LONGEST or any(len(features[word]) <= RARE for word in words):
            by_path[max(paths)].add(phrase)
    return [[path, *sorted(by_path[path])] for path in sorted(by_path)]


def main(arguments: list[str] | None = None) -> int:
    """Write the table and return the exit status."""
    here = Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description="Make the table of the texts that vLLM's files raise.")
    parser.add_argument("sdists", type=Path, metavar="SDISTS_DIR")
    parser.add_argument("-o", "--output", type=Path,
                        default=here.parent / "vllm_doctor" / "catalog" / "raised_texts.jsonl.xz")
    options = parser.parse_args(arguments)
    texts: Paths = {}
    shared: Paths = {}
    read: dict[bytes, frozenset[str]] = {}
    for root in last_of_each_minor(options.sdists):
        add_release(root, texts, shared, read)
        print(f"{root.name}: {len(texts)} texts", file=sys.stderr)
    found = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows(texts, shared))
    options.output.write_bytes(lzma.compress(found.encode(), preset=9 | lzma.PRESET_EXTREME))
    return 0


if __name__ == "__main__":
    sys.exit(main())
