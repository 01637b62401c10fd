"""`diagnose --pod`, with the real kubectl against an API server of ours."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from kubernetes_api import Cluster, serving

from vllm_doctor.cli.root import cli

START = "INFO 11-20 10:00:00 [api_server.py:1837] vLLM API server version 0.14.1\n"
HEALTHY = START + "INFO:     Application startup complete.\n"
OOM = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}
LOADING = START + "(EngineCore_DP0 pid=31) INFO 11-20 10:00:09 [gpu_model_runner.py:3562] Starting to load model m...\n"

pytestmark = pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    new_cluster = Cluster()
    with serving(new_cluster) as address:
        config = {"apiVersion": "v1", "kind": "Config", "current-context": "test",
                  "clusters": [{"name": "test", "cluster": {"server": address}}], "users": [{"name": "test", "user": {}}],
                  "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test", "namespace": "current"}}]}
        (tmp_path / "config").write_text(yaml.safe_dump(config))
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
        monkeypatch.setenv("HOME", str(tmp_path))
        yield new_cluster


def diagnosed(*options: str) -> tuple[int, list[dict[str, Any]]]:
    done = CliRunner().invoke(cli, ["diagnose", "--isolated", "--format", "jsonl", *options])
    return done.exit_code, [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def test_each_container_of_a_pod_is_a_log(cluster: Cluster) -> None:
    cluster.pod("vllm-0", "vllm", HEALTHY)
    cluster.pod("vllm-0", "router", HEALTHY)
    status, reports = diagnosed("--pod", "serving/vllm-0")
    assert status == 0
    assert [report["source"]["path"] for report in reports] == ["serving/vllm-0/vllm", "serving/vllm-0/router"]
    assert {report["status"] for report in reports} == {"serving"}


def test_a_container_that_waits_for_its_next_start_shows_why_the_last_one_ended(cluster: Cluster) -> None:
    waiting = {"waiting": {"reason": "CrashLoopBackOff"}}
    cluster.pod("vllm-0", "vllm", LOADING, state=waiting, last=OOM, restarts=3)
    status, [report] = diagnosed("--pod", "serving/vllm-0")
    assert (status, report["primary"]) == (1, "host-ram-oom-kill")
    assert report["findings"][0]["evidence"][0]["text"] == (
        "Container vllm: State: Terminated, Reason: OOMKilled, exited with code 137")


def test_a_container_that_served_and_was_ended(cluster: Cluster) -> None:
    cluster.pod("vllm-0", "vllm", HEALTHY, state=OOM)
    status, [report] = diagnosed("--pod", "serving/vllm-0")
    assert (status, report["primary"]) == (1, "host-ram-oom-kill")


def test_the_end_of_an_earlier_container_is_not_the_current_one_s(cluster: Cluster) -> None:
    cluster.pod("vllm-0", "vllm", HEALTHY, last=OOM, restarts=1)
    cluster.logs["vllm-0", "vllm", True] = LOADING
    status, [report] = diagnosed("--pod", "serving/vllm-0")
    assert (status, report["primary"]) == (0, None)
    status, [report] = diagnosed("--pod", "serving/vllm-0", "--previous")
    assert (status, report["primary"]) == (1, "host-ram-oom-kill")


def test_a_container_that_ended_as_asked_has_no_failure(cluster: Cluster) -> None:
    cluster.pod("job-0", "vllm", HEALTHY, state={"terminated": {"exitCode": 143, "reason": "Error"}})
    assert diagnosed("--pod", "serving/job-0")[0] == 0


def test_probe_failures_are_facts(cluster: Cluster) -> None:
    cluster.pod("vllm-0", "vllm", LOADING)
    cluster.warn("vllm-0", "Unhealthy", 'Startup probe failed: Get "http://10.0.0.7:8000/health": connection refused')
    _, [report] = diagnosed("--pod", "serving/vllm-0")
    assert report["facts"]["probe_failed"] is True


def test_the_pods_of_a_statefulset_are_read_in_order(cluster: Cluster) -> None:
    for number in (1, 0):
        cluster.pod(f"vllm-{number}", "vllm", HEALTHY, labels={"app": "vllm"})
    cluster.pod("other-0", "web", "", labels={"app": "web"})
    cluster.statefulsets["vllm"] = {"kind": "StatefulSet", "apiVersion": "apps/v1",
                                    "metadata": {"name": "vllm", "namespace": "serving"},
                                    "spec": {"selector": {"matchLabels": {"app": "vllm"}}}}
    _, reports = diagnosed("--pod", "serving/sts/vllm")
    assert [report["source"]["path"] for report in reports] == ["serving/vllm-0/vllm", "serving/vllm-1/vllm"]


def test_without_a_namespace_it_is_kubectl_s_current_one(cluster: Cluster) -> None:
    cluster.pod("vllm-0", "vllm", HEALTHY)
    _, [report] = diagnosed("--pod", "vllm-0")
    assert report["source"]["path"] == "vllm-0/vllm"
    assert "current" in cluster.namespaces


NCCL = START + ("(EngineCore_DP0 pid=31) ERROR 11-20 10:05:09 [core.py:700] torch.distributed.DistBackendError: NCCL error in: "
                "ProcessGroupNCCL.cpp:3356, remote process exited or there was a network error\n")


def ranks(cluster: Cluster) -> None:
    """A StatefulSet of two pods: one was killed for its memory, the other one lost it."""
    cluster.pod("vllm-0", "vllm", NCCL, labels={"app": "vllm"}, state={"terminated": {"exitCode": 1, "reason": "Error"}})
    cluster.pod("vllm-1", "vllm", LOADING, labels={"app": "vllm"}, state=OOM)
    cluster.warn("vllm-1", "BackOff", "Back-off restarting failed container \x1b[31mvllm $(reboot)")
    cluster.statefulsets["vllm"] = {"kind": "StatefulSet", "apiVersion": "apps/v1", "metadata": {"name": "vllm", "namespace": "serving"},
                                    "spec": {"selector": {"matchLabels": {"app": "vllm"}}}}


def test_the_ranks_of_a_statefulset_are_one_incident(cluster: Cluster) -> None:
    ranks(cluster)
    status, [report] = diagnosed("--pod", "serving/statefulset/vllm", "--together")
    assert (status, report["primary"]) == (1, "host-ram-oom-kill")
    assert report["incident"]["logs"] == ["serving/vllm-0/vllm", "serving/vllm-1/vllm"]
    assert report["incident"]["cause"]["log"] == "serving/vllm-1/vllm"


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The script as pip installs it, in PATH."""
    script = tmp_path / "kubectl-vllm_doctor"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "from vllm_doctor.cli.kubectl import main; main()" "$@"\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).resolve().parents[2]))


