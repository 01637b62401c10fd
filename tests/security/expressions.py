"""The regular expressions of the program itself, each with the methods it is used by."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest

import vllm_doctor
from vllm_doctor import redact
from vllm_doctor.redact import program_options, sentences, token_shapes
from vllm_doctor.text.patterns import _LazyPattern

METHODS = {"search", "match", "fullmatch", "sub", "findall", "finditer", "split"}
_USES = re.compile(rf"(?<![\w.])(\w+)\.({'|'.join(sorted(METHODS))})\b")  # to parse every module takes seconds
_DEPTH = 4
# Reached through tuples, where the methods cannot be read from the names.
_USED = {"tracebacks._CALLS": {"match"}, "tracebacks._JSON_CALLS": {"match"}, "server_starts._STAGES": {"search"}}


class Expression(NamedTuple):
    """One expression: where it stands, its source, and the methods."""

    place: str
    source: str | bytes
    flags: int
    methods: frozenset[str]


def expressions() -> list[Expression]:
    """Return all expressions that the modules hold or write out where they use them, each source once."""
    places: dict[tuple[str | bytes, int], list[str]] = {}
    used: dict[str, set[str]] = {}
    for found in pkgutil.walk_packages(vllm_doctor.__path__, "vllm_doctor."):
        if found.name.endswith("__main__"):
            continue
        module = importlib.import_module(found.name)
        text = Path(str(module.__file__)).read_text(encoding="utf-8")
        for name, method in _USES.findall(text):
            used.setdefault(f"{found.name}.{name}", set()).add(method)
        for name, value in vars(module).items():
            if not name.startswith("__"):
                for source, flags in _held(value):
                    places.setdefault((source, flags), []).append(f"{found.name}.{name}")
        for line, method, source in _written_out(text):
            place = f"{found.name}:{line}"
            places.setdefault((source, re.compile(source).flags), []).append(place)
            used[place] = {method}
    return [Expression(names[0], source, flags, frozenset(_methods(names, used)))
            for (source, flags), names in sorted(places.items(), key=lambda item: item[1])]


def _methods(names: list[str], used: Mapping[str, set[str]]) -> set[str]:
    given = {method for name in names for method in used.get(name, ())}
    given |= {method for name in names for end, methods in _USED.items() if name.endswith(end) for method in methods}
    return given or {"search", "finditer"}


def _held(value: Any, depth: int = 0) -> Iterator[tuple[str | bytes, int]]:
    """The expressions in a value of a module, be it in tuples, mappings or objects."""
    if isinstance(value, (_LazyPattern, re.Pattern)):
        yield value.pattern, value.flags
    elif depth < _DEPTH and isinstance(value, (tuple, list, set, frozenset)):
        for item in value:
            yield from _held(item, depth + 1)
    elif depth < _DEPTH and isinstance(value, dict):
        for item in value.values():
            yield from _held(item, depth + 1)
    elif depth < _DEPTH and hasattr(value, "__dict__") and not isinstance(value, type) and type(value).__module__.startswith("vllm_doctor"):
        for item in vars(value).values():
            yield from _held(item, depth + 1)


def _written_out(text: str) -> Iterator[tuple[int, str, str | bytes]]:
    """Calls as `re.search("…", text)`: the line, the method, the expression."""
    if not any(name == "re" for name, _ in _USES.findall(text)):
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name) \
                and node.func.value.id == "re" and node.func.attr in METHODS and isinstance(node.args[0], ast.Constant):
            yield node.lineno, node.func.attr, node.args[0].value


def _modules_of(package: ModuleType) -> Iterator[ModuleType]:
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        yield importlib.import_module(found.name)


def expressions_of_redaction() -> Iterator[Expression]:
    """Return the expressions that `redact` makes of the rows of its tables."""
    rows: list[tuple[str, str, str]] = [
        *((f"TOKENS {prefixes[0]}", token_shapes.token_pattern(prefixes, characters, least), "finditer")
          for _, prefixes, characters, least in token_shapes.TOKENS),
        *((f"SHAPES {place}", shape.pattern, "finditer") for place, shape in enumerate(token_shapes.SHAPES)),
        *((f"OPTIONS {cue} program", program_options.program_pattern(program), "search") for cue, program, _ in program_options.OPTIONS),
        *((f"OPTIONS {cue} option", program_options.option_pattern(option), "finditer") for cue, _, option in program_options.OPTIONS),
        *((f"PLACES {cue}", place, "finditer") for cue, place in (*program_options.PLACES, *program_options.DOUBTFUL_PLACES)),
        *((f"sentences {number}", place, "finditer") for number, place in enumerate(sentences.PLACES)),
        *(row for module in _modules_of(redact) for row in _compiled_by_name(module)),
    ]
    for place, source, method in rows:
        yield Expression(f"redact {place}", source, re.compile(source).flags, frozenset({method}))


def _compiled_by_name(module: ModuleType) -> Iterator[tuple[str, str, str]]:
    """What a module of `redact` uses as `compiled(EXPRESSION).method(…)`: the place, the source, the method. Rows of tables are no constants."""
    tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in METHODS and isinstance(node.value, ast.Call) \
                and isinstance(node.value.func, ast.Name) and node.value.func.id == "compiled":
            try:
                source = eval(compile(ast.Expression(node.value.args[0]), module.__name__, "eval"), dict(vars(module)))  # noqa: S307
            except NameError:
                continue
            yield f"{module.__name__.rpartition('.')[2]}:{node.lineno}", source, node.attr


class _Recorder:
    """Compiles like `re.compile`, and notes which expressions the program's functions compile and how they are used."""

    def __init__(self) -> None:
        self.used: dict[tuple[str | bytes, int], set[str]] = {}
        self._compile = re.compile

    def __call__(self, source: Any, flags: int = 0) -> Any:
        compiled = self._compile(source, flags)
        caller = sys._getframe(1).f_globals.get("__name__", "")
        return _Recorded(compiled, self.used) if caller.startswith("vllm_doctor.") and caller != "vllm_doctor.text.patterns" else compiled


class _Recorded:
    """A compiled expression that notes its methods."""

    def __init__(self, compiled: Any, used: dict[tuple[str | bytes, int], set[str]]) -> None:
        self._made, self._used = compiled, used

    def __getattr__(self, name: str) -> Any:
        if name in METHODS:
            self._used.setdefault((self._made.pattern, self._made.flags), set()).add(name)
        return getattr(self._made, name)


def compiled_while(run: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> list[Expression]:
    """Return the expressions that functions of the program compile while something runs."""
    recorder = _Recorder()
    _clear_caches()
    with monkeypatch.context() as patched:
        patched.setattr(re, "compile", recorder)
        run()
    _clear_caches()
    return [Expression("at run time", source, flags, frozenset(methods)) for (source, flags), methods in recorder.used.items()]


def _clear_caches() -> None:
    for found in pkgutil.walk_packages(vllm_doctor.__path__, "vllm_doctor."):
        if not found.name.endswith("__main__"):
            for value in vars(importlib.import_module(found.name)).values():
                if hasattr(value, "cache_clear"):
                    value.cache_clear()
