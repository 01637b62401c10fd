"""Which names each vLLM release has, and what an error about a name says of the installed release.

    lifetime("vllm.v1.engine.async_llm.AsyncLLM").first                  -> "0.7.0"
    direction("ImportError", "cannot import name 'X' from 'vllm.y' (/path)", "0.12.0", "plugin/worker.py")

`direction` answers for these messages, and returns None for any other and whenever the release decides nothing:

    ImportError           cannot import name 'X' from 'vllm.y' (path)
    ModuleNotFoundError   No module named 'vllm.z'
    AttributeError        module 'vllm.y' has no attribute 'X'; 'C' object, type object 'C' has no attribute 'X'
    TypeError             C.f() got an unexpected keyword argument 'x', missing 1 required positional argument: 'x';
                          Can't instantiate abstract class C with abstract method f

and for the first three with a package that the release asks for (`transformers`) in place of `vllm`. Pass the release
as the log prints it, None when unknown, and as `importing_file` the deepest frame's file, None when unknown.

The table (names.jsonl.xz, made by tools/build_names.py) is read at the first question.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.resources import files
from typing import Any, Literal

Kind = Literal[
    "older",  # the name ended with `last`: the code needs an older vLLM
    "newer",  # the name begins with `first`: the code needs a newer vLLM
    "range",  # the release is unknown, and the name has both a beginning and an end
    "moved",  # as older, and the user's release has it as `moved_to`
    "incomplete",  # the release has the name: the installation is incomplete, or of two releases
    "shadowed",  # the `vllm` that was imported is another file or folder
    "not-installed",  # this Python has no vLLM
    "conditional",  # the release has the name only where `condition` holds
    "v0-engine",  # the release's V0 engine has the attribute, its V1 engine does not
    "plugin-older",  # vLLM passes or asks for it since `first`; the subclass is written for an older vLLM
    "dependency",  # another package is not the version that the release asks for: `requirements`
    "unknown",  # no vLLM release has the name
]
Subject = Literal["name", "parameter", "required parameter", "abstract method", "package"]

LONGEST_MESSAGE = 4096
LONGEST_OVERLAP = 14  # releases in which a moved name is kept in its old place too
MOST_ROWS = 400  # rows that are looked through for a name that many modules have

_LEFT, _RIGHT = (b" ", b'"'), (b" ", b'"', b"=")  # what a word stands between

Indices = frozenset[int]


@dataclass(frozen=True)
class Lifetime:
    """The releases that have a name, as spans of first and last release, oldest first."""

    spans: tuple[tuple[str, str], ...]

    @property
    def first(self) -> str:
        """Return the first release that has the name."""
        return self.spans[0][0]

    @property
    def last(self) -> str:
        """Return the last release that has the name; the newest of the table while the name exists."""
        return self.spans[-1][1]


@dataclass(frozen=True)
class Direction:
    """What an error about a name says; facts only, `sentence` is the plain wording of them.

    `first` and `last` are the releases in which the code works; None for an end that is open. `requirements` are
    pip requirements, without quotes; empty when no other version helps. For kind "dependency", `asked` is what the
    release itself asks for and `tested` the versions that its tests ran with; `requirements` joins the two.
    """

    kind: Kind
    name: str
    subject: Subject = "name"
    release: str | None = None
    first: str | None = None
    last: str | None = None
    requirements: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()
    tested: tuple[str, ...] = ()
    moved_to: str = ""
    condition: str = ""
    path: str = ""

    @property
    def command(self) -> str:
        """Return the pip command for `requirements`, quoted for a shell; "" when there is none."""
        return "pip install " + " ".join(f"'{one}'" for one in self.requirements) if self.requirements else ""

    @property
    def sentence(self) -> str:
        """Return the direction in one or two sentences, without the command."""
        return _sentence(self)


# -- the table -----------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _table() -> bytes:
    import lzma  # noqa: PLC0415 - some builds of Python lack it, and few logs need it

    return b"\n" + lzma.decompress(files("vllm_doctor.catalog").joinpath("names.jsonl.xz").read_bytes())


@lru_cache(maxsize=1)
def releases() -> tuple[str, ...]:
    """Return the releases of the table, oldest first."""
    return tuple(json.loads(_table()[1 : _table().index(b"\n", 1)])["releases"])


@lru_cache(maxsize=4096)
def _row(key: str) -> list[Any] | None:
    start = _table().find(b'\n["%s",' % key.encode())
    return _row_at(start + 1) if start >= 0 else None


def _row_at(start: int) -> list[Any]:
    found: list[Any] = json.loads(_table()[start : _table().index(b"\n", start)])
    return found


def _rows_with(word: str, kind: str) -> Iterator[list[Any]]:
    """Rows of modules (kind "") or classes (kind ":") in which a word stands."""
    table, word_bytes, count = _table(), word.encode(), 0
    at = table.find(word_bytes)
    while at >= 0:
        end = at + len(word_bytes)
        next_at = end
        if table[at - 1 : at] in _LEFT and table[end : end + 1] in _RIGHT:
            start = table.rfind(b"\n", 0, at) + 1
            key = table[start + 2 : table.index(b'"', start + 2)]
            next_at = table.index(b"\n", at)  # one row once
            if key.startswith(b"vllm") and (b":" in key) == bool(kind):
                count += 1
                yield _row_at(start)
                if count == MOST_ROWS:
                    return
        at = table.find(word_bytes, next_at)


@lru_cache(maxsize=4096)
def _indices(life: str) -> Indices:
    found: set[int] = set()
    for span in life.split(","):
        first, dash, last = span.partition("-")
        found.update(range(int(first), (int(last) if last else len(releases()) - 1 if dash else int(first)) + 1))
    return frozenset(found)


def _present(groups: Mapping[str, str], word: str, own: str) -> Indices:
    """The releases in which a word stands in a row's groups."""
    found: Indices = frozenset()
    for life, words in groups.items():
        if word in words.split(" "):
            found |= _indices(life if life not in ("", "-") else own)
    return found


