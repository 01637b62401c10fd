"""What an event adds to a server start: facts, settings, markers, rule hits, the release."""

from __future__ import annotations

from typing import Any

from vllm_doctor.catalog.releases import Releases
from vllm_doctor.command.arguments import typed_arguments
from vllm_doctor.diagnosis.run import Run
from vllm_doctor.events import code_paths
from vllm_doctor.events.event import Event
from vllm_doctor.facts.load_periods import Moment
from vllm_doctor.facts.store import Fact, read_settings
from vllm_doctor.matching.matcher import Hit, Hits, Matcher, PatternRef
from vllm_doctor.options import Options
from vllm_doctor.pages.line_kinds import kind_of
from vllm_doctor.rulebase.model import Pattern, RuleBase
from vllm_doctor.text.omissions import is_omission
from vllm_doctor.text.patterns import lazy_pattern

_OF_ONE_ENGINE = lazy_pattern(r"VllmWorker(?:Process| rank=| TP\d)|Worker_TP\d+(?:_DCP\d+)?(?:_EP\d+)? pid")
_SETTINGS = ("args: ", "non-default args: ", "Initializing a", "Dumping input data", "vLLM gRPC server args: ")
# As programs around vLLM print it, behind a prefix of their own without a quote.
_ENGINE_ARGS = lazy_pattern(r"[^'\"]{0,80}\bEngine args: (?:Async)?EngineArgs\(", cues=("Engine args: ",))
# A command, or a line that goes on one: it shows no server.
_TYPED = lazy_pattern(
    r"\s*(?:$|--[A-Za-z]|\S{0,120}[$#>%] |[$#>%]|\S{0,200}(?:vllm serve|python3? -m vllm|export |VLLM_\w+=))")
# The subcommands in argparse's usage text, which prints `...` below them.
_USAGE = lazy_pattern(r"\s*\{[\w,-]{1,2000}\}\s*")
_JOINED = lazy_pattern(r"\brank (?P<rank>\d{1,6}) in world size \d|\bworld_size=\d{1,6} rank=(?P<of>\d{1,6})\b")
_V1_PROCESSES = ("EngineCore", "VllmWorker ", "Worker_TP", "Worker_DP", "Worker_PP")


