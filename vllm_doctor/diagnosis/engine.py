"""The one way in and the one way out: bytes are fed, a report comes out.

`diagnose` reads a whole log; `watch` feeds the same `Diagnosis` as the bytes arrive. The same bytes give the same
report however they are cut.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import IO, Any

from vllm_doctor.catalog.releases import Releases
from vllm_doctor.command import Command, CommandFinder, parse
from vllm_doctor.command.finder import WORDS as COMMAND_WORDS
from vllm_doctor.diagnosis.log_notes import Reading, is_omission, notes, recognised
from vllm_doctor.diagnosis.report_builder import build
from vllm_doctor.diagnosis.run import Run
from vllm_doctor.diagnosis.run_analysis import Case
from vllm_doctor.diagnosis.stalls import stalled
from vllm_doctor.errors import InputError
from vllm_doctor.events import code_paths
from vllm_doctor.events.reader import WORDS as EVENT_WORDS
from vllm_doctor.events.reader import Event, EventReader, StartNote, is_record
from vllm_doctor.facts.load_periods import Moment
from vllm_doctor.facts.store import Fact, FactStore, read_settings
from vllm_doctor.fastpath import line_skipper
from vllm_doctor.fastpath.line_scanner import Shape
from vllm_doctor.fastpath.line_skipper import Mode, Reader, mode_of, scanner
from vllm_doctor.fastpath.repeated_messages import Plan, Repeats, plan, printed
from vllm_doctor.fastpath.retained_lines import Kept
from vllm_doctor.fastpath.statistics_lines import Sample, Samples
from vllm_doctor.fastpath.tracebacks import Traceback
from vllm_doctor.literal_search import any_of
from vllm_doctor.logs.encoding import printable
from vllm_doctor.logs.inputs import chunks, is_path
from vllm_doctor.logs.lines import Line, LineReader
from vllm_doctor.logs.wrappers.byte_patterns import Front
from vllm_doctor.matching.matcher import Hit, Hits, Matcher, Waiting, compiled
from vllm_doctor.options import Options
from vllm_doctor.patterns import lazy
from vllm_doctor.redact import Redactor
from vllm_doctor.reports.model import Report, Source
from vllm_doctor.rulebase.loader import load as load_rules
from vllm_doctor.rulebase.model import RuleBase

_STRUCTURE = (*EVENT_WORDS, *COMMAND_WORDS)
KEEP_RUNS = 16
_OF_ONE_ENGINE = lazy(r"VllmWorker(?:Process| rank=| TP\d)|Worker_TP\d+(?:_DCP\d+)?(?:_EP\d+)? pid")
_V1_PROCESSES = ("EngineCore", "VllmWorker ", "Worker_TP", "Worker_DP", "Worker_PP")
_SHORT = 512  # bytes of a line about which it is remembered what it is
_CHUNK = 1 << 18
_MOST_NOTES = 1 << 12
_CUT_OFF = 20  # lines within which a traceback that has not ended is what the log ends in


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
        self._skimmer = line_skipper.Skimmer(Reader(
            self._mode, self._next_number, self._awaits, self._sample, self._read_short, self._read_traceback,
            self._read_ending, self._read_alone, self._lines.skip))
        self._events = EventReader()
        self._finder = CommandFinder()
        self._given = given_command(self.options)
        self._redactor = None if self.options.show_secrets else Redactor()
        if self._redactor:
            self._redactor.learn(self.options.command or self.options.config or "")
        self.runs: deque[Run] = deque([self._new_run(1)], maxlen=KEEP_RUNS)
        self.chosen: Run | None = None  # the run asked for by number, kept when others are dropped
        self._finished = False
        self._past = False
        # Lines to come that are all read where a server no longer serves: most logs end soon behind its end, and to
        # prepare for passing lines over there costs as much as to read so many.
        self._patience: int | None = None
        self._quiet: Mode | None = None  # what `_mode` answers as long as no line is awaited
        self._start_notes: dict[tuple[bytes, bytes, bytes], StartNote] = {}
        self._keys: dict[tuple[bytes, bytes], str] = {}  # of processes, by their source and prefix
        self._skipped_lines = 0
        self._run_begins = False  # a new start was seen, its command may still be being typed

    @property
    def reader(self) -> LineReader:
        """The reader of the bytes: what it recognised (encoding, wrappers) and counted."""
        return self._lines

    @property
    def run_count(self) -> int:
        """How many starts of the server were seen so far."""
        return self._events.run

    def feed(self, data: bytes, *, past: bool = False) -> None:
        """Read some more bytes. `past`: the starts in them are among those of which no more is asked than that."""
        if past != self._past:
            self._past, self._quiet = past, None
        for piece in self._skimmer.pieces(data):
            self._read(piece)

    def skip(self, lines: int) -> None:
        """Note that so many lines were not fed, so that line numbers stay right."""
        self._skipped_lines += lines
        self._quiet = None

    def finish(self) -> Report:
        """The report on everything fed. Nothing can be fed afterwards."""
        if not self._finished:
            self._finished = True
            self._read(self._skimmer.rest())
            for line in self._lines.finish():
                self._line(line)
            self._finder.finish()
        return self._report()

    def snapshot(self) -> Report:
        """The report on what was fed so far; more can be fed."""
        return self._report()

    def _new_run(self, number: int) -> Run:
        version = self.options.vllm_version
        releases = Releases.of(version) if version else Releases.every()
        facts = FactStore(self.base.names)
        run = Run(number, Samples(), Repeats(self._plan, facts), facts, releases)
        if version:
            run.facts.add("vllm_version", version, 0)
        return run

    def _mode(self) -> Mode | None:
        """How the next lines are read. Lines that say nothing may be passed over where no line is awaited."""
        if self._quiet is not None:
            return self._quiet
        if not self._lines.at_rest:
            return None
        if self._past:
            self._quiet = mode_of(self.base, awaited=False, serving=False, past=True)
            return self._quiet
        serves = self.runs[-1].serves
        awaited = not self._no_command or self._events.is_awaiting(self._next_number())
        if serves and self._patience is None:
            self._patience = line_skipper.READ_WHOLE
        if not serves and self._patience:
            self._patience -= 1
            return None
        if not (self._no_command or serves):
            return None
        found = mode_of(self.base, awaited=awaited, serving=serves)
        if not awaited:
            self._quiet = found
        return found

    @property
    def _no_command(self) -> bool:
        """Whether the next line is no part of a command, as far as the lines before it tell."""
        return self._finder.at_rest and not self._run_begins

    def _next_number(self) -> int:
        return self._lines.line_count + self._skipped_lines + 1

    def _read(self, data: bytes) -> None:
        self._quiet = None
        for line in self._lines.feed(data):
            self._line(line)

    def _awaits(self, data: bytes, number: int, shape: Shape) -> bool:
        """Whether a line may go on with what came before. A message apart from what its process prints is noted."""
        if not self._no_command:
            return True
        key = self._key(data, shape.front)
        if key is not None and not self._events.awaits(key):
            return False
        is_short = len(shape.text) <= _SHORT
        return not (is_short and _is_message(shape.text, shape.front.size) and self._events.pass_by(number, data))

    def _read_short(self, data: bytes, number: int, shape: Shape) -> bool:
        """Read a line in short, where it is one of many of its kind."""
        if self._past:
            return self._pass_start(data, number, shape)
        run = self.runs[-1]
        if shape.layout is not None:
            run.told += 1
            return run.samples.take(data, number, shape.layout)
        return run.repeats.take(data, number, shape, serves=run.phase == "runtime")

    def _sample(self, lines: Sequence[Sample]) -> None:
        """Count statistics lines."""
        run = self.runs[-1]
        run.told += len(lines)
        run.samples.take_all(lines)

    def _pass_start(self, data: bytes, number: int, shape: Shape, *, whole: bool = False) -> bool:
        """Note what a line says of where starts begin and end; False for one that must be fed.

        `whole`: the calls of a traceback stand before it.
        """
        note = self._start_note(data, shape)
        if note:
            self._events.pass_start(number, note._replace(crash="whole") if whole and note.crash else note)
        return note is not None

    def _start_note(self, data: bytes, shape: Shape) -> StartNote | None:
        """What a line says of where starts begin and end; None where it must be fed."""
        front = shape.front
        key = data[front.source], data[front.process].partition(b" ")[0], shape.text
        note = self._start_notes.get(key)
        if note is None and (line := self._lines.alone(data)):
            if len(self._start_notes) >= _MOST_NOTES:
                self._start_notes.clear()
            note = self._start_notes[key] = self._events.start_note(line)
        return note

    def _read_traceback(self, traceback: Traceback, data: bytes, number: int, shape: Shape) -> bool:
        """Read a traceback in short, where the same calls ended before in an exception of this kind."""
        if self._past:
            return self._pass_start(data, number, shape, whole=True)
        run = self.runs[-1]
        if not self._no_command or not run.block or run.block_open:
            return False
        return run.repeats.take(data, number, shape, serves=run.phase == "runtime", traceback=traceback)

    def _read_ending(self, block: bytes, at: int) -> int:
        """Read the next line, which begins there, where it shows that the server serves on behind what was left open.

        Its size; 0 for one that shows no such thing.
        """
        number = self._next_number()
        serves_on = self.runs[-1].phase == "runtime" and self._events.is_open(number) and self._lines.at_rest
        if self._past or not serves_on:
            return 0
        made = scanner(self.base, serving=True)
        data = made.healthy_at(block, at)
        if data:
            key = self._key(data, made.shape(data).front)
            if key is None:
                return 0
            self._serves_on(number, key)
        else:
            data = block[at:block.find(b"\n", at) + 1]
            if not data or not self._ends_in_statistics(data, number, made.shape(data)):
                return 0
        self._lines.skip(1, len(data))
        self._quiet = None
        return len(data)

    def _ends_in_statistics(self, data: bytes, number: int, shape: Shape) -> bool:
        """Whether a line is of statistics and can be read in short behind what was left open. Then it is."""
        layout = shape.layout
        if layout is None or layout.counts_rare or not self._no_command or not self._events.pass_by(number, data):
            return False
        self.runs[-1].advance("runtime", "", number)
        return self._read_short(data, number, shape)

    def _key(self, data: bytes, before: Front) -> str | None:
        """The key of the process that prints a line; None where the line must be fed."""
        source, process = data[before.source], data[before.process]
        is_known = bool(process) and not data.startswith(b"(", before.process.stop)
        key = self._keys.get((source, process)) if is_known else None
        if key is None and (line := self._lines.alone(data)):
            key = self._events.key(line)
            if is_known and line.source == source.decode() and len(self._keys) < _MOST_NOTES:
                self._keys[source, process] = key
        return key

    def _read_alone(self, data: bytes) -> bool:
        """Read the next line for what it tells by itself; False for one that may be or begin more than itself."""
        run = self.runs[-1]
        serves = run.serves
        line = self._lines.alone(data)
        if line is None or any_of(_STRUCTURE).search(line.text) or (not serves and self._is_healthy(line.text)):
            return False
        self._read_each(run.samples.first())
        self._event(run, self._events.alone(line._replace(number=self._next_number())), line.text)
        self._lines.skip(1, len(data))
        if run.serves != serves:
            self._quiet = None
        return True

    def _plan(self, data: bytes, front: Front, traceback: Traceback | None) -> Plan | None:
        """How lines like this one, which stands alone or ends a traceback, are read in short."""
        line = self._lines.alone(data)
        if line is None or line.source != data[front.source].decode():
            return None
        if traceback:
            return self._traceback_plan(data, front, line, traceback)
        if any_of(COMMAND_WORDS).search(line.text) or self._is_healthy(line.text):
            return None
        key = self._events.opened_by(line)
        if key is None:
            return None
        return plan(printed(data, front), self._events.alone(line), self._matcher, self.base.names,
                    (lambda number, message: self._open(number, key, message)) if key else None)

    def _traceback_plan(self, data: bytes, front: Front, last: Line, traceback: Traceback) -> Plan | None:
        lines = [self._lines.alone(line) for line in traceback.lines.splitlines(keepends=True)]
        said = [line for line in lines if line and line.source == last.source]
        if len(said) < len(lines):
            return None
        said.append(last)
        texts = [line.text for line in said]
        found = self._events.traceback(said) if self._finder.are_code(texts) else None
        if found is None:
            return None
        key, event = found
        last_call = next((text for text in reversed(texts) if 'File "' in text), "")

        def then(number: int, message: str) -> None:
            self._finder.pass_call(last_call)
            self._events.end_traceback(number, key, event, message)
            self.runs[-1].remember_block(event)
            self._quiet = None

        return plan(printed(data, front), event, self._matcher, self.base.names, then)

    def _open(self, number: int, key: str, message: str) -> None:
        self._events.open_message(number, key, message)
        self._quiet = None

    def _line(self, line: Line) -> None:
        if self._skipped_lines:
            line = Line(line.number + self._skipped_lines, line.text, line.source)
        if self._is_healthy(line.text):
            self._serves_on(line.number, self._events.key(line) if self._events.is_open(line.number) else "")
            return
        self._read_each(self.runs[-1].samples.first())
        if self._redactor:
            self._redactor.learn_line(line.text)
        self._finder.feed(line.number, line.text)
        if self._run_begins and not self._finder.reading:
            self._finder.start_run()
            self._run_begins = False
        event = self._events.read(line)
        if event is None:
            return
        run = self.runs[-1]
        if event.run != run.number:
            run = self._next_run(event)
        self._event(run, event, line.text)

    def _serves_on(self, number: int, key: str) -> None:
        """What a healthy line of a process tells: that the server serves, and that a message before it is over."""
        self.runs[-1].advance("runtime", "", number)
        self._events.end_message(number, key)

    def _is_healthy(self, text: str) -> bool:
        """Whether a line says no more than that the server serves."""
        held = any(anchor in text for anchor in self.base.healthy_anchors)
        return held and compiled(self.base.healthy).fullmatch(text) is not None

    def _read_kept(self) -> None:
        """Read the lines in full that were kept back."""
        run = self.runs[-1]
        self._read_each(sorted((*run.samples.rest(), *run.repeats.rest())))

    def _read_each(self, kept: Iterable[Kept]) -> None:
        """Read lines in full, in the order given."""
        run = self.runs[-1]
        for number, raw, times, frames, source in kept:
            text = printable(raw.decode()).rstrip()
            event = self._events.alone(Line(number, text, source.decode()))
            self._event(run, event._replace(frames=frames, releases="") if frames else event, text, sampled=times)

    def _next_run(self, event: Event) -> Run:
        self._read_kept()
        self.runs[-1].command = self._finder.command
        self._run_begins = True
        run = self._new_run(event.run)
        self.runs.append(run)
        if self.options.run == event.run:
            self.chosen = run
        return run

    def _event(self, run: Run, event: Event, printed: str, sampled: int = 0) -> None:
        """What an event adds to a run; one that was `sampled` stands for so many and is in the load already."""
        run.last_line = max(run.last_line, event.line)
        if event.releases and event.releases not in run.prefixes:
            run.prefixes.add(event.releases)
            run.releases = run.releases.narrow(event.releases)
        if not sampled:
            run.remember_block(event)
        if event.is_code:
            return
        if not event.level and is_omission(event.text):
            run.omit(event.line)
        if "args: " in event.text or "with config: " in event.text:
            self._settings(run, event)
        if event.frames:
            self._sources(run, event.frames, event.line)
        told = run.told
        seen: dict[str, Any] = {}
        found: list[tuple[Waiting, dict[str, str]]] = []
        for waiting, values in self._matcher.matches(event, run.settled):
            pattern = waiting.pattern
            if waiting.marker is not None:
                if not sampled:  # how far the start had come was known when the line was kept back
                    run.advance(waiting.marker.phase, waiting.marker.status, event.line)
                continue
            for name, raw in (*values.items(), *pattern.set.items()) if pattern.set else values.items():
                if pattern.weak and run.facts.get(name) is not None:
                    continue
                fact = self._fact(run, name, raw, event.line, event.rank)
                if fact is not None:
                    seen[name] = fact.value
            if waiting.rule:
                found.append((waiting, values))
            elif pattern.vllm not in run.wordings:  # a rule's wording counts only where the rule fires: see Case
                run.wordings.add(pattern.vllm)
                run.releases = run.releases.narrow(pattern.vllm)
        if "running_requests" in seen and not sampled:
            run.load.add(seen, Moment.of(event.line, printed))
        run.told += len(seen) + len(found)
        if run.told > told:  # of a line that says nothing more it may never be known
            self._of_prefix(run, event, printed)
        for waiting, values in found:  # behind the markers, which say the phase that this very line begins
            self._hit(run, waiting, event, values, sampled or 1)

    def _hit(self, run: Run, waiting: Waiting, event: Event, values: dict[str, str], times: int) -> None:
        """Note that a rule's wording was found, if it counts in the phase the start has reached."""
        phase = run.phase or "args"
        pattern = waiting.pattern
        if not waiting.rule or (pattern.phase and phase not in pattern.phase):
            return
        hits = run.hits.get(waiting.rule)
        if hits is None:
            hits = run.hits[waiting.rule] = Hits()
        if waiting.part == "also":
            hits.also.add(pattern.id)
            run.settled.add(waiting.at)
        elif waiting.part == "absent":
            hits.absent = True
            run.settled.add(waiting.at)
        else:
            hits.add(Hit(pattern.id, event.line, event.text, event.rank, event.process, phase, values, event.frames),
                     times)

    def _fact(self, run: Run, name: str, raw: Any, line: int, rank: int | None = None) -> Fact | None:
        """Note a fact, as `FactStore.add`; a release also tells how the rules are read."""
        fact = run.facts.add(name, raw, line, rank)
        if fact is not None and name == "vllm_version" and not self.options.vllm_version:
            run.releases = Releases.of(str(fact.value))
        return fact

    def _sources(self, run: Run, frames: str, line: int) -> None:
        """What the paths of code tell, where no line does."""
        for name, value in code_paths.told(frames):
            if run.facts.get(name) is None:
                self._fact(run, name, value, line)

    def _of_prefix(self, run: Run, event: Event, printed: str) -> None:
        """What prints a line tells the engine's generation, if only one has such, and the number of ranks."""
        if run.facts.get("engine") is None:
            if event.process.startswith("VllmWorkerProcess"):
                run.facts.add("engine", "V0", event.line, event.rank)
            elif event.process.startswith(_V1_PROCESSES) or (event.level and code_paths.is_of_v1(printed)):
                run.facts.add("engine", "V1", event.line, event.rank)
        if event.rank and _OF_ONE_ENGINE.match(event.process) and run.facts.exceeds("ranks_at_least", event.rank + 1):
            run.facts.add("ranks_at_least", event.rank + 1, event.line, event.rank)

    def _settings(self, run: Run, event: Event) -> None:
        settings = read_settings(event.text)
        if settings is None:
            return
        column = "config" if settings.kind == "config" else "args"
        for definition in self.base.names.values():
            key = getattr(definition, column)
            if key and key in settings.values:
                run.facts.add(definition.name, definition.from_setting(settings.values[key]), event.line, event.rank)
        if settings.kind in ("arguments", "non-default"):
            if settings.values.get("model_tag") and "model" not in settings.values:
                run.facts.add("model", settings.values["model_tag"], event.line)
            run.settings, run.settings_kind = settings.values, settings.kind

    def certain(self) -> str | None:
        """The id of the cause of the current run, once the run has failed; None before."""
        run = self.runs[-1]
        if run.status != "failed":
            return None
        first = next(iter(self.case(run).fired), None)
        if first is None or first.rule.fallback or first.rule.role != "cause" or first.rule.severity != "error":
            return None
        return first.rule.id

    def trouble(self) -> str | None:
        """The id of what limits a server that serves, for as long as that lasts; None while nothing does."""
        run = self.runs[-1]
        if run.status == "failed" or run.load.lasts is None:
            return None
        since = run.load.lasts[1].first.line
        return next((item.rule.id for item in self.case(run).fired if item.rule.role == "cause"
                     and item.rule.phase == "runtime" and item.hits.latest.line >= since), None)

    def case(self, run: Run | None = None) -> Case:
        """A run (by default the one the report is about) with what the user told, as it stands now."""
        self._read_kept()
        for line, frames in self._events.unfinished():  # the log may end in a traceback
            if line + _CUT_OFF >= self.runs[-1].last_line:
                self._sources(self.runs[-1], frames, line)
        run = run or self.chosen_run()
        typed = self._given or run.command or (self._finder.command if run is self.runs[-1] else None)
        return Case(run, self.base, self.options, typed, self._redactor)

    def stall(self, seconds: float, after: float | None = None) -> Report | None:
        """The report when no line came for `seconds`, if that is a stall in the phase reached; None when it is not.

        `after` is the user's bound in place of the phase's own. A server that serves may be idle.
        """
        run = self.runs[-1]
        stall = self.base.stalls.get(run.phase or "args")
        if stall is None or run.status or seconds < (stall.after if after is None else after):
            return None
        return stalled(self.snapshot(), self.case(run), stall, seconds)

    def chosen_run(self) -> Run:
        """The run the report is about. Raises InputError when there is no run of the number asked for."""
        wanted = self.options.run
        if wanted is not None:
            for run in (*self.runs, *([self.chosen] if self.chosen else [])):
                if run.number == wanted:
                    return run
            raise InputError(f"there is no run {wanted}: the log holds {self.run_count}")
        last = self.runs[-1]
        if last.state() not in {"starting", "unknown"} or self.case(last).fired:
            return last
        told = [run for run in self.runs if run.state() == "failed" or self.case(run).fired]
        return told[-1] if told else last

    def _report(self) -> Report:
        reader = self._lines
        run = self.chosen_run()
        source = Source(self.path, reader.line_count, reader.byte_count, self.run_count, run.number)
        case, reading = self.case(run), self._reading()
        return build(case, source, notes(case, reading), recognised(case, reading))

    def _reading(self) -> Reading:
        lines = self._lines
        return Reading(lines.encoding, tuple(lines.wrappers), lines.long_lines, self.run_count,
                       self.options.run is not None, tuple(self._matcher.slow))


@lru_cache(maxsize=4096)
def _is_message(shape: bytes, front: int) -> bool:
    """Whether lines of a shape are messages that neither begin nor end anything; so many bytes are a wrapper's."""
    return is_record(shape) and not any_of(_STRUCTURE).search(shape[front:].decode(errors="replace"))


def given_command(options: Options) -> Command | None:
    """The command the user told with `--command` or `--config`. Raises InputError when it is none."""
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
    name = path or (os.fspath(source) if is_path(source) else "-")
    diagnosis = Diagnosis(options, str(name))
    for chunk in chunks(source, _CHUNK):
        diagnosis.feed(chunk)
    return diagnosis.finish()

