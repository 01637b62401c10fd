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

import re
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any, Literal

from vllm_doctor.catalog.name_table import (
    Indices,
    attribute,
    below,
    bound,
    classes,
    indices,
    possible_releases,
    present,
    releases,
    row_of,
    rows_with,
    spans_of,
    table,
    taken,
)
from vllm_doctor.catalog.requirements import is_required, requirement

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


def lifetime(dotted_name: str) -> Lifetime | None:
    """Return the releases that have a module, `module.name` or `module.Class.member`; None when none has it."""
    if not re.fullmatch(r"vllm(\.\w+)*", dotted_name):
        return None
    row = row_of(dotted_name)
    parent, _, name = dotted_name.rpartition(".")
    found = indices(row[1]) if row else frozenset()
    if parent:
        found |= bound(parent, name)
        module, _, local = parent.rpartition(".")
        found |= attribute(f"{module}:{local}", name)
    return Lifetime(tuple((releases()[first], releases()[last]) for first, last in spans_of(found))) if found else None


def _judge(found: Indices, question: Direction) -> Direction:
    """The direction for a name that the releases in `found` have and that the user's release did not give."""
    newest = len(releases()) - 1
    possible = possible_releases(question.release)
    if not found:
        return replace(question, kind="unknown")
    if possible and possible <= found:
        return replace(question, kind="incomplete")
    absent = possible - found
    spans = spans_of(found)
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
    upper = below(last) if last < newest else ""
    return replace(
        question,
        kind=kind,
        first=releases()[first] if first or kind == "newer" else None,
        last=releases()[last] if last < newest else None,
        requirements=("vllm" + ",".join(part for part in (lower, upper) if part),),
    )


# -- where code comes from --------------------------------------------------------------------------------------------


def _owner(path: str | None) -> str | None:
    """The package that a source file belongs to: `vllm`, a package below site-packages; "" for other code."""
    if not path:
        return None
    parts = re.sub(r"\.pyc?$", "", path.replace("\\", "/")).split("/")
    installed = [at for at, part in enumerate(parts[:-1]) if part in ("site-packages", "dist-packages")]
    if installed:
        return parts[installed[-1] + 1]
    for at in range(len(parts) - 2, -1, -1):  # of a checkout: other software has folders named vllm too
        if parts[at] == "vllm" and (at <= 2 or parts[at - 1].startswith("vllm")):
            inner = [part for part in parts[at:] if part != "__init__"]
            if all(part.isidentifier() for part in inner) and row_of(".".join(inner)):
                return "vllm"
    return parts[0] if len(parts) > 1 and parts[0] and is_required(parts[0]) else ""


# -- errors -----------------------------------------------------------------------------------------------------------

_EXCEPTION = re.compile(r"(?:Import|ModuleNotFound|Attribute|Type|Validation|Runtime|RayTask)Error")
_IMPORT_NAME = re.compile(
    r"cannot import name '(?P<name>\w+)' from (?P<partial>partially initialized module )?'(?P<module>[\w.]+)'"
    r"(?: \(most likely due to a circular import\))?(?: \((?P<path>[^()\n]{1,400})\))?"
)
_NO_MODULE = re.compile(r"No module named '?(?P<module>[\w.]+)'?(?P<plain>; '[\w.]+' is not a package)?")
_NO_MODULE_ATTRIBUTE = re.compile(
    r"(?P<partial>partially initialized )?module '(?P<module>[\w.]+)'(?: from '[^'\n]*')?"
    r" has no attribute '(?P<name>\w+)'"
)
_OPERATOR = re.compile(r"'_OpNamespace' '(?P<module>_\w+)' object has no attribute '(?P<name>\w+)'")
_NO_ATTRIBUTE = re.compile(r"(?P<type>type object )?'(?P<cls>\w+)'(?: object)? has no attribute '(?P<name>\w+)'")
_UNEXPECTED = re.compile(
    r"(?<![\w.<>])(?P<callee>[\w.<>]{1,300})\(\) got an unexpected keyword argument '(?P<name>\w+)'"
)
_UNEXPECTED_FIELD = re.compile(r"^Unexpected keyword argument '(?P<name>\w+)'")  # msgspec, which names no class
_VALIDATION = re.compile(r"validation errors? for (?P<callee>\w+)\n(?P<name>\w+)\n\s+Unexpected keyword argument")
_MISSING = re.compile(
    r"(?<![\w.<>])(?P<callee>[\w.<>]{1,300})\(\) missing \d{1,6} required (?:positional|keyword-only) arguments?: "
    r"'(?P<name>\w+)'"
)
_ABSTRACT = re.compile(
    r"Can't instantiate abstract class (?P<cls>\w+) with(?:out an implementation for)? "
    r"abstract methods? '?(?P<name>\w+)"
)
_PASSED_ON = ("EngineArgs", "AsyncEngineArgs")
_LOADER = ("LLM", "EngineArgs", "AsyncEngineArgs", "SamplingParams", "PoolingParams")
_V1_SWITCH = "VLLM_USE_V1"  # VLLM_USE_V1=0 chooses the V0 engine in the releases that have both


