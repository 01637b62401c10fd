"""The fuzz targets over their seeds and some hundred mutations, the same ones each time; fuzz.py goes on from here."""

from __future__ import annotations

import random
import time
import warnings

import pytest
from fuzz_targets import TARGETS, seeds

MUTATIONS = {"report": 30, "skimmed": 20, "facts": 80, "rule": 100, "expression": 1000, "template": 500, "filters": 1000}
LIMIT = 5.0  # seconds of CPU for one input; a shared machine is slow


def run(target: str, data: bytes) -> None:
    begun = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those about a regular expression are for its author
        TARGETS[target](data)
    assert time.process_time() - begun < LIMIT, data[:500]


def mutated(data: bytes, other: bytes, chance: random.Random) -> bytes:
    """Some bytes changed, doubled, cut out, or taken from another seed."""
    changed = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        at, length = chance.randrange(len(changed) + 1), chance.randint(1, 12)
        from_other = chance.randrange(len(other) + 1)
        part = chance.choice((
            bytes(chance.randrange(256) for _ in range(chance.randint(1, 3))),
            bytes(changed[at:at + length]) * chance.randint(1, 30),
            other[from_other:from_other + chance.randint(1, 80)],
            b"",
        ))
        changed[at:at + chance.choice((0, length))] = part
    return bytes(changed)


@pytest.mark.parametrize("target", TARGETS)
def test_seeds(target: str) -> None:
    for seed in seeds(target):
        run(target, seed)


@pytest.mark.parametrize("target", TARGETS)
def test_mutations(target: str) -> None:
    chance = random.Random(f"{target} 1")
    corpus = seeds(target)
    for _ in range(MUTATIONS[target]):
        run(target, mutated(chance.choice(corpus), chance.choice(corpus), chance))
