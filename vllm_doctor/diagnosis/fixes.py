"""Finding -> Fix: computes a rule's ways out with this log's numbers, for the user's release and command.

A fix drops out when a condition does not hold or a number it needs is unknown, when the release has not got its flag or
value, and when it would change nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from types import MappingProxyType
from typing import Any, NamedTuple

from vllm_doctor.catalog import flags, subcommand_flags
from vllm_doctor.catalog.releases import Releases, admitted, span_words
from vllm_doctor.command import Command
from vllm_doctor.command.change_flags import change
from vllm_doctor.command.frontend_finder import Seen
from vllm_doctor.command.frontend_settings import translate
from vllm_doctor.command.render import render, render_patch
from vllm_doctor.diagnosis.fix_order import Candidate, ordered, says_to_try
from vllm_doctor.diagnosis.run_analysis import RunAnalysis
from vllm_doctor.logs.untrusted_text import HIDDEN
from vllm_doctor.messages import message
from vllm_doctor.reports.model import Fix, ProgramChange
from vllm_doctor.rulebase.model import Action, Case, FixRule, Rule
from vllm_doctor.templating import evaluator, renderer
from vllm_doctor.templating.evaluator import UNKNOWN
from vllm_doctor.text.patterns import lazy_pattern

_NEGATIVE = lazy_pattern(r"-\d[\d.]*")
_LOADS_CODE = frozenset({
    "--middleware", "--tool-parser-plugin", "--reasoning-parser-plugin", "--worker-cls", "--worker-extension-cls",
    "--logits-processors", "--scheduler-cls", "--io-processor-plugin", "--trust-remote-code",
    "LD_PRELOAD", "LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONSTARTUP",
    "BASH_ENV", "ENV", "PATH", "IFS", "PROMPT_COMMAND", "VLLM_PLUGINS", "VLLM_ALLOW_INSECURE_SERIALIZATION",
})  # fmt: skip
"""Flags and variables whose values are code, or where to find it."""


class FixContext(NamedTuple):
    """What fixes are computed from: the facts, the releases it can be, what the user ran."""

    known: Mapping[str, Any]
    releases: Releases
    actions: Mapping[str, Action]
    command: Command | None = None
    settings: Mapping[str, Any] = MappingProxyType({})  # keyword -> value the server was started with
    mask: Callable[[str], str] = str  # hides secrets in a text
    frontend: Seen | None = None  # the program around vLLM

    @classmethod
    def of(cls, analysis: RunAnalysis, known: Mapping[str, Any], mask: Callable[[str], str]) -> FixContext:
        """Return what the fixes of a start are computed from; `known` are its facts and what a rule computed."""
        return cls(known, analysis.releases_by_wording, analysis.base.actions, analysis.command,
                   analysis.run.settings, mask, analysis.frontend)


def let(rule: Rule, known: Mapping[str, Any]) -> dict[str, Any]:
    """Return the rule's own quantities, each from the first of its expressions that can be computed."""
    values: dict[str, Any] = {}
    for name, alternatives in rule.let.items():
        for source in alternatives:
            value = _value(source, {**known, **values})
            if value is not UNKNOWN:
                values[name] = value
                break
    return values


def fixes(rule: Rule, context: FixContext, limit: int) -> tuple[Fix, ...]:
    """Return the rule's fixes that apply here, best first: as the rule has them, or by what the user loses."""
    offered = ((entry, _fix(entry, rule, context)) for entry in rule.fixes)
    if rule.order == "loss":
        candidates = [Candidate(fix, _suffices(entry, context.known)) for entry, fix in offered if fix is not None]
        return tuple(ordered(candidates, context.known)[:limit])
    return tuple(islice(_distinct(fix for _, fix in offered if fix is not None), limit))


def applies(entry: FixRule | Case, known: Mapping[str, Any]) -> bool:
    """Return whether one of the patterns of a fix or case has matched and all its conditions hold."""
    return ((not entry.patterns or known.get("pattern") in entry.patterns)
            and all(evaluator.parse(source).holds(known) for source in entry.when))


def _distinct(offered: Iterable[Fix]) -> Iterator[Fix]:
    """Yield the fixes that change other settings than those before them, or have steps of their own."""
    changed: set[tuple[object, ...]] = set()
    for fix in offered:
        change = (*sorted(fix.flags.items()), *sorted(fix.unset), *sorted(fix.env.items()))
        if not change or fix.action or change not in changed:
            yield fix
        changed.add(change)


