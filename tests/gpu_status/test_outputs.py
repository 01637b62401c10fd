"""Outputs of GPU tools: every layout, also squeezed, gives the cards that it shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from vllm_doctor.gpu_status import Card, Process, cards_in, choose, line_numbers

FOLDER = Path(__file__).parent / "outputs"
LABELS = yaml.safe_load((FOLDER / "labels.yaml").read_text(encoding="utf-8"))
TABLE = (FOLDER / "nvidia-smi-580-8gpu.txt").read_text(encoding="utf-8")


def mib(size: float | None) -> float | None:
    return None if size is None else pytest.approx(size * 1024, abs=0.02)


@pytest.mark.parametrize("name", LABELS)
def test_each_layout(name: str) -> None:
    found = cards_in((FOLDER / name).read_text(encoding="utf-8"))
    assert len(found) == len(LABELS[name])
    for card, (index, title, total, used, free, driver) in zip(found, LABELS[name], strict=True):
        assert (card.number, card.name, card.driver) == (index, title, driver)
        assert (total, used, free) == (mib(card.total_gib), mib(card.used_gib), mib(card.free_gib))


def test_every_output_has_a_label() -> None:
    assert {path.name for path in FOLDER.iterdir()} == {*LABELS, "labels.yaml"}


@pytest.mark.parametrize("squeeze", [
    lambda text: re.sub(" +", " ", text),
    lambda text: re.sub("[|+]", " ", text),
    lambda text: text.replace("\n", " "),
    lambda text: text.replace("\n", "\r\n"),
    lambda text: "```\n" + text + "```\n",
    lambda text: "\n".join("> " + line for line in text.split("\n")),
], ids=["one space", "no columns", "one line", "windows", "fence", "quoted"])
def test_copying_does_not_hide_the_figures(squeeze) -> None:  # type: ignore[no-untyped-def]
    found = cards_in(squeeze(TABLE))
    assert [(card.number, card.name, round((card.used_gib or 0) * 1024)) for card in found] == [
        (0, "NVIDIA H100 80GB HBM3", 4), (1, "NVIDIA H100 80GB HBM3", 73421)]


def test_processes_belong_to_their_card() -> None:
    first, second = cards_in(TABLE)
    assert first.processes == ()
    assert second.processes == (Process(101234, "VLLM::EngineCore", 73410 / 1024),)
    assert second.is_serving
    assert not first.is_serving


def test_lines_of_figures() -> None:
    assert [TABLE.split("\n")[card.line - 1].count("81559MiB") for card in cards_in(TABLE)] == [1, 1]
    assert 10 in line_numbers(TABLE)


def test_total_used_and_free_complete_each_other() -> None:
    card = Card("csv", 0, total_gib=24.0, free_gib=3.5)
    assert card.facts() == {"gpu_total_gib": 24.0, "gpu_used_gib": 20.5}  # free now is not free at the start
    assert Card("csv", 0, used_gib=4.0, free_gib=3.5).total == 7.5
    assert Card("csv", 0, used_gib=4.0).facts() == {"gpu_used_gib": 4.0}


def test_the_card_that_ran_out_counts_before_the_fullest() -> None:
    cards = [Card("nvidia-smi", 0, 24.0, 20.0), Card("nvidia-smi", 1, 24.0, 5.0)]
    assert choose(cards, {}) == cards[0]
    assert choose(cards, {"oom_gpu_index": 1}) == cards[1]
    assert choose([], {}) is None


def test_the_card_that_serves_counts_before_a_fuller_one() -> None:
    cards = [Card("nvidia-smi", 0, 24.0, 23.0), Card("nvidia-smi", 1, 24.0, 5.0, processes=(Process(1, "VLLM::EngineCore"),))]
    assert choose(cards, {"model_weights_gib": 4.0}) == cards[1]


def test_the_last_output_for_a_card_counts() -> None:
    cards = [Card("nvidia-smi", 0, 24.0, 23.0, line=3), Card("nvidia-smi", 0, 24.0, 1.0, line=30)]
    assert choose(cards, {}) == cards[1]


@pytest.mark.parametrize("text", [
    "INFO 05-16 23:06:35 [x.py:1] Model loading took 2.6077 GiB and 5.4 seconds",
    "26W / 320W", "GET /v1/models 200", "Tried to allocate 448.00 MiB. GPU 0 has a total capacity of 31.48 GiB",
    "0.35MiB / 9999999MiB", "", "nvidia-smi: command not found", "VRAM Total Memory (B)", "[0] x | y | z",
    "99999999999MiB / 99999999999999MiB",
])
def test_other_text_shows_no_card(text: str) -> None:
    assert cards_in(text) == []


def test_a_hostile_text_is_bounded() -> None:
    row = "| 0 NVIDIA X On | 00000000:98:00.0 Off | N/A |\n| 0% 30C P8 26W / 320W | 4546MiB / 20480MiB | 0% |\n"
    process = "|    1   N/A  N/A     101     C   VLLM::EngineCore    734MiB |\n"
    assert len(cards_in((row + process + "NVIDIA-SMI 1 Driver Version: 550.1\n") * 3000)) == 128


def test_a_table_in_lower_case_is_read() -> None:
    card, = cards_in("device,vram total memory (b),vram total used memory (b)\ncard0,68719476736,1073741824\n")
    assert (card.total_gib, card.used_gib) == (64.0, 1.0)


def test_rows_without_an_index_are_cards_of_their_own() -> None:
    cards = cards_in("memory.used [MiB], memory.total [MiB]\n39000 MiB, 40960 MiB\n100 MiB, 40960 MiB\n")
    assert [(card.number, round((card.used_gib or 0) * 1024)) for card in cards] == [(0, 39000), (1, 100)]


def test_samples_of_one_gpu_show_its_last_state() -> None:
    rows = "".join(f"2025/11/20 10:00:0{second}.000, {used} MiB, 40960 MiB\n" for second, used in enumerate((39000, 39000, 500)))
    cards = cards_in("timestamp, memory.used [MiB], memory.total [MiB]\n" + rows)
    assert {card.number for card in cards} == {0}
    assert round((cards[-1].used_gib or 0) * 1024) == 500


def test_a_listing_printed_twice_shows_the_later_state() -> None:
    listing = "GPU 00000000:01:00.0\n    FB Memory Usage\n        Total                             : 40960 MiB\n        Used                              : {} MiB\n"
    assert [(card.number, round((card.used_gib or 0) * 1024)) for card in cards_in(listing.format(39000) + "\n" + listing.format(10))] == [(0, 10)]


def test_lines_end_at_line_feeds_alone() -> None:
    assert {number + 1 for number in line_numbers(TABLE)} == line_numbers("prose \u2028 goes \u2028 on\n" + TABLE)
