"""Evaluate the expressions of rules.

An expression has Jinja's syntax (`max_model_len * 0.5 | floor_to(16)`). Jinja's parser reads it into a tree (`parser`),
which is evaluated here. The language is closed: names, numbers, strings, `+ - * / //`, comparisons, `in`, `and/or/not`,
`is defined` and our own filters. Nothing else can be written, so nothing else can run.

A name that the log does not show is UNKNOWN. Arithmetic with UNKNOWN is UNKNOWN, `and`/`or` follow Kleene's
three-valued logic. Division by zero and a filter that returns None give UNKNOWN too: "cannot be computed".
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import chain
from typing import Any, Final, NamedTuple

from vllm_doctor.templating.filters import REFUSALS, find_filter, numeric_parameters, optional_parameters, parameters
from vllm_doctor.templating.parser import MAX_NUMBER, ExpressionError, Tree, read_expression


class _Unknown:
    """The type of UNKNOWN, the value of a fact that the log does not show."""

    def __repr__(self) -> str:
        return "UNKNOWN"

    def __bool__(self) -> bool:
        return False


UNKNOWN: Final = _Unknown()


_ARITHMETIC: Mapping[str, Callable[[Any, Any], Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "floordiv": operator.floordiv,
}
_PASSED_ON: Mapping[str, tuple[int, ...]] = {  # the arguments that a filter returns
    "given": (0,), "in_words": (0, 1), "or_else": (0, 1)}
_COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "lteq": operator.le,
    "gt": operator.gt,
    "gteq": operator.ge,
    "in": lambda a, b: a in b,
    "notin": lambda a, b: a not in b,
}


class Expression(NamedTuple):
    """A parsed expression."""

    source: str
    tree: Tree

    @property
    def names(self) -> frozenset[str]:
        """Return the names of the facts that the expression uses."""
        return _names_in(self.source)

    def value(self, facts: Mapping[str, Any]) -> Any:
        """Return the value given `facts`, or UNKNOWN."""
        return evaluate(self.tree, facts)

    def holds(self, facts: Mapping[str, Any]) -> bool:
        """Return whether the expression is certainly true; UNKNOWN counts as false."""
        result = self.value(facts)
        return result is not UNKNOWN and bool(result)


@lru_cache(maxsize=4096)
def parse(source: str) -> Expression:
    """Parse one expression. Raises ExpressionError with the reason."""
    return Expression(source, read_expression(source))


@lru_cache(maxsize=4096)
def _names_in(source: str) -> frozenset[str]:
    return frozenset(names(parse(source).tree))


def names(tree: Tree) -> Iterator[str]:
    """Yield the names that a tree uses."""
    return (node[1] for node in _nodes(tree) if node[0] == "name")


def compared_with(name: str, tree: Tree) -> Iterator[str]:
    """Yield the strings that a tree compares the variable `name` with."""
    for node in _nodes(tree):
        if node[0] == "compare" and node[1] == ["name", name]:
            yield from (part[1] for part in _nodes(node) if part[0] == "const" and isinstance(part[1], str))


def looked_up_in(name: str, tree: Tree) -> Iterator[str]:
    """Yield the strings that a tree looks up in the variable `name`, a list."""
    for node in _nodes(tree):
        if node[0] == "compare" and node[1][0] == "const" and node[2][1] == ["name", name]:
            yield node[1][1]


def yielded(tree: Tree) -> Iterator[str]:
    """Yield the strings that may be the value of a tree, or a part of it: not those that are compared."""
    kind, *parts = tree
    if kind == "const" and isinstance(parts[0], str):
        yield parts[0]
    elif kind == "filter":
        for place in _PASSED_ON.get(parts[0], ()):
            yield from chain.from_iterable(map(yielded, parts[1][place:place + 1]))
    elif kind in {"and", "or"}:
        yield from chain.from_iterable(map(yielded, parts))


def _nodes(tree: Tree) -> Iterator[Tree]:
    if tree and isinstance(tree[0], str):
        yield tree
    for part in tree:
        if isinstance(part, list):
            yield from _nodes(part)
        elif isinstance(part, dict):
            yield from _nodes(list(part.values()))


def evaluate(tree: Tree, facts: Mapping[str, Any]) -> Any:
    """Return the value of a tree given `facts`, or UNKNOWN."""
    kind, *parts = tree
    if kind == "const":
        return parts[0]
    if kind == "name":
        return facts.get(parts[0], UNKNOWN)
    if kind == "filter":
        return _apply(parts[0], parts[1], parts[2], facts)
    if kind == "and":
        return _kleene(parts, facts, stop=False)
    if kind == "or":
        return _kleene(parts, facts, stop=True)
    if kind == "compare":
        return _compare(parts[0], parts[1:], facts)
    values = [evaluate(part, facts) for part in parts]
    if kind == "defined":
        return values[0] is not UNKNOWN
    if kind == "undefined":
        return values[0] is UNKNOWN
    if any(value is UNKNOWN for value in values):
        return UNKNOWN
    if kind == "not":
        return not values[0]
    if kind == "neg":
        return arithmetic("sub", 0, values[0])
    if kind == "list":
        return tuple(values)
    return arithmetic(kind, *values)


def arithmetic(kind: str, left: Any, right: Any) -> Any:
    """Compute a sum, difference, product or quotient.

    UNKNOWN for operands that are not numbers, for failures, and for results above MAX_NUMBER.
    """
    numbers = (int, float)
    if not isinstance(left, numbers) or not isinstance(right, numbers):
        return UNKNOWN
    try:
        result = _ARITHMETIC[kind](left, right)
    except (ZeroDivisionError, OverflowError):
        return UNKNOWN
    return result if abs(result) <= MAX_NUMBER else UNKNOWN


def _kleene(parts: Tree, facts: Mapping[str, Any], *, stop: bool) -> Any:
    left = evaluate(parts[0], facts)
    if left is not UNKNOWN and bool(left) is stop:
        return left
    right = evaluate(parts[1], facts)
    if right is not UNKNOWN and bool(right) is stop:
        return right
    return UNKNOWN if left is UNKNOWN or right is UNKNOWN else right


def _compare(first: Tree, operands: Tree, facts: Mapping[str, Any]) -> Any:
    left = evaluate(first, facts)
    for operation, operand in operands:
        right = evaluate(operand, facts)
        if left is UNKNOWN or right is UNKNOWN:
            return UNKNOWN
        try:
            if not _COMPARE[operation](left, right):
                return False
        except TypeError:
            return UNKNOWN
        left = right
    return True


def _apply(name: str, arguments: Tree, keywords: Mapping[str, Tree], facts: Mapping[str, Any]) -> Any:
    values = [evaluate(tree, facts) for tree in arguments]
    return apply_filter(name, values, {key: evaluate(tree, facts) for key, tree in keywords.items()})


def apply_filter(name: str, values: Iterable[Any], keywords: Mapping[str, Any]) -> Any:
    """Call a filter. An UNKNOWN argument becomes None if that is its default; otherwise the result is UNKNOWN."""
    filter_ = find_filter(name)
    if filter_ is None:
        raise ExpressionError(f"unknown filter `{name}`")
    named = {**dict(zip(parameters(name), values, strict=False)), **keywords}
    for key, value in named.items():
        if value is UNKNOWN:
            if key not in optional_parameters(name):
                return UNKNOWN
            named[key] = None
        elif key in numeric_parameters(name) and not isinstance(value, (int, float)):
            return UNKNOWN  # a string times a number could be a very long string
    try:
        result = filter_(**named)
    except REFUSALS:
        return UNKNOWN
    return UNKNOWN if result is None else result
