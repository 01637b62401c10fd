"""The program that vLLM was started by: find it and its command in a log, and say vLLM's settings in its own words.

Nothing of a log is offered as it is printed: a command is parsed and rebuilt from its words, and the names of settings
come from the catalog.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from vllm_doctor.catalog.frontends import Frontend, SettingName, anchors, frontends
from vllm_doctor.command.changes import change
from vllm_doctor.command.flags import FlagInfo, keyword_of, known_flag, parse_flag, read_json, read_typed
from vllm_doctor.command.line import Command, Option, Word, compact_json, with_key
from vllm_doctor.command.prompt import strip_prompt
from vllm_doctor.command.rebuild import rebuild
from vllm_doctor.command.render import yaml_scalar
from vllm_doctor.command.shell import read_options
from vllm_doctor.command.words import split
from vllm_doctor.messages import joined, message
from vllm_doctor.text.literal_search import any_of
from vllm_doctor.text.patterns import lazy_pattern

_MAX_LINES = 200
_MAX_CHARACTERS = 32 * 1024
_INTERPRETER = lazy_pattern(r"python[\d.]*")
_ASSIGNED = lazy_pattern(r"([A-Za-z_]\w{0,80})=(.*)", re.DOTALL)
_LEADING = frozenset({  # words that may stand in front of the program where no prompt shows that it is a command
    "nohup", "time", "env", "exec", "numactl", "uv", "uvx", "poetry", "conda", "torchrun", "accelerate", "ray", "srun",
    "deepspeed", "docker", "podman", "sudo", "setsid", "run", "job", "submit", "--",
})  # fmt: skip
_PATH = lazy_pattern(r"[\w./-]+\.(?:ya?ml|json)", re.ASCII)


class Typed(NamedTuple):
    """A program's command, as typed by the user, and the line it begins on (0: it was given)."""

    frontend: Frontend
    command: Command
    line: int = 0


class Seen(NamedTuple):
    """The program that a log shows, its release if that is printed, and its command if that is shown."""

    frontend: Frontend
    release: str = ""
    typed: Command | None = None


class Translation(NamedTuple):
    """A change in a program's own form.

    `settings` are names with values, as they are written there. `notes` say where they belong, and what the program
    does not pass on (`missing`, vLLM's names).
    """

    program: str
    settings: tuple[tuple[str, str], ...] = ()
    missing: tuple[str, ...] = ()
    command: str | None = None
    patch: Mapping[str, str] | None = None
    notes: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()  # the settings as they are written there, if a command or a patch has them


class FrontendFinder:
    """The search for the program in a log that is fed line by line."""

    def __init__(self) -> None:
        self.typed: Typed | None = None
        self.lines: dict[str, int] = {}  # the first line that shows each program
        self.releases: dict[str, str] = {}
        self._pending: tuple[int, list[str]] | None = None

    def feed(self, number: int, text: str, source: str = "") -> None:
        """Read a line and the label in front of it."""
        if self._pending is not None:
            first, lines = self._pending
            lines.append(text)
            if not text.rstrip().endswith("\\") or len(lines) >= _MAX_LINES:
                self._pending = None
                self._read_command(first, "\n".join(lines))
            return
        if any_of(_program_words()).search(text):
            if text.rstrip().endswith("\\") and _parse(text, partial=True) is not None:
                self._pending = number, [text]
                return
            self._read_command(number, text)
        both = f"{source} {text}" if source else text
        if any_of(anchors()).search(both):
            self._read_printed(number, both)

    def _read_command(self, number: int, text: str) -> None:
        typed = _parse(text)
        if typed is not None:
            self.typed = typed._replace(line=number)

    def _read_printed(self, number: int, text: str) -> None:
        for frontend in frontends():
            if frontend.id not in self.lines and any(
                    item.anchor in text and item.pattern.search(text) for item in frontend.lines):
                self.lines[frontend.id] = number
            version = frontend.version
            if version is not None and version.anchor in text and (match := version.pattern.search(text)):
                self.releases[frontend.id] = match["version"]
                self.lines.setdefault(frontend.id, number)

    def seen(self, calls: Iterable[tuple[str, str]], *, is_vllm_command: bool,
             is_own_code: bool) -> Seen | None:
        """Return the program, given the calls of the failure's traceback (file from its package on, function).

        `is_vllm_command`: the log shows a command of vLLM's own, which then was typed in place of a program's, unless
        the program starts vLLM by such a command. `is_own_code`: the user's own code, of which the log shows no line,
        called vLLM.
        """
        if self.typed is not None:
            return self._seen(self.typed.frontend, self.typed.command)
        calls = tuple(calls)
        for frontend in frontends():
            if (is_vllm_command and not frontend.is_over_vllm) or (frontend.has_own_caller and not is_own_code):
                continue
            if frontend.id in self.lines or any(frontend.runs(file, function) for file, function in calls):
                return self._seen(frontend, None)
        return None

    def _seen(self, frontend: Frontend, typed: Command | None) -> Seen:
        return Seen(frontend, self.releases.get(frontend.id, ""), typed)


