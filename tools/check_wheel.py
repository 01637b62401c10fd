"""Install a wheel into a fresh environment of this Python and use it: `python tools/check_wheel.py WHEEL LOG`."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

IMPORTED = """
import sys
from importlib.metadata import entry_points
import vllm_doctor
assert [point.value for point in entry_points(group="pytest11") if point.name == "vllm-doctor"] == ["vllm_doctor.pytest_plugin"]
print(vllm_doctor.diagnose(sys.argv[1]).primary)
"""


def main() -> int:
    """Run the checks; raise where one fails."""
    wheel, log = (str(Path(argument).resolve()) for argument in sys.argv[1:3])
    with tempfile.TemporaryDirectory() as folder:
        programs = Path(folder, "venv", "bin")
        run([sys.executable, "-m", "venv", str(programs.parent)], folder)
        run([programs / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel], folder)
        version = Path(wheel).name.split("-")[1]
        assert version in run([programs / "vllm-doctor", "--version"], folder)
        assert "✗" in run([programs / "vllm-doctor", "diagnose", log], folder, status=1)
        assert "POD|KIND/NAME" in run([programs / "kubectl-vllm_doctor", "--help"], folder)
        assert run([programs / "python", "-c", IMPORTED, log], folder).strip() not in {"", "None"}
        run([programs / "python", "-m", "pip", "check"], folder)
    print(f"{Path(wheel).name} works on Python {sys.version.split()[0]}")
    return 0


def run(argv: list[str | Path], folder: str, status: int = 0) -> str:
    """Run a command there and return what it prints; its exit status must be the one given."""
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, encoding="utf-8", check=False)
    assert done.returncode == status, f"{argv}: status {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
