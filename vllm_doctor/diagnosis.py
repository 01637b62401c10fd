"""The one way in and the one way out: bytes are fed, a report comes out.

`diagnose` reads a whole log; `watch` feeds the same `Diagnosis` as the bytes arrive. The same bytes give the same
report however they are cut.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import IO, Any

from vllm_doctor import phases, ranking
from vllm_doctor.command import Command, CommandFinder, from_arguments
from vllm_doctor.errors import InputError
from vllm_doctor.events import Event, EventReader
from vllm_doctor.facts import FactStore, read_settings
from vllm_doctor.lines import Line, LineReader
from vllm_doctor.load import Load
from vllm_doctor.match import Hit, Hits, Matcher, fires
from vllm_doctor.options import Options
from vllm_doctor.releases import Releases
from vllm_doctor.report.build import build
from vllm_doctor.report.model import Report
from vllm_doctor.rules import RuleBase
from vllm_doctor.rules import load as load_rules

# uvicorn's line of a request that went well: most of a busy server's log, and nothing else can stand in it.
_SERVED = re.compile(r'(?:\(APIServer(?:_\d+)? pid=\d+\) )?INFO: {1,8}[\w.:\[\]-]+ - "[A-Z]+ [^"\s]{1,300} HTTP/\d(?:\.\d)?" 20\d \w+')
_KEEP_RUNS = 16
_CHUNK = 1 << 18
_BLOCK_LINES = 60


@dataclass
class Run:
    """One start of the server, as far as the log shows it."""

    number: int
    facts: FactStore
    releases: Releases
    first_line: int = 1
    hits: dict[str, Hits] = field(default_factory=dict)
    phase: str = ""
    status: str = ""
    serving_line: int = 0  # where it began to serve
    load: Load = field(default_factory=Load)
    settings: dict[str, Any] = field(default_factory=dict)
    settings_kind: str = ""
    command: Command | None = None
    command_line: int = 0
    block: list[tuple[int, str]] = field(default_factory=list)
    block_process: str = ""
    block_open: bool = False
    events: int = 0


class Diagnosis:
    """Reads a log piece by piece. Memory does not grow with the log.

    `live` says that the bytes come from a running server: then no line waits to be joined to the next one, as the
    lines of a log that a terminal wrapped are.
    """

    def __init__(self, options: Options | None = None, path: str = "-", *, live: bool = False) -> None:
        self.options = options or Options()
        self.path = path
        self.base: RuleBase = load_rules(self.options.rules)
        self._matcher = Matcher(self.base)
        self._lines = LineReader(join_wrapped=not live)
        self._events = EventReader()
        self._finder = CommandFinder()
        self._given = given_command(self.options)
        self.runs: deque[Run] = deque([self._new_run(1, 1)], maxlen=_KEEP_RUNS)
        self.chosen: Run | None = None  # the run asked for by number, kept when others are dropped
        self.run_count = 1
        self._finished = False
        self._skipped_lines = 0
        self._run_begins = False  # a new start was seen, its command may still be being typed

    @property
    def reader(self) -> LineReader:
        """The reader of the bytes: what it recognised (encoding, wrappers) and counted."""
        return self._lines

    @property
    def given_command(self) -> Command | None:
        """The command the user told, if any."""
        return self._given

    def feed(self, data: bytes) -> None:
        """Read some more bytes."""
        for line in self._lines.feed(data):
            self._line(line)

    def skip(self, lines: int) -> None:
        """Note that so many lines were not fed, so that line numbers stay right."""
        self._skipped_lines += lines

    def finish(self) -> Report:
        """The report on everything fed. Nothing can be fed afterwards."""
        if not self._finished:
            self._finished = True
            for line in self._lines.finish():
                self._line(line)
            self._finder.finish()
        return build(self)

    def snapshot(self) -> Report:
        """The report on what was fed so far; more can be fed."""
        return build(self)

    def _new_run(self, number: int, line: int) -> Run:
        version = self.options.vllm_version
        run = Run(number, FactStore(self.base.names), Releases.of(version) if version else Releases.every(), line)
        if version:
            run.facts.add("vllm_version", version, 0)
        return run

    def _line(self, line: Line) -> None:
        if self._skipped_lines:
            line = Line(line.number + self._skipped_lines, line.text, line.source)
        if line.text.endswith(" OK") and _SERVED.fullmatch(line.text):
            _advance(self.runs[-1], "runtime", "", line.number)
            return
        self._finder.feed(line.number, line.text)
        if self._run_begins and not self._finder.reading:
            self._finder.start_run()
            self._run_begins = False
        for event in self._events.read(line):
            run = self.runs[-1]
            if event.run != run.number:
                run = self._next_run(event)
            self._event(run, event)

    def _next_run(self, event: Event) -> Run:
        old = self.runs[-1]
        old.command, old.command_line = self._finder.command, self._finder.line or 0
        self._run_begins = True
        run = self._new_run(event.run, event.line)
        self.runs.append(run)
        self.run_count = event.run
        if self.options.run == event.run:
            self.chosen = run
        return run

    def _event(self, run: Run, event: Event) -> None:
        run.events += 1
        self._remember_block(run, event)
        if event.is_code:
            return
        if "args: " in event.text or "with config: " in event.text:
            self._settings(run, event)
        seen: dict[str, Any] = {}
        hits: list[tuple[str, str, Hit]] = []
        for waiting, match in self._matcher.matches(event):
            pattern = waiting.pattern
            if waiting.marker is not None:
                _advance(run, waiting.marker.phase, waiting.marker.status, event.line)
                continue
            for name, raw in (*match.groupdict().items(), *pattern.set.items()):
                fact = run.facts.add(name, raw, event.line, event.rank)
                if fact is not None:
                    seen[name] = fact.value
                    if name == "vllm_version" and not self.options.vllm_version:
                        run.releases = Releases.of(str(fact.value))
            run.releases = run.releases.narrow(pattern.vllm)
            if waiting.rule is not None:
                hits.append((waiting.rule.id, waiting.part, Hit(
                    pattern.id, event.line, event.text, event.rank, event.process, "",
                    {name: raw for name, raw in match.groupdict().items() if raw is not None}, event.frames)))
        run.load.add(seen)
        for rule_id, part, hit in hits:
            self._hit(run, rule_id, part, hit)

    def _hit(self, run: Run, rule_id: str, part: str, hit: Hit) -> None:
        """Note a hit, if it counts in the phase the start has reached."""
        rule = self.base.rules[rule_id]
        phase = run.phase or "args"
        pattern = next(item for item in getattr(rule, part) if item.id == hit.pattern)
        if pattern.phase and phase not in pattern.phase:
            return
        hits = run.hits.setdefault(rule_id, Hits())
        if part == "also":
            hits.also.add(hit.pattern)
        elif part == "absent":
            hits.absent = True
        else:
            hits.add(Hit(hit.pattern, hit.line, hit.text, hit.rank, hit.process, phase, hit.values, hit.frames))

    def _settings(self, run: Run, event: Event) -> None:
        settings = read_settings(event.text)
        if settings is None:
            return
        column = "config" if settings.kind == "config" else "args"
        for definition in self.base.names.values():
            key = getattr(definition, column)
            if key and key in settings.values:
                run.facts.add(definition.name, settings.values[key], event.line, event.rank)
        if settings.kind != "config":
            if settings.values.get("model_tag") and "model" not in settings.values:
                run.facts.add("model", settings.values["model_tag"], event.line)
            run.settings, run.settings_kind = settings.values, settings.kind

    def _remember_block(self, run: Run, event: Event) -> None:
        """Keep the first traceback of a run: what is shown when no rule knows the cause."""
        if not run.block and "Traceback (most recent call last):" in event.text:
            run.block_open, run.block_process = True, event.process
        if not run.block_open or event.process != run.block_process:
            return
        run.block.append((event.line, event.text))
        del run.block[1:-_BLOCK_LINES]  # its first line and the last ones, where the exception is
        if event.frames:
            run.block_open = False

    def certain(self) -> str | None:
        """The id of the cause of the current run, once the run has failed; None before."""
        run = self.runs[-1]
        if run.status != "failed":
            return None
        first = next(iter(self.fired(run)), None)
        sure = first is not None and first.rule.role == "cause" and first.rule.severity == "error"
        return first.rule.id if sure and first is not None and not first.rule.fallback else None

    def chosen_run(self) -> Run:
        """The run the report is about. Raises InputError when there is no run of the number asked for."""
        wanted = self.options.run
        if wanted is not None:
            for run in (*self.runs, *([self.chosen] if self.chosen else [])):
                if run.number == wanted:
                    return run
            raise InputError(f"there is no run {wanted}: the log holds {self.run_count}")
        last = self.runs[-1]
        if last.status or self.fired(last):
            return last
        told = [run for run in self.runs if run.status == "failed" or self.fired(run)]
        return told[-1] if told else last

    def facts_of(self, run: Run) -> dict[str, Any]:
        """The run's facts; what the log does not print but the command says is added from there."""
        facts = run.facts.values()
        told = FactStore(self.base.names)
        command = self.typed_command(run)
        if command is not None:
            arguments = command.arguments()
            for name, definition in self.base.names.items():
                if name not in facts and definition.args in arguments:
                    told.add(name, arguments[definition.args], 0)
            if "vllm_version" not in facts and command.image_version:
                told.add("vllm_version", command.image_version, 0)
        if self.options.gpu_memory_gib is not None and "gpu_total_gib" not in facts:
            told.add("gpu_total_gib", self.options.gpu_memory_gib, 0)
        said = told.values()
        return {name: facts.get(name, said.get(name)) for name in self.base.names if name in facts or name in said}

    def releases_of(self, run: Run) -> Releases:
        """The releases the run can be of: as printed, as told by the command's image, or narrowed by its wording."""
        version = None if run.releases.known else self.facts_of(run).get("vllm_version")
        return Releases.of(str(version)) if version else run.releases

    def known(self, run: Run, hit: Hit | None = None) -> dict[str, Any]:
        """Everything a rule's expressions can read: the run's facts, counters, and one hit's own numbers."""
        from vllm_doctor.memory import derived  # noqa: PLC0415 - not needed while reading

        facts = self.facts_of(run)
        known = {**derived(facts), **run.load.summary(), **facts}
        known.update(releases=self.releases_of(run), run_phase=run.phase or "args", status=run.status or "unknown",
                     serving=bool(run.serving_line))
        if hit is not None:
            own = FactStore(self.base.names)
            for name, raw in hit.values.items():
                own.add(name, raw, hit.line)
            known.update(own.values())
            hits = next((h for h in run.hits.values() if hit in h.first), None)
            known.update(phase=hit.phase, hits=hits.count if hits else 1)
        return known

    def fired(self, run: Run) -> list[ranking.Fired]:
        """The rules that fire on a run, ranked."""
        found = []
        for rule_id, hits in run.hits.items():
            rule = self.base.rules[rule_id]
            if rule.status == "retired" or rule_id in self.options.ignore or not hits.first:
                continue
            if self.options.only and rule_id not in self.options.only:
                continue
            if fires(rule, hits, self.known(run, hits.first[0])):
                found.append(ranking.Fired(rule, hits, _recovered(rule.severity, rule.phase, rule.survives, hits, run)))
        return ranking.rank(found)

    def typed_command(self, run: Run) -> Command | None:
        """What the user ran: as told, or as typed in the log before (or printed after) this start."""
        if self._given is not None:
            return self._given
        return run.command or (self._finder.command if run is self.runs[-1] else None)

    def command_of(self, run: Run) -> Command | None:
        """What the user ran; put together from the arguments the log prints, where it is not shown itself."""
        typed = self.typed_command(run)
        if typed is None and run.settings:
            return from_arguments(run.settings, run.facts.get("vllm_version"),
                                  non_default_only=run.settings_kind == "non-default")
        return typed