def parse_frontend(text: str) -> Typed | None:
    """Parse a text that is a command of such a program; None for another text."""
    return _parse(text)


@lru_cache(maxsize=1)
def _program_words() -> tuple[str, ...]:
    """Return literals of which every command of a program holds one: its name, or the module that Python runs."""
    programs = (words for frontend in frontends() for words in frontend.programs)
    return tuple(dict.fromkeys(words[-1] if words[0] == "python" else words[0] for words in programs))


def _parse(text: str, *, partial: bool = False) -> Typed | None:
    """Parse the command of a program in one logical line."""
    bare = strip_prompt(text)
    if len(bare) > _MAX_CHARACTERS:
        return None
    is_prompted = bare != text
    tokens, _ = split(bare.rstrip().removesuffix("\\"))
    words: list[Word] = []
    for token in tokens:
        if token.operator in {"&&", ";", "\n", "(", "||"}:
            found = _located(words, is_prompted=is_prompted)
            if found is not None:
                break
            words = []
        elif token.operator:
            break
        else:
            words.append(token.word)
    found = _located(words, is_prompted=is_prompted)
    if found is None:
        return None
    frontend, begin, end = found
    options = read_options(words[end:], _nothing)
    if not partial and not _is_plausible(options, is_prompted=is_prompted):
        return None
    command = Command(form="shell", entry="frontend", options=options, before=tuple(words[:end]),
                      environment=_environment(words[:begin]), program=begin, lookup=_nothing)
    return Typed(frontend, rebuild(command)[0])


def _nothing(_: str) -> FlagInfo | None:
    """Look up a flag among vLLM's: the options of other programs are none of them."""
    return None


def _environment(words: Sequence[Word]) -> tuple[tuple[str, str | None], ...]:
    found = ((match[1], None if word.value is None else match[2]) for word in words
             if (match := _ASSIGNED.fullmatch(word.value or word.text)))
    return tuple(found)


def _located(words: Sequence[Word], *, is_prompted: bool) -> tuple[Frontend, int, int] | None:
    """Return the program that words start, and the indexes of its first word and of its first argument."""
    values = [word.value if word.value is not None else word.text for word in words]
    for frontend in frontends():
        for program in frontend.programs:
            for begin in range(len(values) - len(program) + 1):
                end = begin + len(program)
                if all(map(_is_word, values[begin:end], program)) and (is_prompted or _may_lead(values[:begin])):
                    return frontend, begin, end
    return None


def _is_word(value: str, wanted: str) -> bool:
    """Return whether a word of a command is a word of a program: `/usr/bin/python3` is `python`."""
    if "/" in wanted:
        return value == wanted or value.endswith(f"/{wanted}")
    name = re.split(r"[/\\]", value)[-1]
    return bool(_INTERPRETER.fullmatch(name)) if wanted == "python" else name == wanted