class Recorder:
    """Records the events of server starts."""

    def __init__(self, base: RuleBase, options: Options) -> None:
        self.matcher = Matcher(base)
        self._base = base
        self._options = options
        self._previous = ""  # the text of the event before

    def record(self, run: Run, event: Event, text: str, times: int = 0) -> None:
        """Record an event, given its line's text. It represents `times` lines, which the load has already counted."""
        run.last_line = max(run.last_line, event.line)
        run.first_line = run.first_line or event.line
        run.has_output = run.has_output or bool(event.level) or not (_TYPED.match(text) or kind_of(text) == "prose")
        if event.releases and event.releases not in run.prefixes:
            run.prefixes.add(event.releases)
            run.releases = run.releases.narrow(event.releases)
        if event.time and not times and " ip=" not in event.process:  # another machine has another clock
            run.clock.see(event.time, event.level, event.text)
        if event.rank is not None and not ("Ray" in event.process or "Ray" in event.source):  # Ray prints no rank
            run.ranks.add(event.rank)
            if event.is_code and not _serves(run):  # a serving server's lines may be skipped
                self._record_size(run, event)
        elif "world" in text and (joined := _JOINED.search(text)):
            run.ranks.add(int(joined["rank"] or joined["of"]))
        if not times:
            run.remember_block(event)
            run.collect_failure(event, may_quote_client=self.matcher.may_quote_client(event, serves=_serves(run)))
        is_source = event.is_code and event.text.startswith(" ")  # Python's own "..." is in a source line
        if not event.level and not is_source and is_omission(event.text) and not _USAGE.fullmatch(self._previous):
            run.omit(event.line)
        if event.is_code:
            return
        self._previous = event.text
        is_settings = event.text.startswith(_SETTINGS) or _ENGINE_ARGS.match(event.text) is not None
        if is_settings and not (event.refusal or event.frames):
            self._record_settings(run, event)
        if event.frames:
            self.record_code_paths(run, event.frames, event.line)
        self._record_matches(run, event, text, times)

    def record_code_paths(self, run: Run, frames: str, line: int) -> None:
        """Record the facts that only the code paths of a traceback show."""
        for name, value in code_paths.facts_in_code_paths(frames):
            if run.facts.get(name) is None:
                self._record_fact(run, name, value, line)

    def record_raise(self, run: Run, event: Event) -> None:
        """Record what matches an exception of which the log shows only the source line that raises it."""
        self._record_matches(run, event, event.text, 0)

    def _record_matches(self, run: Run, event: Event, text: str, times: int) -> None:
        known_before = run.evidence_count
        extracted: dict[str, Any] = {}
        matches: list[tuple[PatternRef, dict[str, str]]] = []
        for ref, values in self.matcher.matches(event, run.settled, serves=_serves(run)):
            if ref.marker is not None:
                is_of_another = ref.marker.is_of_script and event.process
                if not times and not is_of_another:  # how far it had come was known when the line was kept back
                    run.advance(ref.marker.phase, ref.marker.status, event.line, event.text,
                                is_progress=not ref.marker.is_of_failure)
                continue
            extracted.update(self._record_values(run, ref.pattern, values, event))
            if ref.rule:
                matches.append((ref, values))
            elif ref.pattern.vllm not in run.wordings:  # a rule's wording counts only where the rule fires
                run.wordings.add(ref.pattern.vllm)
                run.releases = run.releases.narrow(ref.pattern.vllm)
        if "running_requests" in extracted and not times:
            run.load.add(extracted, Moment.of(event.line, text))
        run.evidence_count += len(extracted) + len(matches)
        if run.evidence_count > known_before:  # other lines may be skipped: their prefix must not count
            self._record_prefix(run, event, text)
        for ref, values in matches:  # behind the markers, which say the phase that this very line begins
            _record_hit(run, ref, event, values, times or 1)

    def _record_values(self, run: Run, pattern: Pattern, values: dict[str, str], event: Event) -> dict[str, Any]:
        """Record the facts a pattern captured or sets; returns those that were new."""
        extracted = {}
        for name, raw in (*values.items(), *pattern.set.items()):
            if pattern.weak and run.facts.get(name) is not None:
                continue
            fact = self._record_fact(run, name, raw, event.line, event.rank)
            if fact is not None:
                extracted[name] = fact.value
        return extracted

    def _record_fact(self, run: Run, name: str, raw: Any, line: int, rank: int | None = None) -> Fact | None:
        """Record a fact, as `FactStore.add`; a release also decides which wordings can match."""
        fact = run.facts.add(name, raw, line, rank)
        if fact is not None and name == "vllm_version" and not self._options.vllm_version:
            run.releases = Releases.of(str(fact.value))
        return fact

    @staticmethod
    def _record_size(run: Run, event: Event) -> None:
        """Record the number of ranks that the engine has at least, also from the source lines of a traceback."""
        if event.rank and _OF_ONE_ENGINE.match(event.process) and run.facts.exceeds("ranks_at_least", event.rank + 1):
            run.facts.add("ranks_at_least", event.rank + 1, event.line, event.rank)

    def _record_prefix(self, run: Run, event: Event, text: str) -> None:
        """Record the engine's generation, if only one prints such lines, and the number of ranks."""
        self._record_size(run, event)
        if run.facts.get("engine") is None:
            if event.process.startswith("VllmWorkerProcess"):
                run.facts.add("engine", "V0", event.line, event.rank)
            elif event.process.startswith(_V1_PROCESSES) or (event.level and code_paths.is_of_v1(text)):
                run.facts.add("engine", "V1", event.line, event.rank)

    def _record_settings(self, run: Run, event: Event) -> None:
        settings = read_settings(event.text)
        if settings is None or (run.serving_line and settings.kind != "config"):
            return  # a server prints its arguments before it serves
        column = "config" if settings.kind == "config" else "args"
        for definition in self._base.names.values():
            key = getattr(definition, column)
            if key and key in settings.values:
                run.facts.add(definition.name, definition.from_setting(settings.values[key]), event.line, event.rank)
        if settings.kind in ("arguments", "non-default"):
            if settings.values.get("model_tag") and "model" not in settings.values:
                run.facts.add("model", settings.values["model_tag"], event.line)
            run.settings, run.settings_kind = settings.values, settings.kind
            if settings.kind == "non-default":
                run.settings = typed_arguments(settings.values, run.facts.get("vllm_version"))


def _serves(run: Run) -> bool:
    return run.serves or (run.serving_line > 0 and not run.crashed)


def _record_hit(run: Run, ref: PatternRef, event: Event, values: dict[str, str], times: int) -> None:
    """Record that a rule's wording was found, if it counts in the current phase of the start."""
    phase = run.current_phase
    pattern = ref.pattern
    if pattern.phase and phase not in pattern.phase:
        return
    hits = run.hits.setdefault(ref.rule, Hits())
    if ref.part == "also":
        hits.also.add(pattern.id)
        run.settled.add(ref.at)
    elif ref.part == "absent":
        hits.absent.add(pattern.id)
        run.settled.add(ref.at)
    else:
        hits.add(Hit(pattern.id, event.line, event.text, event.rank, event.process, phase, values, event.frames), times)
