"""vLLM's settings in the words of the program that starts it; their names come from the catalog."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from vllm_doctor.catalog.frontends import SettingName
from vllm_doctor.command.change_flags import change
from vllm_doctor.command.flags import keyword_of, known_flag, parse_flag, read_json, read_typed
from vllm_doctor.command.frontend_finder import FILE, Seen, no_flag
from vllm_doctor.command.model import Command, Option, Word, compact_json, with_key
from vllm_doctor.command.yaml_settings import YamlText, put, yaml_lines
from vllm_doctor.messages import joined, message, text


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
        self._mappings: dict[str, Mapping[str, object]] = {}  # settings of which keys are set
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
            names_file = any(option.flag is None and FILE.fullmatch(option.value or "") for option in command.options)
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
                                       flag=flag, reason=text(self._frontend.absent[spelling.name])))
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
            self._settings[keyword] = self._python(self._with_key(keyword, spelling.path, typed))
        elif others.underscores and spelling.path:
            name = "--" + keyword
            self._settings[name] = compact_json(self._with_key(name, spelling.path, typed))
        else:
            name = "--" + keyword if others.underscores else flag
            self._settings[name] = self._value(value, others.switch, negated=spelling.negated and others.underscores)
        is_own_setting = others.kind == "json" or (others.kind == "flags" and self._form == "env")
        if is_own_setting and others.since and not self._release:
            self._note_once(message("{setting} needs {program} {release} or newer.", setting=others.name,
                                    program=self._frontend.name, release=others.since))

    def _with_key(self, name: str, path: str, value: object) -> object:
        """Return the value of a setting: the mapping known so far with the value at a path; the value without one."""
        if not path:
            return value
        given = read_json(self._given_value(name) or "", None)
        known = self._mappings.get(name, given if isinstance(given, dict) else {})
        self._mappings[name] = with_key(known, path, value)
        return self._mappings[name]

    def _python(self, value: object) -> str:
        if self._form == "keyword" and not isinstance(value, (dict, list)):
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
                           advice=text(self._frontend.otherwise))
        return message("{program} does not pass {flag} on.", program=self._frontend.name, flag=flag)

    def _unset(self, flag: str) -> None:
        name = self._name(self._frontend.settings.get(parse_flag(flag).name, ()))
        self._removed.append(self._spelled(name.name if name is not None else flag))

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
            put(tree, name, YamlText(value))
        others = self._frontend.others
        if self._flags and others is not None:
            for flag in self._flags:
                put(tree, others.name, YamlText(flag, quoted=True))
        if "." in self._frontend.variables and " " not in self._frontend.variables:
            for name, value in self._variables.items():
                path = self._frontend.variables
                if path.endswith("[]"):
                    put(tree, path, {"name": YamlText(name), "value": YamlText(value, quoted=True)})
                else:
                    put(tree, f"{path}.{name}", YamlText(value, quoted=True))
        lines = "\n".join(yaml_lines(tree))
        return {"kind": "yaml", "text": lines} if lines else None

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
        name, where = frontend.name, text(frontend.where)
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
            place = (text(frontend.variables) if frontend.variables
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


def _literal(value: str) -> str:
    """Return a value as a Python literal: numbers and True as they are, a text quoted."""
    typed = read_typed(value)
    return repr(typed) if not isinstance(typed, str) else value if value[:1] in "'\"" else repr(value)


def _plain_command(line: str) -> Command | None:
    """Return a program's own command from the catalog."""
    words = tuple(Word.quoted(word) for word in line.split())
    return Command(form="shell", entry="frontend", before=words, lookup=no_flag) if words else None


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
