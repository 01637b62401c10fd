"""The JSON Schema of a rule file, and a check of YAML against it that reports line and column.

`vllm-doctor rules schema` prints the same schema for editors.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import yaml

from vllm_doctor.errors import RuleError, did_you_mean
from vllm_doctor.phases import PHASES

_ID = r"^[a-z0-9]+(?:-[a-z0-9]+)*$"
_TEXT: dict[str, Any] = {"type": "string"}
_EXPRESSIONS: dict[str, Any] = {"type": "array", "items": _TEXT}
_CLAUSE = r"\s*[<>=!~]=?\s*\d[\w.]*\s*"
_SPECIFIER: dict[str, Any] = {"type": "string", "pattern": f"^{_CLAUSE}(?:,{_CLAUSE})*$"}
_VALUE: dict[str, Any] = {"type": ["string", "number", "boolean"]}

_PATTERN: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["id", "anchor", "pattern"],
    "properties": {
        "id": {"type": "string", "pattern": _ID, "description": "Name of this wording, unique in the rule."},
        "groups": {"type": "array", "minItems": 1, "items": {"type": "string", "pattern": _ID},
                   "description": "Names shared with other patterns, for `patterns` and `'NAME' in groups`."},
        "vllm": {**_SPECIFIER, "description": "The releases that print this wording."},
        "anchor": {"type": "string", "minLength": 4, "description": "A literal that every such line contains."},
        "pattern": {"type": "string", "description": "Regular expression; its named groups are fact names."},
        "frames": {"type": "string", "description": "Expression that the traceback's calls must match."},
        "not_frames": {"type": "string", "description": "Expression that the traceback's calls must not match."},
        "level": {"type": "array", "items": {"enum": ["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL", ""]}},
        "phase": {"type": "array", "items": {"enum": list(PHASES)}, "description": "Phases it counts in."},
    },
}
_PATTERNS: dict[str, Any] = {"type": "array", "minItems": 1, "items": _PATTERN}

_OWN_PATTERNS: dict[str, Any] = {
    "type": "array", "minItems": 1, "items": {"type": "string", "pattern": _ID},
    "description": "One of these patterns or groups of the rule has matched; any if left out.",
}

_FIX: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["id", "title"],
    "properties": {
        "id": {"type": "string", "pattern": _ID},
        "title": {**_TEXT, "description": "One imperative line."},
        "patterns": _OWN_PATTERNS,
        "when": {**_EXPRESSIONS, "description": "All must hold for the fix to be offered."},
        "vllm": {**_SPECIFIER, "description": "Releases in which the fix works."},
        "set": {"type": "object", "additionalProperties": _VALUE, "description": "--flag: expression"},
        "unset": {"type": "array", "items": _TEXT},
        "env": {"type": "object", "additionalProperties": _VALUE},
        "action": {"type": "string", "pattern": _ID, "description": "A name of rules/actions.yaml."},
        "why": _TEXT,
        "cost": _TEXT,
        "safety": {"enum": ["safe", "review", "manual"]},
        "verify": _TEXT,
        "suffices": {**_EXPRESSIONS, "description": "All hold where the log proves that it suffices (`order: loss`)."},
    },
}

_CASE: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "patterns": _OWN_PATTERNS,
        "when": {**_EXPRESSIONS, "description": "All must hold."},
        "title": {**_TEXT, "description": "In place of the rule's title."},
        "explain": {**_TEXT, "description": "What `{{ case }}` stands for in the rule's `explain`."},
    },
}

_TEST: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["name", "log", "fires"],
    "properties": {
        "name": _TEXT,
        "log": _TEXT,
        "command": _TEXT,
        "vllm": _TEXT,
        "fires": {"type": ["string", "null"], "description": "The pattern's id, or null: this rule stays silent."},
        "facts": {"type": "object"},
        "first_fix": {"type": "object", "description": "--flag or NAME: value, or action: name, of the first fix."},
        "no_fix": {"type": "array", "items": _TEXT, "description": "Fix ids that must not be offered."},
    },
}

RULE_SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "A vllm-doctor rule",
    "type": "object",
    "additionalProperties": False,
    "required": ["id", "title", "severity", "phase", "role", "match", "explain", "tests"],
    "properties": {
        "id": {"type": "string", "pattern": _ID, "description": "Also the file's name."},
        "title": {**_TEXT, "description": "What is wrong; no advice, no full stop."},
        "severity": {"enum": ["error", "warning", "info"]},
        "phase": {"enum": list(PHASES)},
        "role": {"enum": ["cause", "cascade", "advice"]},
        "status": {"enum": ["draft", "stable", "retired"]},
        "fallback": {"type": ["boolean", "array"], "items": {"type": "string", "pattern": _ID},
                     "description": "The cause only when no other error is. "
                                    "A list has the patterns of which this is true."},
        "survives": {"type": "boolean", "description": "The server may serve in spite of it."},
        "of_request": {"type": ["boolean", "array"], "items": {"type": "string", "pattern": _ID},
                       "description": "Only a request or one answer is at fault: a warning while the server serves. "
                                      "A list has the patterns of which this is true."},
        "match": {
            "type": "object",
            "additionalProperties": False,
            "required": ["any"],
            "properties": {
                "any": {**_PATTERNS, "description": "One of these fires the rule."},
                "also": {**_PATTERNS, "description": "Each of these must be in the run as well."},
                "absent": {**_PATTERNS, "description":
                           "None of these may be in the run; one with `vllm` counts only in these releases."},
                "when": {**_EXPRESSIONS, "description": "All must hold, at the end of the run."},
                "unless": {**_EXPRESSIONS, "description": "None may hold."},
            },
        },
        "refines": {"type": "array", "items": {"type": "string", "pattern": _ID},
                    "description": "General rules that this one hides."},
        "general": {"type": "array", "items": {"type": "string", "pattern": _ID}, "minItems": 1,
                    "description": "The patterns in which another rule may refine this one (default: all); "
                                   "the others are reported beside it."},
        "let": {"type": "object", "additionalProperties": {
            "type": ["string", "number", "boolean", "array"], "items": {"type": ["string", "number", "boolean"]}}},
        "explain": {**_TEXT, "description": "What happened, in two to four sentences with the numbers of the log."},
        "cases": {"type": "array", "minItems": 1, "items": _CASE,
                  "description": "Texts of some patterns. The first case with a title gives the title, the first with "
                                 "an `explain` gives `{{ case }}`."},
        "background": {**_TEXT, "description": "Further facts; shown with -v, in HTML and on the rule's page."},
        "order": {"enum": ["written", "loss"], "description": "Fixes as written, or by what the user loses."},
        "fixes": {"type": "array", "items": _FIX},
        "verify": _TEXT,
        "tests": {"type": "array", "minItems": 1, "items": _TEST},
        "references": {"type": "array", "items": _TEXT},
    },
}

_NAMES = {
    "object": "a mapping",
    "array": "a list",
    "string": "a text",
    "number": "a number",
    "boolean": "true or false",
    "null": "null",
    "date": "a date (in quotes it is a text)",
    "tagged": "a tagged value",
}
_TAGS = {
    "tag:yaml.org,2002:map": "object",
    "tag:yaml.org,2002:seq": "array",
    "tag:yaml.org,2002:str": "string",
    "tag:yaml.org,2002:int": "number",
    "tag:yaml.org,2002:float": "number",
    "tag:yaml.org,2002:bool": "boolean",
    "tag:yaml.org,2002:null": "null",
    "tag:yaml.org,2002:timestamp": "date",
}


class _NoAliases(yaml.composer.Composer):
    """Composes nodes of a parser's events and rejects aliases, which let a short file expand without limit."""

    def compose_node(self: Any, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Return the next node. Raises ComposerError for an alias."""
        if self.check_event(yaml.AliasEvent):
            mark = self.get_event().start_mark
            raise yaml.composer.ComposerError(None, None, "aliases are not allowed", mark)
        return yaml.composer.Composer.compose_node(self, parent, index)


class _Loader(_NoAliases, yaml.SafeLoader):
    """Reads slowly, and says best what is wrong."""


@lru_cache(maxsize=1)
def _fast_loader() -> Any:
    """Return a loader that takes the events from libyaml, if PyYAML has it."""
    safe: Any = getattr(yaml, "CSafeLoader", None)
    if safe is None:
        return _Loader

    class Loader(_NoAliases, safe):  # type: ignore[misc] # the base class is chosen at run time
        def __init__(self, text: str) -> None:
            _NoAliases.__init__(self)
            safe.__init__(self, text)

    return Loader


def yaml_problem(error: Exception) -> str:
    """Return the problem of a YAML error in one line, prefixed with `:line:column: `."""
    mark = getattr(error, "problem_mark", None)
    where = f":{mark.line + 1}:{mark.column + 1}" if mark else ":1:1"
    return f"{where}: not YAML: {' '.join(str(getattr(error, 'problem', None) or error).split())}"


def check(text: str, path: str, schema: dict[str, Any] = RULE_SCHEMA) -> None:
    """Raise RuleError with `path:line:column` for the first violation of the schema."""
    try:
        root = _composed(text)
    except yaml.YAMLError as error:
        raise RuleError(f"{path}{yaml_problem(error)}") from error
    except RecursionError as error:
        raise RuleError(f"{path}:1:1: nested too deeply") from error
    if root is None:
        raise RuleError(f"{path}:1:1: the file is empty")
    _check(root, schema, path, "the rule")


def _composed(text: str) -> yaml.Node | None:
    """Return the root node of a text. Raises YAMLError, RecursionError."""
    try:
        return yaml.compose(text, Loader=_fast_loader())
    except yaml.YAMLError:
        return yaml.compose(text, Loader=_Loader)


def _raise_problem(path: str, node: yaml.Node, problem: str) -> None:
    raise RuleError(f"{path}:{node.start_mark.line + 1}:{node.start_mark.column + 1}: "
                    f"{' '.join(problem.split())}")


def _kind(node: yaml.Node) -> str:
    return _TAGS.get(node.tag, "tagged")


def _check(node: yaml.Node, schema: dict[str, Any], path: str, description: str) -> None:
    kind = _kind(node)
    expected = schema.get("type")
    allowed = [expected] if isinstance(expected, str) else expected
    if kind == "tagged" or ("enum" in schema and kind in {"array", "object", "date"}):
        _raise_problem(path, node, f"{description} cannot be {_NAMES[kind]}")
    if allowed and kind not in allowed:
        names = " or ".join(_NAMES[name] for name in allowed)
        _raise_problem(path, node, f"{description} must be {names}, not {_NAMES[kind]}")
    if isinstance(node, yaml.ScalarNode):
        _check_scalar(node, schema, path, description)
    elif isinstance(node, yaml.SequenceNode):
        if len(node.value) < schema.get("minItems", 0):
            _raise_problem(path, node, f"{description} must not be empty")
        for item in node.value:
            _check(item, schema.get("items", {}), path, f"an item of {description}")
    elif isinstance(node, yaml.MappingNode):
        _check_mapping(node, schema, path, description)


def _check_scalar(node: yaml.ScalarNode, schema: dict[str, Any], path: str, description: str) -> None:
    value = node.value
    if "enum" in schema and value not in schema["enum"]:
        _raise_problem(path, node, f"{description} cannot be `{value}`{did_you_mean(value, schema['enum'])}; "
                          f"it is one of {', '.join(str(v) for v in schema['enum'] if v)}")
    if "pattern" in schema and not re.search(schema["pattern"], value):
        _raise_problem(path, node, f"{description} `{value}` does not have the form {schema['pattern']}")
    if len(value) < schema.get("minLength", 0):
        _raise_problem(path, node, f"{description} `{value}` is shorter than {schema['minLength']} characters")


def _check_mapping(node: yaml.MappingNode, schema: dict[str, Any], path: str, description: str) -> None:
    properties = schema.get("properties", {})
    extra = schema.get("additionalProperties", True)
    seen: set[str] = set()
    for key, value in node.value:
        if _kind(key) != "string":
            _raise_problem(path, key, f"a key of {description} must be a text, not {_NAMES[_kind(key)]}")
        name = key.value
        seen.add(name)
        if name in properties:
            _check(value, properties[name], path, f"`{name}`")
        elif extra is False:
            _raise_problem(path, key, f"{description} has no key `{name}`{did_you_mean(name, list(properties))}")
        elif isinstance(extra, dict):
            _check(value, extra, path, f"`{name}`")
    for name in schema.get("required", ()):
        if name not in seen:
            _raise_problem(path, node, f"{description} lacks `{name}`")
