from __future__ import annotations

import signal
import time
from pathlib import Path

import environment as environments
import models
import pytest
import table
from launches import Release

BEGUN = time.monotonic()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--write-proof", action="store_true", help="rewrite docs/proof.md from this run")
    parser.addoption("--every-launch", action="store_true", help="also those that are much like others: an hour and more")
    parser.addoption("--within", type=float, metavar="SECONDS", help="begin no launch later than this after the start")
    parser.addoption("--write-logs", action="store_true", help="add the logs of causes that fixtures/logs has not for that release")


def pytest_runtest_setup(item: pytest.Item) -> None:
    within = item.config.getoption("--within", default=None)
    if within is not None and time.monotonic() - BEGUN > within:
        pytest.skip(f"the {within:g} seconds given to this run (--within) are over")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--every-launch", default=False):
        return
    seldom = [item for item in items if isinstance(item, pytest.Function) and hasattr(item, "callspec")
              and getattr(item.callspec.params.get("launch"), "seldom", False) and item.get_closest_marker("real")]
    config.hook.pytest_deselected(items=seldom)
    items[:] = [item for item in items if item not in seldom]


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


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for version, outcomes in table.OUTCOMES.items():
        terminalreporter.section(f"vLLM {version}")
        terminalreporter.write_line(table.text(outcomes))
        if config.getoption("--write-proof", default=False):
            table.write(version, outcomes)
