"""Filters about unrecognized flags: what they were, and what to write instead.

`catalog.flags` knows which flags and replacements exist in which release; these filters apply it to one log.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from types import MappingProxyType
from typing import NamedTuple

from vllm_doctor.catalog import flags, subcommand_flags
from vllm_doctor.catalog.flag_file import table
from vllm_doctor.catalog.releases import Releases
from vllm_doctor.command.advice import VARIABLE_NAME, Advice, advice
from vllm_doctor.command.flags import is_typographic, read_json, with_plain_dashes
from vllm_doctor.command.setting_terms import CLASSES_OF_SETTINGS, TOO_GENERAL, terms_of
from vllm_doctor.messages import joined, message, text
from vllm_doctor.templating.value_filters import scalar
from vllm_doctor.text.patterns import lazy_pattern

__all__ = [
    "advised_flag",
    "advised_removal",
    "advised_value",
    "advised_variable",
    "advised_words",
    "as_flag",
    "flag_meant",
    "flag_of_config",
    "flags_with_dashes",
    "gives_bound",
    "holds_only_settings",
    "later_flags",
    "later_release",
    "meant_parameter",
    "names_setting",
    "replacement_flag",
    "replacement_value",
    "replacement_words",
    "spelling_words",
    "unknown_flag_notes",
    "unknown_flags",
]

_FLAG = lazy_pattern(r"--?[A-Za-z][\w.-]*")

_SHORTEST_PART = 3  # letters that a word may be abbreviated to
_MIN_SIMILARITY = 0.8  # of a misspelt flag to the flag that was meant

_WORD_START = lazy_pattern(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_PARTS_OF_CONFIGS: Mapping[str, str] = MappingProxyType({
    "DynamicShapesConfig": "compilation_config", "PassConfig": "compilation_config"})

_BOUND = lazy_pattern(
    r"(?<![\w.])[a-z]+(?:_[a-z0-9]+)+(?: \(-?\d+\)|=-?\d+) "
    r"(?:must be (?:<=?|>=?|(?:less|smaller|greater|larger) than(?: or equal to)?)"
    r"|(?:cannot|must not) be (?:less|smaller|greater|larger) than) "
    r"(?:the )?[a-z_]+(?: \(|=)-?\d+")

_NO_FLAG = "--model"  # in place of a missing flag; its value False means "do not change it"

# Flag names of other servers, and common guesses, with vLLM's flag ("" if it has none).
_OTHER_NAMES: Mapping[str, str] = {
    "-p": "--port",
    "--tp": "--tensor-parallel-size",
    "--tp-size": "--tensor-parallel-size",
    "--num-gpus": "--tensor-parallel-size",
    "--num-gpu": "--tensor-parallel-size",
    "--gpus": "--tensor-parallel-size",  # as docker run has it
    "--num-shard": "--tensor-parallel-size",
    "--tensor-parallelism": "--tensor-parallel-size",
    "--pp": "--pipeline-parallel-size",
    "--pp-size": "--pipeline-parallel-size",
    "--dp": "--data-parallel-size",
    "--dp-size": "--data-parallel-size",
    "--context-length": "--max-model-len",
    "--ctx-size": "--max-model-len",
    "--n-ctx": "--max-model-len",
    "--max-input-length": "--max-model-len",
    "--max-context-len": "--max-model-len",
    "--max-context-length": "--max-model-len",
    "--max-seq-len": "--max-model-len",
    "--max-sequence-length": "--max-model-len",
    "--max-length": "--max-model-len",
    "--max-total-tokens": "--max-model-len",
    "--mem-fraction-static": "--gpu-memory-utilization",
    "--gpu-memory-fraction": "--gpu-memory-utilization",
    "--gpu-utilization": "--gpu-memory-utilization",
    "--cuda-memory-fraction": "--gpu-memory-utilization",
    "--model-path": "--model",
    "--model-id": "--model",
    "--model-name": "--served-model-name",
    "--quantize": "--quantization",
    "--max-running-requests": "--max-num-seqs",
    "--max-batch-size": "--max-num-seqs",
    "--batch-size": "--max-num-seqs",
    "--max-concurrent-requests": "--max-num-seqs",
    "--max-batch-prefill-tokens": "--max-num-batched-tokens",
    "--chunked-prefill-size": "--max-num-batched-tokens",
    "--disable-cuda-graph": "--enforce-eager",
    "--disable-radix-cache": "--no-enable-prefix-caching",
    "--random-seed": "--seed",
    "--tokenizer-path": "--tokenizer",
    "--lora-paths": "--lora-modules",
    "--hostname": "--host",
    "--api-token": "--api-key",
    "--enable-ep-moe": "--enable-expert-parallel",
    "--tool-parser": "--tool-call-parser",
    "--reasoning-parser-name": "--reasoning-parser",
    "--enable-metrics": "",  # vLLM has no flag for it, but one of another meaning with a similar name
    "--cache-size": "",
    "--enable-flashinfer": "",
}

_OF_CONTAINERS = frozenset({
    "--cap-add", "--entrypoint", "--env", "--env-file", "--gpus", "--ipc", "--mount", "--privileged", "--publish",
    "--restart", "--rm", "--runtime", "--security-opt", "--shm-size", "--ulimit", "--volume",
})  # fmt: skip
"""Options of `docker run` and `podman run`, which take effect only before the image."""


class Remedy(NamedTuple):
    """What to do about one unrecognized flag.

    `kind`: renamed (write `set` instead), dropped (no replacement), later (exists from `since` on; before, write
    `set` if it is not empty), misspelt (write `set` or, without it, `note` instead), dashes (the same with typographic
    dashes), elsewhere (only other subcommands have it), unknown.
    """

    flag: str
    value: str | None
    kind: str
    set: Mapping[str, str] = MappingProxyType({})
    since: str = ""
    note: str = ""

    def as_typed(self) -> str:
        """Return the flag as it was typed, with its value."""
        return f"{self.flag} {self.value}" if self.value else self.flag


def split_arguments(arguments: str) -> list[tuple[str, str | None]]:
    """Split argparse's list of unrecognized arguments into flags with values; skip words before the first flag.

    argparse joins the words with spaces and drops quotes, so a value may contain spaces.
    """
    options: list[tuple[str, list[str]]] = []
    for word in arguments.split():
        name, equals, value = word.partition("=")
        if _FLAG.fullmatch(name) or is_typographic(name):
            options.append((name, [value] if equals else []))
        elif options:
            options[-1][1].append(word)
    return [(name, " ".join(words) if words else None) for name, words in options]


def unknown_flags(arguments: str) -> str | None:
    """Return the flags among argparse's unrecognized arguments: `--swap-space --foo` for `--swap-space 4 --foo=1`."""
    return " ".join(dict.fromkeys(name for name, _ in split_arguments(arguments))) or None


