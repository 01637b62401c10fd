from __future__ import annotations

from pathlib import Path

import environment as environments
import models
import pytest
import table
from launches import Release


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--write-proof", action="store_true", help="rewrite docs/proof.md from this run")


@pytest.fixture(scope="session")
def real() -> Real:
    return Real()


class Real:
    """The environments and sound models of this run, each made when it is first asked for."""

    def __init__(self) -> None:
        self._made: dict[str, tuple[environments.Environment, Path]] = {}

    def of(self, release: Release) -> tuple[environments.Environment, Path]:
        if release.version not in self._made:
            try:
                found = environments.find(release)
                sound = models.build(found, environments.home() / f"models-{release.version}")
            except environments.Unavailable as reason:
                pytest.skip(f"no vLLM {release.version} here: {reason}")
            self._made[release.version] = found, sound
        return self._made[release.version]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for version, outcomes in table.OUTCOMES.items():
        terminalreporter.section(f"vLLM {version}")
        terminalreporter.write_line(table.text(outcomes))
        if config.getoption("--write-proof", default=False):
            table.write(version, outcomes)
