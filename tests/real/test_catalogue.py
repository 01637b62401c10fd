"""The catalogue can be run: what it names is there. (Nothing is started here.)"""

from __future__ import annotations

import re
from pathlib import Path

import models
import pytest
import rotation
from cured import ASKED
from events import EVENTS
from expected import contradicted, offers
from launches import Launch, catalogue, launches_of, releases
from yaml_texts import load_file

RULES = Path(__file__).resolve().parent.parent.parent / "rules"
RULE_IDS = {path.stem for path in RULES.glob("*/*.yaml")}
ACTIONS = set(load_file(RULES / "actions.yaml"))
SOUND = {"tiny", "fatkv", "adapter", "draft"}
MISSING = {"elsewhere", "sql"}  # launches that name a folder which is not there
EVERY = catalogue()


def test_it_is_as_large_as_promised() -> None:
    assert sum(bool(launch.causes) for launch in EVERY) >= 80
    assert sum(not launch.causes for launch in EVERY) >= 12
    assert len(releases()) >= 15


@pytest.mark.parametrize("launch", EVERY, ids=lambda launch: launch.id)
def test_a_launch_names_what_there_is(launch: Launch) -> None:
    assert launch.world
    assert set(launch.causes) <= RULE_IDS
    assert {wanted["action"] for wanted in launch.fix if "action" in wanted} <= ACTIONS
    assert set(launch.do) <= set(EVENTS)
    assert launch.asked in ASKED
    assert models.named_in(launch.command) <= SOUND | MISSING | set(models.VARIANTS)
    assert not re.search(r"\{(?!models\}|port\}|folder\})\w+\}", launch.command)


def test_every_release_has_most_of_the_launches() -> None:
    assert all(len(launches_of(release)) > len(EVERY) * 0.8 for release in releases())


@pytest.mark.parametrize("day", range(800000, 800040))
def test_a_day_has_two_releases_and_at_most_twelve_launches(day: int) -> None:
    pairs = rotation.chosen(day)
    assert len({pair.release.version for pair in pairs}) == rotation.RELEASES
    assert rotation.LAUNCHES // 2 < len(pairs) <= rotation.LAUNCHES


def fix(**changes: object) -> dict[str, object]:
    return {"id": "x", "flags": {}, "unset": [], "env": {}, "action": None, **changes}


def test_a_wanted_fix_is_found_by_its_value() -> None:
    assert offers(fix(flags={"--max-num-seqs": 32}), {"flag": "--max-num-seqs", "max": 32})
    assert not offers(fix(flags={"--max-num-seqs": 33}), {"flag": "--max-num-seqs", "max": 32})
    assert offers(fix(unset=["--headless"]), {"flag": "--headless", "remove": True})
    assert not offers(fix(unset=["--port"]), {"flag": "--port", "min": 1})
    assert not offers(fix(flags={"--port": 8000}), {"flag": "--host"})
    assert offers(fix(action="free-port"), {"action": "free-port"})
    assert not offers(fix(env={"A": "1"}), {"all": [{"env": "A"}, {"env": "B"}]})


def test_a_fact_that_is_not_so_is_found_and_one_not_told_is_none() -> None:
    truth = {"max_model_len": 4096, "vllm_version": "0.20.2", "kv_cache_tokens": 100000}
    said = {"max_model_len": 8192, "vllm_version": "0.20.2"}
    assert contradicted(truth, said) == {"max_model_len": (4096, 8192)}