def _bound(module: str, name: str) -> Indices:
    """The releases in which a module has a name; a submodule is one."""
    row, submodule = _row(module), _row(f"{module}.{name}")
    found = _present(row[2].get("n", {}), name, row[1]) if row else frozenset()
    return found | (_indices(submodule[1]) if submodule else frozenset())


def _attribute(key: str, name: str, kinds: str = "mi", depth: int = 6) -> Indices:
    """The releases in which a class (vllm.x:Class) has a member, its own or of a base in vLLM."""
    row = _row(key)
    if row is None:
        return frozenset()
    found: Indices = frozenset()
    for kind in kinds:
        found |= _present(row[2].get(kind, {}), name, row[1])
    for life, bases in row[2].get("b", {}).items() if depth else ():
        for base in bases.split(" "):
            module, _, local = base.rpartition(".")
            if module.startswith("vllm"):
                found |= _attribute(f"{module}:{local}", name, kinds, depth - 1) & _indices(life or row[1])
    return found


def _taken(key: str, method: str, parameter: str, depth: int = 6) -> Indices:
    """The releases in which a method of a class takes a parameter; only what comes or goes is in the table."""
    row = _row(key)
    if row is None:
        return frozenset()
    found = _present(row[2].get("p", {}).get(method, {}), parameter, row[1])
    for life, bases in row[2].get("b", {}).items() if depth else ():
        for base in bases.split(" "):
            module, _, local = base.rpartition(".")
            if module.startswith("vllm"):
                found |= _taken(f"{module}:{local}", method, parameter, depth - 1) & _indices(life or row[1])
    return found


def _classes(name: str) -> list[str]:
    """The keys of the classes with a name."""
    pattern = rb'\n\["(vllm[\w.]*:%s)",' % re.escape(name).encode()
    return [match[1].decode() for match in re.finditer(pattern, _table())]


