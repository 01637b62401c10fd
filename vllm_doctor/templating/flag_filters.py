"""Filters about flags that a release does not know: what they are, and what to write instead.

Which flag and successor exist in which release is `flags`' knowledge; here it is put together for one log.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from difflib import SequenceMatcher
from types import MappingProxyType
from typing import NamedTuple

from vllm_doctor.catalog import flags
from vllm_doctor.catalog.flag_file import table
from vllm_doctor.catalog.releases import Releases
from vllm_doctor.patterns import lazy
from vllm_doctor.templating.value_filters import scalar

__all__ = [
    "as_flag",
    "flag_meant",
    "later_flags",
    "later_release",
    "names_setting",
    "replacement_flag",
    "replacement_value",
    "replacement_words",
    "spelling_words",
    "unknown_flag_notes",
    "unknown_flags",
]

_FLAG = lazy(r"--?[A-Za-z][\w.-]*")

_TYPO = 0.8  # how like a flag's name a spelling must be to be read as it

_NONE = "--model"  # stands where there is no further flag; its value False says "leave it"

# How other servers, and people, call what vLLM has under another name ("" where it has none).
_OTHER_NAMES: Mapping[str, str] = {
    "--tp": "--tensor-parallel-size",
    "--tp-size": "--tensor-parallel-size",
    "--num-gpus": "--tensor-parallel-size",
    "--pp": "--pipeline-parallel-size",
    "--pp-size": "--pipeline-parallel-size",
    "--dp": "--data-parallel-size",
    "--dp-size": "--data-parallel-size",
    "--context-length": "--max-model-len",
    "--ctx-size": "--max-model-len",
    "--max-context-len": "--max-model-len",
    "--max-context-length": "--max-model-len",
    "--max-seq-len": "--max-model-len",
    "--max-sequence-length": "--max-model-len",
    "--max-length": "--max-model-len",
    "--max-total-tokens": "--max-model-len",
    "--mem-fraction-static": "--gpu-memory-utilization",
    "--gpu-memory-fraction": "--gpu-memory-utilization",
    "--gpu-utilization": "--gpu-memory-utilization",
    "--model-path": "--model",
    "--model-id": "--model",
    "--model-name": "--served-model-name",
    "--quantize": "--quantization",
    "--max-running-requests": "--max-num-seqs",
    "--max-batch-size": "--max-num-seqs",
    "--batch-size": "--max-num-seqs",
    "--enable-ep-moe": "--enable-expert-parallel",
    "--tool-parser": "--tool-call-parser",
    "--reasoning-parser-name": "--reasoning-parser",
    "--enable-metrics": "",  # vLLM has no flag for it, and one of another meaning looks like it
    "--cache-size": "",
    "--enable-flashinfer": "",
}


# How messages speak of a setting that they do not name; of others the name's own words are looked for.
_SPOKEN: Mapping[str, tuple[str, ...]] = {
    "speculative_config": ("speculative", "spec decod"),
    "speculative_model": ("speculative", "spec decod"),
    "model_loader_extra_config": ("extra config", "tensorizer uri"),
    "quantization": ("quantiz",),
    "kv_transfer_config": ("kv connector", "kv transfer"),
    "enable_lora": ("lora",),
    "enable_expert_parallel": ("expert parallel",),
    "kv_cache_dtype": ("kv cache dtype", "kv cache quant", "fp8", "v scale"),
    "decode_context_parallel_size": ("decode context parallel", "dcp"),
    "distributed_executor_backend": ("executor backend", " ray"),
}
_NOT_MEANT = frozenset({
    "model", "model_tag", "tokenizer", "host", "port", "seed", "dtype", "revision", "load_format", "served_model_name",
    "trust_remote_code", "max_model_len", "gpu_memory_utilization",
})  # fmt: skip
"""Settings without which a command is another one, or whose names stand in many messages."""


class Remedy(NamedTuple):
    """What became of one flag that the release does not know.

    `kind`: renamed (write `set` instead), dropped (no successor), later (`since` has it), misspelt (`set`), unknown.
    """

    flag: str
    value: str | None
    kind: str
    set: Mapping[str, str] = MappingProxyType({})
    since: str = ""
    note: str = ""

    def words(self) -> str:
        """The flag as it was typed, with its value."""
        return f"{self.flag} {self.value}" if self.value else self.flag


def split_arguments(arguments: str) -> list[tuple[str, str | None]]:
    """What argparse calls unrecognized, as flags with their values; what stands before the first flag is left away.

    argparse joins the words by blanks and forgets the quotes, so a value may hold blanks.
    """
    found: list[tuple[str, list[str]]] = []
    for word in arguments.split():
        name, equals, value = word.partition("=")
        if _FLAG.fullmatch(name):
            found.append((name, [value] if equals else []))
        elif found:
            found[-1][1].append(word)
    return [(name, " ".join(words) if words else None) for name, words in found]


def unknown_flags(arguments: str) -> str | None:
    """The flags among what argparse calls unrecognized: `--swap-space 4 --foo=1` is `--swap-space --foo`."""
    return " ".join(dict.fromkeys(name for name, _ in split_arguments(arguments))) or None


def remedies(arguments: str, releases: Releases) -> list[Remedy]:
    """What to do about each unrecognized flag."""
    return [_remedy(name, value, releases) for name, value in split_arguments(arguments)]


def _remedy(name: str, value: str | None, releases: Releases) -> Remedy:
    newest = flags.releases()[-1]
    found = flags.lookup(name)
    if found is None:
        return _misspelt(name, value, releases)
    lacking = [release for release in releases.candidates if not found.exists(release)] or [newest]
    spelling = flags.canonical(name)
    if found.last == newest or flags.releases().index(lacking[-1]) < flags.releases().index(found.first):
        return Remedy(spelling, value, "later", since=found.first)
    if found.replaced_by is None:
        return Remedy(spelling, value, "dropped")
    successor = {new: text for new, text in found.replaced_by.for_value(value).items()
                 if (other := flags.lookup(new)) is not None and other.exists(lacking[-1])}
    kind = "renamed" if successor else "dropped"
    return Remedy(spelling, value, kind, _whole(successor), note=found.replaced_by.note)


def _misspelt(name: str, value: str | None, releases: Releases) -> Remedy:
    release = releases.candidates[-1]
    spelling = flags.canonical(name)
    meant = _OTHER_NAMES.get(spelling)
    if meant is None:
        like = flags.nearest(name, release, 1)
        close = like and SequenceMatcher(None, spelling, like[0]).ratio() >= _TYPO
        meant = like[0] if close and like[0] != spelling else None
    flag = flags.lookup(meant) if meant else None
    if flag is None or meant is None:
        return Remedy(spelling, value, "unknown")
    given = value if value is not None else ""
    fits = flag.accepts(given, release) or (flag.kind_in(release) == "bool" and given.lower() in ("true", "false"))
    if not fits:
        return Remedy(spelling, value, "misspelt", note=meant)
    return Remedy(spelling, value, "misspelt", {meant: "" if flag.kind_in(release) == "bool" else given})


def _whole(successor: Mapping[str, str]) -> dict[str, str]:
    """Single keys of a JSON flag (`--x.key value`) as that flag with its JSON, which every release reads."""
    made: dict[str, str] = {}
    for name, text in successor.items():
        flag, _, key = name.partition(".")
        if not key:
            made[name] = text
            continue
        read = made.get(flag)
        whole = json.loads(read) if read else {}
        whole[key] = scalar(text)
        made[flag] = json.dumps(whole)
    return made


def _successors(arguments: str, releases: Releases) -> dict[str, str]:
    """All flags to write instead; keys of one JSON flag are put together."""
    made: dict[str, str] = {}
    for remedy in remedies(arguments, releases):
        for name, value in remedy.set.items():
            if name in made and made[name].startswith("{") and value.startswith("{"):
                made[name] = json.dumps({**json.loads(made[name]), **json.loads(value)})
            else:
                made[name] = value
    return made


def replacement_flag(arguments: str, releases: Releases, number: int = 1) -> str:
    """The name of the number-th flag to write instead; a stand-in when there are fewer."""
    names = list(_successors(arguments, releases))
    return names[number - 1] if number <= len(names) else _NONE


def replacement_value(arguments: str, releases: Releases, number: int = 1) -> str | bool:
    """The value of the number-th flag to write instead; False when there are fewer."""
    values = list(_successors(arguments, releases).values())
    return (values[number - 1] or True) if number <= len(values) else False


def replacement_words(arguments: str, releases: Releases) -> str | None:
    """What to write instead of what, as one clause; None when nothing has a successor."""
    known = remedies(arguments, releases)
    replaced = [remedy for remedy in known if remedy.set]
    if not replaced:
        return None
    new = " ".join(f"{name} {value}".strip() for name, value in _successors(arguments, releases).items())
    rest = [remedy.flag for remedy in known if not remedy.set]
    return (f"Write {new} instead of {' '.join(remedy.words() for remedy in replaced)}"
            + (f" and drop {', '.join(rest)}" if rest else ""))


def spelling_words(arguments: str, releases: Releases) -> str | None:
    """How a misspelt flag is written, when its value is not among the arguments; None when nothing is misspelt."""
    meant = [(remedy.note, remedy.flag) for remedy in remedies(arguments, releases)
             if remedy.kind == "misspelt" and not remedy.set]
    return "; ".join(f"Write {flag} instead of {typed}" for flag, typed in meant) or None


def later_flags(arguments: str, releases: Releases) -> str | None:
    """The flags that only newer releases have; None when there is none."""
    return ", ".join(remedy.flag for remedy in remedies(arguments, releases) if remedy.kind == "later") or None


def later_release(arguments: str, releases: Releases) -> str | None:
    """The first release that has all of them; None when there is none."""
    first = [remedy.since for remedy in remedies(arguments, releases) if remedy.kind == "later"]
    return max(first, key=flags.releases().index) if first else None


def unknown_flag_notes(arguments: str, releases: Releases) -> str | None:
    """One sentence a flag: when it lived, what became of it, or which flag it looks like."""
    return " ".join(_note(remedy) for remedy in remedies(arguments, releases)) or None


def _note(remedy: Remedy) -> str:
    found = flags.lookup(remedy.flag)
    if remedy.kind == "later":
        return f"{remedy.flag} exists from vLLM {remedy.since} on; this release is older."
    if found is not None:
        life = f"{remedy.flag} existed from {found.first} to {found.last}."
        return f"{life} {remedy.note}".strip()
    if remedy.kind == "misspelt":
        return f"No release has {remedy.flag}; {next(iter(remedy.set), remedy.note)} is meant."
    return f"No release has {remedy.flag}."


def as_flag(keyword: str) -> str:
    """A keyword, or how a message names a setting, as a flag: `max_model_len`, `kv cache dtype`."""
    return flags.canonical(keyword.strip().lower().replace(" ", "-"))


def flag_meant(message: str, given: str) -> str | None:
    """The flag of a message that speaks of one of the settings given (keywords, with blanks between) and no other."""
    text = message.lower().replace("-", " ").replace("_", " ")
    meant = {name for name in given.split() if name not in _NOT_MEANT and any(part in text for part in _spoken(name))}
    return as_flag(meant.pop()) if len(meant) == 1 else None


def names_setting(message: str, given: str) -> bool:
    """Return whether a message names one of the given settings (keywords separated by blanks).

    If none is known, any engine argument with a name of several words counts.
    """
    text = message.lower().replace("-", " ").replace("_", " ")
    if given:
        names = [name for name in given.split() if name not in _NOT_MEANT]
        return any(part in text for name in names for part in _spoken(name))
    names = [flag.lstrip("-").replace("-", "_") for flag in table().flags]
    return any(" " in part and part in text for name in names if name not in _NOT_MEANT for part in _spoken(name))


def _spoken(keyword: str) -> tuple[str, ...]:
    core = keyword.removeprefix("enable_").removesuffix("_size").replace("_", " ")
    return _SPOKEN.get(keyword, (core,))
