"""A plug-in for pytest: the output of a vLLM server that a failed test captured is diagnosed in the test's report.

It looks at failed tests only, and starts a process only where their output has a line of vLLM's. That process has a
time limit and nothing of the test's (its working directory, its patched modules), so it can neither break nor hold up
a suite. `pytest -p no:vllm-doctor` turns it off.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

TITLE = "vllm-doctor"
CAUSE, FIX = "vllm_doctor_cause", "vllm_doctor_fix"
"""Names of the properties in JUnit's XML."""
_OUTPUT = re.compile(r"\b(?:INFO|WARNING|ERROR) \d\d-\d\d \d\d:\d\d:\d\d [\[\w]|[/\\]vllm[/\\]\w+")
_SECONDS = 60


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.getgroup("vllm-doctor").addoption(
        "--vllm-doctor-log", action="append", default=[], metavar="FILE", dest="vllm_doctor_logs",
        help="A log that vLLM servers of the tests write into a file: diagnosed when a test fails; repeatable.")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Add a section to the report of a failed test, and the cause to its properties."""
    outcome: Any = yield
    report: pytest.TestReport = outcome.get_result()
    if not report.failed or any(title == TITLE for title, _ in report.sections):
        return
    output = "\n".join(text for title, text in report.sections if title.startswith("Captured std"))
    raised = _exception(call)
    sources: list[str | Path] = [output + raised] if raised or _OUTPUT.search(output) else []
    sources += map(Path, item.config.getoption("vllm_doctor_logs"))
    for source in sources:
        try:
            text, properties = _diagnosed(source)
        except Exception as error:  # noqa: BLE001 - whatever it is, the test's own report counts
            text, properties = f"no diagnosis: {type(error).__name__}", []
        if text:
            report.sections.append((TITLE, text))
            report.user_properties.extend(properties)
            item.user_properties.extend(properties)  # JUnit takes those of the report on the teardown


def _exception(call: pytest.CallInfo[None]) -> str:
    """Return the traceback of an exception that was raised in vLLM's own code, as Python prints it; else ""."""
    found = call.excinfo
    if found is None or not any(_OUTPUT.search(str(entry.path)) for entry in found.traceback):
        return ""
    return "\n" + "".join(traceback.format_exception(found.type, found.value, found.tb))


def _diagnosed(source: str | Path) -> tuple[str, list[tuple[str, object]]]:
    """Return the report on a log as text, and its properties; "" if it shows no failure."""
    with tempfile.TemporaryDirectory(prefix="vllm-doctor-") as folder:
        path = Path(folder, "report.json")
        is_text = isinstance(source, str)
        data = str(source).encode("utf-8", "replace") if is_text else b""
        log = "-" if is_text else os.path.abspath(source)
        modules = os.pathsep.join(map(os.path.abspath, filter(None, sys.path)))
        done = subprocess.run(
            [sys.executable, "-m", "vllm_doctor", "diagnose", "--isolated", f"--report=json={path}", "--", log],
            input=data, capture_output=True, timeout=_SECONDS, check=False, cwd=folder,
            env={**os.environ, "PYTHONPATH": modules})
        if done.returncode != 1:  # 0: no failure; 2: no file, which a test that failed early did not write
            return "", []
        report = json.loads(path.read_text(encoding="utf-8"))
        return done.stdout.decode("utf-8", "replace"), list(_properties(report))


def _properties(report: dict[str, Any]) -> Iterator[tuple[str, object]]:
    yield CAUSE, report["primary"] or "unexplained-failure"
    fixes = [fix for finding in report["findings"] if finding["id"] == report["primary"] for fix in finding["fixes"]]
    if fixes:
        yield FIX, fixes[0]["title"]