def direction(
    exception: str | None, message: str, release: str | None = None, importing_file: str | None = None
) -> Direction | None:
    """Return what an error about a name says of the installed vLLM; None when it says nothing.

    `exception` is the class name, None when the log does not print it. See the module for the messages.
    """
    text = message[:LONGEST_MESSAGE]
    if exception and not _EXCEPTION.search(exception):
        return None
    owner = _owner(importing_file)
    if match := _IMPORT_NAME.search(text) or _NO_MODULE_ATTRIBUTE.search(text):
        return _missing_name(match, release, owner)
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
        return _unexpected("__init__", match["name"], release, owner, is_struct=True)
    if match := _MISSING.search(text):
        return _missing_argument(match["callee"], match["name"], release, owner)
    if match := _ABSTRACT.search(text):
        return _abstract(match["cls"], match["name"], release)
    return None


def _missing_name(match: re.Match[str], release: str | None, owner: str | None) -> Direction | None:
    groups = match.groupdict()
    module, name, path, partial = groups["module"], groups["name"], groups.get("path") or "", groups["partial"]
    if module.split(".", maxsplit=1)[0] != "vllm":
        return _dependency(module, f"{module}.{name}", release, owner)
    question = Direction("unknown", f"{module}.{name}", release=release, path=path)
    found = bound(module, name)
    if path == "unknown location" or (found and path and not path.endswith(".so") and _owner(path) != "vllm"):
        return replace(question, kind="shadowed")
    if partial:
        return replace(question, kind="shadowed") if _owner(path) != "vllm" and path else None
    row = row_of(module)
    possible = possible_releases(release)
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
    if answer.kind == "unknown" and any(rows_with(name, "")):
        return None  # another module has it; whether this one imports it is not in the table
    return answer


def _missing_module(module: str, plain: bool, release: str | None, owner: str | None) -> Direction | None:
    if module.split(".", maxsplit=1)[0] != "vllm":
        return _dependency(module, module, release, owner)
    question = Direction("unknown", module, release=release)
    if plain:
        return replace(question, kind="shadowed")
    if module == "vllm":
        return replace(question, kind="not-installed")
    row = row_of(module)
    found = indices(row[1]) if row else frozenset()
    possible = possible_releases(release)
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
    row = row_of(module)
    return bool(row) and row is not None and row[2].get("c", {}).get("") == "built"


def _has_built_part(module: str) -> bool:
    """Whether the build adds modules to a package below vllm."""
    return module.count(".") == 1 and any(
        _is_built(match[1].decode())
        for match in re.finditer(rb'\n\["(%s\.\w+)",' % re.escape(module).encode(), table())
    )


def _new_place(module: str, name: str, found: Indices, possible: Indices) -> str:
    """The module that has a name in the user's release and took it over from `module`; "" when none certainly did."""
    candidates: list[tuple[bool, int, int, str]] = []
    for row in rows_with(name, ""):
        there = present(row[2].get("n", {}), name, row[1])
        is_reexport = not there
        there |= present(row[2].get("r", {}), name, row[1])
        if cls := row_of(f"{row[0]}:{name}"):
            there = indices(cls[1])  # before its definition moved here, the module may have imported it
        if row[0] == module or not possible <= there:
            continue
        # A move leaves no gap; what had been there long before is another thing of the same name.
        if found and not (min(found) < min(there) <= max(found) + 1 <= min(there) + LONGEST_OVERLAP):
            continue
        shared = len([1 for left, right in zip(row[0].split("."), module.split("."), strict=False) if left == right])
        candidates.append((is_reexport, -shared, len(row[0]), row[0]))
    if not candidates or (not found and len(candidates) > 3):
        return ""
    return f"{min(candidates)[-1]}.{name}"


