"""Filters about flags: what an argument parser's complaint names, and what to write instead.

Which flag, value and successor exist in which release is `flags`' knowledge; here it is put together for one log.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from vllm_doctor import flags
from vllm_doctor.releases import Releases

__all__ = [
    "as_flag",
    "as_json",
    "as_pairs",
    "later_flags",
    "later_release",
    "nearest_choice",
    "number_meant",
    "reasoning_parser_for",
    "release_with_choice",
    "replacement_flag",
    "replacement_value",
    "replacement_words",
    "share_meant",
    "table_choice",
    "tool_parser_for",
    "unknown_flags",
    "unknown_flag_notes",
    "with_key",
    "with_position_limit",
    "with_renamed_key",
    "yarn_overrides",
]

_FLAG = re.compile(r"--?[A-Za-z][\w.-]*")
_TYPO = 0.8  # how like a flag's name a spelling must be to be read as it
_LIKE = 0.6  # the same for a value among the allowed ones
_NONE = "--model"  # stands where there is no further flag; its value False says "leave it"

# How other servers, and people, call what vLLM has under another name.
_OTHER_NAMES: Mapping[str, str] = {
    "--tp": "--tensor-parallel-size",
    "--tp-size": "--tensor-parallel-size",
    "--num-gpus": "--tensor-parallel-size",
    "--pp": "--pipeline-parallel-size",
    "--pp-size": "--pipeline-parallel-size",
    "--dp": "--data-parallel-size",
    "--dp-size": "--data-parallel-size",
    "--context-length": "--max-model-len",
    "--ctx-size": "--max-model-len",
    "--max-context-len": "--max-model-len",
    "--max-context-length": "--max-model-len",
    "--max-seq-len": "--max-model-len",
    "--max-sequence-length": "--max-model-len",
    "--max-length": "--max-model-len",
    "--max-total-tokens": "--max-model-len",
    "--mem-fraction-static": "--gpu-memory-utilization",
    "--gpu-memory-fraction": "--gpu-memory-utilization",
    "--gpu-utilization": "--gpu-memory-utilization",
    "--model-path": "--model",
    "--model-id": "--model",
    "--model-name": "--served-model-name",
    "--quantize": "--quantization",
    "--max-running-requests": "--max-num-seqs",
    "--max-batch-size": "--max-num-seqs",
    "--tool-parser": "--tool-call-parser",
    "--reasoning-parser-name": "--reasoning-parser",
}

_DTYPES: Mapping[str, tuple[str, ...]] = {
    "fp16": ("float16", "half"), "f16": ("float16", "half"), "torch.float16": ("float16", "half"),
    "bf16": ("bfloat16",), "torch.bfloat16": ("bfloat16",),
    "fp32": ("float32", "float"), "f32": ("float32", "float"), "torch.float32": ("float32", "float"),
}

# Which parsers know a family's format, the best first. The first that the release has is taken.
_TOOL_PARSERS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (r"qwen-?3[-_]?coder|qwen-?3\.[5-9]", ("qwen3_coder", "qwen3_xml", "hermes")),
    (r"qwen|qwq|hermes", ("hermes",)),
    (r"llama-?4", ("llama4_pythonic", "llama4_json", "pythonic")),
    (r"llama-?3[.-]?2-[13]b", ("llama3_json", "pythonic")),
    (r"llama-?3", ("llama3_json",)),
    (r"mistral|mixtral|ministral|magistral|devstral", ("mistral",)),
    (r"deepseek-?v3\.2", ("deepseek_v32", "deepseek_v31")),
    (r"deepseek-?v3\.1", ("deepseek_v31",)),
    (r"deepseek-?v4\.1", ("deepseek_v41", "deepseek_v4")),
    (r"deepseek-?v4", ("deepseek_v4",)),
    (r"deepseek-?(?:v3|r1)", ("deepseek_v3",)),
    (r"glm-?(?:4\.7|5)", ("glm47", "glm45")),
    (r"glm-?4\.[56]", ("glm45",)),
    (r"kimi-?k3", ("kimi_k3", "kimi_k2")),
    (r"kimi-?k2", ("kimi_k2",)),
    (r"gpt-?oss", ("openai",)),
    (r"functiongemma", ("functiongemma",)),
    (r"gemma-?4", ("gemma4",)),
    (r"granite-?20b", ("granite-20b-fc",)),
    (r"granite-?4", ("granite4", "hermes")),
    (r"granite", ("granite",)),
    (r"internlm", ("internlm",)),
    (r"jamba", ("jamba",)),
    (r"phi-?4-?mini", ("phi4_mini_json",)),
    (r"xlam", ("xlam",)),
    (r"minimax-?m3", ("minimax_m3", "minimax_m2")),
    (r"minimax-?m2", ("minimax_m2",)),
    (r"minimax", ("minimax",)),
    (r"hunyuan", ("hunyuan_a13b",)),
    (r"seed-?oss", ("seed_oss",)),
    (r"step-?3\.5", ("step3p5", "step3")),
    (r"step-?3", ("step3",)),
    (r"ernie-?4\.5", ("ernie45",)),
    (r"olmo-?3", ("olmo3",)),
    (r"longcat", ("longcat",)),
)
_REASONING_PARSERS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (r"deepseek-?v4\.1", ("deepseek_v41", "deepseek_v4")),
    (r"deepseek-?v4", ("deepseek_v4",)),
    (r"deepseek-?v3\.[12]", ("deepseek_v3", "deepseek_r1")),
    (r"deepseek-?r1|qwq|r1-distill", ("deepseek_r1",)),
    (r"qwen-?3", ("qwen3", "deepseek_r1")),
    (r"glm-?(?:4\.7|5)", ("glm47", "glm45")),
    (r"glm-?4\.[56]", ("glm45",)),
    (r"gpt-?oss", ("openai_gptoss",)),
    (r"kimi-?k3", ("kimi_k3", "kimi_k2")),
    (r"kimi-?k2", ("kimi_k2",)),
    (r"magistral|mistral|ministral", ("mistral",)),
    (r"gemma-?4", ("gemma4",)),
    (r"granite", ("granite",)),
    (r"hunyuan", ("hunyuan_a13b",)),
    (r"minimax-?m2", ("minimax_m2",)),
    (r"seed-?oss", ("seed_oss",)),
    (r"step-?3", ("step3",)),
    (r"ernie-?4\.5", ("ernie45",)),
    (r"nemotron", ("nemotron_v3",)),
    (r"olmo-?3", ("olmo3",)),
)


@dataclass(frozen=True, slots=True)
class Remedy:
    """What became of one flag that the release does not know.

    `kind`: renamed (write `set` instead), dropped (no successor), later (`since` has it), misspelt (`set`), unknown.
    """

    flag: str
    value: str | None
    kind: str
    set: Mapping[str, str] = field(default_factory=dict)
    since: str = ""
    note: str = ""

    def words(self) -> str:
        """The flag as it was typed, with its value."""
        return f"{self.flag} {self.value}" if self.value else self.flag


def split_arguments(arguments: str) -> list[tuple[str, str | None]]:
    """What argparse calls unrecognized, as flags with their values; what stands before the first flag is left away.

    argparse joins the words by blanks and forgets the quotes, so a value may hold blanks.
    """
    found: list[tuple[str, list[str]]] = []
    for word in arguments.split():
        name, equals, value = word.partition("=")
        if _FLAG.fullmatch(name):
            found.append((name, [value] if equals else []))
        elif found:
            found[-1][1].append(word)
    return [(name, " ".join(words) if words else None) for name, words in found]


def unknown_flags(arguments: str) -> str | None:
    """The flags among what argparse calls unrecognized: `--swap-space 4 --foo=1` is `--swap-space --foo`."""
    return " ".join(dict.fromkeys(name for name, _ in split_arguments(arguments))) or None


def remedies(arguments: str, releases: Releases) -> list[Remedy]:
    """What to do about each unrecognized flag."""
    return [_remedy(name, value, releases) for name, value in split_arguments(arguments)]


def _remedy(name: str, value: str | None, releases: Releases) -> Remedy:
    newest = flags.releases()[-1]
    found = flags.lookup(name)
    if found is None:
        return _misspelt(name, value, releases)
    lacking = [release for release in releases.candidates if not found.exists(release)] or [newest]
    spelling = flags.canonical(name)
    if found.last == newest or flags.releases().index(lacking[-1]) < flags.releases().index(found.first):
        return Remedy(spelling, value, "later", since=found.first)
    if found.replaced_by is None:
        return Remedy(spelling, value, "dropped")
    successor = {new: text for new, text in found.replaced_by.for_value(value).items()
                 if (other := flags.lookup(new)) is not None and other.exists(lacking[-1])}
    kind = "renamed" if successor else "dropped"
    return Remedy(spelling, value, kind, _whole(successor), note=found.replaced_by.note)


def _misspelt(name: str, value: str | None, releases: Releases) -> Remedy:
    release = releases.candidates[-1]
    spelling = flags.canonical(name)
    meant = _OTHER_NAMES.get(spelling)
    if meant is None:
        like = flags.nearest(name, release, 1)
        close = like and difflib.SequenceMatcher(None, spelling, like[0]).ratio() >= _TYPO
        meant = like[0] if close and like[0] != spelling else None
    flag = flags.lookup(meant) if meant else None
    if flag is None or meant is None:
        return Remedy(spelling, value, "unknown")
    given = value if value is not None else ""
    fits = flag.accepts(given, release) or (flag.kind_in(release) == "bool" and given.lower() in ("true", "false"))
    if not fits:
        return Remedy(spelling, value, "misspelt", note=f"{meant} is meant, it seems.")
    return Remedy(spelling, value, "misspelt", {meant: "" if flag.kind_in(release) == "bool" else given})


def _whole(successor: Mapping[str, str]) -> dict[str, str]:
    """Single keys of a JSON flag (`--x.key value`) as that flag with its JSON, which every release reads."""
    made: dict[str, str] = {}
    for name, text in successor.items():
        flag, _, key = name.partition(".")
        if not key:
            made[name] = text
            continue
        read = made.get(flag)
        whole = json.loads(read) if read else {}
        whole[key] = _scalar(text)
        made[flag] = json.dumps(whole)
    return made


def _scalar(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _successors(arguments: str, releases: Releases) -> dict[str, str]:
    """All flags to write instead; keys of one JSON flag are put together."""
    made: dict[str, str] = {}
    for remedy in remedies(arguments, releases):
        for name, value in remedy.set.items():
            if name in made and made[name].startswith("{") and value.startswith("{"):
                made[name] = json.dumps({**json.loads(made[name]), **json.loads(value)})
            else:
                made[name] = value
    return made


def replacement_flag(arguments: str, releases: Releases, number: int = 1) -> str:
    """The name of the number-th flag to write instead; a stand-in when there are fewer."""
    names = list(_successors(arguments, releases))
    return names[number - 1] if number <= len(names) else _NONE


def replacement_value(arguments: str, releases: Releases, number: int = 1) -> str | bool:
    """The value of the number-th flag to write instead; False when there are fewer."""
    values = list(_successors(arguments, releases).values())
    return (values[number - 1] or True) if number <= len(values) else False


def replacement_words(arguments: str, releases: Releases) -> str | None:
    """What to write instead of what, as one clause; None when nothing has a successor."""
    known = remedies(arguments, releases)
    replaced = [remedy for remedy in known if remedy.set]
    if not replaced:
        return None
    new = " ".join(f"{name} {value}".strip() for name, value in _successors(arguments, releases).items())
    rest = [remedy.flag for remedy in known if not remedy.set]
    return (f"Write {new} instead of {' '.join(remedy.words() for remedy in replaced)}"
            + (f" and drop {', '.join(rest)}" if rest else ""))


def later_flags(arguments: str, releases: Releases) -> str | None:
    """The flags that only newer releases have; None when there is none."""
    return ", ".join(remedy.flag for remedy in remedies(arguments, releases) if remedy.kind == "later") or None


def later_release(arguments: str, releases: Releases) -> str | None:
    """The first release that has all of them; None when there is none."""
    first = [remedy.since for remedy in remedies(arguments, releases) if remedy.kind == "later"]
    return max(first, key=flags.releases().index) if first else None


def unknown_flag_notes(arguments: str, releases: Releases) -> str | None:
    """One sentence a flag: when it lived, what became of it, or which flag it looks like."""
    return " ".join(_note(remedy, releases) for remedy in remedies(arguments, releases)) or None


def _note(remedy: Remedy, releases: Releases) -> str:
    found = flags.lookup(remedy.flag)
    if remedy.kind == "later":
        return f"{remedy.flag} exists from vLLM {remedy.since} on; this release is older."
    if found is not None:
        life = f"{remedy.flag} existed from {found.first} to {found.last}."
        return f"{life} {remedy.note}".strip()
    if remedy.kind == "misspelt":
        instead = next(iter(remedy.set), "")
        return f"No release has {remedy.flag}; " + (f"{instead} is meant." if instead else remedy.note)
    return f"No release has {remedy.flag}."


def as_flag(keyword: str) -> str:
    """A keyword, or how a message names a setting, as a flag: `max_model_len`, `kv cache dtype`."""
    return flags.canonical(keyword.strip().lower().replace(" ", "-"))


def release_with_choice(value: Any, name: str, releases: Releases) -> str | None:
    """The first release whose flag takes the value, when it is newer than those possible; else None."""
    found = flags.lookup(name)
    if found is None or any(value in found.choices(release) for release in releases.candidates):
        return None
    order = flags.releases()
    newer = order[order.index(releases.candidates[-1]) + 1:]
    return next((release for release in newer if value in found.choices(release)), None)


def _listed(choices: str) -> list[str]:
    """The values of a printed list: `'auto', 'half'`, `1, 8, 16`, `{ a,b }`."""
    return re.findall(r"[A-Za-z0-9_][\w.+-]*", choices)


def nearest_choice(value: Any, choices: str) -> str | None:
    """Which of the printed values is meant: the next larger number, another name of the data type, or the likest."""
    listed = _listed(choices)
    text = str(value).strip("'\" ")
    numbers = [int(item) for item in listed if item.isdigit()]
    if numbers and len(numbers) == len(listed):
        if not re.fullmatch(r"\d+(?:\.\d+)?", text):
            return None
        return str(min((number for number in numbers if number >= float(text)), default=max(numbers)))
    for other in _DTYPES.get(text.lower(), ()):
        if other in listed:
            return other
    scored = [(difflib.SequenceMatcher(None, text.lower(), item.lower()).ratio(), -place)
              for place, item in enumerate(listed)]
    if scored and max(scored)[0] >= _LIKE:
        return listed[-max(scored)[1]]
    begun = [item for item in listed if item.lower().startswith(text.lower()) and text]
    return begun[0] if begun else None


def table_choice(value: Any, name: str, releases: Releases) -> str | None:
    """The same among the values that the release's flag takes, for a log that does not print them."""
    flag = flags.lookup(name)
    choices = flag.choices(releases.candidates[-1]) if flag is not None else ()
    return nearest_choice(value, ", ".join(choices)) if choices else None