def remedies(arguments: str, releases: Releases) -> list[Remedy]:
    """Return what to do about each unrecognized flag."""
    return [_remedy(name, value, releases) for name, value in split_arguments(arguments)]


def _remedy(name: str, value: str | None, releases: Releases) -> Remedy:
    newest = flags.releases()[-1]
    plain = with_plain_dashes(name)
    known_flag = flags.lookup(plain)
    if plain != name and known_flag is not None and any(map(known_flag.exists, releases.candidates)):
        return _with_dashes(name, plain, value, known_flag, releases.candidates[-1])
    name = plain
    if known_flag is None:
        return _misspelt(name, value, releases)
    releases_without = [release for release in releases.candidates if not known_flag.exists(release)] or [newest]
    spelling = flags.canonical(name)
    order = flags.releases().index
    if known_flag.last == newest or order(releases_without[-1]) < order(known_flag.first):
        predecessors = _predecessors(spelling, value, releases_without[-1])
        return Remedy(spelling, value, "later", predecessors, since=known_flag.first)
    if known_flag.replaced_by is None:
        return Remedy(spelling, value, "dropped")
    successor = {new: text for new, text in known_flag.replaced_by.for_value(value).items()
                 if (other := flags.lookup(new)) is not None and other.exists(releases_without[-1])}
    kind = "renamed" if successor else "dropped"
    return Remedy(spelling, value, kind, _with_merged_json_keys(successor), note=known_flag.replaced_by.note)


