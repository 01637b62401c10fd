"""The failure of one start, from what was collected, what explains it and what the user set."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from vllm_doctor.catalog import names
from vllm_doctor.catalog.raised_texts import raised_in
from vllm_doctor.failures import error_lines, exception_lines, frames
from vllm_doctor.failures.choose import choose, is_above
from vllm_doctor.failures.collect import FailureCollector
from vllm_doctor.failures.consequences import (
    as_reported_by_worker,
    is_cascade,
    is_consequence,
    is_teardown,
    without_exits,
)
from vllm_doctor.failures.feature import feature_of
from vllm_doctor.failures.kind import is_bad_request, kind_of
from vllm_doctor.failures.model import MAX_MESSAGE, Candidate, Failure, Frame, Place
from vllm_doctor.failures.settings import settings_of
from vllm_doctor.failures.signature import signature
from vllm_doctor.text.patterns import lazy_pattern

_FINAL = 8  # lines from the end within which a record of an error is the last word of a start
_CONTAINER_EXIT = lazy_pattern(r"(?P<name>\S{1,200}) exited with code [1-9]\d{0,9}(?: \(restarting\))?")
_INTERFACE = (*frames.OFFLINE, "vllm/engine/arg_utils.py", "vllm/utils", "vllm/engine/")
_MISUSED = lazy_pattern(
    r"got (?:an unexpected keyword|multiple values)|missing \d+ required|LLM\w{0,60}' object has no attribute")
_INPUTS = ("vllm/inputs", "vllm/renderers/inputs", "vllm/sampling_params.py", "vllm/pooling_params.py")
"""What reads the prompts and parameters of a script's calls."""
_BELOW_CALL = 2  # lines below a call: its source and the marks under that
_AT_IMPORT = 3  # records that vLLM prints where it is only imported
_OF_ENGINE = lazy_pattern(
    r"vllm/(?:v1/(?:engine/core|executor/\w{1,100}|(?:core|sample|spec_decode|structured_output|attention|kv_offload)/[\w/]{1,200}"
    r"|worker/[\w/]{1,200})|worker/\w{1,100}|engine/(?:multiprocessing/engine|llm_engine)|executor/multiproc_worker_utils)\.py:"
    r"|vllm/(?:attention|model_executor/(?:layers|models))/[\w/]{1,200}\.py:(?:forward|apply)\w{0,40}$"
    r"|async_llm_engine\.py:(?:run_engine_loop|engine_step|step_async)$|async_llm\.py:(?:_run_)?output_handler$")
"""Calls (`path:function`) of the engine and its workers."""
_LOOP_OF_V0 = lazy_pattern(r"vllm/engine/(?:multiprocessing/engine|async_llm_engine)\.py:run_engine_loop$")
"""The calls of V0's engine that no exception leaves without ending it."""
_MODEL = lazy_pattern(r"\A'\w{1,80}For(?:CausalLM|Conditional|Sequence|Embedding)\w{0,40}' object has no attribute")
"""What Python says of a model that vLLM implements."""
_SYMBOL = lazy_pattern(r"[A-Za-z_][\w:~]{3,120}(?=[ (<+]|$)")
"""The name of a native function, of what a stack prints for it."""
_UNREACHABLE = frozenset({"APIConnectionError", "ConnectError", "ClientConnectorError", "ServerDisconnectedError",
                          "RemoteProtocolError"})
"""Exceptions of a client whose server does not answer."""
_DEAD = frozenset({"EngineDeadError", "AsyncEngineDeadError", "MQEngineDeadError"})
"""Exceptions of an API server whose engine had died."""
_QUOTED = 24  # characters of a message that a record quotes
_TELLING = 5  # words: other software has errors with fewer of the same
ANSWER_REACH = 8  # lines from an error to the answer of the request that it ended
_BEFORE_ANSWER = 3  # lines from such an answer to the traceback, if the web server prints it after the answer
_EXCEPTIONS = {"traceback", "exception", "repr"}
_WEAK = {"cut", "record", "http", "sentence"}