def _new_module(row: list[Any], found: Indices, possible: Indices) -> str:
    """The module that has most names of a module that ended; "" when they are spread or gone."""
    last = max(found)
    names = [
        word
        for life, words in row[2].get("n", {}).items()
        if last in indices(life or row[1])
        for word in words.split(" ")
        if not word.startswith("__")
    ]
    places: Counter[str] = Counter()
    asked = sorted(names, key=len, reverse=True)[:8]
    for name in asked:
        for other in rows_with(name, ""):
            there = present(other[2].get("n", {}), name, other[1])
            if other[0] != row[0] and possible <= there:
                places[other[0]] += 1
    best = places.most_common(1)
    return best[0][0] if best and best[0][1] * 2 > len(asked) else ""


def _missing_attribute(cls: str, name: str, release: str | None, owner: str | None) -> Direction | None:
    keys = classes(cls)
    if not keys or owner == "vllm":  # vLLM's own code: an error of vLLM, or of the object's state
        return None
    question = Direction("unknown", f"{cls}.{name}", release=release)
    always = {key: attribute(key, name) for key in keys}
    in_some_branch = frozenset[int]().union(*(attribute(key, f"{name}?", "i") for key in keys))
    every = in_some_branch.union(*always.values())
    possible = possible_releases(release)
    there = [key for key in keys if (row := row_of(key)) and possible <= indices(row[1])]
    having = [key for key in there if possible <= always[key]] if possible else []
    if having:
        lacking = [key for key in there if key not in having]
        if (
            lacking
            and all(key.startswith("vllm.v1.") for key in lacking)
            and possible <= bound("vllm.envs", _V1_SWITCH)
        ):
            module, _, local = having[0].partition(":")
            return replace(question, kind="v0-engine", name=f"{module}.{local}.{name}")
        if lacking:
            return None
    elif possible & in_some_branch:
        return None
    if not every:
        return question if all(_is_closed(key) for key in keys) else None
    answer = _judge(every, question)
    if answer.kind == "incomplete" and not all(_judge(attribute(key, name, "m"), question) == answer for key in keys):
        return None  # an attribute of the instance: a matter of its state
    return answer


def _is_closed(key: str, depth: int = 6) -> bool:
    """Whether a class and its bases are all vLLM's, so that every attribute is known."""
    row = row_of(key)
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
        return classes(parts[-2])
    return [row[0] for row in rows_with(parts[0], "") if row[2].get("f", {}).get(parts[0])]


def _accepts(key: str, function: str, parameter: str) -> Indices:
    """The releases in which a function of a module or a method of a class takes a parameter."""
    found: Indices = frozenset()
    for spelling in (parameter, f"{parameter}="):
        if ":" in key:
            found |= taken(key, function, spelling)
        elif row := row_of(key):
            found |= present(row[2].get("f", {}).get(function, {}), spelling, row[1])
    return found


def _unexpected(
    callee: str, parameter: str, release: str | None, owner: str | None, *, is_struct: bool = False
) -> Direction | None:
    function = callee.rpartition(".")[2]
    keys = _callables(callee)
    question = Direction("unknown", f"{callee}({parameter})", "parameter", release)
    if not keys and "." not in callee:  # Python before 3.10 and msgspec name no class
        keys = [row[0] for row in rows_with(parameter, ":") if function in row[2].get("p", {})]
        keys = [key for key in keys if _accepts(key, function, parameter)]
        if is_struct:
            keys = [key for key in keys if _is_struct(key)]
        answers = {_judge(_accepts(key, function, parameter), question) for key in keys}
        if len({answer for answer in answers if answer.kind != "incomplete"}) > 1:
            keys = [key for key in keys if key.partition(":")[2] in _LOADER]
        else:
            keys = [
                key for key in keys if _judge(_accepts(key, function, parameter), question).kind != "incomplete"
            ] or keys
    if any(key.partition(":")[2] in _PASSED_ON for key in keys):
        owner = None  # LLM() hands its caller's arguments on
    found = frozenset[int]().union(*(_accepts(key, function, parameter) for key in keys))
    if found:
        answer = _judge(found, question)
        return answer if owner != "vllm" or answer.kind == "incomplete" else None
    if keys:
        known = any((row := row_of(key)) and function in row[2].get("p" if ":" in key else "f", {}) for key in keys)
        return question if known and owner != "vllm" else None
    return _plugin(function, parameter, question)


