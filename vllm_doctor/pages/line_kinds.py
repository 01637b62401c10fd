"""What a line of a page is: server output, a command that starts vLLM, prose, or none of these as far as it shows."""

from __future__ import annotations

import re
from typing import Literal

from vllm_doctor.logs.line_prefix import LOG_HEAD
from vllm_doctor.text.patterns import lazy_pattern

Kind = Literal["output", "command", "prose", "blank", "other"]

_CJK = lazy_pattern(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]")
_QUOTED_TEXT = lazy_pattern(r"'[^']{0,400}'|\"[^\"]{0,400}\"|`[^`]{0,400}`")
_ANYWHERE = lazy_pattern(  # in the first characters of a line, behind whatever collected the log
    r"\b(?:INFO|WARNING|ERROR|DEBUG|CRITICAL) (?:\d{4}-)?\d\d-\d\d \d\d:\d\d:\d\d"
    r"|\((?:APIServer|ApiServer|EngineCore|CoreEngine|Worker|VllmWorker|VLLM)[\w.:-]*(?: [\w=]+){0,4} pid=\d+\)"
    r"|\((?:RayWorkerWrapper|RayWorkerVllm|RayTrainWorker|pid=\d+)[^()\n]{0,80}\) "
    r"|Traceback \(most recent call last\)|CUDA out of memory\. Tried to allocate \d|HIP out of memory\. Tried"
    r"|\b(?:INFO|WARNING|ERROR) +\[?[\w./]+\.py:\d+\]")
_REACH = 240
_AT_START = lazy_pattern(
    r"\s{0,40}(?:File \"[^\"\n]{1,400}\", line \d|[\^~]{3,}\s*$|\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d\S{0,12} .{0,80}"
    r"\b(?:DEBUG|INFO|WARN|WARNING|ERROR|CRITICAL)\b|INFO: {1,8}(?:\d{1,3}\.){3}\d{1,3}:\d+ - \"|\[rank\d+\]:"
    r"|\{\"(?:log|message|level|time|timestamp|ts|msg)\"|\{?\s{0,8}\"object\": ?\"error\""
    r"|\"type\": \"[A-Z]\w{1,40}Error\""
    r"|(?<! )  (?:Value|Assertion) error, \S|\d{1,6} validation errors? for \w{1,80}\s*$"  # pydantic
    r"|(?:[a-z_]\w*\.)*[A-Z]\w*(?:Error|Exception): ?$"
    r"|(?:rocblaslt|rocBLAS|hipBLASLt) error: (?:Cannot|Could not) \S"
    r"|(?:(?:#\d{1,4} )?\d{1,6}\.\d{1,4} )?CMake Error at |< HTTP/[\d.]{1,4} \d{3}"
    r"|(?:ba|z|da)?sh: (?:line \d+: )?\S+: command not found|docker: Error response|Segmentation fault"
    r"|E {3}(?: {4}){0,20} {0,3}\S|={3,40} \S.{0,200} ={3,40}\s*$|(?:_ ){9}"  # pytest
    r"|[\w./-]{1,300}\.py:\d{1,9}: (?:in [\w<>]{1,200}|[A-Z]\w{1,60})?\s*$|(?:FAILED|ERROR) \S{1,300}\.py::"
    r"|Checking Serializability of <|\s{0,40}!!! FAIL serialization: |\{\"custom_fields\":"  # Ray
    r"|[\u2800-\u28ff] \S|\u00d7 (?:No solution found|Failed to) |\u2570\u2500\u25b6 "  # uv
    r"|The above exception was the direct cause|During handling of the above exception)")
_TEMPLATE = lazy_pattern(r"\b[XN]+\.[XN]{1,3}\b|\bXX+\b|\bxx+\.x+\b|<[a-z][a-z_ -]{1,30}>")
_COMMAND = lazy_pattern(
    r"(?:^|[\s$#>`:\uff1a\"'(;&/])(?:vllm serve [^\s`]|vllm\.entrypoints\.\w|-m vllm\b|vllm/vllm-openai\b"
    r"|vllm-openai:)|(?:^|[\s=])(?:vllm\.)?LLM\((?:$|\s*(?:model|[\"'])|\w)")
_CONFIG = lazy_pattern(r"vllm|--model\b")
_MARKUP = lazy_pattern(
    r"\s{0,3}(?:#{1,6} \S|[-*+\u2022] (?!-)\S|\d{1,2}[.)\u3001](?!\d) ?\S|\|.{1,400}\|\s{0,40}$|\*\*|---+\s{0,40}$"
    r"|===+\s{0,40}$|~~~|```|<!--|!\[|\[[^\]]{1,200}\]\()")
_MAIL = lazy_pattern(
    r"(?:From|To|Cc|Bcc|Subject|Date|Sent|Reply-To|Message-ID|In-Reply-To|MIME-Version|Content-Type|X-[\w-]{1,40}"
    r"|\u53d1\u4ef6\u4eba|\u6536\u4ef6\u4eba|\u4e3b\u9898|\u53d1\u9001\u65f6\u95f4|\u65e5\u671f)\s?[:\uff1a] ?\S"
    r"|On .{6,120} wrote:\s{0,40}$|.{1,80}\u5199\u9053\s?[:\uff1a]\s{0,40}$"
    r"|-{2,8} ?(?:Original Message|Forwarded message|\u539f\u59cb\u90ae\u4ef6)"
    r"|-- ?$|(?:Best|Kind|Regards|Cheers|Thanks|Hi|Hello|Dear)\b.{0,40}$")
