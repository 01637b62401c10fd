"""Labels for several processes in one stream: Docker Compose, swarm, foreman, pm2, supervisord, docker build.

Also the records of programs that log what a server prints.

A name and a bar may also be a table in the log, so a compose name without an index needs a column of its own or
evidence (wrapper_match.py).
"""

from __future__ import annotations

from vllm_doctor.logs.wrappers.kubernetes import REPLICA
from vllm_doctor.logs.wrappers.wrapper_match import WrapperMatch
from vllm_doctor.text.patterns import lazy_pattern

_COMPOSE = lazy_pattern(r"(?:(?P<clock>\d\d:\d\d:\d\d) )?(?P<name>[A-Za-z0-9][\w.@-]{0,120})(?P<pad> {1,80})\|(?: |$)")
_NOT_A_NAME = lazy_pattern(r"[0-9a-f]{2}[OE]|\d{1,6}\.\d{1,4}")  # GitLab's stream letters, seconds of docker build
_INDEXED = lazy_pattern(r".+[-_]\d+$|.+\.\d+(?:\.[a-z0-9]+)?@[\w.-]+$")
_CELL = lazy_pattern(r"[^%]*[^%\s]?\s\|(?:\s|$)")
_PM2 = lazy_pattern(r"\d{1,4}\|(?P<name>[\w.-]{1,80}) {1,40}\| ")
_BUILD = lazy_pattern(r"(?P<step>#\d{1,4} )?\d{1,6}\.\d{1,4}(?: |$)")
_RELAYED = lazy_pattern(
    r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} - (?P<name>[\w.]{1,80}) - (?:DEBUG|INFO|WARNING|ERROR) - ")
_SUPERVISOR = lazy_pattern(r"(?P<name>[\w.:-]{1,80}) std(?:out|err) \| ")


def compose(text: str) -> WrapperMatch | None:
    """Match `web-1  | msg`, swarm's `stack_web.1.k3x0q@host    | msg`, foreman's `10:00:01 web.1  | msg`."""
    m = _COMPOSE.match(text) if " |" in text else None
    if m is None or _NOT_A_NAME.fullmatch(m["name"]) or REPLICA.match(m["name"]):  # before a group's bar
        return None
    name, rest = m["name"], text[m.end() :]
    column = len(m["pad"]) >= 2 and not (" |" in rest and _CELL.match(rest))
    sure = column and bool(_INDEXED.match(name) or m["clock"])
    return WrapperMatch("compose", rest, name, f"compose:{name}", sure, column)


def process_manager(text: str) -> WrapperMatch | None:
    """Match pm2's `0|vllm  | msg` and the `vllm stderr | msg` of supervisord's stdout plug-in."""
    if "| " not in text:
        return None
    if text[:1].isdigit() and (m := _PM2.match(text)):
        return WrapperMatch("pm2", text[m.end() :], m["name"])
    if " std" in text and (m := _SUPERVISOR.match(text)):
        return WrapperMatch("supervisord", text[m.end() :], m["name"])
    return None


def docker_build(text: str) -> WrapperMatch | None:
    """Match `#12 25.71 msg` of `docker build --progress=plain`, and the `25.71 msg` of the step that failed."""
    m = _BUILD.match(text)
    if m is None:
        return None
    return WrapperMatch("docker-build", text[m.end() :], key="docker-build", sure=m["step"] is not None, repeats=True)


def relayed(text: str) -> WrapperMatch | None:
    """Match `2025-06-27 12:57:51,690 - __main__ - INFO - msg` of a program that logs what a server prints."""
    m = _RELAYED.match(text) if " - " in text else None
    return WrapperMatch("logging", text[m.end() :], key=f"logging:{m['name']}", sure=False) if m else None
