from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.specifiers import InvalidSpecifier, SpecifierSet

from vllm_doctor.catalog import flags
from vllm_doctor.catalog.releases import Releases, admitted

PLAIN = st.sampled_from([*flags.releases(), "0.4.0", "0.4.0.post1", "0.11.3", "0.9", "1", "0.9.0.0", "0.5.3.post0"])
CLAUSE = st.tuples(st.sampled_from([">=", "<=", "==", "<"]), PLAIN).map("".join)


@given(st.lists(CLAUSE, min_size=1, max_size=3).map(", ".join))
def test_plain_specifiers_admit_what_packaging_says(specifier):
    wanted = frozenset(SpecifierSet(specifier).filter(flags.releases(), prereleases=True))
    assert admitted(specifier) == wanted


@pytest.mark.parametrize(
    ("specifier", "admits", "refuses"),
    [
        (">0.5.3", "0.5.4", "0.5.3.post1"),
        ("~=0.8.1", "0.8.5.post1", "0.9.0"),
        ("!=0.8.1", "0.8.0", "0.8.1"),
        ("==0.8.*", "0.8.5.post1", "0.9.0"),
        (">=0.9.0rc1", "0.9.0", "0.8.5.post1"),
    ],
)
def test_other_specifiers(specifier, admits, refuses):
    assert admits in admitted(specifier)
    assert refuses not in admitted(specifier)


def test_no_specifier_is_refused():
    with pytest.raises(InvalidSpecifier):
        admitted("newer than 0.8")


def test_admits_all_none_or_some():
    releases = Releases.every().narrow(">=0.8.0,<0.9.0")
    assert releases.words() == "0.8.0 to 0.8.5.post1"
    assert (releases.admits(">=0.7.3"), releases.admits(">=0.9.0"), releases.admits(">=0.8.3")) == (True, False, None)
