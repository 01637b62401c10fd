"""A fix: what to run or set, what it costs, and the numbers that it was computed from."""

from __future__ import annotations

import shlex

from vllm_doctor.catalog import flags
from vllm_doctor.language import ENGLISH, Language
from vllm_doctor.messages import joined
from vllm_doctor.reports.model import Fix, Report
from vllm_doctor.reports.texts.facts import fact_label, value_text

_LANGUAGES = {"python": "python", "yaml": "yaml", "compose": "yaml", "kubernetes": "yaml"}


def effect(fix: Fix) -> str:
    """Return what a fix costs, else why it helps; a step to try always says so."""
    return joined(" ", filter(None, (fix.why if fix.is_step or not fix.cost else "", fix.cost))).translated(str)


def change(fix: Fix, language: Language = ENGLISH) -> tuple[str, str]:
    """Return (language, text) of what to run or set: the command, the patch or the settings; ("", "") if none."""
    if fix.command:
        return "bash", fix.command
    if fix.patch and fix.patch.get("text"):
        return _LANGUAGES.get(str(fix.patch.get("kind")), ""), str(fix.patch["text"])
    if fix.program is not None:  # its steps say what to set, and where
        return "", ""
    return "", "\n".join(settings(fix, language))


def settings(fix: Fix, language: Language = ENGLISH) -> list[str]:
    """Return what a fix sets or removes, each as typed in a shell."""
    return [*(f"{name}={shlex.quote(value)}" for name, value in fix.env.items()),
            *(f"{name} {_words(name, value)}" if value else name for name, value in fix.flags.items()),
            *(language.say("remove {name}", name=name) for name in fix.unset)]


def _words(flag: str, value: str) -> str:
    """Return a flag's value as typed in a shell, as several words if it takes several integers."""
    known = flags.lookup(flag)
    if known is not None and known.kind == "list" and all(word.isdigit() for word in value.split()):
        return value
    return shlex.quote(value)


def proof(report: Report, fix: Fix) -> str:
    """Return the log's own numbers that a fix was computed from, with their names."""
    known = [name for name in fix.proof if name in report.facts or name in report.derived]
    numbers = (f"{fact_label(name, report.language)} {value_text(fix.proof[name])}" for name in known)
    return joined(", ", numbers).translated(report.language.gettext)
