#!/usr/bin/env python3
"""Measure how signatures group failures: labelled logs and variants of each, diagnosed with every cause rule off.

usage: python benchmarks/grouping.py [FOLDER …] [--variants N] [--seed TEXT] [--show] [--output FILE]

A folder holds NAME.log beside NAME.yaml, which names the cause as `expect: primary`; the default is fixtures/logs. A
variant is the same failure elsewhere: other folders, numbers, times, processes, hosts, models, and another release of Python.

Two logs have one cause if the label of one is among the right labels of the other (`primary`, `also_ok`). A group is
*pure* if all its logs have one cause. *Pair precision* is the share of pairs of logs in one group that have one cause.
A log is *split* if one of its variants has another signature.
"""

from __future__ import annotations

import argparse
import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import yaml

from vllm_doctor.diagnosis.engine import Diagnosis
from vllm_doctor.options import Options
from vllm_doctor.rulebase import loader

ROOT = Path(__file__).resolve().parent.parent
LARGEST = 20
MEMORY = frozenset({
    "allocator-fragmentation", "budget-too-small-for-weights-and-activations", "cpu-kv-cache-space-too-small",
    "cpu-memory-reservation-wrong", "cpu-offload-ignored-by-v2-runner", "cuda-graph-capture-oom",
    "cudagraph-estimate-shrinks-kv-cache", "cudagraph-memory-not-reserved", "explicit-kv-cache-bytes-wrong",
    "float32-weights-double-memory", "free-gpu-memory-refused", "gpu-memory-filled-by-design",
    "gpu-memory-held-by-other-process", "host-ram-oom-kill", "kv-cache-allocation-oom", "kv-cache-saturated",
    "kv-cache-too-small-for-max-len", "lora-preallocation-shrinks-memory", "low-kv-capacity",
    "mamba-blocks-fewer-than-max-num-seqs", "memory-released-during-profiling", "model-weights-exceed-gpu-memory",
    "multimodal-profile-oom", "online-quantization-loads-full-precision", "pinned-host-memory-shortage",
    "pp-kv-check-counts-all-layers", "process-killed-no-traceback", "profile-run-activation-oom",
    "runtime-cuda-oom", "runtime-oom-multimodal-encoder", "runtime-oom-prompt-logprobs", "sampler-warmup-oom",
    "sleep-mode-expandable-segments-conflict", "sleeping-memory-taken", "swap-space-exceeds-ram",
    "uma-host-memory-shortfall", "utilization-counts-other-processes", "v0-device-argument-profiles-wrong-gpu",
    "weight-postprocessing-oom",
})  # fmt: skip
"""Causes that share their messages, such as `out of memory`: only what the log says besides tells them apart."""


@dataclass(frozen=True, slots=True)
class Labelled:
    """A log with its cause, and other causes that are as right."""

    name: str
    text: str
    cause: str
    also: frozenset[str] = frozenset()

    def has_cause_of(self, other: Labelled) -> bool:
        """Return whether one label is right for both."""
        return self.cause == other.cause or other.cause in self.also or self.cause in other.also


def labelled(folders: Iterable[Path]) -> list[Labelled]:
    """Return the logs of failures. One whose cause nobody knows has a cause of its own."""
    found = []
    for folder in folders:
        for path in sorted(folder.glob("*.yaml")):
            log, expect = path.with_suffix(".log"), yaml.safe_load(path.read_text(encoding="utf-8")).get("expect", {})
            cause = expect.get("primary")
            if cause is None or not log.exists():
                continue
            cause = f"unknown: {log}" if cause == "unknown" else cause
            found.append(Labelled(str(log), log.read_text(encoding="utf-8", errors="surrogateescape"), cause,
                                  frozenset(expect.get("also_ok") or ())))
    return found


def signature(text: str, options: Options) -> str | None:
    """Return the signature of the failure in a log."""
    diagnosis = Diagnosis(options)
    diagnosis.feed(text.encode("utf-8", "surrogateescape"))
    failure = diagnosis.finish().failure
    return failure.signature if failure is not None else None


# --- variants ----------------------------------------------------------------------------------------------------

_NAMES = re.compile(
    r"\bmodel='([^'\s]+)'|(?<!: )--model[ =]([^\s'\"]+)|\bvllm serve ([^\s'\"-]\S*)|'model(?:_tag)?': '([^'\s]+)'")
