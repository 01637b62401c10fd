"""Several growing files, followed in one loop until a signal ends it."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from vllm_doctor.pipe.growing_file import FollowedFile
from vllm_doctor.pipe.signal_wakeup import Signals

_PAUSE = 0.25  # seconds between two looks at files that do not grow


class Follower(NamedTuple):
    """A file, and who reads it: each step says whether the file had grown; there is none after its end."""

    file: FollowedFile
    steps: Iterator[bool]


def follow_files(followers: Sequence[Follower], is_enough: Callable[[], bool]) -> None:
    """Step through all files in turn until each reader has ended.

    The first SIGINT, SIGTERM or SIGHUP ends them, when what is written has been read; a second one has its default
    action. So does `is_enough`, asked when a reader has ended by itself.
    """
    running = list(followers)

    def end() -> None:
        for follower in running:
            follower.file.end()

    def handle(number: int, _frame: object) -> None:
        signal.signal(number, signal.SIG_DFL)
        end()

    with Signals() as signals:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signals.handle(number, handle)
        while running:
            steps = {follower: next(follower.steps, None) for follower in running}
            running = [follower for follower, step in steps.items() if step is not None]
            if None in steps.values() and is_enough():
                end()
            if running and not any(steps.values()) and select.select([signals.wake], [], [], _PAUSE)[0]:
                os.read(signals.wake, 4096)
