"""Versions of builds from a checkout without tags, which everything takes for no release."""

from __future__ import annotations

import pytest

from vllm_doctor.catalog import flags, name_table
from vllm_doctor.catalog.flag_table import release_index
from vllm_doctor.catalog.release_numbers import is_untagged
from vllm_doctor.facts.store import convert


@pytest.mark.parametrize("version", ["0.1.dev1", "v0.1.dev3", "0.1.dev1+gabc", "0.0.1.dev5", "0.0.0", "0.1.0.dev2"])
def test_a_build_without_tags_has_no_release(version: str) -> None:
    assert is_untagged(version)
    assert convert("version", version) is None
    assert flags.releases()[release_index(version)] == flags.releases()[-1]
    assert name_table.possible_releases(version) == frozenset()


@pytest.mark.parametrize("version", ["0.1.2", "0.10.dev1", "0.01.0", "0.20.0.dev3", "1.0.0", "10.0.0"])
def test_other_builds_have_one(version: str) -> None:
    assert not is_untagged(version)
