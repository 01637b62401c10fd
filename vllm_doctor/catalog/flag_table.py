"""The types of the flag table, built from the entries of `flag_file`. Use them through `flags`."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from packaging.version import Version

from vllm_doctor.catalog.flag_file import table
from vllm_doctor.catalog.release_numbers import is_untagged
from vllm_doctor.text.patterns import lazy_pattern


class Computed:
    """The type of COMPUTED."""

    def __repr__(self) -> str:
        return "COMPUTED"


COMPUTED: Final = Computed()
"""A default that is only known at run time, such as a path. None means unset, or that vLLM decides at startup."""

_HUMAN_INT = lazy_pattern(r"\d+|\d+(?:\.\d+)?[kmgt]|\d+[KMGT]")
_JSON_START = ("{", "[", '"')
_NUMBERS = {"int": int, "float": float}


class History(NamedTuple):
    """A value that changes between releases: each value with the index of its first release."""

    starts: tuple[int, ...]
    values: tuple[Any, ...]

    def at(self, index: int) -> Any:
        """Return the value in the release with this index; the first value for earlier releases."""
        return self.values[max(bisect_right(self.starts, index) - 1, 0)]


class Replacement(NamedTuple):
    """The replacement of a flag that newer releases reject; with nothing to set, the flag must be dropped.

    `since` is the first release where it works ("": the release that dropped the flag). In `set`, {value}
    stands for the old flag's value, and a name with a dot is one key of that flag's JSON.
    """

    since: str
    set: Mapping[str, str]
    values: Mapping[str, Mapping[str, str]]
    note: str

    @property
    def drop(self) -> bool:
        """Return whether the flag is dropped without a replacement."""
        return not self.set and not self.values

    def for_value(self, value: str | None) -> dict[str, str]:
        """Return the new flags for the old flag's value ("" for a switch); empty if the flag is to be dropped."""
        chosen = self.values.get(value, self.set) if value is not None else self.set
        if value is None and any("{value}" in template for template in chosen.values()):
            return {}
        return {name: template.replace("{value}", value or "") for name, template in chosen.items()}


class Flag(NamedTuple):
    """One flag of `vllm serve` (before it, of the api_server module) through all releases.

    `kind`, `items`, `aliases`, `keyword` and `negatable` are those of the last release that has the flag.
    Kinds: bool (a switch), bool_value (takes true or false), int, human_int (also 8k, 8K), human_int_or_auto
    (also auto, -1), float, str, json, key_values (image=4), json_or_key_values, str_or_json, and list, whose
    `items` are of one of these kinds. `keyword` is the argument of `LLM()` and `EngineArgs`, None for a flag
    of the server alone.
    """

    name: str
    life: tuple[tuple[int, int], ...]
    kinds: History
    item_kinds: History
    defaults: History
    choice_lists: History
    opens: History
    alias_lists: History
    negations: History
    inverses: History
    keywords: History
    deprecations: History
    replaced_by: Replacement | None = None

    @property
    def first(self) -> str:
        """Return the first release of the table that has the flag."""
        return releases()[self.life[0][0]]

    @property
    def last(self) -> str:
        """Return the last release that has the flag; the newest release of the table if it still exists."""
        return releases()[self.last_index]

    @property
    def last_index(self) -> int:
        """Return the index of `last` among the releases."""
        return self.life[-1][1]

    @property
    def kind(self) -> str:
        """Return the kind of the value."""
        return str(self.kinds.at(self.last_index))

    @property
    def items(self) -> str | None:
        """Return the kind of a list's items, None for other kinds."""
        item_kind: str | None = self.item_kinds.at(self.last_index)
        return item_kind

    @property
    def aliases(self) -> tuple[str, ...]:
        """Return the short forms and other long forms."""
        return tuple(self.alias_lists.at(self.last_index) or ())

    @property
    def negatable(self) -> bool:
        """Return whether `--no-x` switches it off."""
        return bool(self.negations.at(self.last_index))

    @property
    def yaml_key(self) -> str | None:
        """Return the key in a `--config` file (0.6.0 and newer); None for --config itself."""
        return None if self.name == "--config" else self.name.removeprefix("--")

    @property
    def keyword(self) -> str | None:
        """Return the argument of `LLM()` and `EngineArgs`."""
        argument: str | None = self.keywords.at(self.last_index)
        return argument

    def exists(self, version: str | None = None) -> bool:
        """Return whether the release has the flag under this name."""
        index = release_index(version)
        return any(first <= index <= last for first, last in self.life)

    def default(self, version: str | None = None) -> Any:
        """Return the default: a JSON value, None (unset, or vLLM decides) or COMPUTED."""
        return self.defaults.at(release_index(version))

    def choices(self, version: str | None = None) -> tuple[str, ...]:
        """Return the known values as typed on the command line; empty if the flag accepts any."""
        return tuple(str(value) for value in self.choice_lists.at(release_index(version)) or ())

    def open_choices(self, version: str | None = None) -> bool:
        """Return whether values other than `choices` (of a plugin, in other letter case) are accepted too."""
        return not self.choices(version) or bool(self.opens.at(release_index(version)))

    def kind_in(self, version: str | None = None) -> str:
        """Return the kind of the value in that release."""
        return str(self.kinds.at(release_index(version)))

    def aliases_in(self, version: str | None = None) -> tuple[str, ...]:
        """Return the short forms and other long forms in that release."""
        return tuple(self.alias_lists.at(release_index(version)) or ())

    def negation(self, version: str | None = None) -> str | None:
        """Return the spelling that switches the flag off in that release, or None."""
        return f"--no-{self.name.removeprefix('--')}" if self.negations.at(release_index(version)) else None

    def deprecated(self, version: str | None = None) -> bool:
        """Return whether that release marks the flag as deprecated."""
        return bool(self.deprecations.at(release_index(version)))

    def spellings(self, version: str | None = None) -> tuple[str, ...]:
        """Return every spelling of the flag in that release, including negations; empty if it lacks the flag."""
        if not self.exists(version):
            return ()
        more = (self.negation(version), self.inverses.at(release_index(version)))
        return (self.name, *self.aliases_in(version), *(spelling for spelling in more if spelling))

    def accepts(self, value: str, version: str | None = None) -> bool:
        """Return whether that release has the flag and its argument parser accepts the value ("" for none)."""
        if not self.exists(version):
            return False
        kind = self.kind_in(version)
        if value == "" or kind == "bool":
            return value == "" and (kind in ("bool", "bool_value") or self.name == "--hf-token")
        if kind == "bool_value":
            return value.lower() in ("true", "false")
        if not self.open_choices(version) and kind != "list":
            return value in self.choices(version)
        return _is_kind(value, kind)