def lifetime(dotted_name: str) -> Lifetime | None:
    """Return the releases that have a module, `module.name` or `module.Class.member`; None when none has it."""
    if not re.fullmatch(r"vllm(\.\w+)*", dotted_name):
        return None
    row = _row(dotted_name)
    parent, _, name = dotted_name.rpartition(".")
    found = _indices(row[1]) if row else frozenset()
    if parent:
        found |= _bound(parent, name)
        module, _, local = parent.rpartition(".")
        found |= _attribute(f"{module}:{local}", name)
    return Lifetime(tuple((releases()[first], releases()[last]) for first, last in _spans(found))) if found else None


def _spans(found: Indices) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    for index in sorted(found):
        if spans and spans[-1][1] == index - 1:
            spans[-1] = (spans[-1][0], index)
        else:
            spans.append((index, index))
    return spans


# -- releases ------------------------------------------------------------------------------------------------------------


def _numbers(version: str) -> tuple[int, ...]:
    """What plain releases are ordered by; .postN counts after its release."""
    plain, _, post = version.partition(".post")
    numbers = [int(part) for part in plain.split(".")]
    return (*numbers, *[0] * (5 - len(numbers)), int(post) + 1 if post else 0)


@lru_cache(maxsize=1024)
def _possible(release: str | None) -> Indices:
    """The releases of the table that a version can behave as.

    One for a release of the table; both neighbours of a release or a development build that is not in it; -1 stands
    for what is older than the table. Empty when the version is unknown.
    """
    from packaging.version import InvalidVersion, Version  # noqa: PLC0415 - only when a name is in question

    try:
        version = Version((release or "").strip())
    except InvalidVersion:
        return frozenset()
    if version.release[:2] < (0, 2) and version.is_devrelease:
        return frozenset()  # 0.1.dev1: a build from a checkout without tags
    public = Version(version.public)
    known = [Version(one) for one in releases()]
    if public in known:
        return frozenset({known.index(public)})
    before = sum(one < public for one in known) - 1
    return frozenset({before, before + 1} if before + 1 < len(known) else {before})


def _below(index: int) -> str:
    """The specifier for releases up to one of the table: `<0.13`, `<0.9.0.1` inside one minor release."""
    current = _numbers(releases()[index])
    if index + 1 < len(releases()) and _numbers(releases()[index + 1])[:2] == current[:2]:
        return f"<{releases()[index + 1]}"
    return f"<{current[0]}.{current[1] + 1}"  # releases that the table lacks may follow: not the next of the table


def _judge(found: Indices, question: Direction) -> Direction:
    """The direction for a name that the releases in `found` have and that the user's release did not give."""
    newest = len(releases()) - 1
    possible = _possible(question.release)
    if not found:
        return replace(question, kind="unknown")
    if possible and possible <= found:
        return replace(question, kind="incomplete")
    absent = possible - found
    spans = _spans(found)
    if not absent:
        if spans == [(0, newest)]:
            return replace(question, kind="incomplete")
        if len(spans) > 1 or (spans[0][0] > 0 and spans[0][1] < newest):
            return _span(question, "range", spans[-1])
        return _span(question, "newer" if spans[0][1] == newest else "older", spans[0])
    later = [span for span in spans if span[0] > min(absent)]
    earlier = [span for span in spans if span[1] < max(absent)]
    if later:  # of a name that went and came back, too: the newer vLLM
        return _span(question, "newer", later[0])
    return _span(question, "older", earlier[-1])


def _span(question: Direction, kind: Kind, span: tuple[int, int]) -> Direction:
    """The direction to a span of releases."""
    first, last = span
    newest = len(releases()) - 1
    lower = f">={releases()[first]}" if kind != "older" else ""
    upper = _below(last) if last < newest else ""
    return replace(
        question,
        kind=kind,
        first=releases()[first] if first or kind == "newer" else None,
        last=releases()[last] if last < newest else None,
        requirements=("vllm" + ",".join(part for part in (lower, upper) if part),),
    )


# -- where code comes from -------------------------------------------------------------------------------------------------


