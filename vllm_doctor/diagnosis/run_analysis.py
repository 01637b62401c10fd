"""Analyse one start of the server: the facts of its log and of the user's command, and the rules that fire."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from vllm_doctor import phases
from vllm_doctor.catalog.releases import Releases
from vllm_doctor.command import Command
from vllm_doctor.command.arguments import call_from_arguments, from_arguments
from vllm_doctor.command.change_flags import change
from vllm_doctor.command.frontend_finder import FrontendFinder, Seen
from vllm_doctor.command.known_parts import rebuild
from vllm_doctor.diagnosis import ranking
from vllm_doctor.diagnosis.run import Run
from vllm_doctor.facts.store import FactStore
from vllm_doctor.failures import (
    crash_call,
    ends_in_traceback,
    is_answered_with_5xx,
    native_functions,
    raised_by_caller,
    raised_by_engine,
)
from vllm_doctor.failures.frames import engine_class, is_called_by_own_code, origin
from vllm_doctor.failures.model import Frame
from vllm_doctor.gpu_status import Card, choose
from vllm_doctor.matching.matcher import Hit, Hits, fires
from vllm_doctor.memory import derived, model_kv_bytes
from vllm_doctor.options import Options
from vllm_doctor.redact import Redactor
from vllm_doctor.rulebase.model import Rule, RuleBase
from vllm_doctor.text.patterns import lazy_pattern

_BENCHMARK = lazy_pattern(r"vllm/entrypoints/cli/benchmark/(?!main\b|base\b)(?P<name>\w{1,40})\.py")


class RunAnalysis:
    """The analysis of one server start. `typed` is the command that the user gave, or typed in the log.

    `redactor` knows the log's secrets; None where they are to be shown.
    """

    def __init__(self, run: Run, base: RuleBase, options: Options, typed: Command | None = None,
                 redactor: Redactor | None = None, *, is_given: bool = False,
                 programs: FrontendFinder | None = None, cards: tuple[Card, ...] = ()) -> None:
        self.run = run
        self.base = base
        self.options = options
        self.typed = typed
        self.is_given = is_given  # on the command line, not read from the log
        self.redactor = redactor
        self.cards = cards  # the GPUs, as their tools show them beside the log
        self.programs = programs

    @cached_property
    def facts(self) -> dict[str, Any]:
        """Return the run's facts, completed from the command where the log does not print them."""
        facts = self.run.facts.values()
        extracted = FactStore(self.base.names)
        if self.typed is not None:
            arguments = self._typed_arguments
            for name, definition in self.base.names.items():
                if name not in facts and definition.args in arguments:
                    extracted.add(name, definition.from_setting(arguments[definition.args]), 0)
            if "vllm_version" not in facts and self.typed.image_version:
                extracted.add("vllm_version", self.typed.image_version, 0)
        for name, value in self._shown(facts).items():
            extracted.add(name, value, 0)
        values = extracted.values()
        is_wanted = self.options.kv_shape is not None or "gpu_used_gib" in {**values, **facts}
        if is_wanted and (found := model_kv_bytes(self.options.kv_shape, {**values, **facts})):
            values["model_kv_bytes_per_token"] = found
        return {name: facts.get(name, values.get(name)) for name in self.base.names if name in facts or name in values}

    def _shown(self, facts: Mapping[str, Any]) -> dict[str, Any]:
        """Return the facts about the GPU that the options and its tool's output show and the log does not."""
        shown = {} if self.card is None else self.card.facts()
        given = {"gpu_total_gib": self.options.gpu_memory_gib, "gpu_used_gib": self.options.gpu_used_gib}
        shown.update({name: value for name, value in given.items() if value is not None})
        return {name: value for name, value in shown.items() if name not in facts}

    @cached_property
    def card(self) -> Card | None:
        """Return the GPU that the facts are of, as its tool shows it."""
        return choose(self.cards, self.run.facts.values())

    @cached_property
    def releases(self) -> Releases:
        """Return the candidate releases: as printed, by the command's image, or narrowed by the wordings."""
        version = None if self.run.releases.known else self.facts.get("vllm_version")
        return Releases.of(str(version)) if version else self.run.releases

    @cached_property
    def command(self) -> Command | None:
        """Return the user's command, rebuilt from its known parts.

        It is built from the arguments the log prints, if the log does not show the command or shows other values.
        """
        return None if self._rebuilt is None else self._rebuilt[0]

    @cached_property
    def frontend(self) -> Seen | None:
        """Return the program that started vLLM, if the log shows one."""
        if self.programs is None:
            return None
        typed = self.typed
        is_vllm_command = typed is not None and typed.form != "python" and not typed.is_bare
        stacks = self._stacks
        calls = ((place.file, place.function) for frames in stacks for place in map(origin, frames))
        is_own_code = typed is None and any(map(is_called_by_own_code, stacks))
        return self.programs.seen(calls, is_vllm_command=is_vllm_command, is_own_code=is_own_code)

    @property
    def shown_command(self) -> Command | None:
        """Return the command that fixes change: that of the program around vLLM, if there is one."""
        return self.command if self.frontend is None else self.frontend.typed

    @cached_property
    def left_out(self) -> tuple[str, ...]:
        """Return the parts of the user's command that `command` leaves out."""
        return () if self._rebuilt is None else self._rebuilt[1]

    @cached_property
    def differing(self) -> tuple[str, ...]:
        """Return the flags whose typed values differ from the arguments vLLM printed, which take precedence."""
        if self.typed is None or self.is_given or self.run.settings_kind not in {"arguments", "non-default"}:
            return ()
        arguments, printed = self._typed_arguments, self.run.settings
        return tuple(name for name, value in arguments.items()
                     if name in printed and not _is_same_value(value, printed[name]))

    @cached_property
    def _rebuilt(self) -> tuple[Command, tuple[str, ...]] | None:
        command = self.typed
        if self.run.settings and (command is None or "model" in self.differing or _is_unpacked(command)):
            command = self._printed_command
        elif command is not None and self.differing:
            printed = self._printed_command
            named = ("--" + name.replace("_", "-") for name in self.differing)
            wanted = {flag: printed.value(flag) for flag in named}
            command = change(command, {name: value for name, value in wanted.items() if value is not None},
                                           [name for name, value in wanted.items() if value is None])
        return None if command is None else rebuild(command)

    @cached_property
    def _printed_command(self) -> Command:
        settings, version = self.run.settings, self.run.facts.get("vllm_version")
        non_default = self.run.settings_kind == "non-default"
        callee = next(filter(None, map(engine_class, self._stacks)), None) if non_default else None
        call = call_from_arguments(callee, settings, version) if callee else None
        return call or from_arguments(settings, version, non_default_only=non_default)

    @cached_property
    def _stacks(self) -> list[Sequence[Frame]]:
        """Return the calls of each traceback."""
        return [candidate.frames for candidate in self.run.failures.candidates() if candidate.frames]

    @cached_property
    def _common_values(self) -> dict[str, Any]:
        run = self.run
        native = native_functions(run.failures)
        crash = {"native_function": native[0], "native_functions": " ".join(native)} if native else {}
        if call := crash_call(run.failures):
            crash["crash_call"] = call
        if (benchmark := self._benchmark) is not None:
            crash["bench_type"] = benchmark
        typographic = () if self.typed is None else self.typed.typographic_flags
        dashes = {"typographic_flags": " ".join(typographic)} if typographic else {}
        return {**derived(self.facts), **run.load.summary(), **self.facts, "releases": self.releases,
                "run_phase": run.current_phase, "status": run.state(), "serving": bool(run.serving_line),
                "settings_given": " ".join(self._user_settings()), "engine_raised": raised_by_engine(run.failures),
                "caller_raised": raised_by_caller(run.failures),
                "cut_traceback": self.ends_in_traceback, **crash, **dashes}

    @cached_property
    def ends_in_traceback(self) -> bool:
        """Return whether the log of the start ends in a traceback, before its exception."""
        return ends_in_traceback(self.run.failures, self.run.last_line, self.run.healthy_line)

    @cached_property
    def has_cause(self) -> bool:
        """Return whether a rule explains why the start failed."""
        return any(item.is_error_cause for item in self.fired)

    @cached_property
    def _benchmark(self) -> str | None:
        """Return the subcommand of `vllm bench` whose code a traceback shows."""
        found = (_BENCHMARK.search(place.file) for frames in self._stacks for place in map(origin, frames))
        return next((match["name"] for match in found if match), None)

    @cached_property
    def _typed_arguments(self) -> Mapping[str, object]:
        return self.typed.arguments() if self.typed is not None else {}

    def _user_settings(self) -> Iterable[str]:
        """Return the keywords of the user's settings."""
        if self.typed is not None and not _is_unpacked(self.typed):
            return self._typed_arguments
        return self.run.settings if self.run.settings_kind == "non-default" else ()

    def values_for(self, rule: Rule, hits: Hits) -> dict[str, Any]:
        """Return all names a rule's expressions can read: facts, counters, and the numbers of the rule's first hit.

        A warning covers many requests, so the largest number counts; the numbers of an error belong together.
        """
        hit = _with_traceback(hits.first)
        own = FactStore(self.base.names)
        for name, raw in hit.values.items():
            own.add(name, raw, hit.line)
        values = own.values()
        if rule.severity != "error":
            merge_of = self.run.facts.merge_of
            values = {name: value for name, value in values.items() if merge_of(name) not in {"max", "min"}}
        releases = _narrowed(self.releases, rule, hits)
        of_hit = {"releases": releases, "phase": hit.phase, "hits": hits.count, "pattern": hit.pattern,
                  "groups": rule.groups_of(hit.pattern)}
        return {**self._common_values, **values, **of_hit}

    @cached_property
    def fired(self) -> list[ranking.Fired]:
        """Return the rules that fire, ranked."""
        found = []
        for rule_id, hits in self.run.hits.items():
            rule = self.base.rules[rule_id]
            if rule.status == "retired" or rule_id in self.options.ignore or not hits.first:
                continue
            if self.options.only and rule_id not in self.options.only:
                continue
            if fires(rule, hits, self.values_for(rule, hits)):
                passing = rule.survives and self.run.status == "failed"
                of_request = self._is_outlived_request(rule, hits)
                shown = rule._replace(severity="warning") if of_request and rule.severity == "error" else rule
                found.append(ranking.Fired(shown, hits, self._recovered(rule, hits), passing, of_request))
        if any(_ends_server(item) for item in found):  # a client's requests are not what ended it
            found = [item._replace(passing=True) if item.rule.survives and item.rule.phase == "api" else item
                     for item in found]
        return ranking.rank(found)

    @cached_property
    def releases_by_wording(self) -> Releases:
        """Return the releases, narrowed by the wordings of the rules that fire as well."""
        releases = self.releases
        for item in self.fired:
            releases = _narrowed(releases, item.rule, item.hits)
        return releases

    def _is_outlived_request(self, rule: Rule, hits: Hits) -> bool:
        """Return whether only single requests are at fault, and the server rejected them and went on to serve."""
        if hits.first[0].pattern not in rule.of_request or self.run.status == "failed":
            return False
        lines = [hit.line for hit in hits.kept]
        return self._has_served and not is_answered_with_5xx(self.run.failures, lines)

    @cached_property
    def _has_served(self) -> bool:
        """Return whether a server answered requests; no script, whose own error ends it."""
        run = self.run
        return bool(run.serving_line) or (
            run.phase == "runtime" and not run.has_batches and not any(map(is_called_by_own_code, self._stacks)))

    def _recovered(self, rule: Rule, hits: Hits) -> bool:
        """Return whether the server served after a startup fault, so that the fault did not stop it."""
        if rule.severity != "error" or rule.survives or not self.run.serving_line:
            return False
        return phases.ORDER[rule.phase] < phases.ORDER["api"] and hits.first[-1].line < self.run.serving_line