def _is_struct(key: str, depth: int = 6) -> bool:
    """Whether a class is a msgspec.Struct."""
    row = row_of(key)
    for bases in row[2].get("b", {}).values() if row and depth else ():
        for base in bases.split(" "):
            module, _, local = base.rpartition(".")
            if local == "Struct" or (module.startswith("vllm") and _is_struct(f"{module}:{local}", depth - 1)):
                return True
    return False


def _plugin(function: str, parameter: str, question: Direction) -> Direction | None:
    """For a subclass outside vLLM: since which release vLLM's own class has the parameter, when it is one release."""
    firsts = set()
    cls = question.name.split("(")[0].split(".")[0]
    if function == "__init__":
        suffixes = (cls[at.start() :] for at in re.finditer(r"[A-Z]", cls))
        keys = next((same for suffix in suffixes if (same := classes(suffix))), [])
    else:
        keys = [row[0] for row in rows_with(parameter, ":") if function in row[2].get("p", {})]
    for key in keys:
        if found := _accepts(key, function, parameter):
            firsts.add(min(found))
    return _before(firsts, question)


def _before(firsts: set[int], question: Direction) -> Direction | None:
    possible = possible_releases(question.release)
    if len(firsts) != 1 or min(firsts) == 0 or (possible and max(possible) < min(firsts)):
        return None
    first = min(firsts)
    return replace(
        question,
        kind="plugin-older",
        last=releases()[first - 1],
        requirements=(f"vllm{below(first - 1)}",),
    )


def _missing_argument(callee: str, parameter: str, release: str | None, owner: str | None) -> Direction | None:
    function = callee.rpartition(".")[2]
    possible = possible_releases(release)
    for key in _callables(callee) if owner != "vllm" else ():
        row = row_of(key)
        if row is None:
            continue
        if ":" in key:
            required = taken(key, function, parameter)
            whole = attribute(key, function, "m") or indices(row[1])
        else:
            required = present(row[2].get("f", {}).get(function, {}), parameter, row[1])
            whole = bound(key, function)
        free = whole - required
        if not required or not free or (possible and not possible <= required):
            continue
        question = Direction("unknown", f"{callee}({parameter})", "required parameter", release)
        before = [span for span in spans_of(free) if span[1] < min(possible or required)]
        after = [span for span in spans_of(free) if span[0] > max(possible or required)]
        if before:
            return _span(question, "older", before[-1])
        if after:
            return _span(question, "newer", after[0])
    return None


def _abstract(cls: str, method: str, release: str | None) -> Direction | None:
    if classes(cls):
        return None  # vLLM's own class
    firsts = set()
    for row in rows_with(method, ":"):
        found = present(row[2].get("a", {}), method, row[1])
        if found and (not possible_releases(release) or possible_releases(release) <= found):
            firsts.add(min(found))
    return _before(firsts, Direction("unknown", f"{cls}.{method}", "abstract method", release))


# -- other packages ---------------------------------------------------------------------------------------------------


def _dependency(module: str, name: str, release: str | None, owner: str | None) -> Direction | None:
    """The packages that the release asks for, when vLLM or one of them misses a name of another."""
    top, _, _ = module.partition(".")
    if owner == "" or (owner not in (None, "vllm") and not is_required(owner)):
        return None  # other software's imports are not what the release asks for
    packages = [one for one in dict.fromkeys((top if owner in (None, "vllm") else owner, top)) if is_required(one)]
    if not packages:
        return None
    possible = possible_releases(release)
    if not possible:
        return Direction("dependency", name, "package", release)
    at = releases()[max(0, *possible)]
    required = [found for one in packages if (found := requirement(one, at))]
    if not required:
        return None  # optional in this release
    return Direction(
        "dependency",
        name,
        "package",
        release,
        requirements=tuple(one.wanted for one in required),
        asked=tuple(one.asked for one in required),
        tested=tuple(f"{one.package} {one.tested}" for one in required if one.tested),
    )


# -- wording ----------------------------------------------------------------------------------------------------------


def _sentence(answer: Direction) -> str:  # noqa: C901 - one sentence a kind
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
            return (
                f"vLLM {answer.release} asks for {' and '.join(answer.asked)}; tested with {', '.join(answer.tested)}."
            )
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
