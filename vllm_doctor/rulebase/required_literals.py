"""By which words an expression matches.

Most expressions of a rule are tried in vain, and to look for a word costs a hundredth of what it costs to compile one.
The words are found when the index of the rules is made (`rule_compiler`).
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

_MOST = 64  # texts that a part of an expression may stand for, to be told one by one
_LEAST = 3  # characters of a word that is worth looking for


def required_literals(regex: str) -> Literals:
    """The words that an expression needs. Raises re.error."""
    tree = _parsed(regex)
    if tree.state.flags & re.IGNORECASE:
        return Literals()
    each = [(_texts(way), way) for way in _ways(tree)]
    enough = _once(text for texts, _ in each if texts is not None for text in texts)
    if not all(enough):  # it matches an empty text
        return Literals()
    if tree.state.groups > 1:  # what is captured needs the match
        enough = []
    others = [way for texts, way in each if texts is None or not enough]
    groups = list(_groups(others[0])) if len(others) == 1 else [_one_of_each(others)]
    return Literals([words for words in groups if not others or (words and min(map(len, words)) >= _LEAST)], enough)


def _ways(tree: Any) -> list[Any]:
    """The alternatives of an expression, each with what stands before all of them."""
    *head, (operation, given) = tree or [("", None)]
    if str(operation) != "BRANCH" or _texts(head) is None:
        return [tree]
    return [[*head, *branch] for branch in given[1]]


def _parsed(regex: str) -> Any:
    """The expression's tree: of items, each a name of an operation and its arguments."""
    return sre_parse.parse(regex)


def _groups(tree: Iterable[Any]) -> Iterable[list[str]]:
    """For each part of a sequence that must match: the words of which one stands there."""
    texts: list[str] = [""]  # what the parts since the last one of unknown text may read
    for operation, given in tree:
        more = _item_texts(str(operation), given)
        both = _joined(texts, more) if more is not None else None
        if both is not None:
            texts = both
            continue
        if all(texts):
            yield texts
        texts = more if more is not None else [""]
        if more is None:
            yield from _item_groups(str(operation), given)
    if all(texts):
        yield texts


def _item_groups(operation: str, given: Any) -> Iterable[list[str]]:
    if operation == "SUBPATTERN":
        return () if given[1] & re.IGNORECASE else _groups(given[3])
    if operation == "ASSERT":
        return _groups(given[1])
    if operation == "ATOMIC_GROUP":
        return _groups(given)
    if operation.endswith("REPEAT") and given[0] > 0:
        return _groups(given[2])
    if operation == "BRANCH":
        return [words] if (words := _one_of_each(given[1])) else ()
    return ()


def _one_of_each(branches: Iterable[Any]) -> list[str]:
    """Words of which each branch needs one; none where a branch needs none."""
    each = [max(_groups(branch), key=lambda words: min(map(len, words)), default=[]) for branch in branches]
    return _once(word for words in each for word in words) if all(each) else []


def _item_texts(operation: str, given: Any) -> list[str] | None:
    """All texts that an item matches; None where they are too many, or where more than its text counts."""
    if operation == "LITERAL":
        return [chr(given)]
    if operation == "IN" and all(str(kind) == "LITERAL" for kind, _ in given):
        return [chr(character) for _, character in given]
    if operation == "SUBPATTERN" and not given[1] and not given[2]:  # neither flags of its own
        return _texts(given[3])
    if operation == "BRANCH":
        each = [_texts(branch) for branch in given[1]]
        found = _once(text for texts in each if texts for text in texts)
        return None if None in each or len(found) > _MOST else found
    if operation in {"MAX_REPEAT", "MIN_REPEAT"} and given[:2] == (0, 1):
        texts = _texts(given[2])
        return None if texts is None else _once(["", *texts])
    return None


def _texts(tree: Iterable[Any]) -> list[str] | None:
    """All texts that a sequence matches; None where they are too many."""
    texts: list[str] | None = [""]
    for operation, given in tree:
        more = _item_texts(str(operation), given)
        texts = _joined(texts, more) if texts is not None and more is not None else None
    return texts


def _joined(heads: list[str], tails: list[str]) -> list[str] | None:
    return _once(map("".join, product(heads, tails))) if len(heads) * len(tails) <= _MOST else None


def _once(texts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(texts))