def _recovered(severity: str, phase: str, survives: bool, hits: Hits, run: Run) -> bool:
    """Whether the server came up and served after a fault of its start, so that this was not what stopped it."""
    if severity != "error" or survives or not run.serving_line:
        return False
    return phases.ORDER[phase] < phases.ORDER["api"] and hits.first[-1].line < run.serving_line


def _advance(run: Run, phase: str, status: str, line: int) -> None:
    if phase and (not run.phase or phases.ORDER[phase] > phases.ORDER[run.phase]):
        run.phase = phase
    if status and not (status == "stopped" and run.status == "failed"):
        run.status = status
        if status == "serving" and not run.serving_line:
            run.serving_line = line


def given_command(options: Options) -> Command | None:
    """The command the user told with `--command` or `--config`. Raises InputError when it is none."""
    from vllm_doctor.command import parse  # noqa: PLC0415 - only when asked

    text = options.command or options.config
    if not text:
        return None
    command = parse(text)
    if command is None:
        raise InputError("the command given is not one that starts vLLM")
    return command


def diagnose(source: str | bytes | os.PathLike[str] | IO[bytes] | Iterable[bytes],
             options: Options | None = None, *, path: str | None = None) -> Report:
    """Diagnose one log.

    `source` is the log's bytes, a path (also `.gz`, `.xz`, `.bz2`, `.zst`), a binary file, or an iterable of bytes.
    Raises InputError when it cannot be read.
    """
    from vllm_doctor.inputs import chunks, is_path  # noqa: PLC0415 - not needed by `watch`

    name = path or (os.fspath(source) if is_path(source) else "-")
    diagnosis = Diagnosis(options, str(name))
    for chunk in chunks(source, _CHUNK):
        diagnosis.feed(chunk)
    return diagnosis.finish()

