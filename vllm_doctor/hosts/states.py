"""Say how a process ended, in the words of Kubernetes and Docker, which the rules know."""

from __future__ import annotations

_QUIET = {0, 130, 143}  # success, Ctrl-C, SIGTERM: nobody has to look for a cause
_LONGEST = 2000


def exit_report(subject: str, code: object, reason: str, message: str = "") -> list[str]:
    """Return the lines on a process that has ended; none for an end that was asked for.

    `code` is its exit code, `reason` the host's word for the end (`OOMKilled`), `message` what it adds.
    """
    if not isinstance(code, int) or (code in _QUIET and reason != "OOMKilled"):
        return []
    lines = [f"{subject}, Reason: {reason or 'Error'}, exited with code {code}"]
    lines += [f"  {line}" for line in message[:_LONGEST].splitlines() if line.strip()]
    return lines