def _suffices(entry: FixRule, known: Mapping[str, Any]) -> bool:
    """Return whether the numbers of the log prove that a fix suffices."""
    return bool(entry.suffices) and all(evaluator.parse(source).holds(known) for source in entry.suffices)


def _fix(entry: FixRule, rule: Rule, context: FixContext) -> Fix | None:
    known, releases = context.known, context.releases
    if not applies(entry, known):
        return None
    if entry.vllm and releases.admits(entry.vllm) is False:
        return None
    wanted = _typed_values(entry.set, known)
    env = _typed_values(entry.env, known)
    if wanted is None or env is None:
        return None
    if not (_may_offer(entry.set, wanted, known) and _may_offer(entry.env, env, known)):
        return None
    wanted = {name: value for name, value in wanted.items() if not _is_already_set(name, value, context)}
    drop = tuple(name for name in _flag_names(entry.unset, known) if _can_remove(name, context))
    if context.command and context.command.entry == "call" and any(map(_is_of_server, wanted)):
        return None  # `LLM(…)` would reject the argument
    if wanted and not drop and not all(name.startswith("-") for name in entry.unset):
        return None  # the word to be replaced does not stand in the command, so it would go on failing
    missing = [name for name, value in wanted.items() if not _exists(name, value, releases)]
    missing += [name for name in env if not all(flags.env_exists(name, release) for release in releases.candidates)]
    maybe = not releases.known and not any(_is_in_no_release(name, releases) for name in missing)
    if (missing and not maybe) or not (wanted or env or drop or entry.action):
        return None
    title = renderer.render_line(entry.title, known)
    if title is None:
        return None
    needs = _needs(entry, missing, releases)
    action = context.actions.get(entry.action)
    command = None
    if context.command and (wanted or env or drop):
        command = change(context.command, wanted, drop, env).masked(context.mask)
        if command == context.command.masked(context.mask):  # the shown command has these settings already
            if not entry.action:
                return None
            wanted, env, drop, command = {}, {}, (), None
    patch = render_patch(command) if command is not None else None
    why = renderer.render_line(entry.why, known) or ""
    fix = Fix(
        id=entry.id,
        title=message("{title} (vLLM {releases})", title=title, releases=span_words(needs)) if needs else title,
        flags=wanted,
        unset=drop,
        env=env,
        action=entry.action or None,
        steps=_steps(action, known),
        command=render(command) if command is not None and patch is None else None,
        patch=patch,
        why=why,
        cost=renderer.render_line(entry.cost, known) or "",
        safety=entry.safety,
        verify=renderer.render_line(entry.verify or rule.verify, known) or "",
        proof=_proof(entry, rule, known),
        is_step=says_to_try(why),
    )
    return _in_program(fix, context)


def _in_program(fix: Fix, context: FixContext) -> Fix:
    """Return the fix in the words of the program around vLLM, if there is one."""
    seen = context.frontend
    if seen is None or not (fix.flags or fix.env or fix.unset):
        return fix
    if seen.typed is not None:
        seen = seen._replace(typed=seen.typed.masked(context.mask))
    translated = translate(seen, fix.flags, fix.unset, fix.env)
    return fix._replace(
        command=translated.command, patch=translated.patch, steps=(*translated.notes, *fix.steps),
        program=ProgramChange(translated.program, dict(translated.settings), translated.missing,
                              translated.shown))


def _steps(action: Action | None, known: Mapping[str, Any]) -> tuple[str, ...]:
    if action is None:
        return ()
    lines = (renderer.render_line(step, known) for step in action.steps)
    return tuple(step for step in lines if step)


def _value(source: Any, known: Mapping[str, Any]) -> Any:
    return evaluator.parse(source).value(known) if isinstance(source, str) else source


def _typed_values(entries: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, str] | None:
    """Return flags or variables with their values as typed; None if one cannot be computed."""
    values: dict[str, str] = {}
    for name, source in entries.items():
        value = _value(source, known)
        names = _flag_names((name,), known)
        if value is UNKNOWN or not names:
            return None
        if value is not False:
            values[names[0]] = typed(value)
    return values


def _may_offer(entries: Mapping[str, Any], values: Mapping[str, str], known: Mapping[str, Any]) -> bool:
    """Return whether values from the log may be used in the flags and variables of a fix.

    A value must not begin with a dash or name code to load, and a variable must be one that vLLM has.
    """
    for name, source in entries.items():
        is_read = isinstance(source, str) and bool(evaluator.parse(source).names)
        for flag in _flag_names((name,), known)[:1]:
            value = values.get(flag, "")
            is_option = value.startswith("-") and not _NEGATIVE.fullmatch(value)
            if is_read and (is_option or HIDDEN in value or "\n" in value):
                return False
            if (is_read and flag in _LOADS_CODE) or (flag != name and not _may_be_named_by_log(flag)):
                return False
    return True


