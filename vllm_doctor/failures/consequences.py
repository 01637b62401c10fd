"""Which exceptions only follow from another failure: those of a lost engine, of a shutdown, of a proxy."""

from __future__ import annotations

import re
from collections.abc import Iterable

from vllm_doctor.failures import exception_lines
from vllm_doctor.failures.model import Candidate
from vllm_doctor.text.patterns import lazy_pattern

_CASCADE_CLASSES = frozenset({
    "EngineDeadError", "AsyncEngineDeadError", "MQEngineDeadError", "SystemExit", "KeyboardInterrupt",
    "CancelledError", "BrokenPipeError", "ConnectionResetError", "BrokenProcessPool", "EOFError", "ActorDiedError",
    "RayActorError", "WorkerCrashedError", "ProcessExitedException", "ClientDisconnect", "RemoteDisconnected",
    "BaseExceptionGroup", "ExceptionGroup", "GeneratorExit", "StopAsyncIteration", "EndOfStream", "ResourceWarning",
    "APIConnectionError", "ConnectError", "RemoteProtocolError", "ClientConnectorError", "ServerDisconnectedError",
    "ChildFailedError", "ActorUnavailableError", "ClosedResourceError", "TransferEncodingError", "ClientPayloadError",
})  # fmt: skip
_CASCADE_MESSAGES = lazy_pattern(
    r"^ray::\S+\(\)|Engine core initialization failed|Engine process failed to start|EngineCore failed to start"
    r"|died unexpectedly|RPCServer process died|Engine process \(pid \d+\) died"
    r"|Engine loop (?:is dead|has died)|Background loop (?:has errored"
    r"|is stopped)"
    r"|WorkerProc (?:initialization )?failed|Worker failed with error|EngineCore encountered (?:a fatal|an issue)"
    r"|Engine background task failed|AsyncLLM output_handler failed|terminating server process"
    r"|Task finished unexpectedly|^cancelled$|^'_TorchTensorAcceleratorChannel' object"
    r"|Job entrypoint command failed|Failed core proc|Exception in worker|Exception in ASGI application"
    r"|Error in (?:chat )?completion stream|Executor failed"
    r"|hit an exception|Failed to execute_method|Error executing method|Invoke of RPC method|cancelled by cancel scope"
    r"|Task was destroyed|See (?:root cause|stack trace) above|shutting down (?:engine|executor)|shutdown triggered"
    r"|exception in PluginManager|process was terminated|Dumping (?:input data|scheduler (?:output|stats))"
    r"|Traceback \(most recent|Application startup failed|Future exception was never retrieved|Task exception was never"
    r"|Error in (?:inspecting|creating) model|leaked (?:semaphore|shared_memory)|destroy_process_group"
    r"|Unhandled exception|^Command '\['cmake'"
    r"|ApplicationException|terminate called (?:without|after throwing an instance of 'c10::)"
    r"|Failed to start engine|failed to start the engine|Fatal error in|An error occurred|failed \(exitcode: \d+\)"
    r"|(?:container|job|command|process|service)\b.{0,60} exited with (?:code|status)|exited with code [1-9]\d*$"
    r"|remote process exited or there was a network error|NCCL communicator was aborted"
    r"|Connection closed by (?:remote )?peer"
    r"|waiting for engines to subscribe"
    r"|ERR99999 UNKNOWN appli|died during handshake"
    r"|^(?:NPUModelRunner (?:init )?failed, error is\s*)+$"
    r"|watchdog thread terminated|Parent process exited|Back-off restarting", re.IGNORECASE)
_THROWS = lazy_pattern(r"terminate called after throwing an instance of 'c10::Error'\n\s*what\(\): (?P<what>[^\n]*)")
_OF_PEERS = lazy_pattern(
    r"NCCL|Process ?Group|process group|watchdog|(?:CUDA|HIP|NPU|XPU) error|TCPStore|Broken pipe"
    r"|(?:recv|send)(?:Value|Bytes)|[Cc]onnection|[Tt]imed? ?out")
"""What PyTorch says in a C++ exception that follows from another failure."""
_LOST_ENGINE = lazy_pattern(r"Engine loop (?:is dead|has died)|Background loop (?:has errored|is stopped)")
"""What V0's client says of its engine, in the process that answers requests."""
_KILLS_ITSELF = "Got fatal signal from worker processes, shutting down"
"""A client of V1 says so before it sends SIGKILL to its own process and to its children."""
_OF_WORKER = lazy_pattern(
    r"Worker failed with error '(?P<text>.+?)'(?:,\s+please check the stack trace above for the\s+root cause.*|\s*)\Z"
    r"|\('Worker failed with error %s, please check the stack trace above for the root cause', (?P<quote>['\"])"
    r"(?P<argument>.+)(?P=quote)\)\s*\Z"
    r"|Worker failed with error '(?P<cut>[^'\n]{12,400})\Z", re.DOTALL)