def _owner(path: str | None) -> str | None:
    """The package that a source file belongs to: `vllm`, a package below site-packages; "" for other code."""
    if not path:
        return None
    parts = re.sub(r"\.pyc?$", "", path.replace("\\", "/")).split("/")
    for at in range(len(parts) - 1, -1, -1):
        if parts[at] in ("site-packages", "dist-packages"):
            return parts[at + 1] if at + 1 < len(parts) else ""
        if parts[at] == "vllm":
            inner = [part for part in parts[at:] if part != "__init__"]
            if _row(".".join(inner)) if all(part.isidentifier() for part in inner) else None:
                return "vllm"
    return parts[0] if len(parts) > 1 and parts[0] and _package_row(parts[0]) else ""


# -- errors ----------------------------------------------------------------------------------------------------------------

_IMPORT_NAME = re.compile(
    r"cannot import name '(?P<name>\w+)' from (?P<partial>partially initialized module )?'(?P<module>[\w.]+)'"
    r"(?: \(most likely due to a circular import\))?(?: \((?P<path>[^()\n]{1,400})\))?"
)
_NO_MODULE = re.compile(r"No module named '?(?P<module>[\w.]+)'?(?P<plain>; '[\w.]+' is not a package)?")
_NO_MODULE_ATTRIBUTE = re.compile(
    r"(?P<partial>partially initialized )?module '(?P<module>[\w.]+)'(?: from '[^'\n]*')? has no attribute '(?P<name>\w+)'"
)
_OPERATOR = re.compile(r"'_OpNamespace' '(?P<module>_\w+)' object has no attribute '(?P<name>\w+)'")
_NO_ATTRIBUTE = re.compile(r"(?P<type>type object )?'(?P<cls>\w+)'(?: object)? has no attribute '(?P<name>\w+)'")
_UNEXPECTED = re.compile(r"(?P<callee>[\w.<>]+)\(\) got an unexpected keyword argument '(?P<name>\w+)'")
_UNEXPECTED_FIELD = re.compile(r"^Unexpected keyword argument '(?P<name>\w+)'")  # msgspec, which names no class
_VALIDATION = re.compile(r"validation errors? for (?P<callee>\w+)\n(?P<name>\w+)\n\s+Unexpected keyword argument")
_MISSING = re.compile(
    r"(?P<callee>[\w.<>]+)\(\) missing \d+ required (?:positional|keyword-only) arguments?: '(?P<name>\w+)'"
)
_ABSTRACT = re.compile(
    r"Can't instantiate abstract class (?P<cls>\w+) with(?:out an implementation for)? abstract methods? '?(?P<name>\w+)"
)
_LOADER = ("LLM", "EngineArgs", "AsyncEngineArgs")


def direction(
    exception: str | None, message: str, release: str | None = None, importing_file: str | None = None
) -> Direction | None:
    """Return what an error about a name says of the installed vLLM; None when it says nothing.

    `exception` is the class name, None when the log does not print it. See the module for the messages.
    """
    text = message[:LONGEST_MESSAGE]
    name = (exception or "").rpartition(".")[2]
    if name and not name.endswith(("ImportError", "ModuleNotFoundError", "AttributeError", "TypeError", "ValidationError", "RayTaskError")):
        return None
    owner = _owner(importing_file)
    if match := _IMPORT_NAME.search(text):
        return _missing_name(match["module"], match["name"], match["path"] or "", bool(match["partial"]), release, owner)
    if match := _NO_MODULE_ATTRIBUTE.search(text):
        return _missing_name(match["module"], match["name"], "", bool(match["partial"]), release, owner)
    if match := _NO_MODULE.search(text):
        return _missing_module(match["module"], bool(match["plain"]), release, owner)
    if match := _OPERATOR.search(text):
        return Direction("incomplete", f"torch.ops.{match['module']}.{match['name']}", release=release)
    if match := _NO_ATTRIBUTE.search(text):
        return _missing_attribute(match["cls"], match["name"], release, owner)
    if match := _UNEXPECTED.search(text) or _VALIDATION.search(text):
        callee = match["callee"] if match.re is _UNEXPECTED else f"{match['callee']}.__init__"
        return _unexpected(callee, match["name"], release, owner)
    if match := _UNEXPECTED_FIELD.search(text):
        return _unexpected("__init__", match["name"], release, owner)
    if match := _MISSING.search(text):
        return _missing_argument(match["callee"], match["name"], release, owner)
    if match := _ABSTRACT.search(text):
        return _abstract(match["cls"], match["name"], release)
    return None