class Variable(NamedTuple):
    """One environment variable that vLLM reads, through all releases."""

    name: str
    life: tuple[tuple[int, int], ...]
    defaults: History

    @property
    def first(self) -> str:
        """Return the first release of the table that reads it."""
        return releases()[self.life[0][0]]

    @property
    def last(self) -> str:
        """Return the last release that reads it; the newest release of the table if it still does."""
        return releases()[self.life[-1][1]]

    def exists(self, version: str | None = None) -> bool:
        """Return whether the release reads the variable."""
        index = release_index(version)
        return any(first <= index <= last for first, last in self.life)

    def default(self, version: str | None = None) -> Any:
        """Return the value vLLM uses if the variable is not set: a JSON value, None or COMPUTED."""
        return self.defaults.at(release_index(version))


def releases() -> tuple[str, ...]:
    """Return the releases of the table, oldest first."""
    return table().releases


@lru_cache(maxsize=1)
def _positions() -> dict[str, int]:
    return {release: index for index, release in enumerate(releases())}


@lru_cache(maxsize=4096)
def release_index(version: str | None) -> int:
    """Return the index of the release that a version string behaves as (see flags.resolve)."""
    newest = len(releases()) - 1
    if version is None:
        return newest
    if version in _positions():
        return _positions()[version]
    if is_untagged(version):
        return newest
    try:
        wanted = Version(version.strip())
    except ValueError:  # no version, or one with thousands of digits
        return newest
    # rc and dev are dropped, .postN is kept: 0.11.1rc3.dev12 is 0.11.1
    release = Version(
        wanted.base_version if wanted.post is None else f"{wanted.base_version}.post{wanted.post}"
    )
    return max(bisect_right(releases(), release, key=Version) - 1, 0)


@lru_cache(maxsize=1024)
def flag(name: str) -> Flag:
    """Return a flag by its name. Raises KeyError."""
    entry = table().flags[name]
    return Flag(
        name=name,
        life=_life(entry),
        kinds=_history(entry, "kind"),
        item_kinds=_history(entry, "items"),
        defaults=_history(entry, "default"),
        choice_lists=_history(entry, "choices"),
        opens=_history(entry, "open"),
        alias_lists=_history(entry, "aliases"),
        negations=_history(entry, "negatable"),
        inverses=_history(entry, "inverse"),
        keywords=_history(entry, "keyword"),
        deprecations=_history(entry, "deprecated"),
        replaced_by=_replacement(entry["replaced_by"]) if "replaced_by" in entry else None,
    )


@lru_cache(maxsize=1024)
def variable(name: str) -> Variable:
    """Return an environment variable by its name. Raises KeyError."""
    entry = table().env[name]
    return Variable(name, _life(entry), _history(entry, "default"))


def _life(entry: dict[str, Any]) -> tuple[tuple[int, int], ...]:
    where, newest = _positions(), len(releases()) - 1
    return tuple((where[first], newest if last is None else where[last]) for first, last in entry["life"])


def _history(entry: dict[str, Any], key: str) -> History:
    points = entry.get(key) or [[releases()[0], None]]
    return History(
        tuple(_positions()[start] for start, _ in points), tuple(_frozen(value) for _, value in points)
    )


def _frozen(value: Any) -> Any:
    if isinstance(value, dict):
        return (
            COMPUTED
            if "?" in value
            else MappingProxyType({key: _frozen(inner) for key, inner in value.items()})
        )
    return tuple(_frozen(inner) for inner in value) if isinstance(value, list) else value


def _replacement(entry: dict[str, Any]) -> Replacement:
    return Replacement(
        since=entry.get("since", ""),
        set=MappingProxyType(entry.get("set", {})),
        values=MappingProxyType(entry.get("values", {})),
        note=entry.get("note", ""),
    )


def _is_kind(value: str, kind: str) -> bool:
    text = value.strip()
    if kind == "human_int_or_auto" and (text == "-1" or text.lower() == "auto"):
        return True
    if kind.startswith("human_int"):
        return _HUMAN_INT.fullmatch(text) is not None
    if text in ("None", ""):
        return True  # most flags take None for unset
    if kind in _NUMBERS:
        try:
            _NUMBERS[kind](text)
        except ValueError:
            return False
        return True
    if kind == "key_values":
        return not text.startswith(_JSON_START)
    if kind == "json":
        return text.startswith(_JSON_START) or text in ("true", "false", "null") or _is_kind(text, "float")
    return True
