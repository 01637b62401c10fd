from __future__ import annotations

import signal
import time
from pathlib import Path

import environment as environments
import models
import pytest
import rotation
import table
from launches import Release

BEGUN = time.monotonic()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rotation", type=int, metavar="DAY", help="which launches are run (default: today's)")
    parser.addoption("--within", type=float, metavar="SECONDS", help="begin no launch later than this after the start")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "pair" in metafunc.fixturenames:
        day = metafunc.config.getoption("--rotation", default=None)
        pairs = rotation.chosen(rotation.today() if day is None else day)
        metafunc.parametrize("pair", pairs, ids=[f"{pair.release.version}-{pair.launch.id}" for pair in pairs])


def pytest_runtest_setup(item: pytest.Item) -> None:
    within = item.config.getoption("--within", default=None)
    if within is not None and time.monotonic() - BEGUN > within:
        pytest.skip(f"the {within:g} seconds given to this run (--within) are over")


@pytest.fixture(scope="session")
def real() -> Real:
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that `timeout` leaves no server behind
    return Real()


class Real:
    """The environments and sound models of this run, each looked for once. A test skips where there is none."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[environments.Environment, Path] | environments.Unavailable] = {}

    def of(self, release: Release) -> tuple[environments.Environment, Path]:
        if release.version not in self._found:
            self._found[release.version] = _look_for(release)
        found = self._found[release.version]
        if isinstance(found, environments.Unavailable):
            pytest.skip(f"no vLLM {release.version} here: {found}")
        return found


def _look_for(release: Release) -> tuple[environments.Environment, Path] | environments.Unavailable:
    try:
        environment = environments.find(release)
        return environment, models.build(environment, environments.home() / f"models-{release.version}")
    except environments.Unavailable as reason:
        return reason


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for version, outcomes in table.OUTCOMES.items():
        terminalreporter.section(f"vLLM {version}")
        terminalreporter.write_line(table.text(outcomes))