def _may_lead(values: Sequence[str]) -> bool:
    """Return whether words in front of a program belong to a command: assignments and launchers with their options."""
    launched = False
    for value in values:
        name = re.split(r"[/\\]", value)[-1]
        if name in _LEADING:
            launched = True
        elif not (_ASSIGNED.fullmatch(value) or launched):
            return False
    return True


def _is_plausible(options: Sequence[Option], *, is_prompted: bool) -> bool:
    """Return whether the words behind a program are arguments and not the rest of a sentence."""
    if any(option.flag is not None and option.flag.value in {"--help", "-h"} for option in options):
        return False
    if is_prompted or any(option.flag is not None for option in options):
        return True
    positional = [option.value or "" for option in options]
    return all("=" in value or _PATH.fullmatch(value) for value in positional)


# Writing settings in a program's words


def translate(seen: Seen, wanted: Mapping[str, str], unset: Iterable[str] = (),
              env: Mapping[str, str] | None = None) -> Translation:
    """Return a change of vLLM's flags and variables as a change of the program's settings."""
    return _Translator(seen).translate(wanted, unset, env or {})


class _Translator:
    def __init__(self, seen: Seen) -> None:
        self._frontend = seen.frontend
        self._command = seen.typed
        self._release = seen.release or self._implied_release()
        self._settings: dict[str, str] = {}
        self._removed: list[str] = []
        self._variables: dict[str, str] = {}
        self._keywords: dict[str, object] = {}  # for a setting that takes a JSON object
        self._flags: list[str] = []  # for a setting that takes flags
        self._missing: list[str] = []
        self._older: dict[str, list[str]] = {}  # earlier names, by the releases of both
        self._notes: list[str] = []
        self._form = self._form_here()

    def _implied_release(self) -> str:
        """Return a release that has the names in the user's command, where others have other names."""
        for names in self._frontend.settings.values():
            for name in names if len(names) > 1 else ():
                if self._is_given(name.name):
                    return name.until or name.since
        return ""

    def _form_here(self) -> str:
        frontend, command = self._frontend, self._command
        if command is None:
            return frontend.form
        if frontend.in_command == "file-or-option":
            names_file = any(option.flag is None and _PATH.fullmatch(option.value or "") for option in command.options)
            return "yaml" if names_file or not command.options else "option"
        return frontend.in_command

    def translate(self, wanted: Mapping[str, str], unset: Iterable[str], env: Mapping[str, str]) -> Translation:
        for flag, value in wanted.items():
            self._set(flag, value)
        for flag in unset:
            self._unset(flag)
        self._collect()
        self._variables.update(env)
        command, patch = self._write()
        return Translation(
            program=self._frontend.name,
            settings=(*self._settings.items(), *self._variables.items()),
            missing=tuple(self._missing),
            command=command,
            patch=patch,
            notes=tuple(self._sentences(has_text=bool(command or patch))),
            shown=self._shown() if command or patch else (),
        )

    def _set(self, flag: str, value: str) -> None:
        spelling = parse_flag(flag)
        names = self._frontend.settings.get(spelling.name, ()) if not spelling.path else ()
        name = self._name(names)
        if name is not None:
            self._remember_releases(name, names)
            self._settings[self._spelled(name.name)] = self._value(value, name.switch, negated=spelling.negated)
        elif spelling.name in self._frontend.absent:
            self._missing.append(flag)
            self._notes.append(message("{program} has no setting for {flag}: {reason}.", program=self._frontend.name,
                                       flag=flag, reason=message(self._frontend.absent[spelling.name])))
        else:
            self._set_other(flag, value)

    def _name(self, names: Sequence[SettingName]) -> SettingName | None:
        """Return the name that counts: the one in the user's command, else the first that the release has."""
        if self._command is not None:
            for name in names:
                if self._is_given(name.name):
                    return name
        return next((name for name in names if name.holds(self._release)), None)

    def _is_given(self, name: str) -> bool:
        command = self._command
        if command is None:
            return False
        bare = name.lstrip("-+")
        return any(option.flag.value == f"--{bare}" if option.flag is not None and option.flag.value is not None
                   else (option.value or "").lstrip("+").startswith(f"{bare}=") for option in command.options)

    def _spelled(self, name: str) -> str:
        """Return a setting's name in the form used: `--name` as an option, `name` elsewhere."""
        if self._form == "option":
            return name if name.startswith("-") else f"--{name}"
        return name

    def _value(self, value: str, switch: str, *, negated: bool) -> str:
        if negated:
            return "False" if switch == "True" else "false"
        if value:
            return value
        return switch or ("" if self._form in {"option", "field"} else "true")

    def _remember_releases(self, name: SettingName, names: Sequence[SettingName]) -> None:
        """Remember the names of earlier releases, where it is unknown which release this is."""
        for other in names:
            if name.since and other.until and not self._release:
                releases = message("{since} and newer; up to {until}", since=name.since, until=other.until)
                self._older.setdefault(releases, []).append(self._spelled(other.name))

    def _set_other(self, flag: str, value: str) -> None:
        others, spelling = self._frontend.others, parse_flag(flag)
        keyword = keyword_of(spelling.name, known_flag)
        if others is None or (others.since and not SettingName("", others.since).holds(self._release)):
            self._missing.append(flag)
            self._notes.append(self._remains(flag))
            return
        info = known_flag(spelling.name)
        typed = False if spelling.negated else read_typed(value, info.kind if info else "") if value else True
        if others.kind == "flags" and self._form == "option":
            self._settings[flag] = value
        elif others.kind == "json":
            known = self._keywords.get(keyword)
            self._keywords[keyword] = typed if not spelling.path else with_key(
                known if isinstance(known, dict) else {}, spelling.path, typed)
        elif others.kind == "keys":
            path = f".{spelling.path}" if spelling.path else ""
            self._settings[f"{others.name}.{keyword}{path}"] = self._python(typed)
        elif others.kind == "flags":
            self._flags += [f"{flag}={value}" if value else flag]
        elif self._form == "keyword":
            self._settings[keyword] = self._python(typed)
        else:
            name = "--" + keyword if others.underscores else flag
            self._settings[name] = self._value(value, others.switch, negated=spelling.negated and others.underscores)
        is_own_setting = others.kind == "json" or (others.kind == "flags" and self._form == "env")
        if is_own_setting and others.since and not self._release:
            self._note_once(message("{setting} needs {program} {release} or newer.", setting=others.name,
                                    program=self._frontend.name, release=others.since))

    def _python(self, value: object) -> str:
        if self._form == "keyword":
            return repr(value)
        if isinstance(value, bool):
            return str(value) if self._form == "override" else str(value).lower()
        return value if isinstance(value, str) else compact_json(value)

    def _note_once(self, note: str) -> None:
        if note not in self._notes:
            self._notes.append(note)

    def _remains(self, flag: str) -> str:
        if self._frontend.otherwise:
            return message("{program} does not pass {flag} on: {advice}.", program=self._frontend.name, flag=flag,
                           advice=message(self._frontend.otherwise))
        return message("{program} does not pass {flag} on.", program=self._frontend.name, flag=flag)

    def _unset(self, flag: str) -> None:
        names = [name.name for name in self._frontend.settings.get(parse_flag(flag).name, ())]
        given = next((name for name in names if self._is_given(name)), "")
        self._removed.append(self._spelled(given or (names[0] if names else flag)))

    def _collect(self) -> None:
        """Turn the settings without a name of their own into the one setting that passes them on."""
        others = self._frontend.others
        if others is None:
            return
        if self._keywords:
            given = read_json(self._given_value(others.name) or "", None)
            merged = {**given, **self._keywords} if isinstance(given, dict) else self._keywords
            self._settings[self._spelled(others.name)] = json.dumps(merged)
        if self._flags and self._form == "env":
            self._settings[others.name] = " ".join(flag.replace("=", " ", 1) for flag in self._flags)

    def _given_value(self, name: str) -> str | None:
        return self._command.value(name) if self._command is not None and name.startswith("--") else None

    def _write(self) -> tuple[str | None, Mapping[str, str] | None]:
        """Return the command or the patch; None for what only a person can do."""
        if not (self._settings or self._flags or self._variables or self._removed):
            return None, None
        form, command = self._form, self._command
        if form == "yaml":
            return None, self._yaml()
        if form == "keyword":
            return None, self._call()
        variables = self._variables if self._has_own_environment() else {}
        if form == "env":
            base = command or _plain_command(self._frontend.command)
            assigned = {**variables, **self._settings}  # each is put in front of the others
            front = dict(reversed(assigned.items()))
            return (None if base is None else change(base, {}, (), front).to_shell()), None
        if command is None or form == "field":
            return None, None
        if form == "override":
            changed = _with_words(change(command, {}, (), variables), self._settings, self._removed)
        else:
            changed = change(command, self._settings, self._removed, variables)
        return changed.to_shell(), None

    def _has_own_environment(self) -> bool:
        return not self._frontend.variables

    def _yaml(self) -> Mapping[str, str] | None:
        tree: dict[str, object] = {}
        for name, value in self._settings.items():
            _put(tree, name, _YamlText(value))
        others = self._frontend.others
        if self._flags and others is not None:
            for flag in self._flags:
                _put(tree, others.name, _YamlText(flag, quoted=True))
        if "." in self._frontend.variables and " " not in self._frontend.variables:
            for name, value in self._variables.items():
                path = self._frontend.variables
                if path.endswith("[]"):
                    _put(tree, path, {"name": _YamlText(name), "value": _YamlText(value, quoted=True)})
                else:
                    _put(tree, f"{path}.{name}", _YamlText(value, quoted=True))
        text = "\n".join(_yaml_lines(tree))
        return {"kind": "yaml", "text": text} if text else None

    def _call(self) -> Mapping[str, str] | None:
        if not self._settings:
            return None
        settings = ", ".join(f"{name}={_literal(value)}" for name, value in self._settings.items())
        lead = "".join(f"os.environ[{json.dumps(name)}] = {json.dumps(value)}  # before vLLM is imported\n"
                       for name, value in self._variables.items())
        return {"kind": "python", "text": f"{lead}{self._frontend.call}({settings})"}

    def _sentences(self, *, has_text: bool) -> Iterator[str]:
        """Yield where the settings belong, what goes, and what is not passed on."""
        frontend = self._frontend
        name, where = frontend.name, message(_literally(frontend.where))
        is_placed = bool(frontend.where) and self._command is None
        if has_text and self._form in {"yaml", "keyword"}:
            yield message("{program}: this belongs in {place}.", program=name, place=where)
        elif self._settings and not has_text:
            shown = joined("; ", (self._assigned(name, value) for name, value in self._settings.items()))
            yield (message("In {program}: {settings} ({place}).", program=name, settings=shown, place=where)
                   if is_placed
                   else message("In {program}: {settings}.", program=name, settings=shown))
        elif self._settings and is_placed:
            yield message("{program} reads them from {place}.", program=name, place=where)
        if self._removed and not (has_text and self._form in {"option", "override"}):
            yield message("Remove {names} where {program} sets it.", names=joined(", ", self._removed), program=name)
        if self._variables and "[" not in frontend.variables and (frontend.variables or not has_text):
            names = joined(", ", (f"{variable}={value}" for variable, value in self._variables.items()))
            place = (message(_literally(frontend.variables)) if frontend.variables
                     else message("in the environment of {program}", program=name))
            yield message("Set {names} {place}.", names=names, place=place)
        for releases, earlier in self._older.items():
            yield message("Names in {program} {releases}: {names}.", program=name, releases=releases,
                          names=", ".join(earlier))
        yield from self._notes

    def _shown(self) -> tuple[str, ...]:
        removed = (message("remove {name}", name=name) for name in self._removed)
        assigned = (self._assigned(name, value) for name, value in self._settings.items())
        flags = self._flags if self._form == "yaml" else ()
        return (*(f"{name}={value}" for name, value in self._variables.items()), *assigned, *flags, *removed)

    def _assigned(self, name: str, value: str) -> str:
        if self._form == "yaml":
            return f"{name}: {value}"
        if self._form in {"option", "field"}:
            glue = self._frontend.others.glue if self._frontend.others and self._form == "field" else " "
            return f"{name}{glue}{shlex.quote(value)}" if value else name
        return f"{name}={_literal(value) if self._form == 'keyword' else shlex.quote(value)}"


