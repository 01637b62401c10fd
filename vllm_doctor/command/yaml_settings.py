"""Settings at their paths in a YAML file, as text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple

from vllm_doctor.command.render import yaml_scalar


class YamlText(NamedTuple):
    """A value in YAML: a number or a word, or with `quoted` a text in any case."""

    text: str
    quoted: bool = False


def put(tree: dict[str, object], path: str, value: object) -> None:
    """Set the value at a path; `name[]` is an item of a list, the same one for all paths that go on below it."""
    key, _, rest = path.partition(".")
    if not key.endswith("[]"):
        if not rest:
            tree[key] = value
            return
        inner = tree.setdefault(key, {})
        assert isinstance(inner, dict)  # noqa: S101 - paths of one program do not contradict each other
        put(inner, rest, value)
        return
    items = tree.setdefault(key[:-2], [])
    assert isinstance(items, list)  # noqa: S101
    if not rest:
        items.append(value)
        return
    if not items:
        items.append({})
    put(items[0], rest, value)


def yaml_lines(value: object, indent: str = "") -> Iterator[str]:
    """Yield the lines of a tree of dictionaries and lists, whose leaves are texts."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if isinstance(inner, (dict, list)):
                yield f"{indent}{key}:"
                yield from yaml_lines(inner, indent + "  ")
            else:
                yield f"{indent}{key}: {_scalar(inner)}"
    elif isinstance(value, list):
        for item in value:
            if isinstance(item, dict):
                first, *rest = yaml_lines(item, indent + "  ")
                yield f"{indent}- {first.lstrip()}"
                yield from rest
            else:
                yield f"{indent}- {_scalar(item)}"


def _scalar(value: object) -> str:
    assert isinstance(value, YamlText)  # noqa: S101
    if value.quoted:
        return json.dumps(value.text, ensure_ascii=False)
    return value.text if value.text in {"true", "false"} else yaml_scalar(value.text, numbers=True)