def _with_dashes(name: str, plain: str, value: str | None, flag: flags.Flag, release: str) -> Remedy:
    """Return the remedy for a flag that differs from one of the release only in its dashes."""
    fits = value is not None or flag.kind_in(release) == "bool"
    return Remedy(name, value, "dashes", {plain: value or ""} if fits else {}, note=plain)


def _predecessors(name: str, value: str | None, release: str) -> dict[str, str]:
    """Return the flags of an older release that mean what a flag of a later one does; empty if a key of it has none."""
    mapping = read_json(value or "", None)
    if isinstance(mapping, dict):
        wanted = {f"{name}.{key}": part if isinstance(part, str) else json.dumps(part) for key, part in mapping.items()}
    else:
        wanted = {name: value or ""}
    found = [_predecessor(flag, part, release) for flag, part in wanted.items()]
    known = [pair for pair in found if pair is not None]
    return dict(known) if len(known) == len(found) else {}


def _predecessor(name: str, value: str, release: str) -> tuple[str, str] | None:
    """Return the flag of a release, with its value, that was renamed to one of a later release."""
    for old in map(flags.lookup, flags.flags_of(release)):
        if old is None or old.replaced_by is None or tuple(old.replaced_by.set) != (name,):
            continue
        template = old.replaced_by.set[name]
        if template == value:
            return old.name, ""
        if value and template == "{value}" and old.accepts(value, release):
            return old.name, value
    return None


def _misspelt(name: str, value: str | None, releases: Releases) -> Remedy:
    release = releases.candidates[-1]
    spelling = flags.canonical(name)
    meant = _OTHER_NAMES.get(spelling)
    if meant is None:
        if subcommand_flags.life(spelling):
            return Remedy(spelling, value, "elsewhere")
        like = filter(None, (*flags.nearest(name, release, 1), subcommand_flags.nearest(name)))
        closest = max(like, key=lambda one: _similarity(spelling, one), default=spelling)
        close = closest != spelling and _similarity(spelling, closest) >= _MIN_SIMILARITY
        meant = closest if close else _abbreviated(spelling, release)
    flag = flags.lookup(meant) if meant else None
    if flag is None or meant is None:
        return Remedy(spelling, value, "misspelt" if meant else "unknown", note=meant or "")
    given = value if value is not None else ""
    fits = flag.accepts(given, release) or (flag.kind_in(release) == "bool" and given.lower() in ("true", "false"))
    if not fits:
        return Remedy(spelling, value, "misspelt", note=meant)
    return Remedy(spelling, value, "misspelt", {meant: "" if flag.kind_in(release) == "bool" else given})


def _similarity(one: str, other: str) -> float:
    return SequenceMatcher(None, one, other).ratio()


def _abbreviated(spelling: str, release: str) -> str | None:
    """Return the only flag whose words begin with those of `spelling`: --gpu-memory-utilization for --gpu-mem-util."""
    parts = spelling.lower().split("-")
    if any(len(part) < _SHORTEST_PART for part in parts if part):
        return None
    fitting = [name for name in flags.flags_of(release) if len(words := name.split("-")) == len(parts)
               and name != spelling and all(word.startswith(part) for word, part in zip(words, parts, strict=True))]
    return fitting[0] if len(fitting) == 1 else None


def _with_merged_json_keys(successor: Mapping[str, str]) -> dict[str, str]:
    """Merge single keys of a JSON flag (`--x.key value`) into that flag with JSON, which every release accepts."""
    merged: dict[str, str] = {}
    for name, value in successor.items():
        flag, _, key = name.partition(".")
        if not key:
            merged[name] = value
            continue
        existing = merged.get(flag)
        settings = json.loads(existing) if existing else {}
        settings[key] = scalar(value)
        merged[flag] = json.dumps(settings)
    return merged


def _successors(arguments: str, releases: Releases) -> dict[str, str]:
    """Return all flags to write instead, with the keys of one JSON flag merged."""
    merged: dict[str, str] = {}
    for remedy in remedies(arguments, releases):
        for name, value in remedy.set.items():
            if name in merged and merged[name].startswith("{") and value.startswith("{"):
                merged[name] = json.dumps({**json.loads(merged[name]), **json.loads(value)})
            else:
                merged[name] = value
    return merged


