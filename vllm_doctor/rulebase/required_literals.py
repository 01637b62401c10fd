"""Find the literals that a match of a regular expression requires.

Most expressions never match in a log, and searching for a literal takes a hundredth of the time of compiling an
expression. The literals are computed once, when the rules are compiled (`compiler`).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from itertools import product
from typing import Any

from vllm_doctor.rulebase.model import Literals

if sys.version_info >= (3, 11):
    from re import _parser as sre_parse  # type: ignore[attr-defined]  # the parser is not public
else:
    import sre_parse

_MAX_TEXTS = 64  # enumerated texts that a part of an expression can match
_MIN_LITERAL = 3  # characters of a literal that is worth searching for


def required_literals(regex: str) -> Literals:
    """Return the literals that a match of an expression requires. Raises re.error."""
    tree = _parsed(regex)
    if tree.state.flags & re.IGNORECASE:
        return Literals()
    each = [(_texts(alternative), alternative) for alternative in _alternatives(tree)]
    sufficient = _unique(text for texts, _ in each if texts is not None for text in texts)
    if not all(sufficient):  # it matches the empty text
        return Literals()
    if tree.state.groups > 1:  # captured groups need a real match
        sufficient = []
    others = [alternative for texts, alternative in each if texts is None or not sufficient]
    groups = list(_groups(others[0])) if len(others) == 1 else [_one_of_each(others)]
    return Literals([group for group in groups if not others or (group and min(map(len, group)) >= _MIN_LITERAL)],
                    sufficient)


def _alternatives(tree: Any) -> list[Any]:
    """Return the alternatives of an expression, each with their common head."""
    *head, (operation, argument) = tree or [("", None)]
    if str(operation) != "BRANCH" or _texts(head) is None:
        return [tree]
    return [[*head, *branch] for branch in argument[1]]


def _parsed(regex: str) -> Any:
    """Return the expression's parse tree: items of an operation's name and its argument."""
    return sre_parse.parse(regex)


def _groups(tree: Iterable[Any]) -> Iterable[list[str]]:
    """Yield, for each part of a sequence that must match, the literals of which it contains one."""
    texts: list[str] = [""]  # the texts that the parts since the last unknown text can match
    for operation, argument in tree:
        more = _item_texts(str(operation), argument)
        both = _joined(texts, more) if more is not None else None
        if both is not None:
            texts = both
            continue
        if all(texts):
            yield texts
        texts = more if more is not None else [""]
        if more is None:
            yield from _item_groups(str(operation), argument)
    if all(texts):
        yield texts


def _item_groups(operation: str, argument: Any) -> Iterable[list[str]]:
    if operation == "SUBPATTERN":
        return () if argument[1] & re.IGNORECASE else _groups(argument[3])
    if operation == "ASSERT":
        return _groups(argument[1])
    if operation == "ATOMIC_GROUP":
        return _groups(argument)
    if operation.endswith("REPEAT") and argument[0] > 0:
        return _groups(argument[2])
    if operation == "BRANCH":
        return [literals] if (literals := _one_of_each(argument[1])) else ()
    return ()


def _one_of_each(branches: Iterable[Any]) -> list[str]:
    """Return literals of which every branch requires one; empty if a branch requires none."""
    each = [max(_groups(branch), key=lambda literals: min(map(len, literals)), default=[]) for branch in branches]
    return _unique(literal for literals in each for literal in literals) if all(each) else []


def _item_texts(operation: str, argument: Any) -> list[str] | None:
    """Return all texts that an item matches; None if there are too many or its match depends on the context."""
    if operation == "LITERAL":
        return [chr(argument)]
    if operation == "IN" and all(str(kind) == "LITERAL" for kind, _ in argument):
        return [chr(character) for _, character in argument]
    if operation == "SUBPATTERN" and not argument[1] and not argument[2]:  # without flags of its own
        return _texts(argument[3])
    if operation == "BRANCH":
        each = [_texts(branch) for branch in argument[1]]
        combined = _unique(text for texts in each if texts for text in texts)
        return None if None in each or len(combined) > _MAX_TEXTS else combined
    if operation in {"MAX_REPEAT", "MIN_REPEAT"} and argument[:2] == (0, 1):
        texts = _texts(argument[2])
        return None if texts is None else _unique(["", *texts])
    return None


def _texts(tree: Iterable[Any]) -> list[str] | None:
    """Return all texts that a sequence matches; None if there are too many."""
    texts: list[str] | None = [""]
    for operation, argument in tree:
        more = _item_texts(str(operation), argument)
        texts = _joined(texts, more) if texts is not None and more is not None else None
    return texts


def _joined(heads: list[str], tails: list[str]) -> list[str] | None:
    return _unique(map("".join, product(heads, tails))) if len(heads) * len(tails) <= _MAX_TEXTS else None


def _unique(texts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(texts))