class Proof(NamedTuple):
    """A line on which a rule fired that explains the failure."""

    line: int
    text: str


class Start(NamedTuple):
    """State of the server start that decides which candidates count."""

    status: str  # as the markers and rules tell it
    phase: str
    advances: int
    advance_line: int  # of the last one
    serving_line: int
    stopped_line: int
    last_line: int  # that is not known to be healthy
    healthy_line: int


def find(collected: FailureCollector, start: Start, proofs: Sequence[Proof],
         passing: Sequence[int] = (), harmless: Sequence[int] = ()) -> Candidate | None:
    """Return what failed; None where nothing did.

    `proofs` are lines of the rule that explains the failure, `passing` of rules for what a server outlives, `harmless`
    of rules for records that only look like a failure.
    """
    candidates = [one for one in collected.candidates() if _counts(one, start)
                  and not (one.shape == "record" and one.line in harmless)]
    lasting = [one for one in candidates if not any(one.begin <= line <= one.last_line for line in passing)]
    if start.status == "failed" and any(
            one.shape not in _WEAK and not is_teardown(one) and not is_cascade(one) for one in lasting):
        candidates = lasting
    chosen = choose(candidates, advances=start.advances, evidence=[proof.line for proof in proofs])
    if proofs and not (chosen and any(_shows(chosen, proof) for proof in proofs)):
        chosen = _better(chosen, _of_proof(proofs[0], candidates))
    is_bare = chosen is None or chosen.is_cut
    if is_bare and start.status in {"unknown", "failed"} and not start.phase and not collected.records:
        chosen = next(iter(collected.sentences()), chosen)
    if chosen is None and start.status == "failed":
        chosen = next((one for one in collected.candidates() if not is_teardown(one)), None)
    if chosen is None or start.status not in {"serving", "stopped"}:
        return chosen and _with_cut_calls(_with_class(chosen, candidates), candidates)
    if is_consequence(chosen) and not _ends_container(chosen, collected):
        chosen = _of_answer(chosen, candidates, start)
    elif chosen.shape == "record":
        chosen = next((one for one in candidates if one.shape in _EXCEPTIONS and one not in lasting), chosen)
    return _reason_of_answer(chosen, collected) if chosen is not None and chosen.shape == "http" else chosen


def _ends_container(candidate: Candidate, collected: FailureCollector) -> bool:
    """Return whether it is Docker Compose's line on the end of the server's container, not on that of another one."""
    found = _CONTAINER_EXIT.fullmatch(candidate.message)
    return found is not None and collected.is_source(found["name"])


def _with_class(chosen: Candidate, candidates: Sequence[Candidate]) -> Candidate:
    """Return the exception whose message a record has, if the log shows one: it names its class."""
    if chosen.shape != "record":
        return chosen
    record = chosen.message.strip()
    return next((one for one in candidates if one.shape in _EXCEPTIONS and (
        (message := one.message.strip()) == record or (len(message) >= _QUOTED and message in record))), chosen)


def _with_cut_calls(chosen: Candidate, candidates: Sequence[Candidate]) -> Candidate:
    """Return a record with the calls of the traceback below it, if the log shows these without the exception."""
    if chosen.shape != "record" or chosen.frames:
        return chosen
    return chosen._replace(frames=next((one.frames for one in candidates if is_above(chosen, one)), ()))


def _shows(candidate: Candidate, proof: Proof) -> bool:
    """Return whether a line of evidence is of this candidate; of a cut traceback, the source line of the last call."""
    below = _BELOW_CALL if candidate.shape == "cut" and candidate.exception is not None else 0
    return candidate.line <= proof.line <= candidate.last_line + below


def _of_answer(cascade: Candidate, candidates: Sequence[Candidate], start: Start) -> Candidate | None:
    """Return what failed where a server went on: the answer 5xx, or what says more of its reason.

    That is which other server could not be reached for it, or that the engine had died. A server whose engine has died
    may not get to an answer before the log ends.
    """
    answer = next((one for one in candidates if one.is_server_error), None)
    is_last = cascade.exception in _DEAD and cascade.line > start.healthy_line
    return cascade if is_last or (answer is not None and cascade.exception in _UNREACHABLE | _DEAD) else answer