def replacement_flag(arguments: str, releases: Releases, number: int = 1) -> str:
    """Return the name of the number-th flag to write instead; a placeholder if there are fewer."""
    names = list(_successors(arguments, releases))
    return names[number - 1] if number <= len(names) else _NO_FLAG


def replacement_value(arguments: str, releases: Releases, number: int = 1) -> str | bool:
    """Return the value of the number-th flag to write instead; False if there are fewer."""
    values = list(_successors(arguments, releases).values())
    return (values[number - 1] or True) if number <= len(values) else False


def replacement_words(arguments: str, releases: Releases) -> str | None:
    """Return a clause that says which flags to write instead of which; None if no flag has a replacement."""
    known = remedies(arguments, releases)
    replaced = [remedy for remedy in known if remedy.set]
    if not replaced:
        return None
    new = " ".join(f"{name} {value}".strip() for name, value in _successors(arguments, releases).items())
    rest = [remedy.flag for remedy in known if not remedy.set]
    typed = " ".join(remedy.as_typed() for remedy in replaced)
    if not rest:
        return message("Write {new} instead of {typed}", new=new, typed=typed)
    return message("Write {new} instead of {typed} and drop {rest}", new=new, typed=typed, rest=joined(", ", rest))


def spelling_words(arguments: str, releases: Releases) -> str | None:
    """Return the correct spelling of misspelt flags whose value is not among the arguments; None if there are none."""
    meant = [(remedy.note, remedy.flag) for remedy in remedies(arguments, releases)
             if remedy.kind in {"misspelt", "dashes"} and not remedy.set]
    said = (message("Write {new} instead of {typed}", new=flag, typed=typed) for flag, typed in meant)
    return joined("; ", said) or None


def flags_with_dashes(arguments: str, releases: Releases) -> str | None:
    """Return the flags that the release has but for their typographic dashes; None if there are none."""
    return " ".join(remedy.flag for remedy in remedies(arguments, releases) if remedy.kind == "dashes") or None


def meant_parameter(arguments: str, releases: Releases) -> str | None:
    """Return the parameter of Python code that a misspelt one resembles; None if there is none."""
    meant = [remedy.note for remedy in remedies(arguments, releases) if remedy.kind == "misspelt"]
    return meant[0].lstrip("-").replace("-", "_") if len(meant) == 1 else None


def later_flags(arguments: str, releases: Releases) -> str | None:
    """Return the flags that only newer releases have; None if there are none."""
    return ", ".join(remedy.flag for remedy in remedies(arguments, releases) if remedy.kind == "later") or None


def later_release(arguments: str, releases: Releases) -> str | None:
    """Return the first release that has all flags of `later_flags`; None if there are none."""
    first = [remedy.since for remedy in remedies(arguments, releases) if remedy.kind == "later"]
    return max(first, key=flags.releases().index) if first else None


def unknown_flag_notes(arguments: str, releases: Releases) -> str | None:
    """Return one sentence per flag: its releases, its replacement, or the flag it resembles."""
    known = [remedy for remedy in remedies(arguments, releases) if remedy.kind != "dashes"]
    return joined(" ", map(_note, known)) or None


def _note(remedy: Remedy) -> str:
    known_flag = flags.lookup(remedy.flag)
    if remedy.kind == "later":
        return message("{flag} exists from vLLM {release} on; this release is older.", flag=remedy.flag,
                       release=remedy.since)
    if known_flag is not None:
        life = message("{flag} existed from {first} to {last}.", flag=remedy.flag, first=known_flag.first,
                       last=known_flag.last)
        return joined(" ", (life, text(remedy.note))) if remedy.note else life
    if remedy.kind == "misspelt":
        return message("No release has {flag}; {meant} is meant.", flag=remedy.flag,
                       meant=next(iter(remedy.set), remedy.note))
    if remedy.kind == "elsewhere":
        return joined(" ", (_of_subcommand(remedy.flag, *one) for one in subcommand_flags.life(remedy.flag).items()))
    if remedy.flag in _OF_CONTAINERS:
        return message("{flag} is an option of docker run and goes before the image.", flag=remedy.flag)
    return message("No release has {flag}.", flag=remedy.flag)


