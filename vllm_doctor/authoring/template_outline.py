"""Show the templates of rules to a reader who has no log: names for values, every branch as text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from jinja2 import Environment, nodes

from vllm_doctor.messages import Translate, message

_MOST = 64  # variants of a title
_MOST_WORDINGS = 4  # of a paragraph
_ENDS = (".", ":", "!", "。", "：", "！")
_DEVICES = {
    "cuda": "CUDA", "rocm": "ROCm", "xpu": "XPU", "tpu": "TPU", "npu": "Ascend NPU", "hpu": "Gaudi", "cpu": "CPU",
}


def title(template: str) -> str:
    """Return a template in one line, with the last branch of each choice: the one that needs no fact."""
    return _joined(_nodes(template), None)


def titles(template: str) -> list[str]:
    """Return a template in one line for each combination of its branches, in their order, at most `_MOST`.

    A part that only some logs have is included.
    """
    found = [""]
    for part in _nodes(template):
        bodies = _bodies(part) if isinstance(part, nodes.If) else [[part]]
        texts = [text for body in bodies for text in _variants(body)]
        found = [start + text for start in found for text in texts][:_MOST]
    return list(dict.fromkeys(" ".join(text.split()) for text in found))


def prose(template: str, translate: Translate = str) -> str:
    """Return a template of paragraphs; the branches of a choice follow each other, separated by "Or".

    A choice inside a sentence gives the paragraph once for each branch.
    """
    blocks = []
    for parts in _paragraphs(_nodes(template)):
        texts = _wordings(parts)
        text = _or(texts, translate) if texts else _joined(parts, translate)
        blocks += [block.strip() for block in re.split(r"\n\s*\n", text) if block.strip()]
    return "\n\n".join(blocks)


def _paragraphs(parts: Iterable[nodes.Node]) -> list[list[nodes.Node]]:
    """Return the parts of each paragraph; blank lines inside a choice do not count."""
    found: list[list[nodes.Node]] = [[]]
    for part in parts:
        if isinstance(part, nodes.TemplateData):
            first, *rest = re.split(r"\n\s*\n", part.data)
            found[-1].append(nodes.TemplateData(first))
            found += [[nodes.TemplateData(text)] for text in rest]
        else:
            found[-1].append(part)
    return found


def _wordings(parts: Sequence[nodes.Node]) -> list[str]:
    """Return a paragraph once for each branch of the choices inside its sentences; empty for none or too many."""
    choices = [part for part in parts if isinstance(part, nodes.If)]
    is_inside = len([part for part in parts if not _is_blank(part)]) > len(choices)
    if not choices or not is_inside or any(label for choice in choices for label, _ in _branches(choice, str)):
        return []
    texts = list(dict.fromkeys(text.strip() for text in _variants(parts)))
    return texts if 1 < len(texts) <= _MOST_WORDINGS and not any("\n\n" in text for text in texts) else []


def steps(template: str, translate: Translate = str) -> list[str]:
    """Return the lines of a step: one for each branch of a choice that is the entire step, else a single line."""
    parts = [part for part in _nodes(template) if not _is_blank(part)]
    if len(parts) != 1 or not isinstance(parts[0], nodes.If):
        return [_joined(parts, translate)]
    lines = []
    for label, body in _branches(parts[0], translate):
        text = _joined(body, translate)
        if text.strip():
            lines.append(_labelled(label, text, translate))
    return lines


def _or(texts: Sequence[str], translate: Translate) -> str:
    """Return texts of which one is shown."""
    return "\n\n".join([texts[0], *(message("Or: {text}", text=text).translated(translate) for text in texts[1:])])


def _labelled(label: str, text: str, translate: Translate) -> str:
    return message("{name}: {reason}", name=label, reason=text).translated(translate) if label else text


def _variants(body: Sequence[nodes.Node]) -> list[str]:
    found = [""]
    for part in body:
        if isinstance(part, nodes.Output):
            texts = _variants(part.nodes)
        elif isinstance(part, nodes.If):
            texts = [text for inner in _bodies(part) for text in _variants(inner)]
        else:
            texts = [_text(part, str)]
        found = [start + text for start in found for text in texts][:_MOST]
    return found


def _bodies(part: nodes.If) -> list[Sequence[nodes.Node]]:
    """Return the body of each branch of a choice."""
    found: list[Sequence[nodes.Node]] = [one.body for one in (part, *part.elif_)]
    return [*found, part.else_] if part.else_ else found


@lru_cache(maxsize=1)
def _environment() -> Environment:
    return Environment(autoescape=False)  # noqa: S701 - templates are only parsed here, never rendered


def _nodes(template: str) -> Sequence[nodes.Node]:
    parts: list[nodes.Node] = []
    for part in _environment().parse(template).body:
        parts += part.nodes if isinstance(part, nodes.Output) else [part]
    return parts


def _is_blank(part: nodes.Node) -> bool:
    return isinstance(part, nodes.TemplateData) and not part.data.strip()


def _joined(parts: Iterable[nodes.Node], translate: Translate | None) -> str:
    """Return nodes as text with every branch of a choice; without `translate`, with the last one only."""
    return "".join(_text(part, translate) for part in parts)


def _text(part: nodes.Node, translate: Translate | None) -> str:
    if isinstance(part, nodes.Output):
        return _joined(part.nodes, translate)
    if isinstance(part, nodes.TemplateData):
        return part.data
    if isinstance(part, nodes.If):
        return _choice(part, translate)
    if isinstance(part, nodes.Const):
        return str(part.value)
    names = [name.name for name in part.find_all(nodes.Name)]
    if isinstance(part, nodes.Name):
        names = [part.name]
    return f"<{names[0]}>" if names else ""


def _choice(part: nodes.If, translate: Translate | None) -> str:
    if translate is None:
        return _joined(part.else_, None)
    branches = _branches(part, translate)
    texts = []
    for label, body in branches:
        text = _joined(body, translate)
        if text.strip():
            texts.append(_labelled(label, text.strip(), translate) if label and len(branches) > 1 else text)
    if len(texts) < 2:
        return "".join(texts)
    texts = [texts[0], *(text.strip() for text in texts[1:])]
    return _or(texts, translate) if any(text.rstrip().endswith(_ENDS) for text in texts) else " / ".join(texts)


def _branches(part: nodes.If, translate: Translate) -> list[tuple[str, Sequence[nodes.Node]]]:
    """Return (platform or "", body) of each branch of a choice."""
    named = [(_platform(one.test), one.body) for one in (part, *part.elif_)]
    platforms = [platform for platform, _ in named]
    found: list[tuple[str, Sequence[nodes.Node]]] = [
        (message("On {platform}", platform=platform).translated(translate) if platform else "", body)
        for platform, body in named]
    if part.else_:
        others = message("Elsewhere") if "CUDA" in platforms else message("On {platform}", platform="CUDA")
        found.append((others.translated(translate) if any(platforms) else "", part.else_))
    return found


def _platform(test: nodes.Node) -> str:
    """Return "ROCm" for a comparison of the fact `device` with that platform; "" for any other condition."""
    if not isinstance(test, nodes.Compare) or len(test.ops) != 1 or test.ops[0].op != "eq":
        return ""
    value = test.ops[0].expr
    is_device = any(name.name == "device" for name in [test.expr, *test.expr.find_all(nodes.Name)]
                    if isinstance(name, nodes.Name))
    if not is_device or not isinstance(value, nodes.Const):
        return ""
    return _DEVICES.get(str(value.value), str(value.value))
