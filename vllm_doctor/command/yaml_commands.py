"""Parse a command from a document: compose, Kubernetes, a vLLM config file, an argument list.

Documents pasted into a log are often fragments: the relevant keys are found by their indentation, and each is
parsed separately. YAML is loaded with its base loader, which creates only strings, lists and mappings.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from vllm_doctor.catalog import flags
from vllm_doctor.command.flags import read_typed
from vllm_doctor.command.launchers import SHELLS
from vllm_doctor.command.model import Command, Document, Form, Option, Word, compact_json, program_name
from vllm_doctor.command.shell import (
    MAX_CHARACTERS,
    PROGRAM,
    are_vllm_flags,
    may_start,
    parse_words,
    read_options,
    spellings,
)
from vllm_doctor.command.words import split
from vllm_doctor.facts.python_literals import read_value
from vllm_doctor.text.patterns import lazy_pattern

_KEY = lazy_pattern(
    r"(?P<indent>[ \t]*)(?P<dash>- +)?[\"']?"
    r"(?P<key>command|args|entrypoint|image|environment|env)[\"']?[ \t]*:(?P<rest>[ \t].*|)$",
    re.IGNORECASE,
)
_KEY_STARTS = frozenset({"com", "arg", "ent", "ima", "env"})

_ENTRY_LINE = lazy_pattern(r"(?P<key>[A-Za-z][\w.-]*)[ \t]*:(?P<rest>[ \t\n].*|)$", re.DOTALL)
_DESCRIBED = lazy_pattern(r"(?:Args|Command):[ \t]*$", re.MULTILINE)
_MAX_GROUPS = 200
_FILLED_IN = lazy_pattern(r"\$[\w({]|\{\{")
_ELSEWHERE = lazy_pattern(r"^[ \t]*(?:apiVersion|containers|kind|valueFrom|resources)[ \t]*:", re.MULTILINE)


def key_of(line: str) -> re.Match[str] | None:
    """Match a line that opens a key relevant to a command."""
    return _KEY.match(line) if ":" in line and line.lstrip(" \t-\"'")[:3].lower() in _KEY_STARTS else None


def parse_document(text: str) -> Command | None:
    """Parse the vLLM command of a document or a fragment of one; return None when there is none."""
    if len(text) > MAX_CHARACTERS:
        return None
    if _DESCRIBED.search(text):
        command = _described(text.splitlines())
        if command is not None:
            return command
    elsewhere = bool(_ELSEWHERE.search(text))
    for group in _groups(text.splitlines()):
        command = _from_keys(group, kubernetes=elsewhere)
        if command is not None:
            return command
    return None


def parse_list(text: str) -> Command | None:
    """Parse the command of an argument list: `Command '['/x/bin/vllm', 'serve', …]'`, `CMD ["vllm", …]`."""
    match = PROGRAM.search(text)
    if match is None:
        return None
    start = max(text.rfind("[", 0, match.start()), text.rfind("(", 0, match.start()))
    if start < 0:
        return None
    read = read_value(text, start)
    values = read.value if isinstance(read.value, (list, tuple)) else ()
    if not values or not all(isinstance(value, (str, int, float)) for value in values):
        return None
    words = [str(value) for value in values]
    if any(len(word.split()) > 1 and may_start(word) and not _is_for_shell(words[:at])
           for at, word in enumerate(words)):
        return None
    command = parse_words([Word.quoted(word) for word in words])
    return None if command is None else command._replace(complete=command.complete and read.complete)


def _is_for_shell(before: Sequence[str]) -> bool:
    """Return whether the words before one make it a shell's command: `bash -c`, `sh -lc`."""
    return (len(before) > 1 and re.fullmatch(r"-[a-z]{0,4}c", before[-1]) is not None
            and program_name(before[-2]) in SHELLS)


def parse_config_file(text: str) -> Command | None:
    """Parse the contents of a `vllm serve --config FILE`; return None when the keys are not vLLM's."""
    if len(text) > MAX_CHARACTERS:
        return None
    options, tail = _entries(text.splitlines())
    keys = {option.flag.text for option in options if option.flag is not None}
    if keys & {"services", "apiVersion"} or not any(flags.lookup(key) for key in keys):
        return None  # the beginning of a flag's name proves nothing
    return Command("yaml", "file", tuple(options), document=Document(tail=tail))


# A vLLM config file