def _literally(text: str) -> str:
    """Return a text of the table as the source of a message: its braces are no placeholders."""
    return text.replace("{", "{{").replace("}", "}}")


class _YamlText(NamedTuple):
    """A value in YAML: a number or a word, or with `quoted` a text in any case."""

    text: str
    quoted: bool = False


def _put(tree: dict[str, object], path: str, value: object) -> None:
    """Set the value at a path; `name[]` is an item of a list, the same one for all paths that go on below it."""
    key, _, rest = path.partition(".")
    if not key.endswith("[]"):
        if not rest:
            tree[key] = value
            return
        inner = tree.setdefault(key, {})
        assert isinstance(inner, dict)  # noqa: S101 - paths of one program do not contradict each other
        _put(inner, rest, value)
        return
    items = tree.setdefault(key[:-2], [])
    assert isinstance(items, list)  # noqa: S101
    if not rest:
        items.append(value)
        return
    if not items:
        items.append({})
    _put(items[0], rest, value)


def _yaml_lines(value: object, indent: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if isinstance(inner, (dict, list)):
                yield f"{indent}{key}:"
                yield from _yaml_lines(inner, indent + "  ")
            else:
                yield f"{indent}{key}: {_scalar(inner)}"
    elif isinstance(value, list):
        for item in value:
            if isinstance(item, dict):
                first, *rest = _yaml_lines(item, indent + "  ")
                yield f"{indent}- {first.lstrip()}"
                yield from rest
            else:
                yield f"{indent}- {_scalar(item)}"


def _scalar(value: object) -> str:
    assert isinstance(value, _YamlText)  # noqa: S101
    if value.quoted:
        return json.dumps(value.text, ensure_ascii=False)
    return value.text if value.text in {"true", "false"} else yaml_scalar(value.text, numbers=True)


def _literal(value: str) -> str:
    """Return a value as a Python literal: numbers and True as they are, a text quoted."""
    typed = read_typed(value)
    return repr(typed) if not isinstance(typed, str) else value if value[:1] in "'\"" else repr(value)


def _plain_command(text: str) -> Command | None:
    """Return a program's own command from the catalog."""
    words = tuple(Word.quoted(word) for word in text.split())
    return Command(form="shell", entry="frontend", before=words, lookup=_nothing) if words else None


def _with_words(command: Command, settings: Mapping[str, str], removed: Sequence[str]) -> Command:
    """Return the command with words `name=value` set and removed."""
    options = [option for option in command.options
               if option.flag is not None or _word_name(option) not in {name.lstrip("+") for name in removed}]
    for name, value in settings.items():
        new = Option(None, (Word.quoted(f"{name}={value}"),))
        places = [index for index, option in enumerate(options)
                  if option.flag is None and _word_name(option) == name.lstrip("+")]
        if places:
            old = options[places[-1]]
            same = (old.value or "").partition("=")[0]
            options[places[-1]] = Option(None, (Word.quoted(f"{same}={value}", old.values[0].gap),))
        else:
            options.append(new)
    return command._replace(options=tuple(options))


def _word_name(option: Option) -> str:
    return (option.value or "").partition("=")[0].lstrip("+")


