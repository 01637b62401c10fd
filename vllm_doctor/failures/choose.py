"""Which of the candidates is the failure: the first that is no consequence of another one, and of a chain its root."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise

from vllm_doctor.failures.consequences import is_cascade, is_teardown, quoted_error, without_exits
from vllm_doctor.failures.model import Candidate
from vllm_doctor.failures.signature import content_words
from vllm_doctor.text.patterns import lazy_pattern

_PASSED_ON = frozenset({"RayTaskError", "RayActorError", "ActorDiedError", "ActorUnavailableError"})
"""Of consequences, those that only pass on what another process said."""
_ELSEWHERE = lazy_pattern(r"Engine core initialization failed|[Ss]ee (?:root cause|(?:the )?stack trace) above")
_WRAPPERS = lazy_pattern(
    r"Failed to (?:load|import|initialize|process|create|get|run)|Unable to|Error (?:while|when|during|in)|could not"
    r"|An error|failed, error is|something went wrong|failed to be inspected|returned non-zero exit status",
    re.IGNORECASE)
_LOOKUPS = frozenset({
    "KeyError", "IndexError", "StopIteration", "AttributeError", "LookupError", "FileNotFoundError", "TypeError",
    "ModuleNotFoundError", "ImportError", "NotImplementedError", "UnicodeDecodeError",
})  # fmt: skip
_UNPARSED = frozenset({"SyntaxError", "IndentationError", "TabError"})
_TRANSPORT = frozenset({
    "HTTPError", "HTTPStatusError", "MaxRetryError", "NewConnectionError", "NameResolutionError", "gaierror",
    "LocalEntryNotFoundError", "ConnectTimeoutError", "ReadTimeoutError", "SSLError", "SSLCertVerificationError",
    "ConnectionRefusedError", "ConnectionError", "ConnectTimeout", "ReadTimeout", "ProxyError",
})  # fmt: skip
_HEADING = 8  # lines from a record to the traceback that belongs to it: a compiler's output stands between
_NEAR = 64  # lines between the same bare exception of two ranks
_SHAPES = {"traceback": 0, "exception": 0, "repr": 0, "fatal": 1, "record": 2, "cut": 3, "quoted": 4, "http": 5,
           "sentence": 6}


def choose(candidates: Iterable[Candidate], *, advances: int, evidence: Sequence[int] = ()) -> Candidate | None:
    """Return the candidate that decides; None where there is none.

    `advances` is how often the start made progress; `evidence` the lines on which a rule that explains the failure
    fired: the candidate that holds one of them goes first.
    """
    kept = without_exits(one for one in candidates if not is_teardown(one))
    for line in evidence:
        holding = [one for one in kept if one.line <= line <= one.last_line and one.shape != "cut"
                   and not is_cascade(one)]
        if holding:
            return _root(_beside(holding[0], kept), kept)
    ranked = sorted(kept, key=lambda one: _rank(one, advances))
    if not ranked:
        return None
    best = _root(ranked[0], kept)
    if best.shape == "cut":
        best = next((one for one in ranked if quoted_error(one) or _tells_more(one, best)), best)
    return _with_calls(best, kept)


def is_above(record: Candidate, cut: Candidate) -> bool:
    """Return whether a record stands right above a traceback of the same process that the log cuts off."""
    return (cut.is_cut and record.shape == "record" and record.process == cut.process
            and record.last_line == cut.begin - 1)


def _tells_more(record: Candidate, cut: Candidate) -> bool:
    """Return whether a record above a cut traceback has its message, as V0's engine logs it, or points elsewhere."""
    return is_above(record, cut) and (
        _ELSEWHERE.search(record.message) is not None or (record.level == "ERROR" and not is_cascade(record)))


def _with_calls(candidate: Candidate, candidates: Sequence[Candidate]) -> Candidate:
    """Return the same exception where the log shows its calls, if this line shows it alone."""
    if candidate.frames or candidate.exception is None:
        return candidate
    is_bare = not candidate.message and candidate.shape != "repr"  # another one may be raised elsewhere
    return next((one for one in candidates if one.frames and one.exception == candidate.exception
                 and one.message == candidate.message and not (is_bare and _is_apart(one, candidate))), candidate)


def _is_apart(one: Candidate, other: Candidate) -> bool:
    """Return whether two exceptions are far apart, or of processes of another kind."""
    kinds = {re.split("[ _]", each.process)[0] for each in (one, other)}
    return len(kinds) > 1 or abs(one.line - other.line) > _NEAR


def _rank(candidate: Candidate, advances: int) -> tuple[bool, int, bool, bool, bool, int]:
    """Return the sort key: own failures before consequences, exceptions before other text, last progress, line."""
    shape = _SHAPES[candidate.shape]
    return (candidate.is_refused_request, shape if shape > _SHAPES["cut"] else 0, is_cascade(candidate),
            candidate.exception in _PASSED_ON, candidate.advances < advances, _order(candidate))


def _order(candidate: Candidate) -> int:
    shape = _SHAPES[candidate.shape]
    return shape * 1_000_000_000 + candidate.line


def _beside(record: Candidate, candidates: Sequence[Candidate]) -> Candidate:
    """Return what says more than the line on which a rule fired; where nothing does, that line's candidate.

    That is the exception of the traceback under a record, and the assertion in front of `Aborted`.
    """
    if record.shape == "fatal":
        return next((one for one in candidates if one.shape == "fatal" and one.last_line == record.line - 1), record)
    if record.shape != "record":
        return record
    return next((one for one in candidates if one.shape == "traceback" and one.process == record.process
                 and 0 < one.begin - record.last_line <= _HEADING and not is_cascade(one)), record)


def _root(candidate: Candidate, candidates: Sequence[Candidate]) -> Candidate:
    """Return the exception of a chain that states the reason."""
    if not candidate.group:
        return candidate
    chain = [one for one in candidates if one.group == candidate.group]
    if len(chain) < 2:
        return candidate
    best = chain[0]
    for link, outer in pairwise(chain):
        if _replaces(outer, best, link.chain):
            best = outer
    return best


def _replaces(outer: Candidate, inner: Candidate, chain: str) -> bool:
    """Return whether an exception is more informative than the one it was raised from."""
    if outer.is_cut:
        return False
    if is_cascade(inner):
        return not is_cascade(outer)
    if is_cascade(outer):
        return False
    if outer.exception in _UNPARSED:  # the file was found, whatever was looked for before
        return True
    if outer.exception == inner.exception and outer.message and not inner.message:
        return True  # only the outer one says what failed
    if inner.exception in _LOOKUPS and outer.message and not inner.message:
        return True  # `StopIteration` alone says nothing
    inner_words, outer_words = content_words(inner.message), content_words(outer.message)
    if inner.message and len(inner_words) > 2 and inner.message.strip()[:200] in outer.message:
        # It quotes it. Where it is raised anew as the same class, the calls of the inner one show the place.
        return not (outer.exception == inner.exception and inner.frames)
    if inner.exception == "CalledProcessError":  # it has the command only; what the command printed is in the outer one
        return len(outer_words) > 2
    if inner.exception in _TRANSPORT or (inner.exception in _LOOKUPS and chain == "handling"):
        return len(outer_words) > max(4, len(inner_words) // 3)
    if chain == "handling":
        return len(inner_words) < 3 and len(outer_words) > len(inner_words) and not _WRAPPERS.search(outer.message)
    return False
