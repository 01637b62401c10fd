from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest
import shared_work
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parent.parent

# What a script runs in the background ignores Ctrl-C, and what `nohup` runs ignores SIGHUP; so would all that these tests start.
for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGQUIT, signal.SIG_DFL), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, handler)

# Hundreds of processes of the program are started here. The first compiles modules and rules for all, whatever the environment (a container's)
# says of bytecode and whatever a test sets as HOME.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
os.environ.setdefault("XDG_CACHE_HOME", str(Path.home() / ".cache"))

settings.register_profile("default", deadline=None, max_examples=50,
                          suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
settings.load_profile("default")


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist, which `-p no:xdist` leaves out
def pytest_xdist_auto_num_workers() -> int:
    """Return two workers more than there are cores, for `-n auto`: many tests wait for a process they have started."""
    return (os.cpu_count() or 1) + 2


@pytest.fixture(scope="session", autouse=True)
def _shared_folder(tmp_path_factory: pytest.TempPathFactory) -> None:
    if shared_work.WORKER:
        shared_work.folder = tmp_path_factory.getbasetemp().parent


@pytest.fixture
def root() -> Path:
    return ROOT