def _missing_name(
    module: str, name: str, path: str, partial: bool, release: str | None, owner: str | None
) -> Direction | None:
    if module.split(".")[0] != "vllm":
        return _dependency(module, f"{module}.{name}", release, owner)
    question = Direction("unknown", f"{module}.{name}", release=release, path=path)
    found = _bound(module, name)
    if path == "unknown location" or (found and path and not path.endswith(".so") and _owner(path) != "vllm"):
        return replace(question, kind="shadowed")
    if partial:
        return replace(question, kind="shadowed") if _owner(path) != "vllm" and path else None
    row = _row(module)
    possible = _possible(release)
    if _is_built(f"{module}.{name}") or _has_built_part(module):
        return replace(question, kind="incomplete", condition="built")
    if owner == "vllm":
        return replace(question, kind="incomplete")
    if row and name in row[2].get("c", {}) and possible and possible <= found:
        return replace(question, kind="conditional", condition=row[2]["c"][name])
    answer = _judge(found, question)
    if answer.kind in ("older", "unknown") and possible:
        moved = _new_place(module, name, found, possible)
        if moved:
            return replace(answer, kind="moved", moved_to=moved)
    if answer.kind == "unknown" and any(_rows_with(name, "")):
        return None  # another module has it; whether this one imports it is not in the table
    return answer


def _missing_module(module: str, plain: bool, release: str | None, owner: str | None) -> Direction | None:
    if module.split(".")[0] != "vllm":
        return _dependency(module, module, release, owner)
    question = Direction("unknown", module, release=release)
    if plain:
        return replace(question, kind="shadowed")
    if module == "vllm":
        return replace(question, kind="not-installed")
    row = _row(module)
    found = _indices(row[1]) if row else frozenset()
    possible = _possible(release)
    if (_is_built(module) or _has_built_part(module.rpartition(".")[0])) and possible <= (found or possible):
        return replace(question, kind="incomplete", condition="built")
    if owner == "vllm":
        return replace(question, kind="incomplete")
    answer = _judge(found, question)
    if answer.kind == "older" and row and possible:
        moved = _new_module(row, found, possible)
        if moved:
            return replace(answer, kind="moved", moved_to=moved)
    return answer


def _is_built(module: str) -> bool:
    """Whether the build makes a module: it is in no source checkout."""
    row = _row(module)
    return bool(row) and row is not None and row[2].get("c", {}).get("") == "built"


def _has_built_part(module: str) -> bool:
    """Whether the build adds modules to a package below vllm."""
    return module.count(".") == 1 and any(
        _is_built(match[1].decode()) for match in re.finditer(rb'\n\["(%s\.\w+)",' % re.escape(module).encode(), _table())
    )


def _new_place(module: str, name: str, found: Indices, possible: Indices) -> str:
    """The module that has a name in the user's release and took it over from `module`; "" when none certainly did."""
    candidates: list[tuple[int, int, str]] = []
    for row in _rows_with(name, ""):
        there = _present(row[2].get("n", {}), name, row[1])
        if row[0] == module or not possible <= there:
            continue
        if found:
            # A move leaves no gap; what had been there long before is another thing of the same name.
            if min(there) > max(found) + 1 or min(there) <= min(found) or max(found) - min(there) > LONGEST_OVERLAP:
                continue
        shared = len([1 for left, right in zip(row[0].split("."), module.split("."), strict=False) if left == right])
        candidates.append((-shared, len(row[0]), row[0]))
    candidates.sort()
    if not candidates or (not found and len(candidates) > 3):
        return ""
    return f"{candidates[0][2]}.{name}"


