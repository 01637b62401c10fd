"""What is passed over changes no report, wherever the bytes are cut."""

from __future__ import annotations

import random
import re
import zlib
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import islice, product
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nightly import some
from wraps import SOURCES, WRAPS, coloured, compose, docker, kubectl, two_services
from yaml_texts import load_file

from vllm_doctor.diagnosis.engine import Diagnosis
from vllm_doctor.events.reader import EventReader
from vllm_doctor.fastpath import line_skipper
from vllm_doctor.fastpath.line_scanner import FastScanner, Scanner, literal_forms
from vllm_doctor.fastpath.line_skipper import Consumer, LineSkipper, Mode, candidate_literals, mode_of
from vllm_doctor.fastpath.repeated_messages import RepeatedMessages
from vllm_doctor.fastpath.statistics_lines import Layout, Layouts, StatisticsLines
from vllm_doctor.logs.lines import Line
from vllm_doctor.logs.untrusted_text import UntrustedText
from vllm_doctor.matching.matcher import Matcher
from vllm_doctor.options import Options
from vllm_doctor.reports.to_json import render
from vllm_doctor.rulebase.loader import builtin
from vllm_doctor.text.literal_search import Trie

ROOT = Path(__file__).resolve().parents[2]
LOGS = sorted((ROOT / "fixtures" / "logs").rglob("*.log"))
HEALTHY = load_file(ROOT / "rules" / "healthy.yaml")
SAMPLES = [sample for entry in HEALTHY for sample in entry["samples"]]
ANSWERED = b'INFO:     127.0.0.1:51414 - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'
TRAFFIC = [ANSWERED, b"(APIServer pid=7) INFO 11-20 11:38:49 [async_llm.py:261] Added request cmpl-8f1c-0.\n",
           b"(EngineCore pid=8) DEBUG 11-20 11:38:49 [core.py:9] step 12 took 3.5 ms\n"]


def report(data: bytes, size: int = 1 << 18, *, shortcuts: bool = True) -> str:
    diagnosis = Diagnosis(Options(shortcuts=shortcuts))
    for at in range(0, len(data), size):
        diagnosis.feed(data[at:at + size])
    return render(diagnosis.finish())


@pytest.fixture
def read_whole(monkeypatch: pytest.MonkeyPatch):
    return lambda lines: monkeypatch.setattr(line_skipper, "READ_WHOLE", lines)


