"""The launches of tests/real are well-formed; whether they are cured needs a real vLLM (pytest -m real tests/real)."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "real"))
from actions import ACTIONS
from events import EVENTS
from launches import Launch, Release, releases
from models import VARIANTS, named_in

from vllm_doctor.rulebase.loader import builtin

ROOT = Path(__file__).resolve().parents[2]
RELEASES = releases()
LAUNCHES = [pytest.param(launch, id=f"{release.version}-{launch.id}") for release in RELEASES for launch in release.launches]


@pytest.mark.parametrize("launch", LAUNCHES)
def test_a_launch_names_what_exists(launch: Launch) -> None:
    rules = builtin().rules
    assert launch.cause is None or launch.cause in rules
    if launch.cause and launch.fix:
        offered = {fix.id: fix for fix in rules[launch.cause].fixes}
        assert {launch.fix, *launch.passed_over} <= set(offered)
        action = offered[launch.fix].action
        cured_by_command = offered[launch.fix].set or offered[launch.fix].env or offered[launch.fix].unset
        assert action is None or cured_by_command or action in ACTIONS or launch.not_cured
    assert not launch.do or launch.do in EVENTS
    assert bool(launch.right_files) <= bool(launch.files)
    assert "{port}" in launch.command or "--port" in launch.command


@pytest.mark.parametrize("release", RELEASES, ids=lambda release: release.version)
def test_a_release_is_whole(release: Release) -> None:
    ids = [launch.id for launch in release.launches]
    assert len(ids) == len(set(ids))
    assert all(re.fullmatch(r"[a-z0-9.-]+", name) for name in ids)


def test_the_newest_release_is_tried_widely() -> None:
    assert len({launch.cause for launch in RELEASES[0].launches}) >= 25


def test_actions_are_those_of_the_rules() -> None:
    known = yaml.safe_load((ROOT / "rules" / "actions.yaml").read_text(encoding="utf-8"))
    assert set(known) >= set(ACTIONS)


def test_every_broken_model_is_used() -> None:
    used = {name for release in RELEASES for launch in release.launches for name in named_in(launch.command)}
    assert used >= set(VARIANTS)
