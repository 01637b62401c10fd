"""Find the command a user typed in one line of a log: behind a prompt, a label, or bare in a script.

Prose that mentions `vllm serve` is no command: without a prompt, the words before vLLM must be a known program and
the words after it arguments.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from vllm_doctor.command.launchers import BEGINS_COMMAND, is_python
from vllm_doctor.command.model import Command, Word, program_name
from vllm_doctor.command.shell import may_start, parse_shell
from vllm_doctor.command.yaml_commands import parse_list
from vllm_doctor.text.patterns import lazy_pattern

_PROMPT = lazy_pattern(
    r"\s*(?:\([\w .+/:-]{1,60}\)\s*)*"
    r"(?:[\w.+-]{1,64}@[\w.-]{1,64}(?:[:\s][^\n$#%>|]{0,200})?[$#%>]\s*"
    r"|\[[^\]\n]{1,120}\]\s?[$#%>]\s*"
    r"|(?:PS\s)?[A-Za-z]:\\[^>\n]{0,200}>\s*"
    r"|(?:ba|z)?sh-[\d.]{1,9}[$#]\s*"
    r"|[~/][^\s$#%]{0,120}\s?[$#%]\s+"
    r"|[\u276f\u279c$#%>]\s+|\++\s+"
    r"|In\s\[\d{1,5}\]:\s!?|!(?=\w))",
    cues=("@", "]", ":\\", "sh-", "\u276f", "\u279c", "$", "#", "%", ">", "+", "!"),
)
_COMMON_PROMPT = lazy_pattern(r"\s*[$#]\s+", cues=("$", "#"))
_LABEL = lazy_pattern(
    r"(?:^\s*(?:[*-]|\d{1,2}[.)])\s+|(?:^|(?<=[\s(]))(?=`)"  # of a list; code in a sentence
    r"|[:=>]\s+|\uff1a\s*|\s--\s+|\d:\d\d\s+|\b(?:ExecStart|command|cmd)=|\b(?:CMD|ENTRYPOINT)\s+"
    r"|[\d\]+-]\s{1,4}(?:Killed|Aborted|Terminated|Hangup|Bus error|Illegal instruction|Segmentation fault"
    r"|Exit \d{1,3})\s+(?:\(core dumped\)\s+)?)"  # what a shell prints when a program ends
    r"(?P<quote>[\"'`]?)"
)
_FIRST_WORD = lazy_pattern(r"\s*(?P<word>[^\s=]{1,400})(?P<equals>=?)")
_WRAPPER = lazy_pattern(r"[\w./=:@%+,~$-]+")
_ASSIGNED = lazy_pattern(r"[A-Z_][A-Z0-9_]*")
_USAGE = lazy_pattern(r"(?:usage|example|e\.g\.|such as|try|use):?\s*[`\"']?$", re.IGNORECASE)
_MAX_LABELS = 12
_LABEL_REACH = 120  # characters of which a label consists
_QUOTED = lazy_pattern(r"[\"'{}|]|Error|Exception|[a-z]://")  # before a label: a quotation or the text of a message
_MAX_LABELLED = 16 * 1024


class CommandStart(NamedTuple):
    """A place where a command may begin.

    `end` is where the quote around it closes; `prompted` says that a shell's prompt precedes it.
    """

    start: int
    end: int
    prompted: bool


def _prompt(text: str) -> re.Match[str] | None:
    """Match a shell's prompt at the beginning."""
    return _COMMON_PROMPT.match(text) or _PROMPT.match(text)


def is_prompted(text: str) -> bool:
    """Return whether a line begins with a shell's prompt."""
    return _prompt(text) is not None


def strip_prompt(text: str) -> str:
    """Return the text without a shell's prompt."""
    match = _prompt(text)
    return text[match.end() :] if match else text


def command_starts(text: str) -> list[CommandStart]:
    """Return the places where a command may begin in a line, the most likely first."""
    end_of_line = len(text)
    starts: list[CommandStart] = []
    prompt = _prompt(text)
    if prompt is not None:
        starts.append(CommandStart(prompt.end(), end_of_line, prompted=True))
    if _is_program(text, 0):
        starts.append(CommandStart(0, end_of_line, prompted=False))
    if end_of_line > _MAX_LABELLED:
        return starts
    for label in _LABEL.finditer(text, 0, _LABEL_REACH):
        if len(starts) >= _MAX_LABELS or _QUOTED.search(text, 0, label.start()):
            break
        if not _is_program(text, label.end()) or _USAGE.search(text[max(0, label.start() - 20) : label.end()].rstrip()):
            continue
        closing = _closing(text, label["quote"], label.end())
        starts.append(CommandStart(label.end(), closing if closing > label.end() else end_of_line, prompted=False))
    return starts


def _closing(text: str, quote: str, begin: int) -> int:
    """Return where a quote that opens at `begin` closes; a backtick closes at the next backtick."""
    if not quote:
        return len(text)
    return text.find(quote, begin) if quote == "`" else text.rfind(quote)


def find_command(text: str) -> Command | None:
    """Return the command in one logical line, or None."""
    if not may_start(text):
        return None
    if "[" in text or "(" in text:
        command = parse_list(text)
        if command is not None:
            return command
    for lead in command_starts(text):
        command = parse_shell(text[lead.start : lead.end])
        if command is not None and _is_plausible(command, prompted=lead.prompted):
            return command
    return None


def parse_known_command(text: str) -> Command | None:
    """Parse a text known to be a command: unknown programs may precede vLLM's, stray words may follow its flags."""
    command = parse_shell(strip_prompt(text))
    if command is None:
        return None
    wrappers = (word.text for word in command.before[command.start : command.program])
    if _is_program(strip_prompt(text), 0):
        plausible = _is_plausible(command, prompted=True) or (_has_flags(command) and _starts_server(command))
    else:
        plausible = all(_WRAPPER.fullmatch(word) for word in wrappers) and _is_plausible(command, prompted=True)
    return command if plausible else None


def _is_program(text: str, pos: int) -> bool:
    match = _FIRST_WORD.match(text, pos)
    if match is None:
        return False
    word = match["word"]
    if match["equals"]:
        return bool(_ASSIGNED.fullmatch(word))
    name = program_name(word)
    return name in BEGINS_COMMAND or is_python(name)


def _is_plausible(command: Command, *, prompted: bool) -> bool:
    """Return whether the words after the program are arguments and not the rest of a sentence."""
    if not _starts_server(command):
        return False
    free = [word.value for word in _positional(command) if word.value is not None]  # $EXTRA may be any number of words
    if prompted or _has_flags(command):
        return len(free) <= 1
    return len(free) == 1 and "/" in free[0]


def _starts_server(command: Command) -> bool:
    """Return whether it is neither a usage line nor a question for the flags, which prints and exits."""
    positional = _positional(command)
    if positional and positional[0].text.startswith(("[", "<")):
        return False
    return all(option.flag is None or option.flag.value != "--help" for option in command.options)


def _has_flags(command: Command) -> bool:
    return any(option.flag is not None for option in command.options)


def _positional(command: Command) -> list[Word]:
    return [option.values[0] for option in command.options if option.flag is None]