def _may_be_named_by_log(name: str) -> bool:
    """Return whether a log may name a flag or variable to be set."""
    if name.startswith("-"):
        return name.partition("=")[0] not in _LOADS_CODE
    return flags.env(name) is not None and name not in _LOADS_CODE


def _flag_names(names: tuple[str, ...], known: Mapping[str, Any]) -> tuple[str, ...]:
    """Return flags and variables (in capitals) unchanged; any other name is a fact that holds one or more of them."""
    result: list[str] = []
    for name in names:
        if name.startswith("-") or name[:1].isupper():
            result.append(name)
        elif name in known:
            held = [word.partition("=")[0] for word in str(known[name]).split()]
            result.extend(word for word in held if word.startswith("-") or word.isupper())
    return tuple(dict.fromkeys(result))


def typed(value: Any) -> str:
    """Return a value as typed on a command line; "" for a flag that takes none."""
    if value is True:
        return ""
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else f"{value:.6f}".rstrip("0").rstrip(".")
    return str(value)


def _is_of_server(name: str) -> bool:
    """Return whether a flag is one of the API server, which `LLM()` and `EngineArgs` do not have."""
    flag = flags.lookup(name)
    return flag is not None and flag.keyword is None


def _exists(name: str, value: str, releases: Releases) -> bool:
    flag = flags.lookup(name)
    if flag is None:
        return any(subcommand_flags.exists(name, release) for release in releases.candidates)
    for release in releases.candidates:
        if not flag.exists(release):
            return False
        if "." in name:  # one key of a JSON flag, as FlexibleArgumentParser reads it
            if release not in admitted(">=0.9.2"):
                return False
        elif value and not flag.accepts(value, release):
            return False
    return True


def _is_in_no_release(name: str, releases: Releases) -> bool:
    """Return whether none of the candidate releases has the flag or variable."""
    if name.startswith("-"):
        flag = flags.lookup(name)
        return flag is None or not any(flag.exists(release) for release in releases.candidates)
    return not any(flags.env_exists(name, release) for release in releases.candidates)


def _needs(entry: FixRule, missing: list[str], releases: Releases) -> str:
    """Return the releases a fix needs if it is unknown whether this is one of them, else ""."""
    if entry.vllm and releases.admits(entry.vllm) is None:
        return entry.vllm
    for name in missing:
        flag = flags.lookup(name)
        if flag is None and flags.env(name) is None:
            continue
        first, last = (flag.first, flag.last) if flag else flags.env_span(name)
        return f">={first}" + (f", <={last}" if last and last != flags.releases()[-1] else "")
    return ""


def _is_already_set(name: str, value: str, context: FixContext) -> bool:
    """Return whether the server was already started with this value."""
    flag = flags.lookup(name)
    if flag is None or not flag.keyword or flag.keyword not in context.settings:
        return False
    current = context.settings[flag.keyword]
    if value == "":
        is_off = flags.canonical(name) in {flag.negation(), flag.inverses.at(flag.last_index)}
        return current is (not is_off)
    if isinstance(current, (int, float)) and not isinstance(current, bool):
        try:
            return float(value) == float(current)
        except (ValueError, OverflowError):
            return False
    return str(current) == value


def _can_remove(name: str, context: FixContext) -> bool:
    """Return whether the command has the flag to remove, as far as the command is known."""
    if context.command is None:
        return True
    if context.command.value(name) is not None:
        return True
    # Also `--flag.key value`, and a value that the shell has in a variable.
    return "." not in name and not name.startswith("--no-") and bool(context.command.find(name))


def _proof(entry: FixRule, rule: Rule, known: Mapping[str, Any]) -> dict[str, Any]:
    """Return the numbers a fix was computed from, so that anyone can check it."""
    sources = (*entry.set.values(), *entry.env.values(), *entry.when, *entry.suffices)
    todo = [source for source in sources if isinstance(source, str)]
    names: dict[str, None] = {}
    while todo:
        for name in sorted(evaluator.parse(todo.pop(0)).names):
            if name in known and name not in names and name != "pattern":
                names[name] = None
                todo.extend(source for source in rule.let.get(name, ()) if isinstance(source, str))
    values = ((name, known[name]) for name in names)
    return {name: str(value) if isinstance(value, str) else value for name, value in values
            if isinstance(value, (int, float, str))}
