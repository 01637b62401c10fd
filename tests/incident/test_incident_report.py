"""Several logs of one incident: one cause, the others as its consequences, silent ranks named."""

from __future__ import annotations

import json

import click.testing
import pytest

from vllm_doctor.cli.root import cli

RANK = ("(Worker_TP{rank} pid=1{rank}) INFO 11-24 {hour}:10:30 [parallel_state.py:1165] rank {rank} in world size 4 is assigned as "
        "DP rank 0, PP rank 0, TP rank {rank}, EP rank {rank}\n"
        "(Worker_TP{rank} pid=1{rank}) INFO 11-24 {hour}:10:31 [gpu_model_runner.py:2602] Starting to load model m...\n")
OOM = ("(Worker_TP{rank} pid=1{rank}) ERROR 11-24 {hour}:{time} [multiproc_executor.py:671] torch.OutOfMemoryError: CUDA out of memory. "
       "Tried to allocate 896.00 MiB. GPU 0 has a total capacity of 23.64 GiB of which 518.69 MiB is free. Process 1 has "
       "23.12 GiB memory in use. Of the allocated memory 22.70 GiB is allocated by PyTorch, and 20.17 MiB is reserved by "
       "PyTorch but unallocated.\n")
LOST = ("(Worker_TP{rank} pid=1{rank}) ERROR 11-24 {hour}:{time} [multiproc_executor.py:671] RuntimeError: "
        "[../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.2]:29500\n")
HEALTHY = ("INFO 11-24 00:10:00 [api_server.py:1090] vLLM API server version 0.11.0\n"
           "INFO 11-24 00:11:00 [api_server.py:1912] Starting vLLM API server 0 on http://0.0.0.0:8000\n"
           "INFO:     Application startup complete.\n")


@pytest.fixture
def together(tmp_path):
    def run(*more, **texts):
        paths = []
        for name, text in texts.items():
            path = tmp_path / f"{name}.log"
            path.write_text(text)
            paths.append(str(path))
        result = click.testing.CliRunner().invoke(cli, ["diagnose", "--together", *paths, *(more or ("--format", "json"))])
        return result.output.replace(f"{tmp_path}/", "") if more else json.loads(result.output.replace(f"{tmp_path}/", ""))

    return run


def test_the_node_that_lost_its_peer_is_a_consequence(together):
    report = together(
        node0="".join(RANK.format(rank=rank, hour="00") for rank in (0, 1)) + LOST.format(rank=0, hour="00", time="11:00"),
        node1="".join(RANK.format(rank=rank, hour="00") for rank in (2, 3)) + OOM.format(rank=2, hour="00", time="11:02"))
    assert report["incident"] == {
        "logs": ["node0.log", "node1.log"],
        "cause": {"log": "node1.log", "id": "model-weights-exceed-gpu-memory"},
        "consequences": [{"log": "node0.log", "id": "rank-missing-at-meeting"}],
        "silent_ranks": [], "notes": ["The cause was printed by rank 2, Worker_TP2 pid=12."]}
    assert (report["primary"], report["source"]["path"]) == ("model-weights-exceed-gpu-memory", "node1.log")


def test_of_two_faults_the_earlier_is_the_cause_whatever_the_clocks_say(together):
    bare = "(Worker_TP{rank} pid=1{rank}) ERROR 11-24 {hour}:{time} [core.py:708] FrobError: node {rank} is out of order\n"
    early = RANK.format(rank=1, hour="05") + bare.format(rank=1, hour="05", time="10:40")
    late = RANK.format(rank=0, hour="00") + OOM.format(rank=0, hour="00", time="10:50")
    for order in ({"a": early, "b": late}, {"b": late, "a": early}):
        incident = together(**order)["incident"]
        assert incident["cause"]["log"] == "a.log"
        assert incident["consequences"] == [{"log": "b.log", "id": "model-weights-exceed-gpu-memory"}]
        assert [note for note in incident["notes"] if "clock" in note] == [
            f"The clock of {list(order)[1]}.log is about 18000 s {'ahead' if list(order)[1] == 'a' else 'behind'}."]


