"""Parse a shell command that starts vLLM: find its program and its arguments."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from vllm_doctor.command.flags import Lookup, Spelling, is_flag, known_flag, parse_flag, value_count
from vllm_doctor.command.launchers import CONTAINERS, SHELLS, is_python
from vllm_doctor.command.model import ASSIGNED, Command, Entry, Option, Outer, Word, program_name
from vllm_doctor.command.words import Token, split
from vllm_doctor.text.patterns import lazy_pattern

MAX_CHARACTERS = 64 * 1024
"""The maximal length of a command; a longer text is no command that anyone typed."""

PROGRAM = lazy_pattern(
    r"(?<![\w.-])vllm(?:\.exe)?[\"']?,?\s+[\"']?"
    r"(?:serve|run-batch|bench[\"']?,?\s+[\"']?(?:latency|throughput|startup))(?![\w.:/-])"
    r"|-m[\"']?,?\s*[\"']?(?:ipex_llm\.)?vllm\b|vllm/entrypoints/[\w/]{0,80}api_server\.py"
)
"""vLLM's own programs, as written in a command."""

_FORK = lazy_pattern(r"ipex_llm\.vllm\.[cx]pu\.entrypoints\.openai\.api_server", cues=("ipex_llm.vllm.",))
"""Intel's fork of the server module, which accepts the same flags."""

_CONTAINER = lazy_pattern(r"\b(?:docker|podman|nerdctl)(?:\.exe)?\s[^|;&]{0,40}?\b(?:run|create)\s")

_CONTROL = frozenset({"\n", "&&", "||", "|", "|&", ";", ";;", "&", "(", ")"})

# Options of `docker run` that take no value; every other one takes the next word.
_CONTAINER_SWITCH = lazy_pattern(
    r"-[ditPq]+|--(?:rm|detach|interactive|tty|init|privileged|publish-all|read-only|oom-kill-disable|no-healthcheck"
    r"|sig-proxy|disable-content-trust|quiet|replace|tls-verify|rmi)"
)
_IMAGE_ID = lazy_pattern(r"(?:sha256:)?[0-9a-f]{12,64}")
COMMON = frozenset({
    "--model", "--tensor-parallel-size", "--pipeline-parallel-size", "--max-model-len", "--max-num-seqs",
    "--gpu-memory-utilization", "--max-num-batched-tokens", "--served-model-name", "--trust-remote-code",
    "--enforce-eager", "--quantization", "--kv-cache-dtype", "--enable-prefix-caching", "--tool-call-parser",
})  # fmt: skip
"""Flags that identify an argument list as vLLM's."""

_MAX_QUOTED = 1  # a shell inside a shell
_DOUBLE_QUOTED = lazy_pattern(r'"(?:[^"\\]|\\[^$])*"', re.DOTALL)
_BOOLEAN_WORD = lazy_pattern(r"true|false", re.IGNORECASE)
_BLANK_CONTINUATION = lazy_pattern(r"\\[ \t]+(?=\r?\n)", cues=("\\ ", "\\\t"))
_OTHER_CONTINUATION = lazy_pattern(r"(?<=\s)[`^](?=\r?\n)", cues=("`", "^"))
_FOLDED_LEVEL = lazy_pattern(r"-O(=?)([^.=\s]\S*)", cues=("-O",))


def may_start(text: str) -> bool:
    """Return whether a text may contain a command that starts vLLM: a cheap test before `parse_shell`."""
    if "vllm" not in text:
        return False
    if any(word in text for word in ("serve", "-m", "bench", "run-batch")) and PROGRAM.search(text):
        return True
    return any(name in text for name in CONTAINERS) and bool(_CONTAINER.search(text))


def parse_shell(text: str) -> Command | None:
    """Parse the command that starts vLLM in a shell text without a prompt; return None when there is none.

    Of several simple commands (`a && b | c`) it is the first that starts vLLM; the others are kept around it.
    """
    if len(text) > MAX_CHARACTERS or not may_start(text):
        return None
    tokens, complete = split(continued(text))
    return _parse_tokens(tokens, complete=complete, depth=0)


