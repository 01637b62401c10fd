"""The names of `typing`, without it: to import `typing` and make fifty classes with it is a tenth of a start.

A type checker reads typing's own. While the program runs, they stand in annotations, which are texts that nobody reads.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import IO, Any, AnyStr, Final, Generic, Literal, NamedTuple, Protocol, TypeGuard, TypeVar, cast
else:
    from vllm_doctor.records import Record as NamedTuple

    class _Name:
        """Stands for a name that says something to a type checker only."""

        def __init__(self, *_: object, **__: object) -> None:
            """A TypeVar."""

        def __class_getitem__(cls, of: object) -> type:
            return cls

    IO = Any = AnyStr = Final = Generic = Literal = Protocol = TypeGuard = TypeVar = _Name

    def cast(_: object, value: object) -> object:
        """The value as it is."""
        return value


__all__ = [
    "IO", "TYPE_CHECKING", "Any", "AnyStr", "Final", "Generic", "Literal", "NamedTuple", "Protocol", "TypeGuard",
    "TypeVar", "cast",
]  # fmt: skip