def _reason_of_answer(answer: Candidate, collected: FailureCollector) -> Candidate:
    """Return an answer with what the log says of its reason.

    Next to an answer 5xx that is the traceback whose exception the log cuts off, right before an answer 4xx the record
    of the error, whose message is added.
    """
    if answer.is_refused_request:
        record = next((one for one in collected.candidates() if one.shape == "record" and one.process == answer.process
                       and one.last_line == answer.line - 1), None)
        return answer if record is None else answer._replace(
            line=record.line, message=f"{answer.message}: {record.message}"[:MAX_MESSAGE])
    return next((one for one in collected.candidates() if one.shape == "cut" and one.frames
                 and one.begin - _BEFORE_ANSWER <= answer.line <= one.last_line + ANSWER_REACH), answer)


def raised_by_engine(collected: FailureCollector) -> bool:
    """Return whether the engine or a worker raised an exception that is no consequence of another one."""
    raised = (one for one in collected.candidates() if one.shape in _EXCEPTIONS and not is_teardown(one)
              and (one.message or one.exception == "AssertionError")
              and not (is_cascade(as_reported_by_worker(one)) or _passes_on(one)))
    return any(one.is_of_engine
               or (one.shape == "repr" and not one.process)
               or any(_OF_ENGINE.search(f"{frame.path}:{frame.function}") for frame in one.frames) for one in raised)


def is_answered_with_5xx(collected: FailureCollector, lines: Iterable[int]) -> bool:
    """Return whether a request was answered with 5xx right after one of the lines or right before its traceback."""
    candidates = list(collected.candidates())
    answers = [one.line for one in candidates if one.is_server_error]
    if not answers:
        return False
    tracebacks = [(one.begin, one.last_line) for one in candidates if one.frames]
    for line in lines:
        begin = min((begin for begin, end in tracebacks if begin <= line <= end), default=line)
        if any(begin - _BEFORE_ANSWER <= answer <= line + ANSWER_REACH for answer in answers):
            return True
    return False


def raised_by_caller(collected: FailureCollector) -> bool:
    """Return whether an exception ended the process that started the engine, before it served.

    Python prints such a traceback outside any record; at its end, the process terminates its engine.
    """
    return any((one.shape == "traceback" or (one.shape == "exception" and not one.introduction))
               and not (one.level or one.served or one.is_of_engine)
               and not (is_teardown(one) or is_cascade(one) or _passes_on(one)) for one in collected.candidates())


def ends_in_traceback(collected: FailureCollector, last_line: int, healthy_line: int) -> bool:
    """Return whether the log of a start ends in a traceback, whose exception is cut off."""
    return any(ends_log(one, last_line, healthy_line) for one in without_exits(collected.candidates()))


def ends_engine(candidate: Candidate) -> bool:
    """Return whether it is the cut traceback of an engine or a worker that ends the process.

    Python prints it as the process ends; V0's engine logs what its loop has raised.
    """
    if candidate.shape not in {"cut", "repr"}:
        return False
    if any(_LOOP_OF_V0.search(f"{frame.path}:{frame.function}") for frame in candidate.frames):
        return True
    return candidate.is_cut and candidate.is_of_engine and any(
        frame.path.endswith("multiprocessing/process.py") and frame.function == "_bootstrap"
        for frame in candidate.frames)


def ends_log(candidate: Candidate, last_line: int, healthy_line: int) -> bool:
    """Return whether it is a traceback whose exception is missing because the log ends there."""
    return candidate.is_cut and bool(candidate.frames) and last_line - _BELOW_CALL <= candidate.last_line > healthy_line