def _ends_server(item: ranking.Fired) -> bool:
    """Return whether it is a fault that no server survives."""
    rule = item.rule
    return item.is_error_cause and rule.phase != "api" and not (
        rule.survives or item.is_fallback or item.recovered)


def _is_same_value(typed: Any, printed: Any) -> bool:
    """Return whether an argument was printed as it was typed, as far as is known."""
    if isinstance(typed, (bool, int, float)) and isinstance(printed, (bool, int, float)):
        return float(typed) == float(printed)
    if isinstance(typed, str) and isinstance(printed, str):
        return typed.strip("/") == printed.strip("/") or not typed
    plain = isinstance(typed, (str, int, float)) and isinstance(printed, (str, int, float))
    return not plain or str(typed) == str(printed)


def _is_unpacked(command: Command) -> bool:
    """Return whether a Python call takes settings from a dict: `LLM(**settings)`."""
    words = (word for option in command.options for word in option.values)
    return command.form == "python" and any(word.text.startswith("**") for word in words)


def _with_traceback(hits: list[Hit]) -> Hit:
    """Return the first hit; if it is the bare message logged before its traceback, the hit that has the calls."""
    first = hits[0]
    if first.frames or not first.values:
        return first
    alike = (hit for hit in hits if hit.values == first.values and hit.process == first.process)
    return next((hit for hit in alike if hit.frames), first)


def _narrowed(releases: Releases, rule: Rule, hits: Hits) -> Releases:
    """Return the releases narrowed to those that print the wordings a rule found."""
    found = {hit.pattern for hit in hits.first}
    for pattern in rule.any:
        if pattern.id in found:
            releases = releases.narrow(pattern.vllm)
    return releases
