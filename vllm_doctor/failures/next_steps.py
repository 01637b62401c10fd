"""Next steps for a failure that no rule knows: what to try, in the form of a rule's fixes. None of them is the cure.

next_steps.yaml has the steps and says when each is offered; the steps that turn off the part of vLLM that failed are
those of features.yaml.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache, partial
from typing import Any

from vllm_doctor.catalog.features import Switch, feature
from vllm_doctor.catalog.yaml_catalog import read_catalog
from vllm_doctor.command.flags import keyword_of
from vllm_doctor.failures.model import Failure
from vllm_doctor.failures.next_step_names import is_of_plugin, names_of
from vllm_doctor.messages import N_
from vllm_doctor.rulebase.model import FixRule, fix_of
from vllm_doctor.templating.evaluator import parse

Node = Mapping[str, Any]
"""A part of the tree of next_steps.yaml, whose first lines explain it."""

_AS_A_TEST = N_("If the failure no longer occurs, this feature causes it; the server runs without it.")
_ALWAYS_ON = frozenset({"compilation", "cuda-graphs", "attention", "prefix-caching", "sampling", "model-class",
                        "metrics", "scheduler", "moe"})
"""Parts that most releases have on unless a flag says otherwise, so that a switch may be set that nobody had set."""
_OPT_IN = frozenset({"lora", "speculative-decoding", "kv-transfer", "offload", "tool-calling", "reasoning"})
"""Parts that a failure in their code proves to be on: they are off unless a flag turns them on."""


def next_steps(failure: Failure, given: Mapping[str, Any] | None, facts: Mapping[str, Any],
               text: str) -> tuple[list[FixRule], Mapping[str, Any]]:
    """Return what to try, the most informative first, and the values by name that the steps use.

    `given` are the settings by keyword, None if the log does not show them; `text` is the message with its calls.
    """
    table = _table()
    names = names_of(failure, given, facts)
    found = {name: re.search(regex, failure.message) is not None for name, regex in table["in_message"].items()}
    found |= {name: re.search(regex, text) is not None for name, regex in table["in_text"].items()}
    known = {**facts, **names, **found}
    unique: dict[str, FixRule] = {}
    for step in _steps(table["steps"], table["groups"], known, partial(_switches, failure, given, facts, text)):
        unique.setdefault(step.id, step)
    return list(unique.values()), names


@lru_cache(maxsize=1)
def _table() -> Node:
    table: Node = read_catalog("next_steps.yaml")
    return table


def _steps(node: Node, groups: Mapping[str, Node], known: Mapping[str, Any],
           switches: partial[Iterator[FixRule]]) -> Iterator[FixRule]:
    """Yield the steps of a node of the tree, if it holds."""
    if not _holds(node, known):
        return
    if "first" in node:
        parts = [part for part in node["first"] if _holds(part, known)][:1]
    elif "all" in node:
        parts = node["all"]
    elif "use" in node:
        parts = [groups[node["use"]]]
    elif "switches" in node:
        yield from switches()
        return
    else:
        yield fix_of({"id": node.get("action"), **node, "when": ()})
        return
    for part in parts:
        yield from _steps(part, groups, known, switches)


def _holds(node: Node, known: Mapping[str, Any]) -> bool:
    conditions = node.get("when", ())
    return all(parse(source).holds(known) for source in ([conditions] if isinstance(conditions, str) else conditions))


def _switches(failure: Failure, given: Mapping[str, Any] | None, facts: Mapping[str, Any],
              text: str) -> Iterator[FixRule]:
    """Yield the steps that turn off the feature that failed, if the user has enabled it."""
    known = feature(failure.feature) if failure.feature else None
    if known is None or failure.kind in {"request", "environment"}:
        return
    device = str(facts.get("device") or ("" if is_of_plugin(failure) else "cuda"))
    for number, switch in enumerate(known.without):
        if (switch.device and switch.device != device) or (switch.paths and not re.search(switch.paths, text)):
            continue
        drop = _on(switch.unset, given, is_implied=known.id in _OPT_IN)
        if switch.unset and not drop:
            continue
        if "--enforce-eager" in (switch.set or {}) and facts.get("enforce_eager") is True:  # perhaps not by the flag
            continue
        is_in_use = known.id in _ALWAYS_ON or bool(switch.paths) or _given(known.flags, given)
        if (switch.set or switch.env) and not is_in_use:
            continue
        yield _switch(known.id, number, switch, drop)


def _switch(name: str, number: int, switch: Switch, drop: Iterable[str]) -> FixRule:
    return FixRule(
        f"without-{name}" + (f"-{number + 1}" if number else ""), f"As a test, {switch.title}", vllm=switch.vllm,
        set=switch.set or {}, unset=tuple(drop), env=switch.env or {},
        why=_AS_A_TEST)


def _on(names: Iterable[str], given: Mapping[str, Any] | None, *, is_implied: bool) -> list[str]:
    """Return the flags that the user set; the first if the log shows no settings but the failure implies it."""
    names = list(names)
    if given is None:
        return names[:1] if is_implied else []
    return [name for name in names if _given((name,), given)]


def _given(names: Iterable[str], given: Mapping[str, Any] | None) -> bool:
    if given is None:
        return False
    return any(given.get(keyword_of(name)) not in (None, False, "") for name in names)