_DATE = r"\d{4}[-/.\u5e74]\d{1,2}[-/.\u6708]\d{1,2}\u65e5?,? "
_CLOCK = rf"(?:{_DATE})?\d{{1,2}}:\d\d(?::\d\d)?(?: ?[AaPp][Mm])?"
# A person's name: no level, no exception, no process, no place in a program.
_NAME = (r"(?!(?:DEBUG|INFO|WARN|WARNING|ERROR|CRITICAL|FATAL|TRACE|Traceback|File)\b)"
         r"(?![^:]{0,40}(?:Error|Exception|Warning):)[^\[\]:<>()=/\n]{1,40}?")
_ROLES = (r"User|Assistant|System|Human|AI|ChatGPT|Claude|Gemini|Copilot|DeepSeek|Bot|You|Me|Customer|Support|Agent"
          r"|\u7528\u6237|\u52a9\u624b|\u6211|\u5ba2\u670d|\u5ba2\u6237|\u7fa4\u53cb|\u56de\u7b54|\u63d0\u95ee")
_SPEAKER = lazy_pattern(
    rf"\s{{0,4}}(?:\[(?:\d{{1,2}}/\d{{1,2}}(?:/\d{{2,4}})?,? )?{_CLOCK}(?:, \d{{1,2}}/\d{{1,2}}/\d{{2,4}})?\] ?"
    rf"<?{_NAME}>? ?[:\uff1a](?: |$)"
    rf"|{_CLOCK} ?<[^<>\n]{{1,40}}> "
    r"|<[\w.@+-]{1,30}> (?=\S)"
    r"|[^\s:\uff1a\[(][^:\uff1a\n\[(]{0,30}[ \t\u3000]{1,8}(?:Today at |Yesterday at |\u4eca\u5929 |\u6628\u5929 )?"
    rf"{_CLOCK}\s{{0,40}}$"
    rf"|(?P<role>\*{{0,2}}(?:{_ROLES})(?: said| \u8bf4)?\*{{0,2}} ?[:\uff1a]\*{{0,2}}(?: |$|(?=\S))))")
_STOP = lazy_pattern(
    r"(?i)\b(?:the|is|are|was|i|i'm|i've|my|you|your|we|our|they|it's|that|this|these|but|and|so|because|when|which"
    r"|would|should|could|can|will|please|thanks|hello|hi|have|has|get|got|try|tried|here|there|how|why|what|not|with"
    r"|for|from|of|to)\b")
_PERSON = lazy_pattern(
    r"(?:^|[ (])(?:I|I'm|I've|I'd|my|My|we|We|me)(?=[ ,.])|\b(?:Thanks|Hello|Hi all|anyone|Anyone)\b")
_QUOTE = lazy_pattern(r"(?:\s{0,3}>(?!>> ) ?){1,6}")


def unquoted(text: str) -> str:
    """Return a line without the quote marks of mails and Markdown."""
    match = _QUOTE.match(text) if text.lstrip().startswith(">") else None
    return text[match.end():] if match else text


def without_speaker(text: str) -> str:
    """Return what somebody said in one line of a chat; the line itself if nobody speaks in it.

    Words such as "User:" are left: programs print them before what clients wrote.
    """
    match = _SPEAKER.match(text)
    return text[match.end():] if match and match["role"] is None else text


def _ideographs(text: str) -> int:
    """Return how many Chinese, Japanese and Korean characters a text has; compiling their set takes milliseconds."""
    return 0 if text.isascii() else len(_CJK.findall(text))


def is_output(text: str) -> bool:
    """Return whether a server, Python or a library printed the line, as far as the line itself shows."""
    if not text.strip() or _TEMPLATE.search(text):
        return False
    if LOG_HEAD.match(text) or _AT_START.match(text):
        return not _is_sentence(text)
    found = _ANYWHERE.search(text, 0, _REACH)
    return found is not None and not _ideographs(text[:found.start()])


def _is_sentence(text: str) -> bool:
    """Return whether a line that begins as output does goes on in the words of a person."""
    rest = _QUOTED_TEXT.sub("", text)
    return _ideographs(rest) >= 6 and LOG_HEAD.match(text) is not None and not re.match(
        r"(?:\([^)]*\) )?(?:INFO|WARNING|ERROR|DEBUG|CRITICAL) \d", text)


def is_command(text: str) -> bool:
    """Return whether a line begins a command that starts vLLM, or names one in a sentence."""
    return _COMMAND.search(text) is not None


def concerns_vllm(text: str) -> bool:
    """Return whether a block of code may configure or start vLLM."""
    return _CONFIG.search(text) is not None


def is_speaker(text: str) -> bool:
    """Return whether a line begins what somebody says in a chat, or is a heading of a mail."""
    return _SPEAKER.match(text) is not None or _MAIL.match(text) is not None


def is_apart(text: str) -> bool:
    """Return whether a line right behind an exception is prose that no program prints, so no part of its message."""
    return (_ideographs(_QUOTED_TEXT.sub("", text)) >= 2 or is_speaker(text)
            or re.match(r"\s{0,3}(?:#{1,6} |```|~~~|\*\*|!\[)", text) is not None)


def is_prose(text: str) -> bool:
    """Return whether a line is part of an article, a chat or a mail and of no log."""
    stripped = text.strip()
    if not stripped:
        return False
    if _ideographs(_QUOTED_TEXT.sub("", stripped)) >= 2 or is_speaker(text) or _MARKUP.match(text):
        return True
    words = stripped.split()
    if len(words) < 4:
        return False
    return _PERSON.search(stripped) is not None or (
        len(words) >= 6 and stripped[0].isalpha() and len(_STOP.findall(stripped)) * 4 >= len(words))


def kind_of(text: str) -> Kind:
    """Return the kind of a line outside code blocks, by itself."""
    if not text.strip():
        return "blank"
    if is_output(text):
        return "output"
    if is_command(text):
        return "command"
    return "prose" if is_prose(text) else "other"