def native_functions(collected: FailureCollector) -> tuple[str, ...]:
    """Return the functions on the stack of the first crash in native code that the log shows, the innermost first."""
    shown = next((one.native for one in collected.candidates() if one.native), "")
    names = (_SYMBOL.match(line) for line in shown.split("\n"))
    return tuple(found[0] for found in names if found is not None)


def crash_call(collected: FailureCollector) -> str:
    """Return the innermost Python call of the first crash in native code that the log shows, as `f in a/b.py`."""
    shown = next((one.frames[-1] for one in collected.candidates() if one.shape == "fatal" and one.frames), None)
    return f"{shown.function} in {frames.package_of(shown.path)[1]}" if shown is not None else ""


def _passes_on(candidate: Candidate) -> bool:
    """Return whether a process only raises anew what the engine told it.

    An engine in the same process (VLLM_ENABLE_V1_MULTIPROCESSING=0) is called below the client, and raises itself.
    """
    calls = candidate.frames
    client = next((place for place, frame in enumerate(calls)
                   if frame.path.endswith("core_client.py") and frame.function.startswith("get_output")), len(calls))
    return client < len(calls) and not any(
        _OF_ENGINE.search(f"{frame.path}:{frame.function}") for frame in calls[client + 1:])


def describe(candidate: Candidate, start: Start, given: Mapping[str, Any] | None, source: str,
             collected: FailureCollector, *, release: str | None = None) -> Failure:
    """Return the failure object of what failed."""
    calls = frames.without_contextlib(candidate.frames)
    origin = frames.origin(calls[-1]) if calls else None
    vllm = frames.deepest(calls, "vllm")
    own = frames.own_frame(calls)
    has_served = bool(start.serving_line and candidate.line > start.serving_line) or start.phase == "runtime"
    in_service = has_served and start.status != "failed"  # a request that ended the server is more than a request
    raiser = frames.without_lookup(calls)
    if raiser and frames.package_of(raiser[-1].path)[0] is None:
        origin = frames.origin(raiser[-1])
    own_source = error_lines.own_source(candidate.message)
    message_file = "" if calls else own_source or raised_in(candidate.message, least_words=_TELLING) or ""
    raised = frames.origin(raiser[-1]) if raiser else None
    if message_file and (candidate.exception is not None or own_source):
        raised = Place("vllm", message_file, "", 0)
    kind = kind_of(candidate, raised, vllm, own, in_service=in_service)
    is_of_engine = not calls and (  # its message does not show who called what
        candidate.is_of_engine or names.is_of_engine_class(candidate.message))
    is_of_release = not (is_of_engine or frames.reads_value(calls))
    answer = names.direction(candidate.exception, candidate.message, release,
                             _raising_file(candidate)) if is_of_release else None
    direction = "" if answer is None else answer.kind
    is_misused = _is_misused(candidate, calls)
    if is_misused:
        kind = "other-software"
    has_settings = bool(start.phase) or collected.records > _AT_IMPORT
    feature = "other-software" if is_misused else feature_of(
        candidate, kind=kind, has_settings=has_settings, direction=direction,
        chained=[one for one in collected.candidates() if one.group == candidate.group and one.line != candidate.line])
    if feature == "other-software" and kind not in {"request", "resource"}:
        kind = "other-software"
    if kind == "request" and feature is None:
        feature = "request"
    is_of_server = candidate.is_of_worker or candidate.is_of_engine
    is_alone = not start.phase and not is_of_server and collected.records <= (candidate.shape == "record")
    text = f"{candidate.introduction} {candidate.message}"
    return Failure(
        line=candidate.line, last_line=candidate.last_line, exception=candidate.exception, message=candidate.message,
        origin=origin,
        vllm_frame=vllm if origin is not None and origin.package != "vllm" else None,
        caller=frames.caller_of(calls) if vllm is not None or (origin is not None and origin.package is None) else None,
        own_frame=own, feature=feature, kind=kind,
        settings=settings_of(feature, text, given or {}, source),
        signature=signature(candidate.exception, candidate.message, calls),
        direction=direction,
        direction_sentence="" if answer is None else names.sentence_of(answer),
        direction_command="" if answer is None else answer.command,
        source_line=calls[-1].code if calls else "",
        is_consequence=is_consequence(candidate),
        is_alone=is_alone,
        message_file="" if kind == "request" else message_file,
        is_of_worker=candidate.is_of_worker,
    )


