"""The time that patterns may take: counted so that the same log gives the same report on a busy machine."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from time import thread_time

import pytest

from vllm_doctor.diagnosis.engine import diagnose
from vllm_doctor.matching import matcher
from vllm_doctor.options import Options

RULE = (Path(__file__).resolve().parents[1] / "my-rule.yaml").read_text(encoding="utf-8")
NAMES = ("my-first", "my-second", "my-third")


@pytest.fixture
def busy_threads() -> Iterator[None]:
    """Four threads that want the interpreter all the time."""
    stop = threading.Event()

    def spin() -> None:
        while not stop.is_set():
            sum(range(1000))

    threads = [threading.Thread(target=spin, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    yield
    stop.set()
    for thread in threads:
        thread.join()


def test_other_threads_do_not_cost_a_pattern_its_time(busy_threads: None) -> None:
    for _ in range(10):
        assert matcher.search("x.*y.*z", "xy" * 200) is None  # takes a fifth of the limit
    with pytest.raises(TimeoutError):
        matcher.search("x.*y.*z", "xy" * 5_000)


def _rules(folder: Path, pattern: str) -> Options:
    for name in NAMES:
        (folder / f"{name}.yaml").write_text(RULE.replace("id: my-rule", f"id: {name}")
                                             .replace("pattern: something is wrong", f"pattern: '{pattern}'"), encoding="utf-8")
    return Options(rules=(str(folder),))


def test_slow_searches_of_one_file_share_a_budget(tmp_path: Path) -> None:
    log = "".join(f"something is wrong {number} {'xy' * 260}\n" for number in range(200))
    options = _rules(tmp_path, "x.*y.*z|something is wrong right now")  # each search takes a third of the limit
    started = thread_time()
    report = diagnose(log.encode(), options)
    assert thread_time() - started < 6  # 600 searches would take more than 9 s
    assert report.notes[-1] == "Patterns skipped because they took too long: my-first: message, my-second: message, my-third: message."


def test_a_pattern_that_takes_too_long_for_one_message_costs_no_other_one(tmp_path: Path) -> None:
    options = _rules(tmp_path, "something is wrong")
    path = tmp_path / "my-first.yaml"
    path.write_text(path.read_text(encoding="utf-8").replace("'something is wrong'", "something is wrong (a|aa)+$"), encoding="utf-8")
    report = diagnose(f"something is wrong {'a' * 60}!\n".encode(), options)
    assert [finding.id for finding in report.findings] == ["my-second", "my-third"]
    assert report.notes[-1] == "Patterns skipped because they took too long: my-first: message."