_NUMBER = re.compile(r"(\d[\d,_]*(?:\.\d+)?)\s*([kKmMgG]?)(?:i?[bB]|tokens?)?")
_FACTOR = {"": 1, "k": 1000, "K": 1024, "m": 10**6, "M": 2**20, "g": 10**9, "G": 2**30}


def number_meant(value: Any) -> int | None:
    """The whole number in `32k`, `8,192` or `8192.0`, with vLLM's own reading of the letters (k 1000, K 1024).

    None when it is none, and when it is written plainly already.
    """
    text = str(value).strip("'\" ")
    match = _NUMBER.fullmatch(text)
    if match is None or text.isdigit():
        return None
    number = float(match[1].replace(",", "").replace("_", "")) * _FACTOR[match[2]]
    return int(number) if number.is_integer() else None


def share_meant(value: Any) -> float | None:
    """The share in `90`, `90%` or `0,9`: 0.9; None when it is none."""
    match = re.fullmatch(r"(\d+(?:[.,]\d+)?)\s*(%?)", str(value).strip("'\" "))
    if match is None:
        return None
    number = float(match[1].replace(",", "."))
    if match[2] or number > 2:
        number = number / 100
    return round(number, 4) if 0 < number <= 1 else None


_TOKEN = re.compile(r"""'((?:[^'\\]|\\.)*)'|("(?:[^"\\]|\\.)*")|([\[\]{}:,])|([^\s\[\]{}:,'"]+(?::(?=[/\\])[^\s\[\]{},'"]+)?)|\s+""")
_WORDS = {"True": "true", "False": "false", "None": "null", "true": "true", "false": "false", "null": "null"}


