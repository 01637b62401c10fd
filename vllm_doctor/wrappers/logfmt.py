"""What a Go program logs of the server it started: `time="…" level=info msg="…" component=vllm`."""

from __future__ import annotations

import json

from vllm_doctor.patterns import lazy
from vllm_doctor.wrappers.peeled import Peeled

_LINE = lazy(
    r'time=(?:"[^"]{1,60}"|[^\s"]{1,60}) level="?\w+"? msg=(?P<message>"(?:[^"\\]|\\.)*"|[^\s"=]*)'
    r'(?P<fields>(?: [\w.-]{1,60}=(?:"(?:[^"\\]|\\.)*"|[^\s"]*))*)$'
)
_SOURCE = lazy(r' (?:component|container|name)="?(?P<name>[\w./-]{1,80})')


def logfmt(text: str) -> Peeled | None:
    """The message of such a line, with the program's name for who wrote it."""
    m = _LINE.match(text.rstrip()) if text.startswith("time=") else None
    if m is None:
        return None
    message = m["message"]
    if message.startswith('"'):
        try:
            message = json.loads(message, strict=False)
        except ValueError:  # Go's \x1b and others that JSON does not know
            message = message[1:-1].replace('\\"', '"').replace("\\\\", "\\")
    named = _SOURCE.match(m["fields"])
    return Peeled("logfmt", message, named["name"] if named else "")