_NO_NAME = re.compile(r"(?i)^[\W\d]*$|^<|^.{1,4}$|^(?:model|vllm|serve|auto)$|\.(?:gguf|ya?ml|json|py)$")
_ESCAPE = re.compile(r"\x1b\[[\d;]*m")
_CARETS = re.compile(r"(?m)^.*[ |)] *[~^]{2,}[~^ ]*\n")  # under the source lines, from Python 3.11 on
_SITE = re.compile(r"(?<![\w.~/-])(?:/[\w.+-]+)+?(?=/(?:site|dist)-packages/)")
_STDLIB = re.compile(r"(?:/[\w.+-]+)+/python3\.\d+(?=/\w+(?:/\w+)*\.py)")
_PYTHON = re.compile(r"\b(?:CPython-|cp|cpython-|python)3\.?\d{1,2}\b")
_FOLDER = re.compile(
    r"(?<![\w.~/:-])/(?:models?|data|mnt|home|root|root/\.cache|workspace|opt|srv|tmp|app|scratch)(?:/(?!vllm)[\w.@+-]+)?(?=/[\w.@+-])")
_CALL = re.compile(r"(?<=, line )\d+(?=, in )|(?<=\.py:)\d+")
_PROCESS = re.compile(r"\bpid([= ])\d+")
_DATE = re.compile(r"\b(?:(\d{4})-)?(\d\d)-(\d\d)([ T])\d\d:\d\d:\d\d")
_ADDRESS = re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.])")
_HOST = re.compile(r"\b(?:node|host|gpu|worker|ip)-?\d[\w-]*\b|(?<=on host )[\w.-]+")
_HEX = re.compile(r"\b0x[0-9a-f]{4,}\b")
_PORT = re.compile(r"(?<=[\w\]]:)\d{4,5}\b(?!:)|(?<=--port[ =])\d+|(?<=port )\d{4,5}\b|(?<='port': )\d+")
_RANK = re.compile(r"(?i)\b(rank ?[= ]?|TP|DP|PP|worker |cuda:|GPU )(\d)(?![\w.])")
_DECIMAL = re.compile(r"(?<![\w.:/-])\d+\.\d+(?=(?: ?[GMK]i?B|%| seconds| s\b| tokens))")
_WHOLE = re.compile(
    r"(?<![\w.:/-])(?<!(?i:errno) )(?<!HTTP/1\.1\" )(?<!code )(?<!status )(?<!signal )(?<!line )"
    r"(?:\d{3,}|\d{1,3}(?:,\d{3})+)(?![\w.:/-]|\]|,\d)")
_HTTP = range(400, 600)


