"""Read the log of a container with docker or podman, and how it ended."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from vllm_doctor.errors import InputError
from vllm_doctor.hosts.client import ByteStream, checked_name, client, followed_by_lines, json_output, stream_output
from vllm_doctor.hosts.states import exit_report
from vllm_doctor.logs.inputs import Log


def container_logs(name: str) -> Iterator[Log]:
    """Yield the log of a container; behind it stands how it ended, as lines. Raises InputError."""
    checked_name(name, "--docker", "vllm-1")
    program = client("docker", "podman")
    _state(program, name)  # raises for an unknown name; its error would else be read as the container's log
    notes: list[str] = []
    pieces = stream_output([program, "logs", name], notes, joined=True)
    yield Log(ByteStream(followed_by_lines(pieces, partial(_ending, program, name)), notes), f"{program} {name}")


def _state(program: str, name: str) -> dict[str, Any]:
    found = json_output([program, "inspect", "--type=container", name])
    state: dict[str, Any] = found[0].get("State", {}) if found else {}
    return state


def _ending(program: str, name: str) -> Sequence[str]:
    try:
        state = _state(program, name)
    except InputError:  # Docker removes a container at its end that was started with --rm
        return ()
    if state.get("Running"):
        return ()
    reason = "OOMKilled" if state.get("OOMKilled") else "Error"
    return exit_report(f"Container {name}: State: Exited", state.get("ExitCode"), reason, str(state.get("Error") or ""))
