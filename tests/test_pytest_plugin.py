"""The plug-in for pytest, in suites of its own (`pytester`)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

ROOT = Path(__file__).resolve().parents[1]
LOG = ROOT / "fixtures" / "logs" / "fatkv-cpu-space-1.log"
HEALTHY = ROOT / "fixtures" / "logs" / "healthy" / "tiny-awq-serving.log"
CAUSE = "cpu-kv-cache-space-too-small"
SECTION = "*- vllm-doctor -*"
SAID = "✗ CPU KV cache too small*"

pytest_plugins = ["pytester"]


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PYTHONIOENCODING", "utf-8")
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # the others' plug-ins take as long to load as all the rest
    return pytester


def run(suite: pytest.Pytester, test: str, *options: str) -> pytest.RunResult:
    suite.makepyfile(test)
    return suite.runpytest_subprocess("-p", "vllm-doctor", "--junitxml=junit.xml", *options)


def properties(suite: pytest.Pytester) -> list[dict[str, str]]:
    """Of each test case in the JUnit file."""
    root = ET.parse(suite.path / "junit.xml").getroot()  # noqa: S314 - of pytest
    return [{item.get("name", ""): item.get("value", "") for item in case.iter("property")} for case in root.iter("testcase")]


STARTS = """
    import subprocess, sys
    def start(log):
        return subprocess.run(["cat", log]).returncode
"""


def test_a_failed_test_names_the_cause_of_its_server_s_failure(suite: pytest.Pytester) -> None:
    done = run(suite, STARTS + f"""
    def test_serves():
        start({str(LOG)!r})
        assert False, "the server did not come up"
    """)
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["*the server did not come up*", SECTION, SAID, "*--max-model-len 8064*"])
    assert properties(suite) == [{"vllm_doctor_cause": CAUSE, "vllm_doctor_fix": "Lower --max-model-len to 8,064 and keep the KV cache at 1 GiB"}]


def test_a_fixture_that_starts_the_server(suite: pytest.Pytester) -> None:
    done = run(suite, STARTS + f"""
    import pytest
    @pytest.fixture
    def server():
        start({str(LOG)!r})
        raise RuntimeError("the server did not come up")
    def test_serves(server):
        pass
    """)
    done.assert_outcomes(errors=1)
    done.stdout.fnmatch_lines([SECTION, SAID])
    assert properties(suite)[0]["vllm_doctor_cause"] == CAUSE


def test_a_server_that_was_well_and_a_test_that_passed_add_nothing(suite: pytest.Pytester) -> None:
    done = run(suite, STARTS + f"""
    def test_answers():
        start({str(HEALTHY)!r})
        assert 1 == 2
    def test_expects_the_failure():
        start({str(LOG)!r})
    """)
    done.assert_outcomes(failed=1, passed=1)
    done.stdout.no_fnmatch_line(SECTION)
    assert properties(suite) == [{}, {}]


def test_a_log_file_of_the_tests(suite: pytest.Pytester) -> None:
    test = f"""
    import shutil
    def test_serves(request):
        shutil.copy({str(LOG)!r}, request.config.rootpath / "server.log")
        assert False
    def test_passes():
        pass
    """
    done = run(suite, test, "--vllm-doctor-log", "server.log", "--vllm-doctor-log", "nothing.log")
    done.assert_outcomes(failed=1, passed=1)
    done.stdout.fnmatch_lines([SECTION, SAID])
    assert [item.get("vllm_doctor_cause") for item in properties(suite)] == [CAUSE, None]


def test_an_exception_in_vllm_itself_is_read(suite: pytest.Pytester) -> None:
    package = suite.mkpydir("vllm")
    (package / "worker.py").write_text("def determine():\n    raise ValueError('No available memory for the cache blocks. Try increasing "
                                       "`gpu_memory_utilization` when initializing the engine.')\n")
    done = run(suite, """
    from vllm.worker import determine
    def test_llm():
        determine()
    """)
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines([SECTION])
    assert properties(suite)[0]["vllm_doctor_cause"] == "budget-too-small-for-weights-and-activations"


NOT_VLLM = """
    import sys
    import pytest
    @pytest.fixture(autouse=True, scope="session")
    def no_process():
        import subprocess
        def refuse(*args, **options):
            raise AssertionError("a process was started")
        subprocess.run = subprocess.Popen = refuse
    def test_other():
        print("Traceback (most recent call last): vllm " * 100_000)
        assert False
"""


def test_a_suite_without_vllm_starts_nothing_and_imports_nothing(suite: pytest.Pytester) -> None:
    done = run(suite, NOT_VLLM + """
    def test_imports():
        assert {name for name in sys.modules if name.startswith("vllm_doctor")} == {
            "vllm_doctor", "vllm_doctor.version", "vllm_doctor.pytest_plugin"}
    """)
    done.assert_outcomes(failed=1, passed=1)
    done.stdout.no_fnmatch_line(SECTION)


def test_its_own_failure_does_not_touch_the_test_s_report(suite: pytest.Pytester) -> None:
    done = run(suite, STARTS + f"""
    def test_serves(monkeypatch):
        start({str(LOG)!r})
        def broken(*args, **options):
            raise OSError("no processes left")
        monkeypatch.setattr(subprocess, "run", broken)
        assert False, "the server did not come up"
    """)
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["*the server did not come up*", SECTION, "no diagnosis: OSError"])


def test_what_the_test_patched_does_not_reach_the_diagnosis(suite: pytest.Pytester) -> None:
    done = run(suite, STARTS + f"""
    def test_serves(monkeypatch, tmp_path):
        start({str(LOG)!r})
        monkeypatch.chdir(tmp_path)
        (tmp_path / "click.py").write_text("raise SystemExit('a module of the working directory')")
        monkeypatch.setattr("builtins.open", None)
        assert False
    """, "-W", "error", "--import-mode=importlib")
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines([SECTION, SAID])


def test_a_hostile_output_is_masked_and_inert(suite: pytest.Pytester) -> None:
    secret = "hf_" + "Zq7" * 11 + "a"
    log = suite.path / "hostile.log"
    log.write_text(f"::error::EVIL\n\x1b]0;EVIL\a$ HF_TOKEN={secret} vllm serve /models/x --api-key {secret} && $(EVIL)\n" + LOG.read_text())
    done = run(suite, STARTS + f"""
    def test_serves():
        start({str(log)!r})
        assert False
    """)
    done.assert_outcomes(failed=1)
    text = done.stdout.str()
    section = text[text.index("- vllm-doctor -"):]
    assert "CPU KV cache too small" in section
    assert secret not in section
    assert "\x1b" not in section
    assert not [line for line in section.splitlines() if line.startswith("::")]


def test_on_workers_of_xdist(suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("xdist")
    monkeypatch.delenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD")
    done = run(suite, STARTS + f"""
    def test_serves():
        start({str(LOG)!r})
        assert False
    """, "-n", "1")
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines([SECTION, SAID])
    assert properties(suite)[0]["vllm_doctor_cause"] == CAUSE


def test_loading_it_is_cheap() -> None:
    code = "import sys, pytest; before = set(sys.modules); import vllm_doctor.pytest_plugin; print(len(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert int(done.stdout) < 10