def test_ranks_that_printed_nothing_are_named(together):
    text = "".join(RANK.format(rank=rank, hour="00") for rank in (0, 1, 2)) + OOM.format(rank=1, hour="00", time="11:02")
    assert together(a=text, b=text)["incident"]["silent_ranks"] == [3]
    assert together(a=RANK.format(rank=0, hour="00"), b=HEALTHY)["incident"]["silent_ranks"] == []  # too few to tell
    assert "Rank 3 printed nothing.\n" in together("--width", "100", a=text, b=text)


def test_workers_of_ray_have_no_ranks_that_could_be_silent(together):
    settings = "(APIServer pid=1) INFO 11-24 00:10:00 [utils.py:325] non-default args: {'model': 'm', 'tensor_parallel_size': 8}\n"
    worker = ("(EngineCore_DP0 pid=9) (RayWorkerWrapper pid={pid}, ip=10.0.0.2) INFO 11-24 00:10:31 [gpu_model_runner.py:2602] "
              "Starting to load model m...\n")
    head = settings + "".join(worker.format(pid=pid) for pid in range(20, 26)) + OOM.format(rank=0, hour="00", time="11:02")
    assert together(head=head, worker=HEALTHY)["incident"]["silent_ranks"] == []


def test_an_empty_log_of_a_rank_is_a_silent_rank(together):
    incident = together(rank0=OOM.format(rank=0, hour="00", time="11:02"), rank1="")["incident"]
    assert incident["silent_ranks"] == [1]
    assert incident["notes"][-1] == "No failure in rank1.log."


def test_only_lost_connections_ask_for_another_log(together):
    incident = together(a=RANK.format(rank=0, hour="00") + LOST.format(rank=0, hour="00", time="11:00"),
                        b=RANK.format(rank=1, hour="00") + LOST.format(rank=1, hour="00", time="10:58"))["incident"]
    assert incident["cause"] == {"log": "b.log", "id": "rank-missing-at-meeting"}
    assert "These logs show only that processes lost each other: look for the log of another node or rank." in incident["notes"]


def test_a_node_that_cannot_connect_goes_before_one_that_waits_for_it(together):
    start = "(Worker_TP{rank} pid=1{rank}) INFO 11-24 00:{minute}:30 [parallel_state.py:1165] rank {rank} in world size 4 is assigned as DP rank 0\n"
    report = together(
        node0=start.format(rank=0, minute=10) + LOST.format(rank=0, hour="00", time="11:00"),
        node1=start.format(rank=2, minute=25) + "node1:700:700 [0] bootstrap.cc:64 NCCL WARN Bootstrap : no socket interface found\n"
        "(Worker_TP2 pid=12) ERROR 11-24 00:26:40 [multiproc_executor.py:671] RuntimeError: NCCL error: invalid usage\n")
    assert report["incident"]["cause"] == {"log": "node1.log", "id": "wrong-network-interface"}
    assert report["incident"]["consequences"] == [{"log": "node0.log", "id": "rank-missing-at-meeting"}]
    assert not any(note.startswith("These logs show only") for note in report["incident"]["notes"])


def test_healthy_logs_have_no_cause(together):
    report = together(a=HEALTHY, b=HEALTHY)
    assert (report["incident"]["cause"], report["incident"]["consequences"]) == (None, [])
    assert report["status"] == "serving"


def test_the_formats_show_the_incident(together):
    logs = {"node0": RANK.format(rank=0, hour="00") + LOST.format(rank=0, hour="00", time="11:00"),
            "node1": RANK.format(rank=2, hour="00") + OOM.format(rank=2, hour="00", time="11:02")}
    assert "  One incident, 2 logs: the cause is in node1.log.\n  Consequence in node0.log: rank-missing-at-meeting.\n" in together(
        "--width", "200", **logs)
    assert "- One incident, 2 logs: the cause is in node1.log.\n" in together("--format", "markdown", **logs)
    assert "<li>One incident, 2 logs: the cause is in node1.log.</li>" in together("--format", "html", **logs)


def test_a_log_without_times_does_not_decide_by_its_place(together):
    fault = "(Worker_TP0 pid=1) ERROR 11-24 {time} [core.py:708] FrobError: {which} is out of order\n"
    early, late = fault.format(time="00:10:40", which="bolt"), fault.format(time="00:10:50", which="widget")
    for order in ({"router": "proxy is ready\n", "late": late, "early": early}, {"late": late, "early": early, "router": "proxy is ready\n"}):
        assert together(**order)["incident"]["cause"]["log"] == "early.log"