"""The second form is that of V1's first releases, which passed the error as a second argument; the last one is cut."""
_OF_PROXY = lazy_pattern(
    r"\A(?:(?:litellm\.)?\w{1,60}: ){0,4}(?:Hosted_vllm|OpenAI|Openai_like|VLLM)\w{0,20}Exception - (?P<text>.+)",
    re.DOTALL)
_IN_JSON = lazy_pattern(
    r"[\"']message[\"']: ?(?P<quote>[\"'])(?P<text>(?:\\.|(?!(?P=quote))[^\\]){1,4000})(?P=quote)", re.DOTALL)
"""The message in the answer of an OpenAI API, as JSON or as Python prints it."""
_TEARDOWN_CALLS = frozenset({
    "shutdown", "__del__", "_shutdown", "destroy_process_group", "_exit_function", "_run_finalizers", "_cleanup",
    "_cleanup_profiling_kv_cache", "_python_exit", "cleanup_dist_env_and_memory", "_at_exit",
    "_cancel_all_tasks",
})  # fmt: skip


def is_cascade(candidate: Candidate) -> bool:
    """Return whether it is known to follow from another failure."""
    if candidate.exception in _CASCADE_CLASSES:
        return True
    thrown = _THROWS.match(candidate.message)
    if thrown is not None:
        return _OF_PEERS.search(thrown["what"]) is not None
    first_line = candidate.message.partition("\n")[0]
    return _CASCADE_MESSAGES.search(first_line) is not None


def is_consequence(candidate: Candidate) -> bool:
    """Return whether it follows from another failure without saying what that was."""
    return is_cascade(candidate) and not quoted_error(candidate)


def quoted_error(candidate: Candidate) -> str:
    """Return the error of a worker that the engine quotes; nothing for another message."""
    found = _OF_WORKER.match(candidate.message)
    return (found["text"] or found["argument"] or found["cut"]).strip() if found else ""


def as_reported_by_worker(candidate: Candidate) -> Candidate:
    """Return a worker's error that the engine quotes as its own: the calls are those of the engine that waited.

    Its class is the one that its words show; where they show none, that of the exception that quotes it. A class alone
    says less than the sentence that quotes it.
    """
    text = quoted_error(candidate)
    named = exception_lines.ending_traceback(text)
    if not text or (named is not None and not named.message):
        return candidate
    exception = named.name if named is not None else exception_lines.class_by_wording(text) or candidate.exception
    message = named.message if named is not None else text
    return candidate._replace(exception=exception, message=message, frames=(), introduction="", is_of_worker=True)


def as_reported_by_server(candidate: Candidate) -> Candidate:
    """Return an error that a proxy such as LiteLLM passes on, with the message of the server behind it."""
    found = _OF_PROXY.match(candidate.message)
    if found is None:
        return candidate
    text = found["text"]
    inner = _IN_JSON.search(text)
    message = inner["text"].replace('\\"', '"') if inner else text.partition(". Received Model Group=")[0].strip()
    return candidate._replace(message=message) if message else candidate


def is_teardown(candidate: Candidate) -> bool:
    """Return whether it was raised while a process was shutting down, or by the helper that removes leftovers."""
    frames = candidate.frames
    if frames and frames[-1].path.endswith("multiprocessing/resource_tracker.py"):
        return True
    return candidate.ignored or any(frame.function in _TEARDOWN_CALLS for frame in frames)


def without_exits(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Return the candidates without cut tracebacks of a process that another failure has ended.

    As it exits, Python prints the exception again, and what its exit handlers raise. The process that started an
    engine ends after it; where that kills itself, the shell says so.
    """
    ended: set[str] = set()
    has_lost_engine = kills_itself = False
    kept = []
    for one in candidates:
        follows = one.is_cut and (one.process in ended or (has_lost_engine and not one.is_of_engine))
        if not (follows or (kills_itself and one.shape == "fatal" and one.message == "Killed")):
            kept.append(one)
        kills_itself = kills_itself or one.message.startswith(_KILLS_ITSELF)
        if one.exception is not None and is_consequence(one):
            if one.process:
                ended.add(one.process)
            has_lost_engine = has_lost_engine or one.is_of_engine or _LOST_ENGINE.search(one.message) is not None
    return kept
