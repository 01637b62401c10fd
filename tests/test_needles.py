"""The words without which an expression cannot match."""

from __future__ import annotations

import re

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from vllm_doctor.needles import needles
from vllm_doctor.rule_index import builtin, rules_folder
from vllm_doctor.rules import Needles


@pytest.mark.parametrize(("regex", "groups", "enough"), [
    ("fatal error", [["fatal error"]], True),
    (r"core\.py:", [["core.py:"]], True),
    (r"(?:CUDA|HIP) out of memory\.", [["CUDA out of memory.", "HIP out of memory."]], True),
    (r":_?load_models?", [[":load_model", ":load_models", ":_load_model", ":_load_models"]], True),
    (r"took (?P<seconds>[\d.]+) seconds", [["took "], [" seconds"]], False),
    (r"(?P<word>one|other)", [["one", "other"]], False),  # what is captured needs the match
    (r"(?s)^(?=.*:load)(?=.*:run\w+)(?!.*:save)", [[":load"], [":run"]], False),
    (r"load_\w+|run_\w+", [["load_", "run_"]], False),
    (r"(?:begin\d)?end", [["end"]], False),
    (r"(?:begin\d)+", [["begin"]], False),
    (r"begin|", (), False),
    (r"begin|\d", [], False),
    (r"(?i)begin", (), False),
    (r"(?i:begin) end", [[" end"]], False),
    (r"a\d+ of", [[" of"]], False),
    (r"[^x]begin", [["begin"]], False),
    (r"^begin", [["begin"]], False),
    (r"(?:0|1|2|3|4|5|6|7|8){3} of", [[" of"]], False),  # too many texts to tell each
])
def test_needles(regex: str, groups: list[list[str]], enough: bool) -> None:
    assert needles(regex) == Needles(groups, enough)


def test_all_groups_must_stand_in_the_text() -> None:
    found = Needles([["one", "other"], ["end"]])
    assert [found.stand_in(text) for text in ("one end", "the other end", "one", "end", "")] == [True, True, False, False, False]
    assert Needles().stand_in("")


_parts = st.sampled_from(["abc", "b", r"\d", "(?:abc|bcd)", "(?:cab)?", "[ab]", "[^a]", "(?P<x>ca|cb)", "(?=.*abc)", "(?!abc)", "(?:ab)+", "(?i:abc)", "a*", "^",
                          "|", r"\b", "(?:bc|c*)", "(?<=abc)", "(?:b?c){2}"])


@settings(max_examples=500)
@given(st.lists(_parts, min_size=1, max_size=5).map("".join), st.text("abcd1 ", max_size=12))
def test_no_match_without_them(regex: str, text: str) -> None:
    try:
        match = re.search(regex, text)
    except re.error:  # a name given twice
        return
    found = needles(regex)
    assert found.stand_in(text) or match is None
    assert not found.enough or match is not None or not found.stand_in(text)


def _samples() -> list[str]:
    """What the patterns of the rules were written for."""
    base = builtin()
    texts = [test["log"] for rule in base.rules.values() for test in rule.tests if "log" in test]
    for name in ("engine", "runtime"):
        with open(f"{rules_folder()}/facts/{name}.yaml", encoding="utf-8") as file:
            texts += [sample["log"] for entry in yaml.safe_load(file) for sample in entry["samples"]]
    return [line for text in texts for line in (text, *text.splitlines())]


def test_the_built_in_patterns_match_nowhere_without_theirs() -> None:
    base = builtin()
    patterns = [*(marker.pattern for marker in base.markers), *base.facts, *(wording.pattern for wording in base.wordings)]
    expressions = {(regex, needles) for pattern in patterns for regex, needles in (
        (pattern.regex, _hashable(pattern.needles)), (pattern.frames, _hashable(pattern.frames_needles)),
        (pattern.not_frames, _hashable(pattern.not_frames_needles))) if regex}
    calls = {f"vllm/v1/a.py:f\n{word}\nb.py:g" for _, found in expressions for words in found.groups for word in words if ":" in word}
    samples = list(dict.fromkeys((*_samples(), *calls)))
    assert len(expressions) > 800
    assert sum(needles != Needles() for _, needles in expressions) > 800
    for regex, found in expressions:
        search = re.compile(regex).search
        for sample in samples:
            if found.stand_in(sample):
                assert not found.enough or search(sample)
            else:
                assert not search(sample)


def _hashable(found: Needles) -> Needles:
    return Needles(tuple(map(tuple, found.groups)), found.enough)