def parse_bare(text: str) -> Command | None:
    """Parse flags pasted without the program ("I started it with …"); return None unless they are clearly vLLM's."""
    tokens, complete = split(continued(text))
    if len(text) > MAX_CHARACTERS or any(token.operator for token in tokens):
        return None
    options = read_options([token.word for token in tokens])
    meanings = spellings(options)
    if len(meanings) < len(options) or not all(spelling.known for spelling in meanings) or not are_vllm_flags(meanings):
        return None
    return Command("shell", "image", options, complete=complete)


def spellings(options: Sequence[Option]) -> list[Spelling]:
    """Return the meanings of the flags among the options."""
    return [parse_flag(option.flag.text) for option in options if option.flag is not None]


def are_vllm_flags(meanings: Sequence[Spelling]) -> bool:
    """Return whether flags without a known program belong to vLLM."""
    return len({spelling.name for spelling in meanings} & COMMON) >= 2


def parse_words(words: Sequence[Word]) -> Command | None:
    """Parse an argument list; return None when it does not start vLLM."""
    return _parse_tokens([Token(word) for word in words], complete=True, depth=0)


def continued(text: str) -> str:
    """Convert line continuations to a shell's, except at the end: PowerShell's (`), cmd's (^), those before blanks."""
    text = _BLANK_CONTINUATION.sub(r"\\", text)
    return _OTHER_CONTINUATION.sub(r"\\", text.rstrip().removesuffix("\\"))


def _parse_tokens(tokens: list[Token], *, complete: bool, depth: int) -> Command | None:
    start = 0
    for index in range(len(tokens) + 1):
        if index < len(tokens) and tokens[index].operator not in _CONTROL:
            continue
        command = _simple(tokens, start, index, depth)
        if command is not None:
            return command._replace(complete=complete and command.complete)
        start = index + 1
    return None


def _simple(tokens: list[Token], start: int, end: int, depth: int) -> Command | None:
    """Parse the simple command of tokens[start:end], if it starts vLLM."""
    # redirections and comments come last
    stop = next((i for i in range(start, end) if tokens[i].operator), end)
    words = [token.word for token in tokens[start:stop]]
    located = _locate([word.content for word in words])
    if located is not None:
        lead, after = _words_around(tokens, start, stop)
        return Command(
            form="shell",
            entry=located.entry,
            before=(*lead, *words[: located.arguments]),
            options=read_options(words[located.arguments :]),
            after=after,
            environment=_environment(_exports(tokens[:start]), words, located),
            start=len(lead),
            program=len(lead) + located.program,
            container=None if located.container is None else len(lead) + located.container,
        )
    inner = _quoted_command(words, depth) if depth < _MAX_QUOTED else None
    if inner is None or inner.outer is None:
        return inner
    lead, after = _words_around(tokens, start, stop)
    outer = inner.outer._replace(before=(*lead, *inner.outer.before), after=(*inner.outer.after, *after))
    return inner._replace(outer=outer)


def _words_around(tokens: list[Token], start: int, stop: int) -> tuple[tuple[Word, ...], tuple[Word, ...]]:
    """Return the words of the same line before and after tokens[start:stop]."""
    first, last = start, stop
    while first > 0 and tokens[first - 1].operator != "\n":
        first -= 1
    while last < len(tokens) and tokens[last].operator != "\n":
        last += 1
    return tuple(t.word for t in tokens[first:start]), tuple(t.word for t in tokens[stop:last])


_BENCHMARKS = frozenset({"latency", "throughput", "startup"})
"""Benchmarks that start an engine in their own process (`vllm bench`, since 0.9.0)."""


class _Location(NamedTuple):
    entry: Entry
    program: int  # the first word of vLLM's program (or of the arguments, for an image's entrypoint)
    arguments: int
    container: int | None = None


