"""The wrappers around most long logs, as expressions for lines that are not taken out of them.

A time stamp before each line (kubectl, docker), the name of a container (compose), a host and its program (journald);
docker's JSON around it; the colour of vLLM's process.
"""

from __future__ import annotations

from vllm_doctor.wrappers.timestamps import STAMP

_DATE = r"[A-Z][a-z][a-z] [ 0-9][0-9] [0-9][0-9]:[0-9][0-9]:[0-9][0-9] "
_CONTAINER = r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,120}+(?= {1,80}+\| )"
_PROGRAM = r"[A-Za-z0-9_.-]{1,255}+ [A-Za-z][^ \[\]:]{0,80}+\[[0-9]+\](?=: )"
_SOURCE = rf"(?P<source>{_CONTAINER}|{_PROGRAM})(?: {{1,80}}+\| |: )"
WRAPPER = rf"(?=[A-Za-z0-9])(?:{STAMP} |{_DATE})?+(?:{_SOURCE})?+(?:{STAMP} )?+"
COLOUR = r"\x1b\[[0-9;]{1,8}m"
JSON = r'\{"log":"'
JSON_END = r'\\n","stream":"std(?:out|err)","time":"[0-9TZ:.+-]+"\}'
