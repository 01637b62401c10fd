"""Tuples whose items have names, as `typing.NamedTuple` makes them, at a sixth of what such a class costs a start."""

from __future__ import annotations

from operator import itemgetter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

try:
    from _collections import _tuplegetter as _item  # type: ignore[import-not-found]  # what namedtuple takes: quicker
except ImportError:  # another Python
    def _item(at: int, _doc: str) -> property:
        return property(itemgetter(at))

_ITEMS = [_item(at, "") for at in range(32)]  # more fields has no record


class _Fields(type):
    """Makes the class of a record: what is annotated in its body is a field."""

    def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> _Fields:
        if bases:
            fields = tuple(body["__annotations__"])
            defaults = {field: body[field] for field in fields if field in body}
            body.update(zip(fields, _ITEMS, strict=False))
            body.update(__slots__=(), __match_args__=fields, _fields=fields, _field_defaults=defaults,
                        _ends=tuple(defaults.values()))
        return super().__new__(cls, name, bases, body)


class Record(tuple, metaclass=_Fields):  # type: ignore[type-arg]  # its items have types of their own
    """To a type checker it is a NamedTuple (`typed`), so it has what those have, as far as that is used here."""

    __slots__ = ()
    if TYPE_CHECKING:
        _fields: tuple[str, ...]
        _field_defaults: dict[str, Any]
        _ends: tuple[Any, ...]

    def __new__(cls, *values: Any, **named: Any) -> Any:
        """Give values in the order of the fields or by name."""
        lacking = len(cls._fields) - len(values)
        if lacking or named:
            values += cls._ends[-lacking:] if 0 < lacking <= len(cls._ends) and not named else cls._rest(values, named)
        return tuple.__new__(cls, values)

    @classmethod
    def _rest(cls, values: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
        """The values of the fields behind the first ones. Raises TypeError."""
        defaults = cls._field_defaults
        try:
            rest = [named.pop(field) if field in named else defaults[field] for field in cls._fields[len(values):]]
        except KeyError as error:
            raise TypeError(f"{cls.__name__} lacks a value for {error}") from None
        if named or len(values) > len(cls._fields):
            raise TypeError(f"{cls.__name__} has no place for {', '.join(named) or f'{len(values)} values'}")
        return tuple(rest)

    def _replace(self, **named: Any) -> Record:
        """The same with other values. Raises TypeError."""
        replaced = tuple.__new__(type(self), map(named.pop, self._fields, self))
        if named:
            raise TypeError(f"{type(self).__name__} has no field {', '.join(named)}")
        return replaced

    def _asdict(self) -> dict[str, Any]:
        """The values by name."""
        return dict(zip(self._fields, self, strict=True))

    def __getnewargs__(self) -> tuple[Any, ...]:
        return tuple(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self._asdict().items())})"