def _entries(lines: Sequence[str]) -> tuple[list[Option], str]:
    """Return the top-level keys with their values as written; a comment belongs to the key below it."""
    entries: list[tuple[list[str], list[str]]] = []  # the comment lines above a key, and the key's own lines
    above: list[str] = []
    for line in lines:
        if not line.strip() or line.lstrip().startswith("#") or line.strip() == "---":
            above.append(line)
        elif _ENTRY_LINE.match(line):
            entries.append((above, [line]))
            above = []
        elif entries:  # the value continues
            entries[-1][1].extend((*above, line))
            above = []
    options: list[Option] = []
    for comments, own in entries:
        chunk = "\n".join(own)
        if match := _ENTRY_LINE.fullmatch(chunk):
            flag = Word(match.group("key"), match.group("key"), "".join(line + "\n" for line in comments))
            options.append(Option(flag, _entry_values(chunk, match.group("rest"))))
    return options, "".join("\n" + line for line in above)


def _entry_values(chunk: str, raw: str) -> tuple[Word, ...]:
    node = load(chunk)
    value = next(iter(node.values()), None) if isinstance(node, Mapping) else None
    if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
        first, *others = value
        return (Word(raw, first), *(Word("", item) for item in others))  # the text of the first is that of all
    return (Word(raw, _typed(value)),)


def _typed(node: object) -> str | None:
    """Return a YAML value as it is typed on a command line."""
    if isinstance(node, str):
        return {"true": "", "false": "false", "": None, "null": None, "~": None}.get(node.lower(), node)
    return None if node is None else compact_json(_plain(node))


def _plain(node: object, depth: int = 0) -> object:
    if depth > 20:
        return None
    if isinstance(node, Mapping):
        return {str(key): _plain(value, depth + 1) for key, value in node.items()}
    if isinstance(node, list):
        return [_plain(item, depth + 1) for item in node]
    return read_typed(node) if isinstance(node, str) else None


def load(chunk: str) -> object:
    """Load a piece of YAML as strings, lists and mappings; return None when it is invalid."""
    import yaml  # noqa: PLC0415 - a fifteenth of a start, and few logs show a document

    try:
        return yaml.load(chunk, Loader=yaml.BaseLoader)  # noqa: S506 - makes only str, list and dict
    except (yaml.YAMLError, RecursionError, ValueError, TypeError):
        return None


# Compose and Kubernetes


class _Group:
    """The keys of one service or container."""

    def __init__(self, indent: int) -> None:
        self.indent = indent
        self.nodes: dict[str, object] = {}
        self.texts: dict[str, str] = {}


def _groups(lines: Sequence[str]) -> list[_Group]:
    groups: list[_Group] = []
    current: _Group | None = None
    index = 0
    while index < len(lines):
        match = key_of(lines[index])
        column = len(lines[index]) - len(lines[index].lstrip())
        if match is None:
            if lines[index].strip() and current is not None and column < current.indent:
                current = None
            index += 1
            continue
        indent = len(match.group("indent")) + len(match.group("dash") or "")
        key = match.group("key").lower()
        if current is None or match.group("dash") or current.indent != indent or key in current.nodes:
            if len(groups) == _MAX_GROUPS:
                break
            current = _Group(indent)
            groups.append(current)
        end = index + 1
        while end < len(lines) and (_belongs(lines[end], indent) or is_item(lines[end], lines[index:end])):
            end += 1
        own = (lines[index][indent:], *(line.removeprefix(" " * indent) for line in lines[index + 1 : end]))
        chunk = "\n".join(own).rstrip().rstrip(",")
        node = load(chunk)
        if isinstance(node, Mapping) and len(node) == 1:
            current.nodes[key] = next(iter(node.values()))
            current.texts[key] = chunk
        index = end
    return groups


def _belongs(line: str, indent: int) -> bool:
    """Return whether a line is part of the value of a key indented by `indent` columns."""
    stripped = line.lstrip()
    column = len(line) - len(stripped)
    return not stripped or column > indent or (column == indent and stripped.startswith(("- ", "]")))


def is_item(line: str, before: Sequence[str]) -> bool:
    """Return whether a line continues a bracketed list that the lines before it leave open, at any indentation."""
    if line.lstrip()[:1] not in ('"', "'", "]"):
        return False
    return sum(text.count("[") - text.count("]") for text in before) > 0


def _words_of(node: object) -> list[Word] | None:
    """Return the words of a command that is a list or one string; None for any other node."""
    if isinstance(node, str):
        tokens, _ = split(node.strip())
        return [token.word for token in tokens if token.operator != "\n"]
    if isinstance(node, list) and all(isinstance(item, str) for item in node):
        return [document_word(item) for item in node]
    return [] if node is None else None


