"""docs/ci.md and docs/settings.md: each snippet is parsed, and its shell is run, the tools it calls replaced by stand-ins."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from runner import Runner
from test_schema import GOOD

from vllm_doctor.cli import project_settings

ROOT = Path(__file__).resolve().parents[2]
LOG = ROOT / "fixtures" / "logs" / "fatkv-cpu-space-1.log"
SAID = "CPU KV cache too small"
CAUSE = "cpu-kv-cache-space-too-small"

STAND_INS = {
    "vllm-doctor": 'exec "{python}" -m vllm_doctor "$@"',
    "vllm": "cat '{log}'; exit 1",
    "curl": "exit 7",
    "pip": "exit 0",
    "pbpaste": "cat '{log}'",
    "gh": "cat '{log}'",
    "journalctl": "sed 's/^/Nov 20 11:30:13 node7 vllm[123]: /' '{log}'",
    "buildkite-agent": 'echo "$@" >> calls; case "$1" in annotate) cat > annotation;; esac',
    # What stands behind the image is the image's arguments to its entry point.
    "docker": 'case "$1" in logs) cat \'{log}\' >&2;; build) test -f "{root}/Dockerfile";; run) shift; while [ "${{1#registry}}" = "$1" ]; do shift; done; '
              'shift; exec vllm-doctor "$@";; esac',
    "kubectl": 'case "$1" in logs) cat \'{log}\';; run) while [ "$1" != -- ]; do shift; done; shift; exec vllm-doctor "$@";; esac',
    "python3": 'if [ "$2" = venv ]; then mkdir -p "$3/bin"; cp "{bin}/pip" "{bin}/vllm-doctor" "$3/bin"; else exec "{python}" "$@"; fi',
}


def snippets(page: str, language: str) -> dict[str, list[str]]:
    """The blocks of a language, by the heading above them."""
    found: dict[str, list[str]] = {}
    for section in re.split(r"(?m)^## ", (ROOT / "docs" / page).read_text(encoding="utf-8"))[1:]:
        blocks = re.findall(rf"(?ms)^```{language}\n(.*?)^```", section)
        found[section.partition("\n")[0]] = blocks
    return {heading: blocks for heading, blocks in found.items() if blocks}


SHELL = {**snippets("ci.md", "sh"), **snippets("kubernetes.md", "sh")}
YAML = {heading: yaml.safe_load(blocks[0]) for heading, blocks in {**snippets("ci.md", "yaml"), **snippets("kubernetes.md", "yaml")}.items()}
KUBERNETES = [yaml.safe_load(block) for block in snippets("kubernetes.md", "yaml")["Kubernetes"]]


class Machine:
    """A folder to work in and the stand-ins."""

    def __init__(self, tmp_path: Path) -> None:
        self.here, self.bin = tmp_path / "work", tmp_path / "bin"
        self.here.mkdir()
        self.bin.mkdir()
        for name, script in STAND_INS.items():
            path = self.bin / name
            path.write_text("#!/bin/sh\n" + script.format(python=sys.executable, log=LOG, root=ROOT, bin=self.bin) + "\n", encoding="utf-8")
            path.chmod(0o755)
        self.env = {**os.environ, "PATH": f"{self.bin}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}

    def sh(self, script: str, *shell: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*(shell or ("bash", "-e", "-o", "pipefail")), "-c", script], cwd=self.here, env=self.env, capture_output=True, text=True,
                              timeout=120, check=False)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def lines(section: str) -> list[str]:
    return [line for block in SHELL[section] for line in block.splitlines()]


def test_every_section_has_its_snippet() -> None:
    assert {"GitHub Actions", "GitLab CI", "Buildkite", "pre-commit"} <= set(YAML)
    assert {"Paste", "Docker", "Kubernetes", "Many logs", "pre-commit"} <= set(SHELL)
    assert set(snippets("ci.md", "groovy")) == {"Jenkins"}


@pytest.mark.parametrize("line", [*lines("Paste"), *lines("Docker")[1:], *lines("Kubernetes")])
def test_a_pipe_into_diagnose_names_the_cause(machine: Machine, line: str) -> None:
    (machine.here / "server.log").write_bytes(LOG.read_bytes())
    done = machine.sh(line)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith(f"✗ {SAID}")


def test_the_image_is_built_from_the_wheel_for_a_user_without_rights(machine: Machine) -> None:
    assert machine.sh(lines("Docker")[0]).returncode == 0
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", "")
    steps = [line.split(None, 1) for line in text.splitlines() if line and not line.startswith("#")]
    last = steps[max(number for number, step in enumerate(steps) if step[0] == "FROM"):]
    words = {name: rest for name, rest in last if name != "RUN"}
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", words["USER"])
    assert json.loads(words["ENTRYPOINT"]) == ["vllm-doctor"]
    assert "COPY" not in words  # nothing of the sources
    assert any("--no-index" in rest and "/wheels" in rest for name, rest in last if name == "RUN")


def test_many_logs(machine: Machine) -> None:
    (machine.here / "logs").mkdir()
    for name in ("a", "b"):
        (machine.here / "logs" / f"{name}.log").write_bytes(LOG.read_bytes())
    first, second = (machine.sh(line) for line in lines("Many logs"))
    assert first.stdout.startswith(f"2 logs: 2 failed\n\n  2 x {SAID}")
    assert len(json.loads(second.stdout)["reports"]) == 2
    assert SAID in (machine.here / "all.html").read_text(encoding="utf-8").replace("&#39;", "'")


def test_pre_commit(machine: Machine) -> None:
    [repo] = YAML["pre-commit"]["repos"]
    hooks = {hook["id"]: hook for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))}
    folder = machine.here / "ops" / "vllm-rules"
    folder.mkdir(parents=True)
    path = folder / "my-rule.yaml"
    path.write_text(GOOD, encoding="utf-8")
    relative = str(path.relative_to(machine.here))
    for hook in repo["hooks"]:
        assert re.match(hook["files"], relative)
        done = machine.sh(f"{hooks[hook['id']]['entry']} {relative}")
        assert done.returncode == 0, done.stdout
    for line in lines("pre-commit"):
        done = machine.sh(line)
        assert done.returncode == 0, done.stdout
    path.write_text(GOOD.replace("title:", "titel:"), encoding="utf-8")
    assert machine.sh(lines("pre-commit")[0]).returncode == 1


def starts(machine: Machine, script: str, *shell: str) -> None:
    """The step that starts the server ends with 1 and leaves its log."""
    done = machine.sh(script, *shell)
    assert done.returncode == 1
    assert "vLLM ended before it served" in done.stdout
    assert (machine.here / "server.log").read_bytes() == LOG.read_bytes()


def test_github(machine: Machine, tmp_path: Path) -> None:
    steps: list[dict[str, Any]] = YAML["GitHub Actions"]["jobs"]["serve"]["steps"]
    starts(machine, steps[1]["run"], "bash", "-e")
    get, doctor, show, name = steps[2:]
    assert get["with"]["repository"] == "${{ vars.VLLM_DOCTOR }}"
    assert doctor["uses"] == f"./{get['with']['path']}"
    assert get["if"] == doctor["if"] == "failure()"
    assert show["with"]["sarif_file"] == "${{ steps.doctor.outputs.sarif }}"
    python = machine.bin / "python3"  # makes an environment whose python is this one
    python.write_text(f'#!/bin/sh\nif [ "$2" = venv ]; then mkdir -p "$3/bin"; cp "$0" "$3/bin/python"\n'
                      f'elif [ "$2" != pip ]; then exec "{sys.executable}" "$@"; fi\n', encoding="utf-8")
    temp = tmp_path / "temp"
    temp.mkdir()
    job = Runner(ROOT / "action.yml", machine.here, temp, {"PATH": machine.env["PATH"], "PYTHONPATH": str(ROOT)}).run(log=doctor["with"]["log"])
    assert job.outputs["cause"] == CAUSE
    assert Path(job.outputs["sarif"]).is_file()
    names = {"CAUSE": "cause", "FIX": "fix-command"}
    assert {variable: f"${{{{ steps.doctor.outputs.{output} }}}}" for variable, output in names.items()} == name["env"]
    machine.env.update({variable: job.outputs[output] for variable, output in names.items()})
    assert machine.sh(name["run"]).stdout.startswith(f"cause: {CAUSE}\nproposed: VLLM_CPU_KVCACHE_SPACE=1 vllm serve ")


def test_the_actions_inputs_and_outputs_are_told() -> None:
    text = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    told = set(re.findall(r"`([\w-]+)`", "".join(re.findall(r"(?m)^\| (`.*?) \| ", text))))
    assert set(action["inputs"]) | set(action["outputs"]) == told


def test_gitlab(machine: Machine) -> None:
    job = YAML["GitLab CI"]["serve"]
    starts(machine, "\n".join(job["script"]), "sh", "-e")
    for line in job["after_script"]:
        done = machine.sh(line)
    assert done.stdout.startswith(f"✗ {SAID}")
    for name in (*job["artifacts"]["paths"], *job["artifacts"]["reports"].values()):
        assert (machine.here / name).stat().st_size
    [issue] = json.loads((machine.here / job["artifacts"]["reports"]["codequality"]).read_text(encoding="utf-8"))
    assert (issue["check_name"], issue["location"]) == (CAUSE, {"path": "server.log", "lines": {"begin": 74}})


@pytest.mark.parametrize(("section", "schema"), [("GitHub Actions", "github-workflows"), ("GitLab CI", "gitlab-ci"), ("Buildkite", "buildkite")])
def test_a_snippet_is_valid_by_the_published_schema(section: str, schema: str, tmp_path: Path) -> None:
    (tmp_path / "snippet.yml").write_text(snippets("ci.md", "yaml")[section][0], encoding="utf-8")
    done = subprocess.run([sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", str(tmp_path / "snippet.yml")],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_one_setting_says_where_this_repository_lives() -> None:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "action.yml", ROOT / "Dockerfile"]
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    assert "OWNER" not in text
    assert set(re.findall(r"pip install (?:--quiet )?([^\s`]*vllm[^\s`]*)", text, re.IGNORECASE)) <= {
        '"$VLLM_DOCTOR"', '"$$VLLM_DOCTOR"', "'vllm-log-doctor[fast]'", "'vllm-log-doctor[fleet]'"}


def test_jenkins(machine: Machine) -> None:
    [text] = snippets("ci.md", "groovy")["Jenkins"]
    assert text.count("{") == text.count("}")
    serve, post = re.findall(r"(?s)sh '''\n(.*?)'''", text)
    starts(machine, serve, "sh", "-xe")
    done = machine.sh(post, "sh", "-xe")
    assert done.returncode == 0
    assert done.stdout.startswith(f"✗ {SAID}")
    for name in re.findall(r"[\w-]+\.(?:xml|html|log|sarif)\b", text.partition("post {")[2]):
        assert (machine.here / name).stat().st_size


def test_buildkite(machine: Machine) -> None:
    serve, why = YAML["Buildkite"]["steps"]
    (machine.here / "ci").mkdir()
    script = machine.here / "ci" / "serve-and-test.sh"
    script.write_text("#!/bin/sh\nexec vllm serve x\n", encoding="utf-8")
    script.chmod(0o755)
    assert machine.sh(serve["command"]).returncode == 1
    assert why["depends_on"] == serve["key"]
    assert "$" not in why["command"].replace("$$", "")  # Buildkite would fill it in
    done = machine.sh(why["command"].replace("$$", "$"))
    assert done.returncode == 0
    assert (machine.here / "annotation").read_text(encoding="utf-8").startswith(f"## {SAID}")
    assert (machine.here / "calls").read_text().splitlines() == ["artifact download server.log .", "annotate --style error --context vllm-doctor"]
    assert (machine.here / why["artifact_paths"]).stat().st_size


def test_the_sidecar_tells_the_cause_while_the_pod_runs(machine: Machine) -> None:
    pod = KUBERNETES[1]["spec"]["template"]["spec"]
    [sidecar], [server] = pod["initContainers"], pod["containers"]
    assert sidecar["restartPolicy"] == "Always"
    assert sidecar["securityContext"]["runAsNonRoot"] is True
    assert {mount["name"] for container in (sidecar, server) for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}

    def argv(container: dict[str, Any]) -> list[str]:
        words = (*container.get("command", ["vllm-doctor"]), *container["args"])  # the image's entry point
        return [word.replace("/logs/", f"{machine.here}/") for word in words]

    err = machine.here / "sidecar.err"
    with err.open("wb") as file, subprocess.Popen(argv(sidecar), env=machine.env, cwd=machine.here, stdout=subprocess.PIPE, stderr=file,
                                                  start_new_session=True) as watching:
        try:
            done = subprocess.run(argv(server), env=machine.env, cwd=machine.here, capture_output=True, timeout=60, check=False)
            assert done.returncode == 1
            assert done.stdout == LOG.read_bytes()  # the pod's own log is whole
            deadline = time.monotonic() + 30
            while SAID not in err.read_text(encoding="utf-8") and time.monotonic() < deadline:
                time.sleep(0.1)
            assert SAID in err.read_text(encoding="utf-8")
            assert watching.poll() is None
        finally:
            os.killpg(watching.pid, signal.SIGTERM)
        assert watching.communicate(timeout=30)[0] == b""


def test_the_sidecar_s_file_stays_below_the_volume_s_limit(machine: Machine) -> None:
    pod = KUBERNETES[1]["spec"]["template"]["spec"]
    [script] = pod["containers"][0]["args"]
    assert "-size +256M" in script
    assert pod["volumes"][0]["emptyDir"] == {"sizeLimit": "2Gi"}
    assert not re.search(r"\$[($]", script)  # Kubernetes would fill it in
    script = script.replace("/logs/", f"{machine.here}/").replace("sleep 20", "sleep 0.1").replace("+256M", "+1k")
    (machine.bin / "vllm").write_text(f"#!/bin/sh\nhead -c 5000 /dev/zero | tr '\\0' x; sleep 2; cat '{LOG}'\n", encoding="utf-8")
    done = machine.sh(script, "bash")
    assert done.stdout == "x" * 5000 + LOG.read_text(encoding="utf-8")
    assert (machine.here / "server.log").stat().st_size <= LOG.stat().st_size
    assert b"xxx" not in (machine.here / "server.log").read_bytes()


def test_the_cause_in_the_pod_s_status(machine: Machine) -> None:
    [container] = KUBERNETES[0]["containers"]
    command = [word.replace("/dev/", f"{machine.here}/") for word in (*container["command"], *container["args"])]
    done = subprocess.run(command, cwd=machine.here, env=machine.env, capture_output=True, timeout=120, check=False)
    assert done.returncode == 1
    assert (machine.here / "termination-log").read_text(encoding="utf-8").startswith(SAID)


def test_the_three_lines_of_the_readme(machine: Machine) -> None:
    (machine.here / "server.log").write_bytes(LOG.read_bytes())
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    used = re.findall(r"(?m)^    ((?:vllm-doctor diagnose|vllm serve|kubectl logs) .*?)(?: +#.*)?$", text)[:3]
    assert [line.split()[0] for line in used] == ["vllm-doctor", "vllm", "kubectl"]
    for line in used:
        done = machine.sh(line.replace("…", "/models/fatkv").replace("POD", "vllm-0"))
        assert done.returncode == 1
        assert SAID in (done.stderr if "watch" in line else done.stdout)
        assert "watch" not in line or done.stdout == LOG.read_text(encoding="utf-8")


# ---- docs/settings.md


def test_the_settings_shown_are_settings(tmp_path: Path) -> None:
    [text] = snippets("settings.md", "toml")["Settings of a project"]
    (tmp_path / "ops" / "vllm-rules").mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text(text, encoding="utf-8")
    found = project_settings.find(tmp_path)
    assert found is not None
    assert found.fail_on == "warning"
    assert [item.id for item in found.ignore] == ["shutdown-leftovers"]
    own = text.replace("[tool.vllm-doctor]\n", "").replace("[[tool.vllm-doctor.ignore]]", "[[ignore]]")
    (tmp_path / "vllm-doctor.toml").write_text(own, encoding="utf-8")
    assert project_settings.find(tmp_path).ignore == found.ignore


def test_the_completion_line_runs(machine: Machine) -> None:
    [line] = snippets("settings.md", "sh")["Completion"]
    assert machine.sh(line.strip() + "; complete -p vllm-doctor", "bash").returncode == 0


@pytest.mark.parametrize("page", ["ci.md", "kubernetes.md", "settings.md"])
def test_the_links_lead_somewhere(page: str) -> None:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    anchors = {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in re.findall(r"(?m)^## (.*)", text)}
    for target in re.findall(r"\]\((?!http)([^)]+)\)", text):
        path, _, anchor = target.partition("#")
        assert not path or (ROOT / "docs" / path).exists(), target
        assert not anchor or path or anchor in anchors, target
