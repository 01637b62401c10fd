"""Filters about unrecognized flags: what they were, and what to write instead."""

from __future__ import annotations

from collections.abc import Sequence

from vllm_doctor.catalog import flags, subcommand_flags
from vllm_doctor.catalog.other_flags import other_flags
from vllm_doctor.catalog.releases import Releases
from vllm_doctor.command.flag_remedies import Remedy, remedies, split_arguments, successors
from vllm_doctor.messages import joined, message, text

__all__ = [
    "flags_with_dashes",
    "later_flags",
    "later_release",
    "meant_parameter",
    "replacement_flag",
    "replacement_value",
    "replacement_words",
    "spelling_words",
    "unknown_flag_notes",
    "unknown_flags",
]

_NO_FLAG = "--model"  # in place of a missing flag; its value False means "do not change it"


def unknown_flags(arguments: str) -> str | None:
    """Return the flags among argparse's unrecognized arguments: `--swap-space --foo` for `--swap-space 4 --foo=1`."""
    return " ".join(dict.fromkeys(name for name, _ in split_arguments(arguments))) or None


def replacement_flag(arguments: str, releases: Releases, number: int = 1) -> str:
    """Return the name of the number-th flag to write instead; a placeholder if there are fewer."""
    names = list(successors(arguments, releases))
    return names[number - 1] if number <= len(names) else _NO_FLAG


def replacement_value(arguments: str, releases: Releases, number: int = 1) -> str | bool:
    """Return the value of the number-th flag to write instead; False if there are fewer."""
    values = list(successors(arguments, releases).values())
    return (values[number - 1] or True) if number <= len(values) else False


def replacement_words(arguments: str, releases: Releases) -> str | None:
    """Return a clause that says which flags to write instead of which; None if no flag has a replacement."""
    known = remedies(arguments, releases)
    replaced = [remedy for remedy in known if remedy.set]
    if not replaced:
        return None
    new = " ".join(f"{name} {value}".strip() for name, value in successors(arguments, releases).items())
    rest = [remedy.flag for remedy in known if not remedy.set]
    typed = " ".join(remedy.as_typed() for remedy in replaced)
    if not rest:
        return message("Write {new} instead of {typed}", new=new, typed=typed)
    return message("Write {new} instead of {typed} and drop {rest}", new=new, typed=typed, rest=joined(", ", rest))


def spelling_words(arguments: str, releases: Releases) -> str | None:
    """Return the correct spelling of misspelt flags whose value is not among the arguments; None if there are none."""
    meant = [(remedy.note, remedy.flag) for remedy in remedies(arguments, releases)
             if remedy.kind in {"misspelt", "dashes"} and not remedy.set]
    spellings = (message("Write {new} instead of {typed}", new=flag, typed=typed) for flag, typed in meant)
    return joined("; ", spellings) or None


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
    if remedy.flag in other_flags().containers:
        return message("{flag} is an option of docker run and goes before the image.", flag=remedy.flag)
    return message("No release has {flag}.", flag=remedy.flag)


def _of_subcommand(flag: str, subcommand: str, spans: Sequence[tuple[str, str | None]]) -> str:
    last = spans[-1][1]
    if last is None:
        return message("{flag} is a flag of `vllm {subcommand}`.", flag=flag, subcommand=subcommand)
    return message("{flag} was a flag of `vllm {subcommand}` up to {last}.", flag=flag, subcommand=subcommand,
                   last=last)