def variant(text: str, seed: str) -> str:
    """Return the same log of another machine and day. One seed gives one variant: equal values stay equal."""
    draw = random.Random(seed)  # noqa: S311 - no secret
    names = {next(filter(None, found)) for found in _NAMES.findall(text)}
    for name in sorted(names, key=lambda one: (-len(one), one)):
        if not _NO_NAME.search(name):
            text = re.sub(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", _other_name(name, draw), text)
    for pattern, make in _makers(draw):
        made: dict[str, str] = {}
        text = pattern.sub(lambda match, made=made, make=make: made.setdefault(match[0], make(match)), text)  # type: ignore[misc]
    if draw.random() < 1 / 2:
        text = _CARETS.sub("", text)
    if draw.random() < 1 / 3:
        text = _ESCAPE.sub("", text)
    return text


def _other_name(name: str, draw: random.Random) -> str:
    model = draw.choice(["Nova-8B-Chat", "orca_mini", "Zeta-70b-v2.1", "falcon"])
    if name.startswith(("/", ".", "~")):
        return f"{draw.choice(['/mnt/nfs', '/srv/weights/v3', '/home/ann/models', './checkpoints'])}/{model}"
    return f"{draw.choice(['acme', 'team-7', 'Labs'])}/{model}" if "/" in name else model


def _makers(draw: random.Random) -> list[tuple[re.Pattern[str], Callable[[re.Match[str]], str]]]:
    minor = draw.choice([9, 10, 11, 13])
    root = draw.choice(["/usr/local", "/home/ann/miniconda3/envs/llm", "/srv/app/.venv"])
    folder = draw.choice(["/mnt/nfs/team", "/srv/data-2", "/home/ann/work"])
    day, shift = draw.randint(1, 28), draw.randint(1, 7)
    return [
        (_SITE, lambda _: f"{root}/lib/python3.{minor}"),
        (_STDLIB, lambda _: f"{root}/lib/python3.{minor}"),
        (_PYTHON, lambda match: re.sub(r"3(\.?)\d+$", rf"3\g<1>{minor}", match[0])),
        (_FOLDER, lambda _: folder),
        (_CALL, lambda _: str(draw.randint(10, 3000))),
        (_PROCESS, lambda match: f"pid{match[1]}{draw.randint(10, 999_999)}"),
        (_DATE, lambda match: f"{match[1] + '-' if match[1] else ''}{match[2]}-{day:02}{match[4]}{match[0][-8:]}"),
        (_ADDRESS, lambda match: match[0] if match[0] in {"0.0.0.0", "127.0.0.1"} else f"10.{draw.randint(1, 250)}.3.{draw.randint(1, 250)}"),  # noqa: S104
        (_HOST, lambda _: draw.choice(["node17", "gpu-b.cluster.local", "trn-west-3", "atlas"])),
        (_HEX, lambda match: f"0x{draw.getrandbits(4 * len(match[0][2:])):x}"),
        (_PORT, lambda _: str(draw.randint(2000, 60_000))),
        (_RANK, lambda match: f"{match[1]}{(int(match[2]) + shift) % 8}"),
        (_DECIMAL, lambda match: f"{draw.uniform(0.1, 190):.{len(match[0].partition('.')[2])}f}"),
        (_WHOLE, lambda match: match[0] if match[0].isdigit() and int(match[0]) in _HTTP else _number_like(match[0], draw)),
    ]


def _number_like(text: str, draw: random.Random) -> str:
    digits = len(text.replace(",", ""))
    number = draw.randint(10 ** (digits - 1), 10 ** digits - 1)
    return f"{number:,}" if "," in text else str(number)


# --- figures -----------------------------------------------------------------------------------------------------


def main() -> None:
    """Diagnose the logs and their variants, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path, default=[ROOT / "fixtures" / "logs"])
    parser.add_argument("--variants", type=int, default=3)
    parser.add_argument("--seed", default="")
    parser.add_argument("--show", action="store_true", help="name the groups with several causes and the logs that are split")
    parser.add_argument("--output", type=Path, help="write the figures to this file as well")
    options = parser.parse_args()
    off = Options(ignore=tuple(id_ for id_, rule in loader.builtin().rules.items() if rule.role == "cause"))
    logs = labelled(options.folders)
    groups: dict[str | None, list[Labelled]] = defaultdict(list)
    splits: dict[str, list[str | None]] = {}
    for log in logs:
        own = signature(log.text, off)
        groups[own].append(log)
        others = [signature(variant(log.text, f"{options.seed}{log.name}{number}"), off) for number in range(options.variants)]
        if set(others) != {own}:
            splits[log.name] = [own, *others]
    silent = groups.pop(None, [])
    text = "| figure | measured | target |\n| --- | --- | --- |\n" + "\n".join(figures(groups, splits, len(silent), options.variants)) + "\n"
    print(text)
    if options.show:
        show(groups, splits, silent)
    if options.output:
        options.output.write_text(f"# Groups of failures without a rule\n\nWritten by `python benchmarks/grouping.py`.\n\n{text}", encoding="utf-8")


def figures(groups: Mapping[str | None, list[Labelled]], splits: Mapping[str, object], silent: int, variants: int) -> list[str]:
    """Return the rows of the table."""
    pairs = [pair for logs in groups.values() for pair in combinations(logs, 2)]
    other = [(one, two) for one, two in pairs if not {one.cause, two.cause} & MEMORY]
    largest = sorted(groups.values(), key=len, reverse=True)[:LARGEST]
    same = sum(len({log.cause for log in logs}) == 1 for logs in largest)
    count = sum(map(len, groups.values())) + silent
    causes = {log.cause for logs in groups.values() for log in logs}
    return [
        f"| {count} logs of {len(causes)} causes, {silent} without a failure object: groups | {len(groups)} | |",
        f"| pair precision, {len(pairs)} pairs | {_share(pairs)} | |",
        f"| pair precision without the memory causes, {len(other)} pairs | {_share(other)} | >= .90 |",
        f"| pure among the {len(largest)} largest groups | {sum(map(_is_pure, largest))}, {same} with one label alone | >= 19 |",
        f"| logs split over {variants} variants | {len(splits)} | 0 |",
    ]


def _share(pairs: list[tuple[Labelled, Labelled]]) -> str:
    return f"{sum(one.has_cause_of(two) for one, two in pairs) / len(pairs):.3f}".lstrip("0") if pairs else "none"


def _is_pure(logs: list[Labelled]) -> bool:
    return all(one.has_cause_of(two) for one, two in combinations(logs, 2))


def show(groups: Mapping[str | None, list[Labelled]], splits: Mapping[str, list[str | None]], silent: list[Labelled]) -> None:
    """Print what to look at."""
    for place, (name, logs) in enumerate(sorted(groups.items(), key=lambda one: -len(one[1]))):
        if not _is_pure(logs):
            print(f"#{place + 1} {name}", *(f"   {log.cause}  {log.name}" for log in logs), sep="\n")
    for name, signatures in splits.items():
        print("split", name, *signatures)
    for log in silent:
        print("silent", log.cause, log.name)


if __name__ == "__main__":
    main()