def kubectl(*words: str) -> tuple[int, str, str]:
    done = subprocess.run(["kubectl", *words], capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.usefixtures("plugin")
@pytest.mark.parametrize("name", ["vllm-doctor", "vllm_doctor"])
def test_kubectl_runs_the_plugin(cluster: Cluster, name: str) -> None:
    ranks(cluster)
    status, out, _ = kubectl(name, "statefulset/vllm", "-n", "serving", "--width", "100")
    assert status == 1
    assert "One incident, 2 logs: the cause is in serving/vllm-1/vllm." in out
    assert cluster.namespaces == {"serving"}
    assert "\x1b" not in out


@pytest.mark.usefixtures("plugin")
def test_the_plugin_passes_options_on(cluster: Cluster) -> None:
    cluster.pod("vllm-0", "vllm", HEALTHY, last=OOM, restarts=1)
    cluster.pod("vllm-0", "router", "")
    cluster.logs["vllm-0", "vllm", True] = LOADING
    status, out, _ = kubectl("vllm-doctor", "vllm-0", "-c", "vllm", "-p", "--format", "jsonl", "--isolated")
    report = json.loads(out)
    assert (status, report["primary"]) == (1, "host-ram-oom-kill")
    assert report.get("incident") is None
    for words in (["--run", "all"], ["--run=all"]):
        assert kubectl("vllm-doctor", "vllm-0", "-c", "vllm", *words)[2].startswith("vllm-doctor: --run all reads the log more than once")
    assert kubectl("vllm-doctor", "--help")[1].startswith("Usage: vllm-doctor kubectl [OPTIONS] POD|KIND/NAME")
    assert kubectl("vllm-doctor", "../vllm-0")[0] == 2


@pytest.mark.parametrize(("options", "message"), [
    (["--pod", "serving/none"], "kubectl: Error from server (NotFound)"),
    (["--pod", "serving/vllm-0", "--container", "none"], "--pod serving/vllm-0: there is no container none"),
    (["--pod", "a/b/vllm-0"], "--pod a/b/vllm-0: write NAMESPACE/POD"),
    (["--pod", "a/b/sts/vllm"], "--pod a/b/sts/vllm: write NAMESPACE/POD"),
    (["--pod", "sts/"], "--pod : not a name"),
    (["--pod", "serving/--all"], "--pod --all: not a name"),
    (["--previous"], "--container and --previous belong to --pod"),
])
def test_what_cannot_be_read_is_one_line(cluster: Cluster, options: list[str], message: str) -> None:
    cluster.pod("vllm-0", "vllm", HEALTHY)
    done = CliRunner().invoke(cli, ["diagnose", "--isolated", *options])
    assert done.exit_code == 2
    assert done.stderr.startswith(f"vllm-doctor: {message}") or message in done.stderr
    assert done.stderr.count("\n") == 1