def as_json(value: Any) -> str | None:
    """A value as the JSON that was meant: a Python dict, JSON whose quotes the shell ate, `image=4,audio=1`."""
    text = str(value).strip()
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        text = text[1:-1]
    if re.fullmatch(r"[\w.-]+=[^,={}]+(?:,[\w.-]+=[^,={}]+)*", text):
        return json.dumps({key: _scalar(item.strip())
                           for key, _, item in (part.partition("=") for part in text.split(","))})
    if text[:1] not in "{[":
        return None
    made, position = [], 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            return None
        single, double, mark, bare = match.groups()
        if single is not None:
            made.append(json.dumps(single))
        elif bare is not None:
            made.append(_WORDS.get(bare) or (bare if re.fullmatch(r"-?\d+(?:\.\d+)?", bare) else json.dumps(bare)))
        else:
            made.append(double or mark or "")
        position = match.end()
    try:
        return json.dumps(json.loads("".join(made)))
    except ValueError:
        return None


def as_pairs(value: Any) -> str | None:
    """A JSON object (or Python dict) of numbers as `image=4,audio=1`, which releases before 0.10 take."""
    text = as_json(value)
    read = json.loads(text) if text else None
    if not isinstance(read, dict) or not all(isinstance(item, int) for item in read.values()):
        return None
    return ",".join(f"{key}={item}" for key, item in read.items())