def _raising_file(candidate: Candidate) -> str | None:
    """Return the file of the innermost call, or that of the engine where it logs what Python says of a model."""
    if candidate.frames:
        package, file = frames.package_of(candidate.frames[-1].path)
        return f"site-packages/{file}" if package == "vllm" else candidate.frames[-1].path  # also an egg or a checkout
    is_of_engine = candidate.shape == "repr" and candidate.exception == "AttributeError"
    return "vllm/v1/engine/core.py" if is_of_engine and _MODEL.search(candidate.message) else None


def _is_misused(candidate: Candidate, calls: Sequence[Frame]) -> bool:
    """Return whether a program called vLLM's interface, or passed it values, in a way that this release refuses."""
    if not calls or frames.caller_of(calls) is None:
        return False
    last, file = calls[-1], frames.package_of(calls[-1].path)[1]
    if file.startswith(_INPUTS) and last.code.startswith(frames.RAISES_TYPE_ERROR):
        return True
    is_of_call = candidate.exception in {"AttributeError", "TypeError"} and last.function != "__init__"
    return (file.startswith(_INTERFACE) and _MISUSED.search(candidate.message) is not None) or (
        file.startswith(frames.OFFLINE) and is_of_call)


def _is_handled(candidate: Candidate, start: Start) -> bool:
    """Return whether a warning quotes an exception that vLLM handled: the log goes on behind it."""
    return (candidate.shape == "quoted" and candidate.level == "WARNING"
            and candidate.last_line < start.last_line - _BELOW_CALL)


def _counts(candidate: Candidate, start: Start) -> bool:
    """Return whether a candidate can be the failure of a start in this state."""
    if start.status == "unknown":
        return not _is_handled(candidate, start)
    if start.status == "failed":
        return True
    if start.stopped_line and candidate.line >= start.stopped_line:
        return False
    if candidate.shape == "http" or is_bad_request(candidate):
        return start.status != "starting"
    if start.status in {"serving", "stopped"}:
        if ends_engine(candidate) or ends_log(candidate, start.last_line, start.healthy_line):
            return True
        if candidate.shape in _WEAK or candidate.shape == "quoted":
            return False
        is_headless = not start.serving_line and (  # it served before the log begins
            start.status == "serving" or start.phase == "runtime")
        return candidate.served or candidate.phase == "runtime" or is_headless
    if candidate.advances < start.advances and candidate.line < start.advance_line:
        return False
    if candidate.shape in {"record", "quoted"}:
        return candidate.line >= start.last_line - _FINAL and candidate.shape == "record"
    return True


def _of_proof(proof: Proof, candidates: Iterable[Candidate]) -> Candidate:
    """Return the exception that a rule's line of evidence is of, or one made of the line."""
    for one in candidates:
        if one.shape in _EXCEPTIONS and _shows(one, proof) and not is_cascade(one):
            return one
    text = proof.text
    raised = exception_lines.from_repr(text) or exception_lines.in_sentence(text) or exception_lines.on_own_line(text)
    if raised is not None:
        return Candidate(proof.line, proof.line, "quoted", raised.name, raised.message,
                         introduction=raised.introduction, module=raised.module)
    rejection = error_lines.argument_parser_error(text)
    message = error_lines.record_message(text) if rejection is None else rejection.text
    return Candidate(proof.line, proof.line, "record", None, message)


def _better(chosen: Candidate | None, proof: Candidate) -> Candidate:
    """Return the more informative of the two: the end of the log, or the text the rule matched."""
    if chosen is None or proof.exception is not None or chosen.shape in _WEAK:
        return proof
    if is_cascade(chosen):
        return chosen if chosen.exception is not None and is_cascade(proof) else proof
    return chosen