def _new_module(row: list[Any], found: Indices, possible: Indices) -> str:
    """The module that has most names of a module that ended; "" when they are spread or gone."""
    last = max(found)
    names = [
        word
        for life, words in row[2].get("n", {}).items()
        if last in _indices(life or row[1])
        for word in words.split(" ")
        if not word.startswith("__")
    ]
    places: Counter[str] = Counter()
    asked = sorted(names, key=len, reverse=True)[:8]
    for name in asked:
        for other in _rows_with(name, ""):
            there = _present(other[2].get("n", {}), name, other[1])
            if other[0] != row[0] and possible <= there:
                places[other[0]] += 1
    best = places.most_common(1)
    return best[0][0] if best and best[0][1] * 2 > len(asked) else ""


def _missing_attribute(cls: str, name: str, release: str | None, owner: str | None) -> Direction | None:
    keys = _classes(cls)
    if not keys or owner == "vllm":  # vLLM's own code: an error of vLLM, or of the object's state
        return None
    question = Direction("unknown", f"{cls}.{name}", release=release)
    found = {key: _attribute(key, name) for key in keys}
    every: Indices = frozenset().union(*found.values())
    possible = _possible(release)
    if possible:
        there = [key for key in keys if (row := _row(key)) and possible <= _indices(row[1])]
        having = [key for key in there if possible <= found[key]]
        if having:
            if all(key.startswith("vllm.v1.") for key in there if key not in having) and len(having) < len(there):
                module, _, local = having[0].partition(":")
                return replace(question, kind="v0-engine", name=f"{module}.{local}.{name}")
            sure = all(possible <= _attribute(key, name, "m") for key in there)
            return replace(question, kind="incomplete") if sure else None
    if not every:
        return question if all(_is_closed(key) for key in keys) else None
    return _judge(every, question)


def _is_closed(key: str, depth: int = 6) -> bool:
    """Whether a class and its bases are all vLLM's, so that every attribute is known."""
    row = _row(key)
    if row is None or not depth or any("__getattr__" in words.split(" ") for words in row[2].get("m", {}).values()):
        return False
    for bases in row[2].get("b", {}).values():
        for base in bases.split(" "):
            module, _, local = base.rpartition(".")
            if base.rpartition(".")[2] in ("ABC", "object", "Generic", "Protocol"):
                continue
            if not module.startswith("vllm") or not _is_closed(f"{module}:{local}", depth - 1):
                return False
    return True


def _callables(callee: str) -> list[str]:
    """The keys of what a TypeError names: classes for `C.f`, modules for a function `f`."""
    parts = [part for part in callee.split(".") if part != "<locals>"]
    if len(parts) > 1:
        return _classes(parts[-2])
    return [row[0] for row in _rows_with(parts[0], "") if row[2].get("f", {}).get(parts[0])]


def _accepts(key: str, function: str, parameter: str) -> Indices:
    """The releases in which a function of a module or a method of a class takes a parameter."""
    found: Indices = frozenset()
    for spelling in (parameter, f"{parameter}="):
        if ":" in key:
            found |= _taken(key, function, spelling)
        elif row := _row(key):
            found |= _present(row[2].get("f", {}).get(function, {}), spelling, row[1])
    return found


def _unexpected(callee: str, parameter: str, release: str | None, owner: str | None) -> Direction | None:
    function = callee.rpartition(".")[2]
    keys = _callables(callee)
    question = Direction("unknown", f"{callee}({parameter})", "parameter", release)
    if not keys and "." not in callee:  # Python before 3.10 and msgspec name no class
        keys = [row[0] for row in _rows_with(parameter, ":") if function in row[2].get("p", {})]
        keys = [key for key in keys if _accepts(key, function, parameter)]
        if len({_accepts(key, function, parameter) for key in keys}) > 1:
            keys = [key for key in keys if key.partition(":")[2] in (*_LOADER, "SamplingParams", "PoolingParams")]
    found: Indices = frozenset().union(*(_accepts(key, function, parameter) for key in keys))
    if found and owner != "vllm":
        return _judge(found, question)
    if found:
        answer = _judge(found, question)
        return answer if answer.kind == "incomplete" else None
    if keys:
        known = any((row := _row(key)) and function in row[2].get("p" if ":" in key else "f", {}) for key in keys)
        return question if known and owner != "vllm" else None
    return _plugin(function, parameter, question)


