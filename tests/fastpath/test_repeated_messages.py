"""Messages that come again are read in short; `test_skim` compares whole reports."""

from __future__ import annotations

import re

from vllm_doctor.facts.store import FactName, FactStore
from vllm_doctor.fastpath.line_scanner import LineTemplate
from vllm_doctor.fastpath.repeated_messages import Check, Plan, RepeatedMessages
from vllm_doctor.fastpath.retained_lines import FIRST
from vllm_doctor.logs.wrappers.byte_patterns import wrapper_of


def repeats(*names: FactName, extremes: tuple[str, ...] = ()) -> RepeatedMessages:
    check = Check(re.compile(r"told(?: (?P<seconds>\d+))?").search, True, extremes)
    return RepeatedMessages(lambda raw, wrapper, traceback: Plan(0, [check], None, has_match=True), FactStore({name.name: name for name in names}))


def like(text: bytes) -> LineTemplate:
    return LineTemplate(text, is_candidate=True, wrapper=wrapper_of(text))


def test_the_first_are_read_in_full_and_the_last_kept_back() -> None:
    read = repeats()
    taken = [read.try_shortcut(b"told\n", number, like(b"told\n"), serves=True) for number in range(100)]
    assert taken == [False] * (FIRST + 2) + [True] * (100 - FIRST - 2)
    kept = read.rest()
    assert [line.number for line in kept] == list(range(92, 100))
    assert sum(line.times for line in kept) == taken.count(True)
    assert read.rest() == []
    assert read.try_shortcut(b"told\n", 100, like(b"told\n"), serves=True)
    assert [(line.number, line.times) for line in read.rest()] == [(100, 1)]


def test_nothing_that_tells_is_kept_back_while_the_server_starts() -> None:
    read = repeats()
    assert not any(read.try_shortcut(b"told\n", number, like(b"told\n"), serves=False) for number in range(100))
    assert read.rest() == []


def test_a_line_that_matches_otherwise_is_read_in_full() -> None:
    read = repeats()
    for number in range(50):
        read.try_shortcut(b"told\n", number, like(b"told\n"), serves=True)
    assert not read.try_shortcut(b"tol_\n", 50, like(b"told\n"), serves=True)
    assert read.try_shortcut(b"told\n", 51, like(b"told\n"), serves=True)


def test_a_larger_value_than_before_is_read_in_full() -> None:
    read = repeats(FactName("seconds", "int", "max", ""), extremes=("seconds",))
    read._facts.add("seconds", "50", 1)
    for number in range(50):
        read.try_shortcut(b"told 10\n", number, like(b"told 00\n"), serves=True)
    assert read.try_shortcut(b"told 49\n", 50, like(b"told 00\n"), serves=True)
    assert not read.try_shortcut(b"told 51\n", 51, like(b"told 00\n"), serves=True)


def test_processes_are_told_apart_by_their_digits() -> None:
    read = repeats()
    for number in range(50):
        read.try_shortcut(b"(Worker_TP0 pid=1) told\n", number, like(b"(Worker_TP0 pid=0) told\n"), serves=True)
    assert not read.try_shortcut(b"(Worker_TP1 pid=2) told\n", 50, like(b"(Worker_TP0 pid=0) told\n"), serves=True)


def test_sources_are_told_apart_and_kept_without_their_wrapper() -> None:
    read = repeats()
    read._make_plan = lambda raw, wrapper, traceback: Plan(len("vllm-1  | "), [Check(re.compile("told").search, True, ())], None, has_match=True)
    for number in range(50):
        read.try_shortcut(b"vllm-1  | told\n", number, like(b"vllm-0  | told\n"), serves=True)
    assert not read.try_shortcut(b"vllm-2  | told\n", 50, like(b"vllm-0  | told\n"), serves=True)
    assert {(line.raw, line.source) for line in read.rest()} == {(b"told\n", b"vllm-1")}


def test_a_storm_is_known_among_very_many_rare_messages() -> None:
    read = repeats()
    for number in range(20_000):
        rare = f"told of {number:x} {number * number:x}\n".encode()
        read.try_shortcut(rare, number, like(rare), serves=True)
    assert not read.rest()
    assert sum(read.try_shortcut(b"told\n", number, like(b"told\n"), serves=True) for number in range(100)) == 100 - FIRST - 2


def test_a_record_of_docker_is_kept_without_what_stands_around_the_message() -> None:
    read = repeats()
    line = b'{"log":"told 7\\n","stream":"stdout","time":"2025-11-20T11:42:48.%sZ"}\n'
    read._make_plan = lambda raw, wrapper, traceback: Plan(len('{"log":"'), [Check(re.compile("told").search, True, ())], None, has_match=True)
    zeros = bytes.maketrans(b"123456789", b"000000000")
    raws = [line % (b"1" * (1 + number % 3)) for number in range(90)]  # Docker leaves zeros at the end out
    assert sum(read.try_shortcut(raw, number, like(raw.translate(zeros)), serves=True) for number, raw in enumerate(raws)) == 90 - 3 * (FIRST + 2)
    assert {line.raw for line in read.rest()} == {b"told 7"}
