"""The sentence and the default of each flag, as `explain` and the site show them."""

from __future__ import annotations

import pytest

from vllm_doctor.catalog import flag_meanings, flags

NAMES = {name for release in flags.releases() for name in flags.flags_of(release)}


def test_each_flag_has_its_sentence() -> None:
    texts = flag_meanings._texts()
    assert set(texts["meanings"]) == NAMES
    assert set(texts["unset"]) <= NAMES


def test_the_sentences_are_sentences() -> None:
    for name in NAMES:
        text = flag_meanings.meaning(name)
        first = text.split()[0].rstrip(",")
        assert text.endswith("."), name
        assert len(text) <= 160, name
        assert first.endswith("s") or first in {"Also", "Never"}, (name, first)  # what it does: Sets, Limits, Passes …


@pytest.mark.parametrize(("name", "version", "expected"), [
    ("--max-num-seqs", None, "by GPU memory, 1024 from 70 GiB (A100 excepted), else 256; on CPU 128 per rank"),
    ("--max-num-seqs", "0.9.2", "decided at startup"),
    ("--max-num-seqs", "0.6.4", "`256`"),
    ("--gpu-memory-utilization", None, "`0.92`"),
    ("--gpu-memory-utilization", "0.11.0", "`0.9`"),
    ("--enforce-eager", None, "off"),
    ("--use-tqdm-on-load", None, "on"),
    ("--swap-space", "0.9.2", "`4`"),
    ("--allowed-methods", None, '`["*"]`'),
    ("--kv-transfer-config", None, "not set"),
    ("--cpu-offload-gb", None, "`0`"),
    ("--tool-parser-plugin", None, "empty"),
    ("--limit-mm-per-prompt", None, "999 items per modality"),
])
def test_defaults(name: str, version: str | None, expected: str) -> None:
    flag = flags.lookup(name)
    assert flag is not None
    assert flag_meanings.default_text(flag, version) == expected
