"""Read from the sentence with which vLLM rejects the settings which of them to change, and to what.

vLLM has hundreds of such sentences in a few forms: "please set --x v", "x requires y=v", "x (4) must be <= y (2)",
"x is not supported with y". Only flags and values that the release accepts are taken from a sentence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from vllm_doctor.catalog import flags
from vllm_doctor.catalog.flag_table import Flag
from vllm_doctor.command.setting_terms import plain_words, snake_case, terms_of, too_general
from vllm_doctor.text.patterns import lazy_pattern

_MOST_TRIED = 1 << 20  # divisors; larger than any count of a setting that must divide another
_MAX_SENTENCE = 1000

_NAME = (r"(?P<name>--?[a-z][\w-]{0,60}(?:\.\w{1,40}){0,3}|[A-Za-z]{1,30}(?:_[a-z0-9]{1,30}){1,9}(?:\.\w{1,40}){0,3}"
         r"|\w{1,40}[Cc]onfig\.\w{1,40}(?:\.\w{1,40}){0,3})")
_MENTION = rf"[`'\"]?(?<![\w.-]){_NAME}"
_TO = r" (?:(?:to be|to|is set to) (?=[`'\"\d-]|(?:[Tt]rue|[Ff]alse|None|auto)\b)|set to )"
"""The words between a setting and its value; "to increase the limit" has none."""
_VALUE = (rf"(?:[`'\"]?\s*(?P<sign>=+|:|{_TO})\s*[`'\"]?(?P<value>-?[\w./+-]{{1,60}})"
          r"|(?P<space>\s)(?P<word>-?[\w./+-]{1,60}))?")
_SET = lazy_pattern(
    r"(?<![\w-])(?:[Ss]et(?:ting)?|[Uu]s(?:e|ing)|[Pp]ass(?:ing)?|[Ss]pecify(?:ing)?|[Aa]dd|[Ee]nabl(?:e|ing)"
    r"|[Pp]rovide|[Rr]un(?:ning)? with|[Ll]aunch with|[Ss]tart the engine with|[Tt]ry|[Mm]ake sure to set)\s+"
    r"(?:(?:the |your )?(?:env(?:ironment)? (?:var(?:iable)? )?|flag |option |argument |either )?)?"
    + _MENTION + _VALUE)
_UNWANTED = lazy_pattern(
    r"(?:cannot|can not|n't|\bnot|\bnever|\bto|\bcan|\bbe|\bonly|\bwhen|\bif|\bunless|\bwithout|\bboth"
    r"|\bwhile|\bthan)\s+$", re.IGNORECASE)
_DROP = lazy_pattern(
    r"(?:\b(?:do not|don't|not) (?:specify(?:ing)?|set(?:ting)?|us(?:e|ing)|pass(?:ing)?)|\bomit(?:ting)?"
    r"|\bremov(?:e|ing)|\bunset(?:ting)?|\bdisabl(?:e|ing)|\bdrop(?:ping)?|\bturn(?:ing)? off|\blaunch without)\s+"
    r"(?:the (?:flag |option )?)?" + _MENTION, re.IGNORECASE)
_MUST = lazy_pattern(
    _MENTION + r"[`'\"]?(?:(?: ?\(=?|=)[^()\s]{1,40}\)?)? (?:must|should|needs? to|has to)(?: also)? be"
    r"(?:(?: set)?(?: to)? (?P<sign>[`'\"])(?P<value>-?[\w./+-]{1,60})[`'\"]"
    r"|(?: set)?(?: to)? (?P<true>True|true|enabled|set)\b"
    r"|(?: set)?(?: to)? (?P<number>-?\d+)(?! or (?!equal)|\d| to)\b)")
_REQUIRES = lazy_pattern(
    r"(?:\brequires?(?: [^.;(]{1,60}\()?|\bonly (?:be )?(?:set|supported|valid|used|compatible|works?|available"
    r"|applicable|allowed)(?: for| \w+)? (?:with|when|if)|\bneeds?|\bwithout"
    r"|\b(?:[Dd]isabl|[Ee]nabl|[Tt]urn)\w* [\w ]{3,40} (?:with|via|by setting|using))\s*(?:the flag )?"
    + _MENTION + _VALUE)
_NEEDS = lazy_pattern(
    r"\brequires?\b|\bonly (?:be )?(?:set|supported|valid|used|works?|available|applicable|allowed)\b|\bneeds?\b"
    r"|\bmust be (?:set|enabled|provided|specified|True) (?:to use|when|if|for)\b|\bwithout\b"
    r"|\b(?:is|are) not enabled\b|\bunless\b")
_IT = lazy_pattern(r"\b[Ss]et it (?:back )?to (?P<value>-?[\w./+-]{1,60})")
_VARIABLE = lazy_pattern(
    r"(?:\b[Mm]ake sure to set|\b[Ss]et(?:ting)?|\b[Uu]s(?:e|ing)|\b[Tt]ry(?: set(?:ting)?)?|\brequires?|\brun with"
    r"|\bwithout|\b[Pp]ass(?:ing)?)\s+"
    r"(?:the (?:env(?:ironment)? (?:var(?:iable)?)? ?))?[`'\"]?(?P<name>VLLM_[A-Z0-9_]{2,60})[`'\"]?"
    rf"(?:=|{_TO})[`'\"]?(?P<value>[\w.-]{{1,40}})(?! or \d)")
VARIABLE_NAME = lazy_pattern(r"\bVLLM_[A-Z0-9_]{2,80}")
"""An environment variable, whose name has the words of flags."""
_UNSET = lazy_pattern(r"\b(?:[Uu]nset(?:ting)?|[Rr]emov(?:e|ing))\s+[`'\"]?(?P<name>VLLM_[A-Z0-9_]{2,60})")
_AGAINST = lazy_pattern(
    r"not (?:currently |yet |be )?(?:supported|compatible|applicable|implemented|useful)|incompatible"
    r"|were provided for a non|mutually exclusive"
    r"|(?:cannot|can not|can't|must not) be (?:used|combined|enabled|set|specified|passed)"
    r"|\bconflicts? with|(?:does|do) not (?:yet |currently )?support"
    r"|(?:cannot|can not) (?:both |use|set|enable|specify|run)"
    r"|nly (?:be )?(?:supported|set|available|applicable|used|valid)", re.IGNORECASE)
_NUMBER = r"(?P<{0}>-?\d+(?:\.\d+)?)"
_COMPARED = lazy_pattern(
    rf"{_MENTION}[`'\"]?(?:(?: ?\(=?|=| ?: | ){_NUMBER.format('left')}\)?)?,? "
    r"(?:(?:must|should|has to|needs to)(?: also)? be |(?P<cannot>cannot be |can not be |can't be |must not be |is )"
    r"|must )(?:strictly )?"
    r"(?P<how><=|>=|<|>|(?:less|smaller|lower|greater|larger|higher|bigger) than(?: or equal to)?"
    r"|at least|at most|divisible by|a multiple of|not exceed|evenly divide)\s+(?:the )?(?:max(?:imum)? )?"
    r"(?:[`'\"]?(?P<other>--?[a-z][\w-]*|[a-z]+(?:_[a-z0-9]+)+)[`'\"]?(?: ?\(=?|=| ?: | )?)?"
    rf"{_NUMBER.format('right')}?")
_EXCEEDS = lazy_pattern(
    rf"{_MENTION}[`'\"]?(?: ?\(=?|=| ){_NUMBER.format('left')}\)?,? exceeds "
    rf"[\w ]{{3,60}}\({_NUMBER.format('right')}\)")
_BOUNDED = lazy_pattern(
    rf"{_MENTION}[`'\"]?(?: ?\(=?{_NUMBER.format('left')}\)|={_NUMBER.format('left2')}| of)? "
    r"(?:must|should|has to)(?: also)? be (?P<how>non-negative|(?:a )?positive(?: integer)?"
    r"|in (?:the range )?\[(?P<low>-?[\d.]+), ?(?P<high>-?[\d.]+)[\])]"
    r"|between (?P<low2>-?[\d.]+) and (?P<high2>-?[\d.]+))")
_WORD_VALUES = frozenset({
    "a", "an", "and", "as", "at", "be", "before", "by", "config", "disabled", "enabled", "flag", "for", "from", "given",
    "if", "in", "instead", "is", "it", "of", "on", "option", "or", "provided", "set", "so", "specified", "that", "the",
    "this", "to", "together", "too", "used", "when", "which", "will", "with", "without",
})  # fmt: skip
_SENTENCES = lazy_pattern(r"(?<=[\w)`'\"])[.;:]\s+(?=[A-Z`'\"])")
_SHORT = {
    "tp_size": "--tensor-parallel-size", "pp_size": "--pipeline-parallel-size", "dp_size": "--data-parallel-size",
    "dcp_size": "--decode-context-parallel-size", "pcp_size": "--prefill-context-parallel-size",
}  # fmt: skip
_KEYS = {
    "cudagraph_mode": "--compilation-config", "custom_ops": "--compilation-config",
    "num_speculative_tokens": "--speculative-config", "num_redundant_experts": "--eplb-config",
    "log_balancedness_interval": "--eplb-config", "kv_role": "--kv-transfer-config",
}  # fmt: skip
"""Keys of flags that take JSON, which sentences name without the flag."""
_ESSENTIAL = frozenset({
    "--model", "--tokenizer", "--dtype", "--max-model-len", "--gpu-memory-utilization", "--served-model-name", "--host",
    "--port", "--revision", "--trust-remote-code", "--config", "--load-format", "--kv-transfer-config",
})  # fmt: skip
"""Flags that a command is about, or that a sentence names without meaning that they are in the way."""


class Advice(NamedTuple):
    """One change: a flag, with a key of its JSON after a point, and its value.

    True stands for a flag without a value, None for one to remove.
    """

    flag: str
    value: str | bool | None

    def typed(self) -> str:
        """Return the change as typed in a command; the name alone for a flag to remove or without a value."""
        if not isinstance(self.value, str):
            return self.flag
        return f"{self.flag}={self.value}" if self.flag.isupper() else f"{self.flag} {self.value}"


class _Reader(NamedTuple):
    """What decides how a name in a sentence is read."""

    given: tuple[str, ...]  # the keywords of the settings of the user
    release: str
    inner: str | None  # the flag whose JSON the sentence is about

    def setting(self, name: str) -> tuple[str, Flag | None] | None:
        """Return the flag that a name means, with a key of its JSON, and its entry; None if the release has none."""
        if name in _SHORT:
            name = _SHORT[name]
        first, _, rest = name.partition(".")
        if first.endswith("Config") and rest:
            first = snake_case(first)
        flag = flags.lookup(first, self.release)
        if flag is not None and flag.exists(self.release):
            if not rest:
                negation = flag.negation(self.release)
                is_negated = negation is not None and flags.canonical(first) == negation
                return (negation if is_negated and negation else flag.name), flag
            if flag.kind_in(self.release) in {"json", "json_or_key_values", "str_or_json"}:
                return f"{flag.name}.{rest}", None
            return None
        if rest and first.endswith("_config"):  # a class of the settings that has no flag of its own
            last = flags.lookup(rest, self.release)
            if last is not None and last.exists(self.release):
                return last.name, last
        holder = flags.lookup(_KEYS[name], self.release) if name in _KEYS else None
        if holder is not None and holder.exists(self.release) and (holder.keyword or "") in self.given:
            return f"{holder.name}.{name}", None
        if self.inner is not None and not name.startswith("-") and "." not in name:
            return f"{self.inner}.{name}", None
        return None

    def has(self, flag: Flag | None, name: str) -> bool:
        """Return whether the user has set it."""
        if flag is None:
            return self.inner is not None or "." in name
        return (flag.keyword or name.lstrip("-").replace("-", "_")) in self.given

    def step(self, flag: Flag | None, bound: str) -> int | None:
        """Return the difference between neighbouring values, 1 for integers; None for fractions, which have none."""
        is_fraction = "." in bound or (flag is not None and flag.kind_in(self.release) == "float")
        return None if is_fraction else 1

    def to(self, name: str, value: str | None) -> Advice | None:
        """Return the advice to set what a name means to a value; None if the release does not accept that."""
        found = self.setting(name)
        if found is None:
            return None
        spelling, flag = found
        if value is not None:
            value = value.rstrip(".,;:")
        if flag is None:
            return Advice(spelling, value) if value and value.lower() not in _WORD_VALUES else None
        if flag.kind_in(self.release) == "bool":
            if value is not None and value.lower() == "false":
                off = flag.negation(self.release)
                return Advice(off, True) if off else Advice(flag.name, None)
            if spelling == flag.name and self.has(flag, spelling):
                return None
            return Advice(spelling, True)
        if value and value.lower() not in _WORD_VALUES and flag.accepts(value, self.release):
            return Advice(spelling, value)
        return None


@lru_cache(maxsize=16)
def advice(sentence: str, given: tuple[str, ...], release: str, inner: str | None = None) -> Advice | None:
    """Return the change that a refusal asks for or that satisfies it, or None if it does not say.

    `given` are the keywords of the user's settings; `inner` is the flag whose JSON the sentence is about.
    """
    text = " ".join(sentence[:_MAX_SENTENCE].split())
    reader = _Reader(given, release, inner)
    for read in (_asked, _it, _dropped, _compared, _bounded, _must, _required, _variable, _conflict, _needing):
        found = next((one for one in read(text, reader) if one is not None), None)
        if found is not None:
            return found
    return None


def _value(match: re.Match[str], reader: _Reader) -> str | None:
    """Return the value behind a name; a word behind a blank counts only where it is one of few."""
    if match["value"] is not None:
        return match["value"]
    word = (match["word"] or "").rstrip(".,;:'\"`") or None
    if word is None or word.lower() in _WORD_VALUES:
        return None
    found = reader.setting(match["name"])
    if found is None or found[1] is None:
        return None
    kind = found[1].kind_in(reader.release)
    is_one_of_few = word in found[1].choices(reader.release)
    is_typed = match.string[match.end():match.end() + 1] in {"`", "'", '"'}  # both are in one pair of quotation marks
    is_number = kind in {"int", "float", "human_int", "human_int_or_auto"}
    return word if is_one_of_few or is_typed or is_number else None


def _asked(text: str, reader: _Reader) -> Iterator[Advice | None]:
    for match in _SET.finditer(text):
        if not _UNWANTED.search(text, 0, match.start()):
            yield reader.to(match["name"], _value(match, reader))


def _dropped(text: str, reader: _Reader) -> Iterator[Advice | None]:
    for match in _DROP.finditer(text):
        found = reader.setting(match["name"])
        if found is None:
            continue
        spelling, flag = found
        if reader.has(flag, spelling):
            yield Advice(flag.name if flag else spelling, None)
        elif flag is not None and (off := flag.negation(reader.release)) is not None and spelling == flag.name:
            yield Advice(off, True)


def _must(text: str, reader: _Reader) -> Iterator[Advice | None]:
    for match in _MUST.finditer(text):
        found = reader.setting(match["name"])
        if match["true"]:
            is_switch = found is not None and (
                found[1].kind_in(reader.release) == "bool" if found[1] is not None else match["true"].lower() == "true")
            yield reader.to(match["name"], "true") if is_switch else None
        else:
            yield reader.to(match["name"], match["value"] or match["number"])


def _required(text: str, reader: _Reader) -> Iterator[Advice | None]:
    for match in _REQUIRES.finditer(text):
        yield reader.to(match["name"], _value(match, reader))


def _compared(text: str, reader: _Reader) -> Iterator[Advice | None]:
    for match in _COMPARED.finditer(text):
        if match["right"] is None:
            continue
        how = match["how"]
        if match["cannot"]:  # also "x (1) is smaller than y (2)", which is what is wrong
            how = _opposite(how)
        right = float(match["right"])
        left = float(match["left"]) if match["left"] is not None else None
        of_left = reader.setting(match["name"])
        of_right = reader.setting(match["other"]) if match["other"] else None
        if of_left is not None and (reader.has(of_left[1], of_left[0]) or of_right is None):
            step = reader.step(of_left[1], match["right"])
            yield _number(reader, match["name"], _fitting(how, left, right, step))
        elif of_right is not None and reader.has(of_right[1], of_right[0]):
            step = reader.step(of_right[1], match["left"] or "")
            yield _number(reader, match["other"], _fitting(_mirrored(how), right, left, step))
        else:
            yield None
    for match in _EXCEEDS.finditer(text):
        yield _number(reader, match["name"], float(match["right"]))


def _bounded(text: str, reader: _Reader) -> Iterator[Advice | None]:
    for match in _BOUNDED.finditer(text):
        how = match["how"]
        low, high = match["low"] or match["low2"], match["high"] or match["high2"]
        found = reader.setting(match["name"])
        if found is None or found[0] in _ESSENTIAL:
            yield None
        elif found[1] is None and match["name"].endswith("s") and not match["name"].startswith(("num_", "max_")):
            yield Advice(found[0], None)
        elif "positive" in how:
            yield _number(reader, match["name"], reader.step(found[1], ""))
        elif how == "non-negative":
            yield _number(reader, match["name"], 0)
        elif low is not None and high is not None:
            value = max(float(match["left"] or match["left2"] or low), float(low))
            most = _fitting("<" if how.endswith(")") else "<=", None, float(high), reader.step(found[1], high))
            if most is None:  # no fraction is the next below the high end
                yield _number(reader, match["name"], value if value < float(high) else None)
            else:
                yield _number(reader, match["name"], min(value, most))


def _it(text: str, reader: _Reader) -> Iterator[Advice | None]:
    """Yield the value for "it", which is the setting named first."""
    match = _IT.search(text)
    if match is None:
        return
    before = re.finditer(_MENTION, text[:match.start()])
    first = next((one["name"] for one in before if reader.setting(one["name"])), None)
    if first is not None:
        yield reader.to(first, match["value"])


def _variable(text: str, _: _Reader) -> Iterator[Advice | None]:
    for match in _VARIABLE.finditer(text):
        if not _UNWANTED.search(text, 0, match.start()):
            yield Advice(match["name"], match["value"].rstrip("."))
    for match in _UNSET.finditer(text):
        yield Advice(match["name"], None)


def _conflict(text: str, reader: _Reader) -> Iterator[Advice | None]:
    """Yield the removal of what is named first in a sentence that says that two things do not go together.

    A setting by its name in another sentence is surer than words that only resemble one.
    """
    sentences = _SENTENCES.split(text)
    for sentence in sentences:
        if not _AGAINST.search(sentence):
            continue
        found = _named(sentence, sentence, reader)
        if all(is_words for _, _, is_words in found):
            found += [one for other in sentences for one in _named(other, other, reader)
                      if not one[2] and "." not in one[1]]
            found.sort(key=lambda one: one[2])
        yield from (Advice(name, None) for _, name, _ in found)


def _needing(text: str, reader: _Reader) -> Iterator[Advice | None]:
    """Yield the removal of what requires something that cannot be set from the sentence."""
    for sentence in _SENTENCES.split(text):
        match = _NEEDS.search(sentence)
        if match is not None:
            is_purpose = match[0].startswith("must")  # "y must be set to use x"
            part = sentence[match.end():] if is_purpose else sentence[:match.start()]
            yield from (Advice(name, None) for _, name, _ in _named(part, sentence, reader))


def _named(part: str, sentence: str, reader: _Reader) -> list[tuple[int, str, bool]]:
    """Return the place and flag of each given setting that a part of a sentence names, and whether by words alone."""
    required = [match.span("name") for match in _REQUIRES.finditer(sentence)]
    mentions = list(re.finditer(_MENTION, part))
    found: list[tuple[int, str, bool]] = []
    for match in mentions:
        read = reader.setting(match["name"])
        if read is not None and match.span("name") not in required and reader.has(read[1], read[0]):
            found.append((match.start("name"), read[1].name if read[1] else read[0], False))
    without_variables = VARIABLE_NAME.sub(lambda name: "." * len(name[0]), part)
    plain = plain_words(without_variables)
    for keyword in reader.given:
        flag = flags.lookup(keyword, reader.release)
        if flag is None or keyword in too_general():
            continue
        places = [place.start() for term in terms_of(keyword)
                  for place in re.finditer(rf"\b{re.escape(term.strip())}", plain)]
        places = [place for place in places if not any(one.start() <= place < one.end() for one in mentions)]
        if places:
            found.append((min(places), flag.name, True))
    return [one for one in sorted(found) if one[1] not in _ESSENTIAL]


def _opposite(how: str) -> str:
    return {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}.get(_sign(how), "")


def _mirrored(how: str) -> str:
    mirrored = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "multiple": "divisor", "divisor": "multiple"}
    return mirrored.get(_sign(how), "")


def _sign(how: str) -> str:
    """Return the sign of a comparison in words."""
    if how in {"<", "<=", ">", ">=", "multiple", "divisor"}:
        return how
    if how in {"divisible by", "a multiple of"}:
        return "multiple"
    if how == "evenly divide":
        return "divisor"
    if how == "at least":
        return ">="
    if how in {"at most", "not exceed"}:
        return "<="
    sign = "<" if how.startswith(("less", "smaller", "lower")) else ">"
    return sign + "=" if how.endswith("equal to") else sign


def _fitting(how: str, value: float | None, bound: float | None, step: float | None) -> float | None:
    """Return the value nearest to `value` that satisfies the comparison with `bound`, in steps of `step`."""
    sign = _sign(how) if how else ""
    if bound is None or (value is None and sign in {"multiple", "divisor"}):
        return None
    value = value or 0.0
    if sign == "multiple":
        return None if bound < 1 else max(value // bound, 1) * bound
    if sign == "divisor":
        most = min(value, bound)
        if most > _MOST_TRIED:
            return None
        return next((float(one) for one in range(int(most), 0, -1) if bound % one == 0), None)
    if sign in {"<=", ">="}:
        return bound
    if step is None:
        return None
    return {"<": bound - step, ">": bound + step}.get(sign)


def _number(reader: _Reader, name: str, value: float | None) -> Advice | None:
    if value is None:
        return None
    return reader.to(name, str(int(value)) if float(value).is_integer() else str(value))
