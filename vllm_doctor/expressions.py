"""The small arithmetic of rules.

An expression is written in Jinja's expression syntax (`max_model_len * 0.5 | floor_to(16)`) and read by Jinja's own
parser, but it is walked here, over a closed list of node types: names, numbers, whole strings, `+ - * / //`,
comparisons, `in`, `and/or/not`, `is defined` and our own filters. Nothing else can be written, so nothing else can run.

A name the log does not show is UNKNOWN, and UNKNOWN spreads: arithmetic with it is UNKNOWN, `and`/`or` follow Kleene's
three-valued logic. Division by zero and a filter that answers None are UNKNOWN too: "cannot be computed".
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from jinja2 import Environment, nodes
from jinja2.exceptions import TemplateSyntaxError

from vllm_doctor.filters import FILTERS


class _Unknown:
    """The value of what the log does not say."""

    def __repr__(self) -> str:
        return "UNKNOWN"

    def __bool__(self) -> bool:
        return False


UNKNOWN: Final = _Unknown()


class ExpressionError(ValueError):
    """An expression that is not in the language, with the reason in one line."""


_MAX_LENGTH = 500
_MAX_NUMBER = 1e18  # no quantity of a log is larger; bounds what multiplication can build

_BINARY: dict[type[nodes.Node], Callable[[Any, Any], Any]] = {
    nodes.Add: operator.add,
    nodes.Sub: operator.sub,
    nodes.Mul: operator.mul,
    nodes.Div: operator.truediv,
    nodes.FloorDiv: operator.floordiv,
}
_ALLOWED: tuple[type[nodes.Node], ...] = (
    *_BINARY, nodes.Neg, nodes.Not, nodes.And, nodes.Or, nodes.Compare, nodes.Operand, nodes.List, nodes.Tuple)
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "lteq": operator.le,
    "gt": operator.gt,
    "gteq": operator.ge,
    "in": lambda a, b: a in b,
    "notin": lambda a, b: a not in b,
}
_PARSER = Environment(autoescape=False)  # noqa: S701 - only its parser is used, nothing is rendered
_PARSER.globals.clear()


@dataclass(frozen=True)
class Expression:
    """One checked expression; `names` are the facts it reads."""

    source: str
    node: nodes.Expr
    names: frozenset[str]

    def value(self, facts: Mapping[str, Any]) -> Any:
        """Its value given `facts`, or UNKNOWN."""
        return _evaluate(self.node, facts)

    def holds(self, facts: Mapping[str, Any]) -> bool:
        """Whether it is certainly true: UNKNOWN counts as false."""
        result = self.value(facts)
        return result is not UNKNOWN and bool(result)


@lru_cache(maxsize=4096)
def parse(source: str) -> Expression:
    """Read one expression. Raises ExpressionError with the reason."""
    if len(source) > _MAX_LENGTH:
        raise ExpressionError(f"longer than {_MAX_LENGTH} characters")
    try:
        tree = _PARSER.parse("{{ " + source + " }}")
    except TemplateSyntaxError as error:
        raise ExpressionError(str(error.message)) from error
    body = tree.body
    if len(body) != 1 or not isinstance(body[0], nodes.Output) or len(body[0].nodes) != 1:
        raise ExpressionError("not one expression")
    node = body[0].nodes[0]
    if isinstance(node, nodes.TemplateData):
        raise ExpressionError("empty")
    names: set[str] = set()
    _check(node, names)
    return Expression(source, node, frozenset(names))


def _check(node: nodes.Node, names: set[str]) -> None:
    """Raise ExpressionError for anything outside the language; collect the names read."""
    if isinstance(node, nodes.Const):
        if not isinstance(node.value, (int, float, str, bool)):
            raise ExpressionError(f"the constant {node.value!r} is not a number or a text")
        return
    if isinstance(node, nodes.Name):
        names.add(node.name)
        return
    if isinstance(node, nodes.Filter):
        _check_filter(node, names)
        return
    if isinstance(node, nodes.Test):
        if node.name not in {"defined", "undefined"} or not isinstance(node.node, nodes.Name):
            raise ExpressionError(f"only `NAME is defined` can be asked, not `is {node.name}`")
        names.add(node.node.name)
        return
    if not isinstance(node, _ALLOWED):
        raise ExpressionError(f"{type(node).__name__.lower()} is not part of the language")
    for child in node.iter_child_nodes():
        _check(child, names)


def _check_filter(node: nodes.Filter, names: set[str]) -> None:
    if node.name not in FILTERS:
        raise ExpressionError(f"unknown filter `{node.name}`")
    if node.node is None or node.dyn_args is not None or node.dyn_kwargs is not None:
        raise ExpressionError(f"`{node.name}` is not applied to a value")
    parameters, _ = _signature(node.name)
    if 1 + len(node.args) > len(parameters):
        raise ExpressionError(f"`{node.name}` takes at most {len(parameters) - 1} arguments")
    for pair in node.kwargs:
        if pair.key not in parameters:
            raise ExpressionError(f"`{node.name}` has no argument `{pair.key}`")
        _check(pair.value, names)
    for child in (node.node, *node.args):
        _check(child, names)


@lru_cache(maxsize=256)
def _signature(name: str) -> tuple[dict[str, inspect.Parameter], bool]:
    parameters = dict(inspect.signature(FILTERS[name]).parameters)
    return parameters, bool(parameters)


def _evaluate(node: nodes.Node, facts: Mapping[str, Any]) -> Any:
    if isinstance(node, nodes.Const):
        return node.value
    if isinstance(node, nodes.Name):
        return facts.get(node.name, UNKNOWN)
    if isinstance(node, nodes.Filter):
        return _apply(node, facts)
    if isinstance(node, nodes.Test):
        assert isinstance(node.node, nodes.Name)  # noqa: S101 - `_check` allows nothing else
        known = facts.get(node.node.name, UNKNOWN) is not UNKNOWN
        return known if node.name == "defined" else not known
    if isinstance(node, nodes.And):
        return _kleene(node, facts, stop=False)
    if isinstance(node, nodes.Or):
        return _kleene(node, facts, stop=True)
    if isinstance(node, nodes.Not):
        value = _evaluate(node.node, facts)
        return UNKNOWN if value is UNKNOWN else not value
    if isinstance(node, nodes.Neg):
        value = _evaluate(node.node, facts)
        return UNKNOWN if value is UNKNOWN else -value
    if isinstance(node, nodes.Compare):
        return _compare(node, facts)
    if isinstance(node, (nodes.List, nodes.Tuple)):
        items = [_evaluate(item, facts) for item in node.items]
        return UNKNOWN if any(item is UNKNOWN for item in items) else tuple(items)
    assert isinstance(node, nodes.BinExpr)  # noqa: S101 - `_check` allows nothing else
    left, right = _evaluate(node.left, facts), _evaluate(node.right, facts)
    if left is UNKNOWN or right is UNKNOWN:
        return UNKNOWN
    return _arithmetic(_BINARY[type(node)], left, right)


def _arithmetic(operation: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
    numbers = (int, float)
    if not isinstance(left, numbers) or not isinstance(right, numbers):
        return UNKNOWN
    try:
        result = operation(left, right)
    except (ZeroDivisionError, OverflowError):
        return UNKNOWN
    return result if abs(result) <= _MAX_NUMBER else UNKNOWN


def _kleene(node: nodes.And | nodes.Or, facts: Mapping[str, Any], *, stop: bool) -> Any:
    left = _evaluate(node.left, facts)
    if left is not UNKNOWN and bool(left) is stop:
        return left
    right = _evaluate(node.right, facts)
    if right is not UNKNOWN and bool(right) is stop:
        return right
    return UNKNOWN if left is UNKNOWN or right is UNKNOWN else right


def _compare(node: nodes.Compare, facts: Mapping[str, Any]) -> Any:
    left = _evaluate(node.expr, facts)
    for operand in node.ops:
        right = _evaluate(operand.expr, facts)
        if left is UNKNOWN or right is UNKNOWN:
            return UNKNOWN
        try:
            if not _COMPARE[operand.op](left, right):
                return False
        except TypeError:
            return UNKNOWN
        left = right
    return True


def _apply(node: nodes.Filter, facts: Mapping[str, Any]) -> Any:
    """Call a filter. An UNKNOWN argument is None where its parameter's default is None, else spreads."""
    assert node.node is not None  # noqa: S101 - `_check_filter` saw to it
    parameters, _ = _signature(node.name)
    positional = [_evaluate(child, facts) for child in (node.node, *node.args)]
    named: dict[str, Any] = dict(zip(parameters, positional, strict=False))
    named.update({str(pair.key): _evaluate(pair.value, facts) for pair in node.kwargs})
    for key, value in named.items():
        if value is UNKNOWN:
            if parameters[key].default is not None:
                return UNKNOWN
            named[key] = None
    try:
        result = FILTERS[node.name](**named)
    except (ZeroDivisionError, OverflowError, TypeError, ValueError):
        return UNKNOWN
    return UNKNOWN if result is None else result
