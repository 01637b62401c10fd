"""The words by which an expression matches."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from yaml_texts import load_file

from vllm_doctor.rulebase.folders import builtin_folder
from vllm_doctor.rulebase.loader import builtin
from vllm_doctor.rulebase.model import Literals
from vllm_doctor.rulebase.required_literals import required_literals
from vllm_doctor.rulebase.user_rules import read_rule


@pytest.mark.parametrize(("regex", "groups", "enough"), [
    ("fatal error", [[]], ["fatal error"]),
    (r"core\.py:", [[]], ["core.py:"]),
    (r"(?:CUDA|HIP) out of memory\.", [[]], ["CUDA out of memory.", "HIP out of memory."]),
    (r":_?load_models?", [[]], [":load_model", ":load_models", ":_load_model", ":_load_models"]),
    (r"core\.py:|worker/\w+\.py:|run_\w+:", [["worker/", "run_"]], ["core.py:"]),
    (r"core\.py:|worker/\w+\.py:", [["worker/"], [".py:"]], ["core.py:"]),
    (r":core|:worker_\w+|:run_\w+", [[":worker_", ":run_"]], [":core"]),
    (r"core\.py:|\w+", [], ["core.py:"]),
    (r"took (?P<seconds>[\d.]+) seconds", [["took "], [" seconds"]], []),
    (r"(?P<word>one|other)", [["one", "other"]], []),  # what is captured needs the match
    (r"(?s)^(?=.*:load)(?=.*:run\w+)(?!.*:save)", [[":load"], [":run"]], []),
    (r"load_\w+|run_\w+", [["load_", "run_"]], []),
    (r"(?:begin\d)?end", [["end"]], []),
    (r"(?:begin\d)+", [["begin"]], []),
    (r"begin|", [], []),
    (r"(?i)begin", [], []),
    (r"(?i:begin) end", [[" end"]], []),
    (r"a\d+ of", [[" of"]], []),
    (r"[^x]begin", [["begin"]], []),
    (r"^begin", [["begin"]], []),
    (r"(?:0|1|2|3|4|5|6|7|8){3} of", [[" of"]], []),  # too many texts to tell each
])
def test_needles(regex: str, groups: list[list[str]], enough: list[str]) -> None:
    found = required_literals(regex)
    assert (list(found.required), list(found.sufficient)) == (groups, enough)


def test_what_they_tell() -> None:
    found = Literals([["one", "other"], ["end"]], ["word"])
    assert [found.matches(text) for text in ("one end", "the other end", "one", "end", "", "a word")] == [
        None, None, False, False, False, True]
    assert (Literals().matches(""), Literals([[]], ["word"]).matches("")) == (None, False)


_parts = st.sampled_from(["abc", "b", r"\d", "(?:abc|bcd)", "(?:cab)?", "[ab]", "[^a]", "(?P<x>ca|cb)", "(?=.*abc)", "(?!abc)", "(?:ab)+", "(?i:abc)", "a*", "^",
                          "|", r"\b", "(?:bc|c*)", "(?<=abc)", "(?:b?c){2}"])


@settings(max_examples=500)
@given(st.lists(_parts, min_size=1, max_size=5).map("".join), st.text("abcd1 ", max_size=12))
def test_they_tell_the_truth(regex: str, text: str) -> None:
    try:
        match = re.search(regex, text)
    except re.error:  # a name given twice
        return
    assert required_literals(regex).matches(text) in {None, match is not None}


def _samples() -> list[str]:
    """What the patterns of the rules were written for."""
    base = builtin()
    texts = [test["log"] for rule in base.rules.values() for test in read_rule(Path(rule.path)).tests if "log" in test]
    for name in ("engine", "runtime"):
        texts += [sample["log"] for entry in load_file(builtin_folder() / "facts" / f"{name}.yaml") for sample in entry["samples"]]
    return [line for text in texts for line in (text, *text.splitlines())]


@pytest.mark.parametrize("share", [64, pytest.param(1, marks=pytest.mark.exhaustive)])
def test_those_of_the_built_in_patterns_tell_the_truth(share: int) -> None:
    """Of each pattern: what has its anchor or one of its words, and a share of what the others were written for."""
    base = builtin()
    patterns = [*(marker.pattern for marker in base.markers), *base.facts, *(wording.pattern for wording in base.wordings)]
    known = [(pattern.anchor, regex, found) for pattern in patterns for regex, found in (
        (pattern.regex, pattern.required_literals), (pattern.frames, pattern.frames_literals), (pattern.not_frames, pattern.not_frames_literals)) if regex]
    samples = list(dict.fromkeys((*_samples(), *(framed(word) for *_, found in known for word in words(found)))))
    with_anchor = {anchor: [sample for sample in samples if anchor in sample] for anchor, *_ in known}
    told = set()
    for number, (anchor, regex, found) in enumerate({repr(each): each for each in known}.values()):
        search = re.compile(regex).search
        tried = [*samples[number % share::share], *with_anchor[anchor], *map(framed, words(found))]
        for sample in tried:
            says = found.matches(sample)
            told.add(says)
            assert says is None or says == (search(sample) is not None)
    assert told == {True, False, None}
    assert sum(found != Literals() for *_, found in known) > 0.95 * len(known)


def words(found: Literals) -> list[str]:
    return [word for words in (*found.required, found.sufficient) for word in words]


def framed(word: str) -> str:
    return f"vllm/v1/a.py:f\n{word}\nb.py:g"
