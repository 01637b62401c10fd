"""The beginning of a log line as vLLM, its libraries or Python write it.

`BARE` matches lines without a wrapper. `LOG_HEAD` proves that the text in front of it is a wrapper, that a terminal
row begins a new line, or that a message follows a progress bar.
"""

from __future__ import annotations

from vllm_doctor.text.patterns import lazy_pattern

VLLM_PROCESS = (
    r"\((?:API_?Server|Api_?Server|(?:DP)?EngineCore|CoreEngine|Worker|V(?:llm|LLM)_?Worker|VLLM_DP_Coord|DP_?Coord"
    r"|DP_?Supervisor|MainProcess|(?:Spawn|Fork)?(?:Server)?Process-)[\w.:-]*(?: [PT]P\d\w*)?(?: \w+=[\w.]+)* pid=\d+\)"
)
_VLLM_LEVEL = r"(?:INFO|WARNING|ERROR|DEBUG|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d"

# A line that begins like this is a log line without a wrapper. (A vLLM process may forward a Ray worker's line with
# its own prefix, srun pads a rank with spaces, journald a month in Japanese or Korean with one, Buildkite's page begins
# a row with two spaces: those are checked separately.)
BARE = lazy_pattern(
    rf"{_VLLM_LEVEL}|{VLLM_PROCESS} (?! *\()|(?:INFO|ERROR|WARNING): {{2}}"
    rf"|[ \t](?! *\d+:(?: |$)|\d[月월] | \| \[\d{{4}}-)|$"
)

# What stands before a prefix, or before the words of a start, that a message of another record quotes.
QUOTING = lazy_pattern(r"[\"'`=\\]|[Ee]rror|\b(?:DEBUG|INFO|WARN(?:ING)?|ERROR|CRITICAL|FATAL)\b")

VLLM_HEAD = lazy_pattern(rf"{_VLLM_LEVEL}|{VLLM_PROCESS}")  # of a record

# The beginning of a line as vLLM, its libraries or Python write it: it proves a doubtful wrapper.
LOG_HEAD = lazy_pattern(
    rf"{_VLLM_LEVEL}|{VLLM_PROCESS}|(?:INFO|ERROR|WARNING|DEBUG|CRITICAL): {{1,6}}\S"
    r"|(?:\+ Exception Group )?Traceback \(most recent call last\)"
    r"| {2}(?:File \"|\| |\+)|\[rank\d+\]:|\[[WEIF]\d{3,4} \d\d:\d\d:\d\d|[WEIF]\d{4} \d\d:\d\d:\d\d"
    r"|(?:[a-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Warning): |(?:Spawn|Fork)?Process[ -][\w-]+:?$"
    r"|(?:Loading|Capturing|Processed|Fetching|Downloading) [^%]{0,80}\d+%|/[\w./@+-]+\.py:\d+: \w*Warning"
    r"|usage: \w|vllm: error|api_server\.py: error|Fatal Python error",
    cues=(":", "pid=", "Traceback", "  ", "Process", "%", "Fatal"),
)
