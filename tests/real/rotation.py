"""The part of the matrix that one run of CI repeats: two releases and twelve launches that came out as expected, others every day."""

from __future__ import annotations

import os
from datetime import datetime, timezone
from functools import lru_cache
from typing import NamedTuple

from launches import Launch, Release, catalogue, release_of
from matrix import digest, rows

RELEASES = 2
LAUNCHES = 12


def today() -> int:
    """The number of the day."""
    return datetime.now(tz=timezone.utc).toordinal()


class Pair(NamedTuple):
    """A launch on a release, and whether the matrix cured it there: then it must be cured again."""

    release: Release
    launch: Launch
    cure: bool


@lru_cache(maxsize=1)
def pairs() -> dict[str, list[Pair]]:
    """By release that serves here the launches that came out as expected, as the catalogue has them now; those that were cured first."""
    launches = {launch.id: launch for launch in catalogue()}
    found: dict[str, list[Pair]] = {}
    for (version, name), row in sorted(rows().items()):
        launch = launches.get(name)
        if launch is None or row["digest"] != digest(launch) or row["problems"] or row["cured"] is False:
            continue
        release = release_of(version)
        if release.serves_here and (not launch.root or os.geteuid() == 0):
            found.setdefault(version, []).append(Pair(release, launch, row["cured"] is True))
    return {version: sorted(each, key=lambda pair: not pair.cure) for version, each in found.items()}


def chosen(day: int) -> list[Pair]:
    """The pairs of that day: neighbours in the list of releases, and evenly spread launches of each."""
    of_release = pairs()
    versions = sorted(of_release, key=lambda text: [int(part) for part in text.split(".")])
    if not versions:
        return []
    picked = sorted({versions[(day + step * (len(versions) // RELEASES)) % len(versions)] for step in range(RELEASES)})
    each = LAUNCHES // len(picked)
    result: list[Pair] = []
    for version in picked:
        launches = of_release[version]
        step = max(len(launches) // each, 1)
        start = (day // len(versions)) % step
        result += launches[start::step][:each]
    return result
