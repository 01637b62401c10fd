"""A record is what a NamedTuple is."""

from __future__ import annotations

import copy
import pickle
import typing

import pytest

from vllm_doctor.records import Record


class Ours(Record):
    """One of ours."""

    line: int
    text: str = "-"
    more: tuple[str, ...] = ()

    @property
    def length(self) -> int:
        return len(self.text)


class Theirs(typing.NamedTuple):
    """One of typing's."""

    line: int
    text: str = "-"
    more: tuple[str, ...] = ()


@pytest.mark.parametrize(("values", "named"), [
    ((1,), {}), ((1, "a"), {}), ((1, "a", ("b",)), {}), ((1,), {"more": ("b",)}), ((), {"text": "a", "line": 1}), ((1, "a"), {"more": ()}),
])
def test_made_alike(values: tuple, named: dict) -> None:
    ours, theirs = Ours(*values, **named), Theirs(*values, **named)
    assert tuple(ours) == ours == theirs
    assert (ours.line, ours.text, ours.more) == (theirs.line, theirs.text, theirs.more)
    assert ours._asdict() == theirs._asdict()
    assert ours._replace(text="c") == theirs._replace(text="c")
    assert repr(ours).removeprefix("Ours") == repr(theirs).removeprefix("Theirs")


@pytest.mark.parametrize(("values", "named"), [
    ((), {}), ((1, "a", (), 2), {}), ((1,), {"line": 2}), ((1,), {"other": 2}), ((), {"text": "a"}),
])
def test_refused_alike(values: tuple, named: dict) -> None:
    for kind in (Theirs, Ours):
        with pytest.raises(TypeError):
            kind(*values, **named)
    with pytest.raises(TypeError, match="other"):
        Ours(1)._replace(other=2)


def test_what_a_record_is() -> None:
    one = Ours(1, "text")
    assert type(one._replace(line=2)) is Ours
    assert one.length == 4
    assert (Ours._fields, Ours._field_defaults, Ours.__match_args__) == (Theirs._fields, Theirs._field_defaults, Theirs.__match_args__)
    assert type(copy.deepcopy(one)) is type(pickle.loads(pickle.dumps(one))) is Ours  # noqa: S301 - our own
    assert copy.copy(one) == one
    assert hash(one) == hash((1, "text", ()))
    with pytest.raises(AttributeError):
        one.line = 3
    with pytest.raises(AttributeError):
        one.other = 3