@pytest.mark.parametrize("log", some(LOGS, 24, lambda log: log.stem))
def test_no_report_changes(log: Path, read_whole) -> None:
    """Each log amid a server's traffic, all of it read and only what is worth reading behind the first lines.

    (What kinds of processes print is told by any line: of those passed over it is not noted.)
    """
    lines = log.read_bytes().splitlines(keepends=True)
    data = b"".join([*TRAFFIC, TRAFFIC[0] * 300, *(line + TRAFFIC[i % 3] * (i % 7 == 0) for i, line in enumerate(lines)), *TRAFFIC * 40])
    whole = report(data, shortcuts=False)
    first, size = ((3, 700), (3, 1 << 18), (len(lines) // 2, 1 << 12))[LOGS.index(log) % 3]
    read_whole(first)
    assert report(data, size) == whole


WRAPPED = [(log, WRAPS[number % len(WRAPS)]) for number, log in enumerate(LOGS[::17])]
"""Logs behind a wrapper, at least one behind each; the others each night."""


SHOW_PROGRAM_LATE = {"real-0.10.2-script-speculative-config-as-text"}
"""Logs whose program is shown behind their first lines, by a line that is read among the first thousands only."""


def _wrapped(pairs: Iterable[tuple[Path, Callable[[bytes], bytes]]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(("log", "wrap"), [pytest.param(log, wrap, id=f"{log.stem}-{wrap.__name__}") for log, wrap in pairs])


@_wrapped(WRAPPED)
def test_no_report_changes_behind_a_wrapper(log: Path, wrap: Callable[[bytes], bytes], read_whole) -> None:
    assert_no_change_behind(log, wrap, read_whole)


@pytest.mark.exhaustive
@_wrapped(pair for pair in product(LOGS, WRAPS) if pair not in WRAPPED)
def test_no_report_of_any_log_changes_behind_any_wrapper(log: Path, wrap: Callable[[bytes], bytes], read_whole) -> None:
    assert_no_change_behind(log, wrap, read_whole)


def assert_no_change_behind(log: Path, wrap: Callable[[bytes], bytes], read_whole) -> None:
    lines = [line for own in log.read_bytes().splitlines(keepends=True) for line in (own, TRAFFIC[0])]
    data = b"".join(map(wrap, [*TRAFFIC, *TRAFFIC[:1] * 50, *lines, *statistics(300, 1), *TRAFFIC * 20]))
    whole = report(data, shortcuts=False)
    read_whole(400 if log.stem in SHOW_PROGRAM_LATE else 40)
    assert report(data, 5000) == whole


def test_several_threads_read_logs(read_whole) -> None:
    read_whole(40)
    logs = [b"".join(map(wrap, [*statistics(400, seed), *TRAFFIC * 4000])) for seed, wrap in enumerate((bytes, docker, kubectl, compose))]
    alone = [report(log, 1 << 15) for log in logs]
    with ThreadPoolExecutor(4) as threads:
        assert [*threads.map(lambda log: report(log, 1 << 15), logs * 2)] == alone * 2


@pytest.mark.parametrize("wrap", WRAPS)
def test_healthy_and_statistics_lines_are_known_behind_a_wrapper(wrap: Callable[[bytes], bytes]) -> None:
    for sample in SAMPLES:
        block = b"\n" + wrap(f"{sample}\n".encode()) * 2
        assert first(EVERYTHING, block) == len(block)
    line = statistics(1, 1)[0]
    layout = layout_of(wrap(line))
    assert wrap(line)[layout.line] == (coloured(line) if wrap is coloured else line).rstrip()
    assert wrap(line)[layout.source] == SOURCES.get(wrap, b"")
    assert re.fullmatch(rb"11-05 \d\d:\d\d:\d\d", wrap(line)[layout.stamp])


@pytest.mark.parametrize("sample", SAMPLES)
def test_healthy_lines_are_known(sample: str) -> None:
    assert re.fullmatch(builtin().healthy, sample)
    assert any(anchor in sample for anchor in builtin().healthy_anchors)
    assert not re.fullmatch(builtin().healthy, sample + " CUDA out of memory")


def test_a_client_s_words_make_no_finding() -> None:
    prompt = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. ValueError: No available memory for the cache blocks"
    line = (f"INFO 06-03 09:55:06 async_llm_engine.py:553] Received request cmpl-1: prompt: '{prompt}', "
            "params: SamplingParams(n=1, prompt_logprobs=None), prompt_token_ids: [1], lora_request: None.\n")
    diagnosis = Diagnosis()
    diagnosis.feed(line.encode() * 3)
    assert diagnosis.finish().findings == ()


def reader_of(**parts: Callable[..., object]) -> Consumer:
    """A reader that reads nothing, but for these parts."""
    nothing = {"mode": lambda: None, "next_number": lambda: 1, "expects_continuation": lambda line, number, shape: True,
               "read_short": lambda line, number, shape, is_candidate: False, "read_traceback": lambda *_: False,
               "read_ending": lambda block, at: 0, "read_single_line": lambda line: False, "skip": lambda lines, size: None}
    return SimpleNamespace(**{**nothing, **parts})


TELLING, EVERYTHING = (mode_of(builtin(), awaited=awaited, serving=True) for awaited in (False, True))
LAYOUTS = Layouts(builtin())


def layout_of(line: bytes) -> Layout:
    layout = LAYOUTS.of(re.sub(rb"\d", b"0", line))
    assert layout is not None
    return layout


class Passes:
    """A line skipper that reads nothing by itself, and what it passed over."""

    def __init__(self, mode: Mode) -> None:
        self.passed: list[tuple[int, int]] = []
        self.skimmer = LineSkipper(reader_of(mode=lambda: mode, skip=lambda lines, size: self.passed.append((lines, size))))


def first(mode: Mode, block: bytes, start: int = 1) -> int:
    """Where the first line begins that is found, or where the block ends."""
    index = block.count(b"\n", 1, start)
    rows = mode.scanner.unhealthy_lines if mode.awaited else mode.scanner.candidate_lines
    for row in rows(block, start, index, len(block)):
        place, begin, text, shape = row
        stop = begin + len(text)
        assert place == block.count(b"\n", 1, begin)
        assert block[begin:stop] == text
        if shape is None:
            assert begin == stop == len(block)
            return begin
        assert block[begin - 1:begin] == block[stop - 1:stop] == b"\n"
        return begin
    raise AssertionError("no last row")


def test_only_lines_that_tell_something_are_read() -> None:
    passes = Passes(TELLING)
    told = b"(EngineCore pid=8) ERROR 11-20 11:38:49 [core.py:9] torch.OutOfMemoryError: CUDA out of memory.\n"
    head = ANSWERED * line_skipper.READ_WHOLE
    assert list(passes.skimmer.pieces(head)) == [head]
    data = ANSWERED * 9 + TRAFFIC[2] + told + ANSWERED * 5
    assert list(passes.skimmer.pieces(data)) == [told]
    assert passes.passed == [(10, len(ANSWERED) * 9 + len(TRAFFIC[2])), (5, len(ANSWERED) * 5)]


@pytest.mark.parametrize(("line", "open_processes", "read"), [
    (b"(EngineCore pid=8) a word\n", ("EngineCore pid=8",), True),
    (b"(EngineCore pid=8) a word\n", ("EngineCore pid=9", ""), False),
    (b"(EngineCore pid=8) (Worker pid=9) a word\n", ("Worker pid=9",), True),
    (b" (EngineCore pid=8) a word\n", ("EngineCore pid=8",), True),
    (b"2025-11-20T11:42:48Z (EngineCore pid=8) a word\n", ("EngineCore pid=8",), True),
    (b'{"log":"(EngineCore pid=8) a word\\n"}\n', ("EngineCore pid=8",), True),
    (b"2025-11-20T11:42:48Z a word\n", ("EngineCore pid=8",), False),
    (b"a word\n", ("",), True),
    (b"a word\n", ("EngineCore pid=8",), False),
    (ANSWERED, ("",), False),
])
def test_while_a_process_prints_a_traceback_its_lines_are_read(line: bytes, open_processes: tuple[str, ...], read: bool) -> None:
    diagnosis = Diagnosis()
    prefixes = [f"({process}) " if process else "" for process in open_processes]
    diagnosis.feed(TRAFFIC[0] * 300 + "".join(f"{prefix}Traceback (most recent call last):\n" for prefix in prefixes).encode())
    block, shape = b"\n" + line, TELLING.scanner.template_of(line)
    assert (first(EVERYTHING, block) == 1 and diagnosis.reading.session.shortcuts.expects_continuation(line, 9, shape)) is read


@pytest.mark.parametrize("told", [
    b"\x1b[31mERR\x1b[0mOR no\n", b"docker run \\\n", "V R A M\n".replace(" ", "\u00a0").encode(),
])
def test_what_may_hide_a_literal_is_read(told: bytes) -> None:
    block = b"\n" + ANSWERED + told + ANSWERED
    assert first(TELLING, block) == 1 + len(ANSWERED)


def test_lines_of_text_amid_noise_are_found() -> None:
    """Whatever is noise there is told from text piece by piece, each line for itself."""
    chance = random.Random(7)
    told = b"torch.OutOfMemoryError: CUDA out of memory.\n"
    noise = [chance.randbytes(chance.randrange(900)).replace(b"\n", b"") + b"\n" for _ in range(400)]
    block = b"\n" + b"".join(line + told * (place % 90 == 89) for place, line in enumerate(noise)) + ANSWERED
    scanner = line_skipper.scanner(builtin(), serving=False)
    rows = [row for row in scanner.candidate_lines(block, 1, 0, len(block)) if row[2] == told]
    assert [block.count(b"\n", 1, begin) for _, begin, *_ in rows] == [place for place, *_ in rows] == [90, 181, 272, 363]


@pytest.mark.parametrize("share", [slice(0, None, 5), pytest.param(slice(None), marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("serving", [True, False])
def test_the_engines_find_the_same_lines(serving: bool, share: slice, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over some logs (all each night), with a server's traffic and noise between the lines. Of lines without a literal `re` gives a few."""
    pytest.importorskip("hyperscan", reason="the extra `fast` is not installed")
    chance = random.Random(5)
    monkeypatch.delenv(line_skipper.ENGINE, raising=False)
    fast = line_skipper.scanner.__wrapped__(builtin(), serving=serving)
    monkeypatch.setenv(line_skipper.ENGINE, "re")
    plain = line_skipper.scanner.__wrapped__(builtin(), serving=serving)
    literal = re.compile(Trie(literal_forms(line_skipper.candidate_literals(builtin(), serving=serving))).pattern().encode("latin-1"))
    assert isinstance(fast, FastScanner)
    assert not isinstance(plain, FastScanner)
    for log in LOGS[share]:
        lines = log.read_bytes().splitlines(keepends=True)
        noise = [chance.randbytes(chance.randrange(300)).replace(b"\n", b"") + b"\n" for _ in range(20)]
        mixed = [line for own in lines for line in (own, chance.choice(TRAFFIC), chance.choice(noise))]
        block = b"\n" + b"".join(mixed) + b"\n"
        at, count = 1, 0
        while at < len(block):
            held = ((row for row in searcher.candidate_lines(block, at, 0, len(block)) if row[3] is None or literal.search(row[2]))
                    for searcher in (plain, fast))
            found, again = ([(*place, shape and shape.text) for *place, shape in islice(rows, 3)] for rows in held)
            assert found == again
            at, count = found[0][1] + len(found[0][2]), count + 1
            at = len(block) if found[0][3] is None else at
        assert count > len(lines) / 20


@given(st.lists(st.sampled_from([ANSWERED, b"tell\n", b"\n", b"x" * 70_000, b"nothing\n"]), max_size=12), st.lists(st.integers(1, 90_000)))
@settings(max_examples=60)
def test_every_byte_is_given_or_counted(parts: list[bytes], cuts: list[int]) -> None:
    data = b"".join(parts)
    passes = Passes(Mode(Scanner(["tell"], "INFO:[^\n]*")))
    skimmer, rest, kept = passes.skimmer, data, b""
    for cut in [*cuts, len(data)]:
        kept += b"".join(skimmer.pieces(rest[:cut]))
        rest = rest[cut:]
    kept += skimmer.rest()
    assert sum(lines for lines, _ in passes.passed) + kept.count(b"\n") == data.count(b"\n")
    assert sum(size for _, size in passes.passed) + len(kept) == len(data)
    assert kept.count(b"tell\n") == data.count(b"tell\n")


STATS = ("(APIServer pid=17) INFO 11-05 {:02}:{:02}:{:02} [loggers.py:122] Engine {:03}: Avg prompt throughput: {:.1f} tokens/s, "
         "Avg generation throughput: {:.1f} tokens/s, Running: {} reqs, Waiting: {} reqs, GPU KV cache usage: {:.1f}%, "
         "Prefix cache hit rate: {:.1f}%\n")


STATS_0_8_0 = ("INFO 03-05 {:02}:{:02}:{:02} loggers.py:80] Avg prompt throughput: {:.1f} tokens/s, Avg generation throughput: {:.1f} tokens/s, "
               "Running: {} reqs, Waiting: {} reqs, GPU KV cache usage: {:.1f}%, Prefix cache hit rate: {:.1f}%\n")
STATS_V0 = ("INFO 06-03 {:02}:{:02}:{:02} metrics.py:486] Avg prompt throughput: {:.1f} tokens/s, Avg generation throughput: {:.1f} tokens/s, "
            "Running: {} reqs, Swapped: {} reqs, Pending: {} reqs, GPU KV cache usage: {:.1f}%, CPU KV cache usage: {:.1f}%.\n")


def tokens(chance: random.Random) -> tuple[float, float]:
    """How many a second are computed, of prompts and of answers: now and then none."""
    return (0.0, 0.0) if chance.random() < 0.3 else (chance.random() * 99, chance.random() * 999)


def statistics_before_0_8_3(form: str, count: int, seed: int) -> list[bytes]:
    """Older wordings of the same."""
    chance = random.Random(seed)
    lines = []
    for i in range(count):
        counts = [chance.choice([0, 3, 168]), *[chance.choice([0, 0, 0, 2])] * (form == STATS_V0), chance.choice([0, 0, 5, 212])]
        shares = chance.choice([0.0, 4.9, 5.0, 50.0, 89.9, 90.0, 100.0]), chance.choice([0.0, 12.5])
        lines.append(form.format(i // 360 % 24, i // 6 % 60, i % 6 * 10, *tokens(chance), *counts, *shares).encode())
    return lines


@pytest.mark.parametrize("form", [STATS_0_8_0, STATS_V0], ids=["0.8.0", "V0"])
def test_older_statistics_lines_kept_back_change_no_report(form: str, read_whole) -> None:
    lines = statistics_before_0_8_3(form, 700, 4)
    assert all(map(layout_of, lines))
    data = ANSWERED * 9 + b"".join(line + ANSWERED * 3 for line in lines)
    whole = report(data, shortcuts=False)
    read_whole(5)
    assert report(data) == whole


def statistics(count: int, seed: int) -> list[bytes]:
    chance = random.Random(seed)
    lines = []
    for i in range(count):
        running, waiting = chance.choice([0, 3, 168]), chance.choice([0, 0, 5, 212])
        usage, hits = chance.choice([0.0, 4.9, 5.0, 50.0, 89.9, 90.0, 100.0]), chance.choice([0.0, 12.5])
        lines.append(STATS.format(i // 360 % 24, i // 6 % 60, i % 6 * 10, chance.choice([0, 0, 1]), *tokens(chance),
                                  running, waiting, usage, hits).encode())
    return lines


@pytest.mark.parametrize("seed", some(range(12), 1))
def test_statistics_lines_kept_back_change_no_report(seed: int, read_whole) -> None:
    """Also when the report is asked for in between, as `watch` does."""
    data = ANSWERED * 9 + b"".join(line + ANSWERED * 3 for line in statistics(700, seed))
    read_whole(1 << 60)
    whole = Diagnosis()
    for line in data.splitlines(keepends=True):
        whole.feed(b"" + line[:5])
        whole.feed(line[5:])
    read_whole(5)
    assert report(data) == render(whole.finish())
    live = Diagnosis()
    for at in range(0, len(data), 4096):
        live.feed(data[at:at + 4096])
        live.snapshot()
    assert render(live.finish()) == report(data)


def test_a_line_that_changes_how_lines_are_read_counts_at_once(read_whole) -> None:
    read_whole(1)
    read: list[bytes] = []
    reader = reader_of(mode=lambda: None if read else TELLING, read_single_line=lambda line: read.append(line) is None)
    lines = statistics(3, 3)
    assert list(LineSkipper(reader).pieces(ANSWERED + b"".join(lines))) == [ANSWERED, *lines[1:]]
    assert read == lines[:1]


@pytest.mark.parametrize(("number", "odd"), [
    ("50.0%", "5..0%"), ("12.5%", ".%"), ("Running: 3", "Running: " + "9" * 30), ("Waiting: 5", "Waiting: " + "1" * 5000), ("50.0%", "1" * 400 + "%"),
])
def test_statistics_with_numbers_that_are_none_change_no_report(number: str, odd: str, read_whole) -> None:
    data = b"".join(line.replace(number.encode(), odd.encode()) if i % 5 == 0 else line for i, line in enumerate(statistics(500, 2)))
    read_whole(1 << 60)
    whole = report(ANSWERED + data)
    read_whole(3)
    assert report(ANSWERED + data) == whole


@cache
def messages() -> list[str]:
    """What rules and facts are tested with, as one-line messages."""
    found = []
    for path in sorted((ROOT / "rules").rglob("*.yaml")):
        entries = load_file(path)
        for entry in entries if isinstance(entries, list) else [entries]:
            for test in [*entry.get("samples", ()), *entry.get("tests", ())] if isinstance(entry, dict) else ():
                text = test.get("log", "") if isinstance(test, dict) else ""
                found += [line for line in text.splitlines() if line.strip()]
    return found


def test_of_many_shapes_each_is_asked_at_last_whether_it_may_tell() -> None:
    scanner = Scanner(["tell"], may_matter=lambda shape: b"yes" in shape)
    lines = [b"tell %s\n" % bytes(97 + int(digit) for digit in str(number)) for number in range(600)]
    block = b"\n" + b"".join(lines) + b"tell yes\n"
    found = [sum(shape is not None for *_, shape in scanner.candidate_lines(block, 1, 0, len(block))) for _ in range(2)]
    assert found == [500, 1]


FAILURE = re.compile("ERROR|CRITICAL|Error|Exception|error|rror code")  # a failure may be read from such lines


def storm(chance: random.Random, *, quiet: bool = False) -> bytes:
    """Some messages, each many times with other numbers, of one server or of several processes; `quiet`: no errors."""
    texts = [text for text in messages() if not (quiet and FAILURE.search(text))]
    levels = ("INFO", "WARNING") if quiet else ("INFO", "WARNING", "ERROR")
    forms, salt = [], chance.random()
    for text in sorted(texts, key=lambda text: zlib.crc32(f"{salt} {text}".encode()))[:8]:  # a new rule seldom changes them
        process = chance.choice(["", "(APIServer pid=7) ", "(EngineCore pid=8) ", "(Worker_TP{rank} pid=9) "])
        prefix = chance.choice(["", *(f"{level} 11-20 11:38:{{second:02}} [a.py:{{place}}] " for level in levels * 3)])
        forms.append((f"{process}{prefix}", text, " chatcmpl-{:032x}" * (chance.random() < 0.2)))
    lines = [ANSWERED, b"INFO:     Application startup complete.\n"]
    lines += [f"{prefix.format(rank=0, second=0, place=7)}nothing\n".encode() for prefix, *_ in forms]  # their prefixes tell
    for _ in range(600):
        prefix, text, request = chance.choice(forms)
        kind = chance.random()
        if kind < 0.8:
            number = r"\d" if kind < 0.4 else r"\d+"
            text = re.sub(number, lambda _: str(chance.randrange(10 ** chance.choice([1, 1, 1, 4]))), text)
        prefix = prefix.format(rank=chance.randrange(3), second=chance.randrange(60), place=chance.choice([7, 7, 7, 1000]))
        lines.append(f"{prefix}{text}{request.format(chance.getrandbits(128))}\n".encode())
        lines += [ANSWERED] * chance.randrange(3) + statistics(1, chance.randrange(99)) * chance.randrange(2)
    return b"".join(lines)


@pytest.mark.parametrize("line", [
    "(APIServer pid=8684) INFO 11-20 10:20:30 [middleware.py:31] step 123 of tenant 45 took 12.34 ms",
    '(APIServer pid=8684) INFO:     10.0.12.13:12345 - "POST /v1/chat/completions HTTP/1.1" 200 OK',
    "(EngineCore pid=8696) DEBUG 11-20 10:20:30 [core.py:31] step 123 took 12.34 ms",
    "(Worker_TP1 pid=8699) INFO 11-20 10:20:30 [gpu_worker.py:43] step 12 took 3.4 ms",
])
def test_no_word_that_is_looked_for_stands_in_what_most_lines_begin_with(line: str) -> None:
    """A piece of an anchor that did (`ver ` of `server ` in `(APIServer pid=`) made the whole log three times as slow."""
    found = [word for word in Scanner(candidate_literals(builtin(), serving=True))._words if word in line.encode()]
    assert not found


@pytest.mark.parametrize(("wrap", "seeds", "least"), [
    (bytes, [60, 61, 62, 68], 100), (docker, [61], 10), (two_services, [60], 10),
    *(pytest.param(wrap, range(60, 90), 200, marks=pytest.mark.exhaustive) for wrap in (bytes, *WRAPS, two_services)),
])
def test_messages_that_repeat_change_no_report(wrap: Callable[[bytes], bytes], seeds: Iterable[int], least: int, read_whole,
                                               monkeypatch: pytest.MonkeyPatch) -> None:
    taken = []
    take = RepeatedMessages.try_shortcut
    monkeypatch.setattr(RepeatedMessages, "try_shortcut", lambda *given, **named: taken.append(take(*given, **named)) or taken[-1])
    # As in a process of its own: after other tests the scanner may pass over the lines that only tell their prefixes.
    line_skipper.mode_of.cache_clear()
    line_skipper.scanner.cache_clear()
    for seed in seeds:
        chance = random.Random(seed)
        data = b"".join(map(wrap, storm(chance, quiet=seed % 2 == 0).splitlines(keepends=True)))
        read_whole(1 << 60)
        whole = report(data)
        read_whole(10)
        assert report(data, chance.choice([900, 1 << 18])) == whole
    assert taken.count(True) > least


REFUSED = "(APIServer pid=7) ERROR 11-20 11:38:{second:02} [serving_chat.py:{place}] "
REFUSALS = [
    ["Error in preprocessing prompt inputs"],
    ["Error in preprocessing prompt inputs", "ValueError: No available memory for the cache blocks. vllm serve x {number}"],
    ["Error in preprocessing prompt inputs", "Traceback (most recent call last):", '  File "/opt/venv/lib/python3.12/site-packages/vllm/a.py", line {number}, in f',
     "    raise ValueError()", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {number} GiB."],
    ["The following fields were present in the request but ignored: {{'CUDA out of memory. Tried to allocate {number} GiB'}}"],
    ["ValueError: This model's maximum context length is 8192 tokens. However, you requested {number} tokens."],
    ["The model `a-{number}` does not exist."],
]


@pytest.mark.parametrize(("wrap", "seed"), [
    (bytes, 0), (two_services, 1),
    *(pytest.param(wrap, seed, marks=pytest.mark.exhaustive)
      for wrap, seed in product((bytes, docker, coloured, two_services), (0, 1)) if (wrap, seed) not in {(bytes, 0), (two_services, 1)}),
])
def test_refused_requests_that_repeat_change_no_report(wrap: Callable[[bytes], bytes], seed: int, read_whole, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record's further lines are a client's words behind the same prefix only, whatever stands between."""
    chance = random.Random(seed)
    lines = [ANSWERED, b"INFO:     Application startup complete.\n", *statistics(1, 0) * 4]
    for _ in range(300):
        prefix = REFUSED.format(second=chance.randrange(60), place=chance.choice([200, 200, 201]))
        for text in chance.choice(REFUSALS):
            lines += [(prefix + text.format(number=chance.randrange(9000)) + "\n").encode()]
            lines += [ANSWERED] * (chance.random() < 0.1) + statistics(1, chance.randrange(99)) * (chance.random() < 0.1)
        lines += [chance.choice([ANSWERED, TRAFFIC[1], *statistics(1, chance.randrange(99))])] * chance.choice([0, 1, 30])
    data = b"".join(map(wrap, lines))
    opened = []
    untrusted_open = UntrustedText.open
    monkeypatch.setattr(UntrustedText, "open", lambda *given: (opened.append(given), untrusted_open(*given)))
    read_whole(1 << 60)
    whole = report(data)
    assert not opened
    read_whole(10)
    assert report(data, chance.choice([900, 1 << 18])) == whole
    assert opened


def test_words_are_looked_for_that_healthy_lines_lack() -> None:
    """A request is noted in healthy lines; it tells something with the log probabilities of its prompt."""
    base = builtin()
    assert any("eceived request " in anchor for anchor in base.anchors)
    looked_for = line_skipper.candidate_literals(base, serving=True)
    assert not [word for word in looked_for if any(word in anchor for anchor in base.healthy_anchors)]
    assert "prompt_logprobs=3" in looked_for
    quiet = b"INFO 06-03 09:55:06 [logger.py:1] Received request c-1: prompt: 'a', params: SamplingParams(prompt_logprobs=None).\n"
    asked = quiet.replace(b"None", b"3")
    rows = list(TELLING.scanner.candidate_lines(b"\n" + quiet + asked, 1, 0, 1 + len(quiet + asked)))
    assert [line for _, _, line, shape in rows if shape] == [asked]


def test_what_a_statistics_line_says_depends_on_its_state() -> None:
    """Lines of one state make the same patterns match: that is why a few of them are enough."""
    matcher, samples, states = Matcher(builtin()), StatisticsLines(), {}
    older = [line for form in (STATS_0_8_0, STATS_V0) for line in statistics_before_0_8_3(form, 400, 8) if b"Swapped: 2" not in line]
    for line in [*statistics(900, 7), *older]:
        samples.try_shortcut(line, 1, layout_of(line))
        samples.rest()
        event = EventReader().parse_single_line(Line(1, line.decode().rstrip()))
        found = frozenset((waiting.rule, waiting.pattern.id) for waiting, _ in matcher.matches(event))
        state = next(state for state, seen in samples._states.items() if seen.lines != states.get(state, (0,))[0])
        lines, before = states.get(state, (0, found))
        assert before == found
        states[state] = (lines + 1, found)
    assert len(states) > 40


def test_a_restart_deep_in_a_log_is_read_like_the_first_start(read_whole) -> None:
    """Its lines are the same as before, where they print no time."""
    banner = b"INFO 11-20 11:38:49 [api_server.py:1] vLLM API server version 0.10.0\nINFO 11-20 11:38:50 [config.py:1] Resolved architecture: Llama\n"
    ready = b"INFO:     Application startup complete.\n"
    log = b"x" * 300 + b"\n" + (banner + ready + ANSWERED * 3) * 2 + banner + ready
    read_whole(1 << 60)
    whole = report(log)
    read_whole(1)
    assert report(log) == whole
    assert '"status": "serving"' in whole