def _parser(model: str, families: Iterable[tuple[str, tuple[str, ...]]], flag: str, releases: Releases) -> str | None:
    found = flags.lookup(flag)
    had = found.choices(releases.candidates[-1]) if found is not None else ()
    for family, parsers in families:
        if re.search(family, model, re.IGNORECASE):
            return next((parser for parser in parsers if parser in had), None)
    return None


def tool_parser_for(model: str, releases: Releases) -> str | None:
    """The --tool-call-parser of the model's family that the release has."""
    return _parser(model, _TOOL_PARSERS, "--tool-call-parser", releases)


def reasoning_parser_for(model: str, releases: Releases) -> str | None:
    """The --reasoning-parser of the model's family that the release has."""
    return _parser(model, _REASONING_PARSERS, "--reasoning-parser", releases)


def yarn_overrides(length: float, original: float, theta: float, releases: Releases) -> str | None:
    """--hf-overrides that stretch a RoPE model to `length` tokens with YaRN; None above a factor of 8.

    The keys are those of vllm/config/model.py: from 0.30.0 max_position_embeddings is no longer multiplied by the
    factor and must be given too.
    """
    factor = -(-int(length) // int(original))
    if not 1 < factor <= 8:
        return None
    rope = {"rope_type": "yarn", "factor": float(factor), "original_max_position_embeddings": int(original),
            "rope_theta": theta}
    overrides: dict[str, Any] = {"rope_parameters": rope}
    if releases.since("0.30.0"):
        overrides["max_position_embeddings"] = factor * int(original)
    return json.dumps(overrides)


def with_position_limit(overrides: Any, length: float) -> str | None:
    """The same --hf-overrides with max_position_embeddings beside the RoPE settings, as 0.30.0 and newer want it."""
    text = as_json(overrides)
    read = json.loads(text) if text else None
    if not isinstance(read, dict):
        return None
    place = next((inner for inner in read.values() if isinstance(inner, dict)
                  and any(key.startswith("rope") and isinstance(inner[key], dict) for key in inner)), read)
    place["max_position_embeddings"] = int(length)
    return json.dumps(read)


def with_key(settings: Any, key: str, value: Any) -> str | None:
    """A JSON flag's settings with one key set; None when they are no mapping."""
    text = as_json(settings)
    read = json.loads(text) if text else None
    return json.dumps({**read, key: value}) if isinstance(read, dict) else None


def with_renamed_key(settings: Any, old: str, new: str) -> str | None:
    """A JSON flag's settings with one key renamed, in its place; None when it is not there."""
    text = as_json(settings)
    read = json.loads(text) if text else None
    if not isinstance(read, dict) or old not in read:
        return None
    return json.dumps({new if key == old else key: value for key, value in read.items()})
