"""Read an earlier launch from its log: measured facts replace estimates, its flags replace defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from vllm_doctor.catalog.release_numbers import ReleaseNumbers
from vllm_doctor.diagnosis.capacity import linear_token_bytes
from vllm_doctor.diagnosis.engine import diagnose
from vllm_doctor.errors import InputError
from vllm_doctor.facts.store import number
from vllm_doctor.memory.quantities import Quantities
from vllm_doctor.memory.release_accounting import GRAPHS_RESERVED_SINCE
from vllm_doctor.messages import message
from vllm_doctor.options import Options
from vllm_doctor.reports.model import Report
from vllm_doctor.sizing.launch import parse_release
from vllm_doctor.sizing.plan import Measured


@dataclass(frozen=True)
class LoggedLaunch:
    """A launch as its log shows it: measurements, flags, release and GPU. Sizes in GiB, lengths in tokens."""

    measured: Measured
    launch: dict[str, Any]  # the fields of Launch that the log shows
    version: ReleaseNumbers | None
    device_gib: float | None
    gpu_name: str
    model: str
    free_gib: float | None
    derived_length: int


def read_log(path: str, options: Options) -> LoggedLaunch:
    """Read a log as `diagnose` does. Raises InputError if it shows no memory figures."""
    return _logged_launch(diagnose(path, options))


def _logged_launch(report: Report) -> LoggedLaunch:
    """Extract the launch from the report on its log. Raises InputError if it shows no memory figures."""
    facts, memory = report.facts, report.memory
    weights, available = number(facts, "model_weights_gib"), number(facts, "kv_cache_available_gib")
    if facts.get("device") == "cpu":
        raise InputError(message("{name}: a log of the CPU backend; pass the model folder with --device cpu "
                                 "--kv-cache-space GIB", name=report.source.path))
    if weights is None and available is None:
        raise InputError(message("{name}: the log shows neither the weights nor the KV cache",
                                 name=report.source.path))
    version = facts.get("vllm_version")
    release = parse_release(str(version)) if version else None
    estimate = number(facts, "cuda_graph_estimate_gib")
    inside = release is not None and release >= GRAPHS_RESERVED_SINCE and not facts.get("enforce_eager")
    budget = memory.budget_gib if memory is not None else None
    share = number(facts, "gpu_memory_utilization")
    if memory is not None and memory.device_gib and share:
        budget = memory.device_gib * share  # unrounded, as the plan computes it
    overhead = None
    by_hand = number(facts, "kv_cache_memory_bytes") or number(facts, "kv_cache_explicit_gib")
    if weights is not None and available is not None and budget is not None and not by_hand:
        overhead = budget - weights - available - (estimate or 0.0 if inside else 0.0)
        if overhead <= 0:
            raise InputError(message("{name}: the memory figures in the log do not add up; "
                                     "pass the model folder instead", name=report.source.path))
    elif (peak := number(facts, "peak_activation_gib")) is not None:
        overhead = peak + (number(facts, "non_torch_gib") or 0.0)
    per_token = linear_token_bytes(report.derived)
    measured = Measured(
        weights=weights, activations_and_non_torch=overhead,
        graphs=max(0.0, estimate) if estimate is not None else None if inside else number(facts, "cuda_graph_gib"),
        includes_graph_estimate=inside and estimate is None,
        tokens=_whole(facts, "max_num_batched_tokens"), token_bytes=per_token,
        block_size=_whole(facts, "block_size") or 16, kv_cache_dtype=str(facts.get("kv_cache_dtype") or "auto"),
        tensor_parallel_size=_whole(facts, "tensor_parallel_size") or 1,
        pipeline_parallel_size=_whole(facts, "pipeline_parallel_size") or 1)
    names = ("tensor_parallel_size", "pipeline_parallel_size", "max_model_len", "max_num_seqs",
             "max_num_batched_tokens", "block_size", "kv_cache_memory_bytes")
    launch: dict[str, Any] = {name: value for name in names if (value := _whole(facts, name)) is not None}
    if share is not None:
        launch["gpu_memory_utilization"] = share
    if isinstance(facts.get("enforce_eager"), bool):
        launch["enforce_eager"] = facts["enforce_eager"]
    launch["kv_cache_dtype"] = measured.kv_cache_dtype
    return LoggedLaunch(
        measured, launch, release,
        memory.device_gib if memory is not None else None, str(facts.get("gpu_name") or ""),
        str(facts.get("model") or ""), Quantities(facts).free_at_start(),
        _whole(facts, "derived_max_model_len") or _whole(facts, "max_model_len") or 0)


def _whole(facts: Mapping[str, Any], name: str) -> int | None:
    value = number(facts, name)
    return int(value) if value is not None and value > 0 else None