def _of_subcommand(flag: str, subcommand: str, spans: Sequence[tuple[str, str | None]]) -> str:
    last = spans[-1][1]
    if last is None:
        return message("{flag} is a flag of `vllm {subcommand}`.", flag=flag, subcommand=subcommand)
    return message("{flag} was a flag of `vllm {subcommand}` up to {last}.", flag=flag, subcommand=subcommand,
                   last=last)


def as_flag(keyword: str) -> str:
    """Return the flag of a keyword or of a setting's name in a message: `max_model_len`, `kv cache dtype`."""
    return flags.canonical(keyword.strip().lower().replace(" ", "-"))


def _advice(message: str, given: str, releases: Releases, inner: str | None) -> Advice | None:
    return advice(message, tuple(given.split()), releases.candidates[-1], inner)


def advised_flag(message: str, given: str, releases: Releases, inner: str | None = None) -> str | None:
    """Return the flag to set that a refusal asks for or that satisfies it; None if it names none.

    `given` are the keywords of the user's settings, `inner` is the flag whose JSON the message is about.
    """
    found = _advice(message, given, releases, inner)
    return found.flag if found is not None and found.value is not None and not found.flag.isupper() else None


def advised_variable(message: str, given: str, releases: Releases) -> str | None:
    """Return the environment variable to set that a refusal asks for; None if it names none."""
    found = _advice(message, given, releases, None)
    return found.flag if found is not None and found.value is not None and found.flag.isupper() else None


def advised_value(message: str, given: str, releases: Releases, inner: str | None = None) -> str | bool | None:
    """Return the value for `advised_flag` or `advised_variable`, True for a flag without one."""
    found = _advice(message, given, releases, inner)
    return scalar(found.value) if found is not None and isinstance(found.value, str) else found and found.value


def advised_words(message: str, given: str, releases: Releases, inner: str | None = None) -> str | None:
    """Return `advised_flag` or `advised_variable` and its value as typed in a command."""
    found = _advice(message, given, releases, inner)
    return found.typed() if found is not None and found.value is not None else None


def advised_removal(message: str, given: str, releases: Releases, inner: str | None = None) -> str | None:
    """Return the flag or variable to remove that a refusal names as what is in the way; None if it names none."""
    found = _advice(message, given, releases, inner)
    return found.flag if found is not None and found.value is None else None


def flag_meant(message: str, given: str) -> str | None:
    """Return the flag of the only setting in `given` (space-separated keywords) that a message refers to, or None."""
    text = VARIABLE_NAME.sub("", message).lower().replace("-", " ").replace("_", " ")
    meant = {name for name in given.split()
             if name not in TOO_GENERAL and any(part in text for part in terms_of(name))}
    return as_flag(meant.pop()) if len(meant) == 1 else None


def gives_bound(message: str) -> bool:
    """Return whether a message says that another setting bounds the value of one: `x (4) must be <= y (2)`."""
    return _BOUND.search(message) is not None


def flag_of_config(name: str, given: str | None) -> str | None:
    """Return the flag whose value one of vLLM's config classes is read from, or None.

    `CompilationConfig` is read from --compilation-config, `PassConfig` from a part of it. `given` are the settings of
    the user (space-separated keywords); without them every such flag counts.
    """
    snake = _WORD_START.sub("_", name).lower()
    known = table().flags
    for keyword in (_PARTS_OF_CONFIGS.get(name, snake), f"override_{snake}"):
        flag = as_flag(keyword)
        if flag in known and (not given or keyword in given.split()):
            return flag
    return None


def holds_only_settings(name: str) -> bool:
    """Return whether a class of vLLM holds nothing but settings of the user."""
    return name in CLASSES_OF_SETTINGS


def names_setting(message: str, given: str) -> bool:
    """Return whether a message names one of the given settings (keywords separated by spaces).

    If none is known, any engine argument with a name of several words counts.
    """
    text = message.lower().replace("-", " ").replace("_", " ")
    if given:
        names = [name for name in given.split() if name not in TOO_GENERAL]
        return any(part in text for name in names for part in terms_of(name))
    names = [flag.lstrip("-").replace("-", "_") for flag in table().flags]
    return any(" " in part and part in text
               for name in names if name not in TOO_GENERAL for part in terms_of(name))