def _locate(values: list[str]) -> _Location | None:
    container = _container(values)
    for index, value in enumerate(values[: 4 * 1024]):
        inside = container if container is not None and container < index else None  # an image precedes it
        following = values[index + 1] if index + 1 < len(values) else ""
        name = program_name(value)
        python = _python(values, index)
        if name == "vllm" and following == "serve":
            again = index + 2  # `vllm serve serve MODEL`: an entrypoint repeated
            while values[again : again + 1] in (["vllm"], ["serve"]):
                again += 1
            return _Location("serve", python, again, inside)
        if name == "vllm" and (words := _engine_command(values[index + 1 : index + 3])):
            return _Location("module", python, index + 1 + words, inside)
        module = following if value == "-m" else value[2:] if value.startswith("-mvllm") else ""
        behind = index + (2 if value == "-m" else 1)
        if module in {"vllm", "vllm.entrypoints.cli.main", "vllm.scripts"}:
            if values[behind : behind + 1] == ["serve"]:
                return _Location("serve", python, behind + 1, inside)
        elif module.startswith("vllm.entrypoints.") or _FORK.fullmatch(module):
            return _Location("module", python, behind, inside)
        if name == "api_server.py" and "vllm/entrypoints/" in value:
            return _Location("module", python, index + 1, inside)
    if container is None or "exec" in values[:container]:
        return None
    image, command = values[container], values[container + 1 : container + 2]
    serves = command == ["serve"] and len(values) > container + 2
    entrypoint = _entrypoint(values[:container])
    if serves and entrypoint is not None and program_name(entrypoint) == "vllm" and not {"$", "`"} & set(entrypoint):
        return _Location("serve", container + 1, container + 2, container)
    if entrypoint is not None or (command and program_name(command[0]) in SHELLS):
        return None
    is_vllm = "vllm" in image or (serves and bool(_IMAGE_ID.fullmatch(image)))
    if not is_vllm and not _has_vllm_flags(values[container + 1 :]):
        return None
    if serves:  # the entrypoint is `vllm`, or the user assumed so
        return _Location("serve", container + 1, container + 2, container)
    return _Location("image", container + 1, container + 1, container)


def _entrypoint(values: list[str]) -> str | None:
    """Return the program that `docker run` starts in place of the image's own, of the words before the image."""
    for index, value in enumerate(values):
        name, equals, program = value.partition("=")
        if name == "--entrypoint":
            return program if equals else "".join(values[index + 1 : index + 2])
    return None


def _engine_command(values: list[str]) -> int:
    """Return how many words of `vllm bench latency …`, `vllm run-batch …` name it; 0 for what starts no engine."""
    if values[:1] == ["run-batch"]:
        return 1
    return 2 if values[:1] == ["bench"] and values[1:] and values[1] in _BENCHMARKS else 0


def _has_vllm_flags(values: list[str]) -> bool:
    """Return whether flags identify an image as vLLM's although its name (`$IMAGE`) does not."""
    names = {value.partition("=")[0].replace("_", "-") for value in values if value.startswith("--")}
    return "--model" in names and len(names & COMMON) > 1


def _python(values: list[str], index: int) -> int:
    """Return the index of the interpreter that runs values[index]; `index` itself without one."""
    position = index - 1
    while position > 0 and values[position].startswith("-"):
        position -= 1
    return position if position >= 0 and is_python(program_name(values[position])) else index


def _container(values: list[str]) -> int | None:
    """Return the index of the image (or, for `exec`, the container's name) in a `docker run …`."""
    for index, value in enumerate(values[:64]):
        if program_name(value) not in CONTAINERS:
            continue
        verbs = [i for i in range(index + 1, min(index + 8, len(values))) if values[i] in {"run", "create", "exec"}]
        if not verbs:
            return None
        position = verbs[0] + 1
        while position < len(values) and values[position].startswith("-"):
            option = values[position]
            position += 1 if "=" in option or _CONTAINER_SWITCH.fullmatch(option) or _joined(option) else 2
        return position if position < len(values) else None
    return None


def _joined(option: str) -> bool:
    """Return whether a short option contains its value: `-p8000:8000`."""
    return bool(re.fullmatch(r"-[evpwuhlm][^-].*", option))


def _exports(tokens: list[Token]) -> list[tuple[str, str | None]]:
    """Return the variables that earlier commands export."""
    result: list[tuple[str, str | None]] = []
    exporting = False
    for token in tokens:
        if token.operator:
            exporting = False
        elif token.word.text == "export":
            exporting = True
        elif exporting and (match := ASSIGNED.fullmatch(token.word.text)):
            value = token.word.value
            result.append((match.group(1), None if value is None else value.partition("=")[2]))
    return result


