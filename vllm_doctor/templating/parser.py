"""Parse the expressions of rules with Jinja's parser into small trees, and check the texts that contain them.

Only syntax that the evaluator supports is accepted; the rest of Jinja's language is rejected.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from jinja2 import Environment, nodes
from jinja2.exceptions import TemplateSyntaxError

from vllm_doctor.messages import text
from vllm_doctor.templating.filters import parameters

Tree = list[Any]
"""A kind and its parts, as JSON values: `["mul", ["name", "max_model_len"], ["const", 0.5]]`."""
MAX_NUMBER = 1e18  # larger than any quantity in a log; bounds the results of multiplication
_MAX_LENGTH = 500
_MAX_DEPTH = 100  # nested lists of a tree
_MAX_BRANCHES = 20  # nested conditions of a text
_ARITHMETIC: dict[type[nodes.Node], str] = {
    nodes.Add: "add", nodes.Sub: "sub", nodes.Mul: "mul", nodes.Div: "div", nodes.FloorDiv: "floordiv"}


class ExpressionError(ValueError):
    """An expression that is not supported; the message is the reason in one line."""


@lru_cache(maxsize=1)
def _parser() -> Environment:
    environment = Environment(autoescape=False)  # noqa: S701 - only its parser is used, nothing is rendered
    environment.globals.clear()
    return environment


def _parse(source: str, parser: Environment) -> nodes.Template:
    try:
        return parser.parse(source)
    except TemplateSyntaxError as error:
        raise ExpressionError(str(error.message)) from error
    except (SyntaxError, ValueError) as error:  # digits of another script, or thousands of them
        raise ExpressionError("a number cannot be read") from error
    except RecursionError as error:
        raise ExpressionError("nested too deeply") from error


def _bounded(tree: Tree) -> Tree:
    """Return the tree. Raises ExpressionError if it is nested too deeply to evaluate."""
    level: list[Any] = [tree]
    depth = 0
    while level:
        if depth > _MAX_DEPTH:
            raise ExpressionError("nested too deeply")
        level = [part for item in level for part in (item.values() if isinstance(item, dict) else item)
                 if isinstance(part, (list, dict))]
        depth += 1
    return tree


def read_expression(source: str) -> Tree:
    """Return the tree of one expression. Raises ExpressionError with the reason."""
    if len(source) > _MAX_LENGTH:
        raise ExpressionError(f"longer than {_MAX_LENGTH} characters")
    body = _parse("{{ " + source + " }}", _parser()).body
    if len(body) != 1 or not isinstance(body[0], nodes.Output) or len(body[0].nodes) != 1:
        raise ExpressionError("not one expression")
    return _bounded(_tree(body[0].nodes[0]))


def read_text(source: str) -> list[Tree]:
    """Return the trees of the expressions in a text, including its conditions. Raises ExpressionError."""
    return _trees(_parse(source, _parser()))


def checked_template(source: str, environment: Environment) -> nodes.Template:
    """Return the parsed text, for this environment to compile. Raises ExpressionError."""
    template = _parse(source, environment)
    _trees(template)
    return template


def _trees(template: nodes.Template) -> list[Tree]:
    return [_bounded(tree) for tree in _expressions(template.body)]


def _expressions(body: list[nodes.Node], depth: int = 0) -> Iterator[Tree]:
    if depth > _MAX_BRANCHES:
        raise ExpressionError("nested too deeply")
    for node in body:
        if isinstance(node, nodes.Output):
            yield from (_tree(item) for item in node.nodes if not isinstance(item, nodes.TemplateData))
        elif isinstance(node, nodes.If):
            yield _tree(node.test)
            yield from _expressions([*node.body, *node.elif_, *node.else_], depth + 1)
        else:
            raise _refused(node)


def _refused(node: nodes.Node) -> ExpressionError:
    return ExpressionError(f"{type(node).__name__.lower()} is not part of the language")


def _tree(node: nodes.Node) -> Tree:
    if isinstance(node, nodes.Const):
        if not isinstance(node.value, (int, float, str, bool)):
            raise ExpressionError(f"the constant {node.value!r} is not a number or a text")
        if not isinstance(node.value, str) and node.value > MAX_NUMBER:
            raise ExpressionError(f"a number is larger than {MAX_NUMBER:g}")
        return ["const", text(node.value) if isinstance(node.value, str) else node.value]
    if isinstance(node, nodes.Name):
        return ["name", node.name]
    if isinstance(node, nodes.Filter):
        return _filter(node)
    if isinstance(node, nodes.Test):
        if node.name not in {"defined", "undefined"} or not isinstance(node.node, nodes.Name):
            raise ExpressionError(f"only `NAME is defined` can be asked, not `is {node.name}`")
        return [node.name, _tree(node.node)]
    if isinstance(node, nodes.Compare):
        return ["compare", _tree(node.expr), *([operand.op, _tree(operand.expr)] for operand in node.ops)]
    if isinstance(node, (nodes.And, nodes.Or)):
        return ["and" if isinstance(node, nodes.And) else "or", _tree(node.left), _tree(node.right)]
    if isinstance(node, (nodes.Not, nodes.Neg)):
        return ["not" if isinstance(node, nodes.Not) else "neg", _tree(node.node)]
    if isinstance(node, (nodes.List, nodes.Tuple)):
        return ["list", *map(_tree, node.items)]
    if isinstance(node, nodes.BinExpr) and type(node) in _ARITHMETIC:
        return [_ARITHMETIC[type(node)], _tree(node.left), _tree(node.right)]
    raise _refused(node)


def _filter(node: nodes.Filter) -> Tree:
    if node.node is None or node.dyn_args is not None or node.dyn_kwargs is not None:
        raise ExpressionError(f"`{node.name}` is not applied to a value")
    known = parameters(node.name)
    if not known:
        raise ExpressionError(f"unknown filter `{node.name}`")
    if 1 + len(node.args) > len(known):
        raise ExpressionError(f"`{node.name}` takes at most {len(known) - 1} arguments")
    for pair in node.kwargs:
        if pair.key not in known:
            raise ExpressionError(f"`{node.name}` has no argument `{pair.key}`")
    return ["filter", node.name, [_tree(child) for child in (node.node, *node.args)],
            {pair.key: _tree(pair.value) for pair in node.kwargs}]
