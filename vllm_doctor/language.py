"""The languages of reports: which one the user wants, and its catalogues of translations.

A translation is read from gettext's .po files when a language other than English is asked for; English reads nothing.
There is no compiled form (.mo), for three reasons. A translator, and a checkout, see a changed text at once, with no
step in between that can be forgotten. Wheel, editable install and checkout read the same files in the same way. And it
is quick: the parser below knows only what Babel's writer makes (`tools/translations.py`), one string per line, and
takes less than 40 ms for a thousand messages, once per process.

A fuzzy entry (its English text has changed) counts as missing. What is missing is shown in English.
`vllm_doctor/locale` has the texts of code and templates, `locale` in the folder of the rules those of the rules.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from vllm_doctor.messages import message

LANGUAGES = ("en", "zh")
_VARIABLES = ("VLLM_DOCTOR_LANG", "LC_ALL", "LC_MESSAGES", "LANG")
_PACKAGE = Path(__file__).resolve().parent
_ROOTS = (_PACKAGE / "locale", _PACKAGE / "_rules" / "locale", _PACKAGE.parent / "rules" / "locale")


class Language:
    """A language: `code` for the user, `tag` for HTML; `translations` maps English sources to texts."""

    def __init__(self, code: str, tag: str, translations: Mapping[str, str]) -> None:
        self.code = code
        self.tag = tag
        self._translations = translations

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return language, (self.code,)

    def gettext(self, source: str) -> str:
        """Return the translation of a text, or the text itself."""
        return self._translations.get(source, source)

    def say(self, source: str, /, **values: Any) -> str:
        """Return a text in this language with its placeholders replaced."""
        return message(source, **values).translated(self.gettext)


ENGLISH = Language("en", "en", {})


@lru_cache(maxsize=4)
def language(code: str) -> Language:
    """Return a language by its code."""
    if code == "en":
        return ENGLISH
    translations: dict[str, str] = {}
    for path in catalogues(code):
        translations.update(read_catalogue(path.read_text(encoding="utf-8")))
    return Language(code, "zh-CN", translations)


def catalogues(code: str) -> list[Path]:
    """Return the .po files of a language."""
    return [path for root in _ROOTS for path in sorted((root / code / "LC_MESSAGES").glob("*.po"))]


def wanted_language(environment: Mapping[str, str]) -> str:
    """Return the code of the language that the environment asks for; English where it names another one.

    As gettext reads it: the first of the variables that is set decides.
    """
    for name in _VARIABLES:
        value = environment.get(name, "")
        if value:
            return "zh" if value.lower().startswith("zh") else "en"
    return "en"


def typed_language(arguments: Sequence[str]) -> str:
    """Return the language that a command line asks for with `--lang`, "" if none or unknown."""
    found = ""
    for word, following in zip(arguments, [*arguments[1:], ""], strict=False):
        if word == "--":
            break
        if word == "--lang" or word.startswith("--lang="):
            found = following if word == "--lang" else word.partition("=")[2]
    return found if found in LANGUAGES else ""


def read_catalogue(text: str) -> dict[str, str]:
    """Return the translations in a .po file, without those that are empty or fuzzy."""
    return {source: translation for source, translation, is_fuzzy in entries(text)
            if source and translation and not is_fuzzy}


def entries(text: str) -> Iterator[tuple[str, str, bool]]:
    """Yield (source, translation, whether it is fuzzy) of each entry of a .po file; its header has no source."""
    for block in text.split("\n\n"):
        read: dict[str, str] = {}
        key, is_fuzzy = "", False
        for line in block.split("\n"):
            if line.startswith("#,"):
                is_fuzzy = is_fuzzy or "fuzzy" in line
            elif line.startswith('"'):
                read[key] += json.loads(line, strict=False)  # Babel writes control characters as they are
            elif line.startswith(("msgid ", "msgstr ")):
                key, _, quoted = line.partition(" ")
                read[key] = json.loads(quoted, strict=False)
        if "msgstr" in read:
            yield read.get("msgid", ""), read["msgstr"], is_fuzzy