def _plugin(function: str, parameter: str, question: Direction) -> Direction | None:
    """For a subclass outside vLLM: since which release vLLM's own class has the parameter, when it is one release."""
    firsts = set()
    cls = question.name.split("(")[0].split(".")[0]
    if function == "__init__":
        keys = [key for at in re.finditer(r"[A-Z]", cls) if at.start() for key in _classes(cls[at.start() :])]
    else:
        keys = [row[0] for row in _rows_with(parameter, ":") if function in row[2].get("p", {})]
    for key in keys:
        if found := _accepts(key, function, parameter):
            firsts.add(min(found))
    return _before(firsts, question)


def _before(firsts: set[int], question: Direction) -> Direction | None:
    possible = _possible(question.release)
    if len(firsts) != 1 or min(firsts) == 0 or (possible and max(possible) < min(firsts)):
        return None
    first = min(firsts)
    return replace(
        question,
        kind="plugin-older",
        last=releases()[first - 1],
        requirements=(f"vllm{_below(first - 1)}",),
    )


def _missing_argument(callee: str, parameter: str, release: str | None, owner: str | None) -> Direction | None:
    function = callee.rpartition(".")[2]
    possible = _possible(release)
    for key in _callables(callee) if owner != "vllm" else ():
        row = _row(key)
        if row is None:
            continue
        if ":" in key:
            required = _taken(key, function, parameter)
            whole = _attribute(key, function, "m") or _indices(row[1])
        else:
            required = _present(row[2].get("f", {}).get(function, {}), parameter, row[1])
            whole = _bound(key, function)
        free = whole - required
        if not required or not free or (possible and not possible <= required):
            continue
        question = Direction("unknown", f"{callee}({parameter})", "required parameter", release)
        before = [span for span in _spans(free) if span[1] < min(possible or required)]
        after = [span for span in _spans(free) if span[0] > max(possible or required)]
        if before:
            return _span(question, "older", before[-1])
        if after:
            return _span(question, "newer", after[0])
    return None


def _abstract(cls: str, method: str, release: str | None) -> Direction | None:
    if _classes(cls):
        return None  # vLLM's own class
    firsts = set()
    for row in _rows_with(method, ":"):
        found = _present(row[2].get("a", {}), method, row[1])
        if found and (not _possible(release) or _possible(release) <= found):
            firsts.add(min(found))
    return _before(firsts, Direction("unknown", f"{cls}.{method}", "abstract method", release))


# -- other packages --------------------------------------------------------------------------------------------------------

_DISTRIBUTIONS = {  # import name -> name on the package index, where dashes are not the whole difference
    "PIL": "pillow", "cv2": "opencv-python-headless", "yaml": "pyyaml", "zmq": "pyzmq", "google": "protobuf",
    "flashinfer": "flashinfer-python", "lmformatenforcer": "lm-format-enforcer", "cpuinfo": "py-cpuinfo",
    "pythonjsonlogger": "python-json-logger", "opentelemetry": "opentelemetry-api", "openai_harmony": "openai-harmony",
    "cutlass": "nvidia-cutlass-dsl", "partial_json_parser": "partial-json-parser",
}  # fmt: skip


def _package_row(name: str) -> list[Any] | None:
    return _row("=" + _DISTRIBUTIONS.get(name, name.lower().replace("_", "-")))


def _dependency(module: str, name: str, release: str | None, owner: str | None) -> Direction | None:
    """The packages that the release asks for, when vLLM or one of them misses a name of another."""
    top = module.split(".")[0]
    if owner == "" or (owner not in (None, "vllm") and not _package_row(owner)):
        return None  # other software's imports are not what the release asks for
    asked = [top] if owner in (None, "vllm", top) else [owner, top]
    rows = [row for row in map(_package_row, asked) if row]
    if not rows:
        return None
    possible = _possible(release)
    if not possible:
        return Direction("dependency", name, "package", release)
    at = releases()[max(max(possible), 0)]
    required = [row for row in rows if _at(row[1]["r"], at) is not None]
    if not required:
        return None  # optional in this release
    return Direction(
        "dependency",
        name,
        "package",
        release,
        requirements=tuple(_wanted(row, at) for row in required),
        asked=tuple(_asked(row, at) for row in required),
        tested=tuple(f"{_package(row)} {pin}" for row in required if (pin := _at(row[1].get("t", []), at))),
    )