def document_word(text: str) -> Word:
    """Return a word of a list in a document.

    `$(NAME)`, `${NAME}` and templates are expanded by the program that reads the document, so their value is unknown.
    """
    return Word(text, None) if _FILLED_IN.search(text) else Word.quoted(text)


def _from_keys(group: _Group, *, kubernetes: bool) -> Command | None:
    nodes = group.nodes
    kubernetes = kubernetes or "args" in nodes or "env" in nodes
    key = "args" if "args" in nodes else "command"
    program_key = "command" if key == "args" else "entrypoint"
    program_key = program_key if nodes.get(program_key) else ""
    program = _words_of(nodes.get(program_key)) if program_key else []
    arguments = _words_of(nodes.get(key))
    if program is None or not arguments:
        return None
    image = nodes.get("image")
    document = Document(
        key=key,
        style=_style(group.texts.get(key, ""), nodes.get(key)),
        program_key=program_key,
        program=tuple(word.content for word in program),
        environment_style="map" if isinstance(nodes.get("environment"), Mapping) else "list",
    )
    form: Form = "kubernetes" if kubernetes else "compose"
    environment = _variables(nodes.get("env") or nodes.get("environment"))
    context = (form, image if isinstance(image, str) else "", environment)
    return _assemble(document, (program, arguments), context)


def _assemble(
    document: Document,
    words: tuple[list[Word], list[Word]],
    context: tuple[Form, str, tuple[tuple[str, str | None], ...]],
) -> Command | None:
    """Build the command of a program and its arguments; `context` holds the form, the image and the variables."""
    program, arguments = words
    form, image, environment = context
    whole = [*program, *arguments]
    command = parse_words(whole)
    if command is not None:
        merged = (*environment, *command.environment)
        return command._replace(form=form, document=document, environment=merged, container=None)
    options = read_options(arguments)
    if program or not ("vllm" in image or are_vllm_flags(spellings(options))):
        return None
    return Command(form, "image", options, environment=environment, document=document)


def _style(chunk: str, node: object) -> str:
    value = chunk.partition(":")[2].lstrip()
    if isinstance(node, list):
        return "flow" if value.startswith("[") else "list"
    return "block" if value.startswith((">", "|")) else "string"


def _variables(node: object) -> tuple[tuple[str, str | None], ...]:
    """Return the variables of `environment` (a list or a mapping) or `env` (a list of names and values)."""
    if isinstance(node, Mapping):
        return tuple((str(name), value if isinstance(value, str) else None) for name, value in node.items())
    result: list[tuple[str, str | None]] = []
    for item in node if isinstance(node, list) else ():
        if isinstance(item, str):
            name, equals, value = item.partition("=")
            result.append((name, value if equals else None))
        elif isinstance(item, Mapping) and isinstance(item.get("name"), str):
            assigned = item.get("value")
            result.append((str(item["name"]), assigned if isinstance(assigned, str) else None))
    return tuple(result)


def _described(lines: Sequence[str]) -> Command | None:
    """Parse the output of `kubectl describe pod`, where each line under `Command:` and `Args:` is one word."""
    program = _listed(lines, "Command:")
    arguments = _listed(lines, "Args:")
    if program[-1:] == ["-c"]:
        arguments = ["\n".join(arguments)]
    if not arguments and not program:
        return None
    image = next((line.split()[-1] for line in lines if re.match(r"\s*Image:\s+\S", line)), "")
    environment = tuple(
        (name, value.strip() if value.strip() and not value.strip().startswith("<") else None)
        for name, _, value in (line.partition(":") for line in _listed(lines, "Environment:"))
    )
    document = Document(
        "args" if arguments else "command", "list", "command" if arguments and program else "", tuple(program)
    )
    words = ([document_word(value) for value in program], [document_word(value) for value in arguments])
    if not arguments:
        words = ([], words[0])
    return _assemble(document, words, ("kubernetes", image, environment))


def _listed(lines: Sequence[str], title: str) -> list[str]:
    for index, line in enumerate(lines):
        if line.strip() != title:
            continue
        column = len(line) - len(line.lstrip())
        block: list[str] = []
        for following in lines[index + 1 :]:
            if len(following) - len(following.lstrip()) <= column or not following.strip():
                break
            block.append(following.strip())
        return block
    return []
