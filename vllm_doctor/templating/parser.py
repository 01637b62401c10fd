"""Reads the expressions and the words of rules with Jinja's parser, into the trees that `expressions` and `words` use.

Only what can be computed is read; anything else of Jinja's language is refused. The trees of the built-in rules are
made once, with their index, so that a start does without Jinja.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from jinja2 import Environment, nodes
from jinja2.exceptions import TemplateSyntaxError

from vllm_doctor.templating.evaluator import ARITHMETIC, MAX_NUMBER, ExpressionError, Tree, parameters

_MAX_LENGTH = 500
_MAX_DEPTH = 100  # lists within lists of a tree
_ARITHMETIC: dict[type[nodes.Node], str] = {getattr(nodes, kind): name for kind, name in zip(
    ("Add", "Sub", "Mul", "Div", "FloorDiv"), ARITHMETIC, strict=True)}


@lru_cache(maxsize=1)
def _parser() -> Environment:
    made = Environment(autoescape=False)  # noqa: S701 - only its parser is used, nothing is rendered
    made.globals.clear()
    return made


def _parse(source: str) -> list[nodes.Node]:
    try:
        return _parser().parse(source).body
    except TemplateSyntaxError as error:
        raise ExpressionError(str(error.message)) from error
    except (SyntaxError, ValueError) as error:  # digits of another script, or thousands of them
        raise ExpressionError("a number cannot be read") from error
    except RecursionError as error:
        raise ExpressionError("nested too deeply") from error


def _bounded(tree: Tree) -> Tree:
    """The tree. Raises ExpressionError when to compute it would take too deep a stack."""
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
    """The tree of one expression. Raises ExpressionError with the reason."""
    if len(source) > _MAX_LENGTH:
        raise ExpressionError(f"longer than {_MAX_LENGTH} characters")
    body = _parse("{{ " + source + " }}")
    if len(body) != 1 or not isinstance(body[0], nodes.Output) or len(body[0].nodes) != 1:
        raise ExpressionError("not one expression")
    node = body[0].nodes[0]
    if isinstance(node, nodes.TemplateData):
        raise ExpressionError("empty")
    return _bounded(_tree(node))


def read_words(source: str) -> Tree:
    """The tree of words. Raises ExpressionError.

    `["words", part …]`; a part is `["text", …]`, `["if", test, words, other words]` or an expression.
    """
    return _bounded(_words(_parse(source)))


def _words(body: list[nodes.Node]) -> Tree:
    made: Tree = ["words"]
    for node in body:
        if isinstance(node, nodes.Output):
            made += [["text", item.data] if isinstance(item, nodes.TemplateData) else _tree(item)
                     for item in node.nodes]
        elif isinstance(node, nodes.If):
            other = _words(node.else_)
            for branch in reversed(node.elif_):
                other = ["words", ["if", _tree(branch.test), _words(branch.body), other]]
            made.append(["if", _tree(node.test), _words(node.body), other])
        else:
            raise _refused(node)
    return made


def _refused(node: nodes.Node) -> ExpressionError:
    return ExpressionError(f"{type(node).__name__.lower()} is not part of the language")


def _tree(node: nodes.Node) -> Tree:
    if isinstance(node, nodes.Const):
        if not isinstance(node.value, (int, float, str, bool)):
            raise ExpressionError(f"the constant {node.value!r} is not a number or a text")
        if not isinstance(node.value, str) and node.value > MAX_NUMBER:
            raise ExpressionError(f"a number is larger than {MAX_NUMBER:g}")
        return ["const", node.value]
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
    if 1 + len(node.args) > len(known):
        raise ExpressionError(f"`{node.name}` takes at most {len(known) - 1} arguments")
    for pair in node.kwargs:
        if pair.key not in known:
            raise ExpressionError(f"`{node.name}` has no argument `{pair.key}`")
    return ["filter", node.name, [_tree(child) for child in (node.node, *node.args)],
            {pair.key: _tree(pair.value) for pair in node.kwargs}]
