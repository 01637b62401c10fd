"""The report: what every format is written from. All texts in it are redacted already."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from vllm_doctor.facts.load_curve import LoadPoint
from vllm_doctor.failures import Place, Setting
from vllm_doctor.language import ENGLISH, Language
from vllm_doctor.memory import LengthRow, Memory
from vllm_doctor.messages import joined, say
from vllm_doctor.redact import Redactor
from vllm_doctor.severity import RANK
from vllm_doctor.timeline import Timeline


class Source(NamedTuple):
    """The log: its name, size, the starts of the server in it, and the one the report is about."""

    path: str
    lines: int
    bytes: int
    runs: int
    run: int


class Evidence(NamedTuple):
    """A line of the log."""

    line: int
    text: str


_NOTHING: Mapping[str, Any] = MappingProxyType({})
MESSAGE_LINES = 12
"""Lines of an exception's message that the excerpt of a failure has."""


class ProgramChange(NamedTuple):
    """A fix in the words of the program around vLLM: its settings, and vLLM's flags that it does not pass on."""

    program: str
    settings: Mapping[str, str] = _NOTHING
    missing: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()  # the settings as they are written there


class Fix(NamedTuple):
    """One way out. `flags` holds values as typed ("" for a flag without one); `command` the user's own, corrected.

    `is_step`: it is a step to try, which the log does not prove to suffice; `why` says so.
    """

    id: str
    title: str
    flags: Mapping[str, str] = _NOTHING
    unset: tuple[str, ...] = ()
    env: Mapping[str, str] = _NOTHING
    action: str | None = None
    steps: tuple[str, ...] = ()
    command: str | None = None
    patch: Mapping[str, str] | None = None
    why: str = ""
    cost: str = ""
    safety: str = "review"
    verify: str = ""
    proof: Mapping[str, Any] = _NOTHING
    program: ProgramChange | None = None
    is_step: bool = False


class Failure(NamedTuple):
    """What failed, with or without a rule: the exception, where it was raised, what it belongs to, what to try next.

    `message` is that of the exception or, of an assertion without one, its source line. `text` is an excerpt for a
    person; `counts` means that it is a failure of the server or of a request that it should have answered, and no
    bad request among good ones; `is_consequence`, of another one that the log does not show; `explained_by` is the
    id of the rule that explains it, or empty. `is_alone` says that nothing of a server stands in the log beside it;
    `ends_log`, that the log ends in its traceback, before the exception;
    `message_file` is the file of vLLM that has an error with the message's words, where the log shows no calls.
    """

    line: int
    last_line: int
    exception: str | None
    message: str
    origin: Place | None
    vllm_frame: Place | None
    caller: str | None
    own_frame: Place | None
    feature: str | None
    kind: str
    settings: tuple[Setting, ...]
    signature: str
    fixes: tuple[Fix, ...] = ()
    text: str = ""
    counts: bool = True
    explained_by: str = ""
    is_consequence: bool = False
    is_alone: bool = False
    ends_log: bool = False
    message_file: str = ""


class Finding(NamedTuple):
    """One rule that fired: `explanation` is for every reader, `background` for one who asks for more."""

    id: str
    title: str
    severity: str
    confidence: float
    role: str
    phase: str
    evidence: tuple[Evidence, ...]
    explanation: str
    fixes: tuple[Fix, ...]
    links: tuple[str, ...]
    ranks: str = ""
    recovered: bool = False
    background: str = ""

    @property
    def entire_explanation(self) -> str:
        """Return the explanation followed by the background."""
        return joined("\n\n", (text for text in (self.explanation, self.background) if text))


class Change(NamedTuple):
    """A difference from a log that is known to be good, and whether it explains the failure."""

    what: str
    good: str
    bad: str
    explains: bool = False


class Consequence(NamedTuple):
    """A log of an incident that shows only what followed from the cause in another one, and its own failure."""

    log: str
    id: str | None


class Incident(NamedTuple):
    """Several logs of one failure: the log that has the cause, what followed in others, ranks that printed nothing."""

    logs: tuple[str, ...]
    cause: Consequence | None
    consequences: tuple[Consequence, ...]
    silent_ranks: tuple[int, ...]
    notes: tuple[str, ...] = ()


class Report(NamedTuple):
    """The report on a log: the status of its last (or chosen) run, the facts, the findings, the cause first."""

    source: Source
    status: str
    phase: str | None
    facts: Mapping[str, Any]
    facts_at: Mapping[str, tuple[Mapping[str, Any], ...]]
    derived: Mapping[str, Any]
    memory: Memory | None
    primary: str | None
    failure: Failure | None
    findings: tuple[Finding, ...]
    lengths: tuple[LengthRow, ...] = ()  # of a KV cache that is too small: what shorter contexts need
    notes: tuple[str, ...] = ()
    caveats: tuple[str, ...] = ()  # notes that also short formats say: settings found, an archive that is cut
    capacity: tuple[str, ...] = ()  # of a server that came up: where its memory went and what it holds, in sentences
    input_notes: tuple[str, ...] = ()  # for a person who asks: encoding, wrappers, release, phase
    release: str = ""  # `0.8.5`, or `0.7.0 to 0.9.2` where only the wording of the log shows it
    release_is_known: bool = False
    command: str | None = None  # the user's own command, as it was
    load: tuple[LoadPoint, ...] = ()  # the statistics lines of a server that ran, for a plot
    redactor: Redactor | None = None  # knows the log's secrets; None where they are to be shown
    timeline: Timeline | None = None  # of the start; None where the log has no times
    against: str = ""  # the good log that it was compared with
    changes: tuple[Change, ...] | None = None  # what differs from that
    incident: Incident | None = None  # the logs that were read together
    language: Language = ENGLISH  # of the texts
    batch: str = ""  # of a script without a server: whether its last batch of prompts is `running` or `done`

    def in_language(self, language: Language) -> Report:
        """Return the report with its texts in a language: the last step before it is written."""
        return self if language is ENGLISH else say(self, language.gettext)._replace(language=language)

    def with_caveats(self, *notes: str) -> Report:
        """Return the report with further caveats, in its language."""
        if self.language is not ENGLISH:  # English is what other languages are made from
            notes = say(notes, self.language.gettext)
        return self._replace(notes=(*self.notes, *notes), caveats=(*self.caveats, *notes))

    @property
    def cause(self) -> Finding | None:
        """Return the finding that names the cause, or None."""
        return next((finding for finding in self.findings if finding.id == self.primary), None)

    @property
    def unexplained(self) -> Failure | None:
        """Return the failure if no rule explains it; None for a bad request among good ones."""
        found = self.failure
        return found if found is not None and found.counts and not found.explained_by else None

    @property
    def lacks_cause(self) -> bool:
        """Return whether something failed, and no rule names the cause."""
        return self.cause is None and (self.status == "failed" or self.unexplained is not None)

    @property
    def fixes(self) -> tuple[Fix, ...]:
        """Return the fixes of the cause, or the next steps of a failure without one."""
        if self.cause is not None:
            return self.cause.fixes
        return self.unexplained.fixes if self.unexplained is not None else ()

    def worst(self) -> str | None:
        """Return the highest severity of the findings, or None without any. A failure is an error, explained or not."""
        if self.failure is not None and self.failure.counts:
            return "error"
        severities = sorted((finding.severity for finding in self.findings), key=RANK.__getitem__)
        return severities[0] if severities else None
