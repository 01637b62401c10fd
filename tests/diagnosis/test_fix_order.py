"""Alternative fixes are ordered by what the user loses, and one that is not proven to suffice says so."""

from __future__ import annotations

import pytest

from vllm_doctor import diagnose
from vllm_doctor.diagnosis.fix_order import Candidate, Loss, loss, ordered
from vllm_doctor.reports.model import Fix


@pytest.mark.parametrize(("fix", "known", "expected"), [
    (Fix("a", "t", unset=("--swap-space",)), {}, Loss.NOTHING),
    (Fix("a", "t", unset=("--gpu-memory-utilization",)), {}, Loss.HEADROOM),
    (Fix("a", "t", flags={"--mm-processor-kwargs": "{}"}), {}, Loss.ACCURACY),
    (Fix("a", "t", flags={"--skip-mm-profiling": "", "--gpu-memory-utilization": "0.8"}), {}, Loss.CAPACITY),
    (Fix("a", "t", env={"VLLM_DEEP_GEMM_WARMUP": "skip"}), {}, Loss.SPEED),
    (Fix("a", "t", flags={"--gpu-memory-utilization": "0.95"}), {}, Loss.HEADROOM),
    (Fix("a", "t", flags={"--enforce-eager": ""}), {}, Loss.SPEED),
    (Fix("a", "t", flags={"--kv-cache-dtype": "fp8"}), {}, Loss.ACCURACY),
    (Fix("a", "t", flags={"--max-model-len": "8192", "--gpu-memory-utilization": "0.95"}), {}, Loss.CAPACITY),
    (Fix("a", "t", flags={"--cpu-offload-gb": "4"}), {}, Loss.THROUGHPUT),
    (Fix("a", "t", flags={"--tensor-parallel-size": "2"}), {}, Loss.HARDWARE),
    (Fix("a", "t", flags={"--tensor-parallel-size": "2"}), {"tensor_parallel_size": 2}, Loss.SPEED),
    (Fix("a", "t", flags={"--tensor-parallel-size": "4", "--pipeline-parallel-size": "1"}),
     {"tensor_parallel_size": 2, "pipeline_parallel_size": 2}, Loss.SPEED),
    (Fix("a", "t", action="use-smaller-or-quantized-model"), {}, Loss.MODEL),
])
def test_the_loss_of_a_change(fix: Fix, known: dict[str, int], expected: Loss) -> None:
    assert loss(fix, known) is expected


def test_what_is_proven_comes_first() -> None:
    short = Fix("short", "t", flags={"--max-model-len": "4096"})
    fp8 = Fix("fp8", "t", flags={"--kv-cache-dtype": "fp8"})
    more = Fix("more", "t", flags={"--gpu-memory-utilization": "0.95"}, why="Adds 1 GiB.")
    ranks = Fix("ranks", "t", flags={"--tensor-parallel-size": "2"})
    override = Fix("override", "t", unset=("--num-gpu-blocks-override",))

    def order(**proven: bool) -> list[str]:
        return [fix.id for fix in ordered([Candidate(fix, proven.get(fix.id, False)) for fix in (ranks, short, fp8, more, override)], {})]

    assert order(short=True, fp8=True, more=True, ranks=True) == ["override", "more", "fp8", "short", "ranks"]
    assert order(short=True, ranks=True) == ["override", "short", "more", "fp8", "ranks"]
    assert order() == ["override", "more", "fp8", "short", "ranks"]
    fixes = ordered([Candidate(more, False)], {})
    assert fixes[0].why == "Adds 1 GiB. A step to try: the log does not prove that it suffices."
    fixes = ordered([Candidate(more, False), Candidate(fp8, False)], {})  # the reason is given once
    assert [fix.why for fix in fixes] == ["Adds 1 GiB. A step to try: the log does not prove that it suffices.", "A step to try."]


LOG = """\
INFO 07-01 10:00:00 [__init__.py:244] Automatically detected platform cuda.
INFO 07-01 10:00:01 [api_server.py:1395] vLLM API server version 0.9.2
ERROR 07-01 10:00:30 [core.py:586] ValueError: To serve at least one request with the models's max seq len (40960), (5.62 GiB KV cache is needed, which is \
larger than the available KV cache memory (4.50 GiB). Based on the available memory, the estimated maximum model length is 32768. Try increasing \
`gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine.
"""


def test_a_fix_that_keeps_the_context_leads_if_the_log_proves_it() -> None:
    report = diagnose(LOG.encode())
    assert report.primary == "kv-cache-too-small-for-max-len"
    assert [fix.id for fix in report.cause.fixes][:2] == ["shorten-context", "fp8-cache"]
    assert {fix.safety for fix in report.cause.fixes} == {"review"}
    report = diagnose(b"GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1a2b3c4d-0000-0000-0000-000000000000)\n" + LOG.encode())
    assert report.facts["gpu_name"] == "NVIDIA H100 80GB HBM3"
    assert [fix.id for fix in report.cause.fixes][:2] == ["fp8-cache", "shorten-context"]