def _package(row: list[Any]) -> str:
    return str(row[0].removeprefix("="))


def _asked(row: list[Any], release: str) -> str:
    specifier = _at(row[1]["r"], release) or ""
    if specifier.startswith("["):
        return f"vllm{specifier}=={release}"
    return _package(row) + ",".join(_lower_first([part for part in specifier.split(",") if part]))


def _wanted(row: list[Any], release: str) -> str:
    """The requirement of a release for a package, with an upper bound from what the release was tested with."""
    asked = _asked(row, release)
    if re.search(r"==|~=|<", asked):
        return asked
    tested = _at(row[1].get("t", []), release) or _next_minimum(row[1]["r"], release)
    cap = re.match(r"(\d+)\.(\d+)", tested or "")
    if cap is None:
        return asked
    return f"{asked}{',' if '=' in asked else ''}<{cap[1]}.{int(cap[2]) + 1}"


def _lower_first(parts: list[str]) -> list[str]:
    return sorted(parts, key=lambda part: (part.startswith("<"), part.startswith("!")))


def _at(points: list[list[Any]], release: str) -> str | None:
    found: str | None = None
    for start, value in points:
        if _numbers(start) <= _numbers(release):
            found = value
    return found


def _next_minimum(points: list[list[Any]], release: str) -> str:
    """The first higher minimum that a later release asks for: up to there the package was current."""
    for start, value in points:
        if _numbers(start) > _numbers(release) and value and (match := re.search(r"[>=]=([\d.]+)", value)):
            return match[1]
    return ""


# -- wording ---------------------------------------------------------------------------------------------------------------


def _sentence(answer: Direction) -> str:
    name = f"`{answer.name}`"
    span = _span_words(answer)
    match answer.kind:
        case "older" | "newer" | "range" if answer.subject == "required parameter":
            return f"Calls without {name} work {span}."
        case "older" | "newer" | "range":
            return f"{name} exists {span}."
        case "moved" if answer.last is None and answer.first is None:
            return f"vLLM {answer.release} has it as `{answer.moved_to}`."
        case "moved":
            return f"{name} exists {span}; in vLLM {answer.release} it is `{answer.moved_to}`."
        case "incomplete" if answer.condition:
            return f"{name} is compiled when vLLM is built: it is missing here, or not built for this platform."
        case "incomplete" if answer.release:
            return f"{name} is part of vLLM {answer.release}: the installation is incomplete or mixes two versions."
        case "incomplete":
            return f"{name} is part of vLLM: the installation is incomplete or mixes two versions."
        case "shadowed":
            return "Another file or folder named vllm is imported in place of the installed package."
        case "not-installed":
            return "vLLM is not installed in this Python environment."
        case "conditional":
            return f"vLLM {answer.release} defines {name} only under a condition: {answer.condition}."
        case "v0-engine":
            return f"{name} belongs to the V0 engine of vLLM {answer.release}; its V1 engine does not have it."
        case "plugin-older" if answer.subject == "abstract method":
            return f"vLLM requires {name} after {answer.last}: the subclass is written for an older vLLM."
        case "plugin-older":
            return f"vLLM passes {name} after {answer.last}: the subclass is written for an older vLLM."
        case "dependency" if answer.tested:
            return f"vLLM {answer.release} asks for {' and '.join(answer.asked)}; tested with {', '.join(answer.tested)}."
        case "dependency" if answer.asked:
            return f"vLLM {answer.release} asks for {' and '.join(answer.asked)}."
        case "dependency":
            return f"{name} is missing from a package that vLLM requires."
        case _:
            return f"{name} is not part of any vLLM release."


def _span_words(answer: Direction) -> str:
    if answer.first and answer.last:
        return f"in vLLM {answer.first}" if answer.first == answer.last else f"in vLLM {answer.first} to {answer.last}"
    return f"since vLLM {answer.first}" if answer.first else f"up to vLLM {answer.last}"