def _environment(
    exported: list[tuple[str, str | None]], words: list[Word], located: _Location
) -> tuple[tuple[str, str | None], ...]:
    """Return vLLM's variables: exported, in front of the command, or passed as `-e NAME=value` to a container."""
    found: dict[str, str | None] = dict(exported)
    if located.container is not None:
        for index in range(located.container):
            option = words[index].value or ""
            assigned: str | None = None
            if option in {"-e", "--env"} and index + 1 < located.container:
                assigned = words[index + 1].value
            elif option.startswith("--env="):
                assigned = option.removeprefix("--env=")
            elif option.startswith("-e") and "=" in option:
                assigned = option[2:]
            if assigned is not None and (match := ASSIGNED.fullmatch(assigned)):
                found[match.group(1)] = match.group(2)
    first = 0 if located.container is None else located.container + 1
    for word in words[first : located.program]:
        if match := ASSIGNED.fullmatch(word.text):
            found[match.group(1)] = None if word.value is None else word.value.partition("=")[2]
    return tuple(found.items())


def _quoted_command(words: list[Word], depth: int) -> Command | None:
    """Parse a command that is one quoted word of another: `bash -c 'vllm serve …'`."""
    for index, word in enumerate(words):
        if not re.search(r"\s", word.text) or not may_start(word.text):
            continue
        if word.value is not None:
            quote, text = "", word.value
        elif _DOUBLE_QUOTED.fullmatch(word.text):  # it contains something that the outer shell expands
            quote, text = '"', re.sub(r'\\([\\"`])', r"\1", word.text[1:-1])
        else:
            continue
        if word.text.startswith('"') and "$" not in text:
            quote = '"'
        tokens, complete = split(continued(text))
        if quote == '"':
            tokens = [t._replace(word=t.word._replace(value=None)) if "$" in t.word.text else t for t in tokens]
        inner = _parse_tokens(tokens, complete=complete, depth=depth + 1)
        if inner is not None and inner.outer is None:
            outer = Outer(tuple(words[:index]), tuple(words[index + 1 :]), quote, word.gap)
            return inner._replace(outer=outer)
    return None


# Reading vLLM's arguments


def read_options(words: Sequence[Word], lookup: Lookup = known_flag) -> tuple[Option, ...]:
    """Parse the words after vLLM's program into options and positional arguments, in order."""
    options: list[Option] = []
    index = 0
    positional = False
    while index < len(words):
        word = words[index]
        index += 1
        typed = word.content
        if not is_flag(typed):
            last = options[-1] if options else None
            if positional and last is not None and _accepts_more_values(last, word, lookup):
                options[-1] = last._replace(values=(*last.values, word))
            else:
                positional = True
                options.append(Option(None, (word,)))
            continue
        if level := _FOLDED_LEVEL.fullmatch(typed):
            value = Word.quoted(level.group(2))
            options.append(Option(Word("-O", "-O", word.gap), (value,), level.group(1)))
            continue
        name, equals, _ = typed.partition("=")
        if equals:
            options.append(_joined_option(word, name))
            continue
        many = value_count(name, lookup)
        values: list[Word] = []
        while index < len(words) and (many is None or len(values) < many):
            following = words[index].content
            if is_flag(following or ""):
                break
            values.append(words[index])
            index += 1
        if many == 0 and index < len(words) and _BOOLEAN_WORD.fullmatch(words[index].value or ""):
            values.append(words[index])
            index += 1
        options.append(Option(word, tuple(values)))
    return tuple(options)


def _accepts_more_values(option: Option, word: Word, lookup: Lookup) -> bool:
    """Return whether a positional word may be a further value of an option that is missing from the flag table."""
    if option.flag is None or not option.values or option.glue != " " or word.value is None:
        return False
    return lookup(parse_flag(option.flag.text, lookup).name) is None


def _joined_option(word: Word, name: str) -> Option:
    """Parse `--flag=value`, which may be quoted as one word."""
    raw_name, _, raw_value = word.text.partition("=")
    value = None if word.value is None else word.value.partition("=")[2]
    if raw_name != name:  # the quotes begin before the equals sign
        raw_value = Word.quoted(value).text if value is not None else word.text.partition("=")[2]
    return Option(Word(name, name, word.gap), (Word(raw_value, value),), "=")
