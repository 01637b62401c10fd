"""The memory ledger: what holds a GPU's memory, by the accounting of each release."""
# ruff: noqa: PLR0917 - hypothesis gives the values in order

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vllm_doctor.memory import Memory, derived, ledger

if TYPE_CHECKING:
    from collections.abc import Mapping


def told(facts: Mapping[str, object]) -> Memory:
    memory = ledger(facts)
    assert memory is not None
    return memory


def sizes(memory: Memory) -> dict[str, float]:
    return {part.name: part.gib for part in memory.parts}


def origins(memory: Memory) -> dict[str, str]:
    return {part.name: part.origin for part in memory.parts}


def gib(values: Mapping[str, float]) -> Any:
    return pytest.approx(values, abs=0.011)


# --- the worked examples ---------------------------------------------------------------------------------------

V100 = {
    "vllm_version": "0.6.5", "gpu_total_gib": 15.77, "gpu_memory_utilization": 0.95, "gpu_requested_gib": 14.98,
    "model_weights_gib": 7.5122, "non_torch_gib": 0.39, "peak_activation_gib": 2.53, "kv_cache_available_gib": 4.55,
    "kv_cache_gpu_blocks": 4660, "kv_cache_cpu_blocks": 4096, "max_model_len": 40_000,
}
RTX_4060 = {
    "vllm_version": "0.7.2", "gpu_total_gib": 8.0, "gpu_memory_utilization": 0.7, "gpu_requested_gib": 5.6,
    "model_weights_gib": 5.2032, "non_torch_gib": 0.03, "peak_activation_gib": 1.42, "kv_cache_available_gib": -1.05,
    "kv_cache_gpu_blocks": 0, "kv_cache_cpu_blocks": 4681, "max_model_len": 4096,
}
H20 = {
    "vllm_version": "0.10.1", "gpu_memory_utilization": 0.9, "max_model_len": 262_144, "kv_cache_needed_gib": 62.0,
    "kv_cache_available_gib": 48.66, "estimated_max_model_len": 205_728, "block_size": 16,
}


def test_example_1_little_is_left_outside_for_graphs() -> None:
    memory = told(V100)
    assert (memory.device_gib, memory.budget_gib, memory.note) == (15.77, 14.98, None)
    assert sizes(memory) == gib({"weights": 7.51, "activations": 2.53, "non_torch": 0.39, "kv_cache": 4.55,
                                 "outside_budget": 0.79})
    assert origins(memory) == {"weights": "log", "activations": "log", "non_torch": "log", "kv_cache": "log",
                               "outside_budget": "computed"}
    assert derived(V100) == {
        "kv_bytes_per_token": 65_536, "kv_cache_capacity_tokens": 74_560, "concurrency_at_max_model_len": 1.86,
        "kv_gib_per_request": 2.4414, "budget_gib": 14.98, "outside_budget_gib": 0.79,
    }
    lower = V100 | {"gpu_memory_utilization": 0.9, "gpu_requested_gib": 14.19, "kv_cache_available_gib": 3.76,
                    "kv_cache_gpu_blocks": 3852}
    assert sizes(told(lower))["outside_budget"] == pytest.approx(1.58, abs=0.01)
    assert derived(lower)["concurrency_at_max_model_len"] == 1.54


def test_example_2_the_budget_is_short() -> None:
    memory = told(RTX_4060)
    assert sizes(memory) == gib({"weights": 5.20, "activations": 1.42, "non_torch": 0.03, "kv_cache": -1.05,
                                 "outside_budget": 2.40})
    assert memory.note == "The budget is 1.05 GiB short before any KV cache."
    found = derived(RTX_4060)
    assert found["kv_bytes_per_token"] == 57_344
    assert found["kv_gib_per_request"] == 0.2188
    assert found["kv_cache_deficit_gib"] == 1.2688
    assert found["kv_cache_capacity_tokens"] == 0


def test_example_3_bytes_per_token_and_the_printed_estimate() -> None:
    found = derived(H20)
    assert found["kv_bytes_per_token"] == 253_952
    assert found["kv_cache_capacity_tokens"] == 205_728
    assert found["kv_cache_deficit_gib"] == 13.34
    unprinted = {name: value for name, value in H20.items() if name != "estimated_max_model_len"}
    assert 205_000 < derived(unprinted)["kv_cache_capacity_tokens"] <= 205_728
    assert ledger(H20) is None  # the KV cache alone is no ledger
    known = H20 | {"gpu_total_gib": 139.8, "model_weights_gib": 66.0}
    assert sizes(told(known)) == gib({"weights": 66.0, "activations_and_non_torch": 11.16, "kv_cache": 48.66,
                                      "outside_budget": 13.98})


def test_example_4_the_smaller_rank_decides() -> None:
    facts = {
        "vllm_version": "0.7.2", "engine": "V0", "gpu_total_gib": 23.55, "gpu_memory_utilization": 0.98,
        "gpu_requested_gib": 23.08, "model_weights_gib": 13.9476, "non_torch_gib": 0.25, "peak_activation_gib": 1.41,
        "kv_cache_available_gib": 7.47, "kv_cache_gpu_blocks": 5096, "max_model_len": 131_072,
        "kv_cache_cpu_blocks": 2730,
    }
    assert sizes(told(facts)) == gib({"weights": 13.95, "activations": 1.41, "non_torch": 0.25, "kv_cache": 7.47,
                                      "outside_budget": 0.47})
    found = derived(facts)
    assert found["kv_cache_capacity_tokens"] == 81_536
    assert found["kv_bytes_per_token"] == 98_304
    assert found["kv_gib_per_request"] == 12.0
    mixed = told(facts | {"kv_cache_available_gib": 8.69})  # of the other rank
    assert sizes(mixed)["unaccounted"] == pytest.approx(-1.22, abs=0.02)
    assert "different ranks or moments" in str(mixed.note)


def test_example_5_no_bytes_per_token_of_all_stages() -> None:
    facts = {"vllm_version": "0.15.2rc1", "pipeline_parallel_size": 2, "max_model_len": 262_144,
             "kv_cache_needed_gib": 24.0, "kv_cache_available_gib": 3.18, "estimated_max_model_len": 34_720}
    assert "kv_bytes_per_token" not in derived(facts)
    assert "kv_bytes_per_token" not in derived({**facts, "vllm_version": None})
    assert derived({**facts, "vllm_version": "0.17.0"})["kv_bytes_per_token"] == 98_304
    assert derived({**facts, "pipeline_parallel_size": 1})["kv_bytes_per_token"] == 98_304


def test_example_6_cpu_backend() -> None:
    facts = {"vllm_version": "0.11.1", "device": "cpu", "max_model_len": 40_960, "kv_cache_needed_gib": 4.38,
             "kv_cache_available_gib": 4.0, "estimated_max_model_len": 37_376, "block_size": 128}
    found = derived(facts)
    assert found["kv_bytes_per_token"] == 114_688
    assert found["kv_cache_capacity_tokens"] == 37_376
    assert found["kv_cache_deficit_gib"] == 0.38
    assert ledger(facts) is None


def test_example_7_graph_estimate_inside_the_budget() -> None:
    facts = {
        "vllm_version": "0.29.0", "gpu_memory_utilization": 0.95, "cuda_graph_estimate_gib": 20.88,
        "suggested_gpu_memory_utilization": 1.0, "equivalent_gpu_memory_utilization": 0.7301, "model_weights_gib": 55.0,
        "kv_cache_available_gib": 4.32, "kv_cache_needed_gib": 6.8, "max_model_len": 262_144,
    }
    memory = told(facts)
    assert memory.device_gib == pytest.approx(94.97, abs=0.1)
    assert memory.note == "The GPU's total follows from the message about CUDA graph memory."
    assert sizes(memory)["cuda_graphs"] == 20.88
    assert sizes(memory)["activations_and_non_torch"] == pytest.approx(90.22 - 55 - 20.88 - 4.32, abs=0.1)
    assert derived(facts)["device_gib"] == memory.device_gib
    smaller = facts | {"cuda_graph_estimate_gib": 9.56, "equivalent_gpu_memory_utilization": 0.8493,
                       "suggested_gpu_memory_utilization": 1.0, "kv_cache_available_gib": 15.36, "cuda_graph_gib": 1.9}
    assert sizes(told(smaller))["activations_and_non_torch"] == pytest.approx(10.30, abs=0.2)
    assert "9.56 GiB are reserved for CUDA graphs, which took 1.9 GiB." in str(told(smaller).note)


def test_example_8_other_processes_in_the_budget() -> None:
    facts = {
        "vllm_version": "0.6.4.post1", "gpu_total_gib": 79.15, "gpu_memory_utilization": 0.2, "peak_torch_gib": 10.83,
        "model_weights_gib": 9.38, "non_torch_gib": 58.99, "kv_cache_available_gib": -53.99,
        "initial_gpu_used_gib": 68.4,
    }
    memory = told(facts)
    assert memory.budget_gib == 15.83
    assert sizes(memory) == gib({"weights": 9.38, "activations": 1.45, "non_torch_and_other_processes": 58.99,
                                 "kv_cache": -53.99, "outside_budget": 63.32})
    assert origins(memory)["activations"] == "computed"
    assert "counts the memory of other processes" in str(memory.note)
    assert "53.99 GiB short" in str(memory.note)
    own = told({**facts, "vllm_version": "0.6.5"})
    assert "non_torch" in sizes(own)
    assert "other processes" not in str(own.note)


def test_example_9_activation_and_non_torch_together() -> None:
    facts = {"vllm_version": "0.10.1", "gpu_name": "NVIDIA H100 80GB HBM3", "gpu_memory_utilization": 0.9,
             "model_weights_gib": 65.97, "kv_cache_available_gib": -2.14}
    memory = told(facts)
    assert memory.device_gib == 79.19
    assert sizes(memory) == gib({"weights": 65.97, "activations_and_non_torch": 7.44, "kv_cache": -2.14,
                                 "outside_budget": 7.92})
    assert origins(memory)["activations_and_non_torch"] == "estimated"
    assert "the usual one of NVIDIA H100 80GB HBM3" in str(memory.note)
    assert "device_gib" not in derived(facts)
    assert "budget_gib" not in derived(facts)
    assert sizes(told({**facts, "gpu_memory_utilization": 0.95, "kv_cache_available_gib": 1.82})) == gib(
        {"weights": 65.97, "activations_and_non_torch": 7.44, "kv_cache": 1.82, "outside_budget": 3.96})


def test_example_10_sampler_at_an_out_of_memory() -> None:
    facts = {
        "vllm_version": "0.8.1", "engine": "V1", "gpu_total_gib": 31.36, "gpu_free_gib": 0.93, "oom_tried_gib": 1.74,
        "oom_process_gib": 30.42, "oom_pytorch_allocated_gib": 29.1, "oom_reserved_unallocated_gib": 0.36,
        "model_weights_gib": 15.27, "kv_cache_available_gib": 10.5, "oom_private_pools_gib": 0.08,
        "gpu_memory_utilization": 0.9,
    }
    memory = told(facts)
    assert sizes(memory) == gib({"weights": 15.27, "kv_cache": 10.5, "cuda_graphs": 0.08, "activations": 3.25,
                                 "reserved_unallocated": 0.36, "non_torch": 0.96, "free": 0.93})
    assert memory.note == "At the moment of the failed allocation."
    unsized = {name: value for name, value in facts.items() if name != "kv_cache_available_gib"}
    assert sizes(told(unsized))["activations"] == pytest.approx(13.83, abs=0.01)


def test_example_11_gb10() -> None:
    facts = {
        "vllm_version": "0.29.1rc1", "gpu_memory_utilization": 0.8, "cuda_graph_estimate_gib": 5.07,
        "equivalent_gpu_memory_utilization": 0.7583, "suggested_gpu_memory_utilization": 0.8417,
        "max_model_len": 196_608, "kv_cache_needed_gib": 23.25, "kv_cache_available_gib": 22.5,
        "estimated_max_model_len": 190_272, "model_weights_gib": 61.0,
    }
    found = derived(facts)
    assert found["kv_bytes_per_token"] == 126_976
    assert found["kv_cache_capacity_tokens"] == 190_272
    assert found["device_gib"] == pytest.approx(121.69, abs=0.3)
    assert sizes(told(facts))["cuda_graphs"] == 5.07


@pytest.mark.parametrize(
    ("free", "total", "share", "requested"),
    [(67.24, 79.25, 0.9, 71.33), (55.87, 119.56, 0.5, 59.78), (102.2, 121.69, 0.85, 103.44)],
)
def test_example_12_not_enough_is_free(free: float, total: float, share: float, requested: float) -> None:
    memory = told({"vllm_version": "0.24.0", "gpu_free_gib": free, "gpu_total_gib": total,
                   "gpu_memory_utilization": share, "gpu_requested_gib": requested})
    assert sizes(memory) == gib({"other_processes": total - free, "free": free})
    assert memory.budget_gib == requested
    assert memory.note == f"vLLM requests {requested:.2f} GiB, {requested - free:.2f} GiB more than is free."


# --- eras ------------------------------------------------------------------------------------------------------

HEALTHY = {"gpu_total_gib": 80.0, "gpu_memory_utilization": 0.9, "model_weights_gib": 16.0,
           "kv_cache_available_gib": 50.0, "cuda_graph_gib": 1.5, "cuda_graph_estimate_gib": 2.0}


def test_graphs_lie_outside_up_to_0_19_and_inside_from_0_20() -> None:
    before = told({**HEALTHY, "vllm_version": "0.19.1"})
    assert sizes(before) == gib({"weights": 16.0, "activations_and_non_torch": 6.0, "kv_cache": 50.0,
                                 "cuda_graphs": 1.5, "outside_budget": 6.5})
    after = told({**HEALTHY, "vllm_version": "0.20.0"})
    assert sizes(after) == gib({"weights": 16.0, "activations_and_non_torch": 4.0, "cuda_graphs": 2.0,
                                "kv_cache": 50.0, "outside_budget": 8.0})
    off = told({**HEALTHY, "vllm_version": "0.20.0", "cuda_graph_estimate_enabled": False})
    assert sizes(off) == sizes(before)
    on = told({**HEALTHY, "vllm_version": "0.19.1", "cuda_graph_estimate_enabled": True})
    assert sizes(on) == sizes(after)
    assert sizes(told(HEALTHY)) == sizes(before)  # no version: nothing says that the estimate was taken off
    assert sizes(told({**HEALTHY, "equivalent_gpu_memory_utilization": 0.875})) == sizes(after)


def test_the_printed_peak_has_the_estimate_in_it_from_0_27() -> None:
    facts = {**HEALTHY, "peak_activation_gib": 5.0, "non_torch_gib": 1.0}
    assert sizes(told({**facts, "vllm_version": "0.27.0"}))["activations"] == 3.0
    assert sizes(told({**facts, "vllm_version": "0.26.0"}))["activations"] == 5.0
    assert sizes(told({**facts, "vllm_version": "0.27.0"})) == gib(
        {"weights": 16.0, "activations": 3.0, "non_torch": 1.0, "cuda_graphs": 2.0, "kv_cache": 50.0,
         "outside_budget": 8.0})


def test_a_negative_estimate_takes_the_cache_past_the_budget() -> None:
    memory = told({**HEALTHY, "vllm_version": "0.26.0", "cuda_graph_estimate_gib": -5.0, "kv_cache_available_gib": 57.0})
    assert sizes(memory) == gib({"weights": 16.0, "activations_and_non_torch": 4.0, "kv_cache": 57.0,
                                 "cuda_graphs": 1.5, "outside_budget": 1.5})
    assert "-5 GiB made the KV cache exceed the budget" in str(memory.note)


@pytest.mark.parametrize(
    ("version", "engine", "counts"),
    [
        ("0.2.4", "V0", False), ("0.2.5", "V0", True), ("0.3.1", "V0", True), ("0.3.3", "V0", False),
        ("0.6.3.post1", "V0", False), ("0.6.4", "V0", True), ("0.6.4.post1", "V0", True), ("0.6.5", "V0", False),
        ("0.6.6", "V1", True), ("0.9.0", "V1", True), ("0.9.0.1", "V1", True), ("0.9.1", "V1", False),
        ("0.8.5", "V0", False), ("0.33.0", "V1", False), ("0.8.5", None, True), ("0.2.7", None, True),
    ],
)
def test_which_releases_count_other_processes(version: str, engine: str | None, counts: bool) -> None:
    facts = {"vllm_version": version, "engine": engine, "gpu_total_gib": 80.0, "gpu_memory_utilization": 0.9,
             "model_weights_gib": 16.0, "kv_cache_available_gib": 20.0}
    assert ("activations_and_non_torch_and_other_processes" in sizes(told(facts))) is counts


def test_memory_outside_pytorch_is_not_counted_before_0_2_5() -> None:
    memory = told({"vllm_version": "0.2.0", "gpu_total_gib": 80.0, "model_weights_gib": 14.0,
                   "kv_cache_gpu_blocks": 6000, "kv_cache_cpu_blocks": 512})
    assert sizes(memory) == gib({"weights": 14.0, "kv_cache": 46.875, "activations": 11.125, "outside_budget": 8.0})
    assert origins(memory)["kv_cache"] == "computed"
    assert memory.note == "The budget assumes the default utilization, 0.9."


@pytest.mark.parametrize(("version", "budget"), [("0.19.1", 72.0), ("0.20.0", 73.6), ("0.20.0rc1", 73.6)])
def test_the_default_utilization_of_a_release(version: str, budget: float) -> None:
    memory = told({"vllm_version": version, "gpu_total_gib": 80.0, "model_weights_gib": 16.0})
    assert memory.budget_gib == budget


def test_no_budget_without_utilization_or_version() -> None:
    assert ledger({"gpu_total_gib": 80.0, "model_weights_gib": 16.0}) is None


# --- the total -------------------------------------------------------------------------------------------------


def test_total_from_what_was_requested() -> None:
    memory = told({"vllm_version": "0.16.0", "gpu_requested_gib": 71.33, "gpu_memory_utilization": 0.9,
                   "model_weights_gib": 16.0, "gpu_name": "NVIDIA A100-SXM4-80GB"})
    assert memory.device_gib == 79.26
    assert memory.note == "The GPU's total is computed: 71.33 GiB requested / 0.9 utilization."
    assert origins(memory)["outside_budget"] == "computed"


def test_total_by_name_is_an_estimate() -> None:
    memory = told({"vllm_version": "0.16.0", "gpu_memory_utilization": 0.9, "model_weights_gib": 16.0,
                   "gpu_name": "NVIDIA A100-SXM4-80GB"})
    assert memory.device_gib == 79.25
    assert set(origins(memory).values()) == {"log", "estimated"}


def test_without_a_total_only_the_parts() -> None:
    memory = told({"vllm_version": "0.8.5.post1", "model_weights_gib": 1.2216, "cuda_graph_gib": 1.99})
    assert (memory.device_gib, memory.budget_gib) == (None, None)
    assert sizes(memory) == {"weights": 1.2216, "cuda_graphs": 1.99}
    assert memory.note == "The log does not show the total memory, so the rest cannot be computed."
    assert ledger({"vllm_version": "0.8.5.post1", "model_weights_gib": 1.2216}) is None


def test_one_name_for_what_counts_other_processes_with_and_without_a_total() -> None:
    facts = {"vllm_version": "0.8.5", "model_weights_gib": 15.0, "non_torch_gib": 2.0, "cuda_graph_gib": 0.5}
    name = "non_torch_and_other_processes"
    assert sizes(told(facts)) == {"weights": 15.0, name: 2.0, "cuda_graphs": 0.5}
    assert sizes(told({**facts, "gpu_total_gib": 24.0, "gpu_memory_utilization": 0.9, "peak_activation_gib": 1.0}))[name] == 2.0


# --- other situations ------------------------------------------------------------------------------------------


def test_a_tenant_outside_the_budget() -> None:
    facts = {**HEALTHY, "vllm_version": "0.19.1", "gpu_free_gib": 74.0}
    assert sizes(told(facts))["other_processes"] == 6.0
    assert sizes(told(facts))["outside_budget"] == pytest.approx(0.5)
    assert "other_processes" not in sizes(told({**facts, "gpu_free_gib": 79.5}))  # a CUDA context


def test_explicit_kv_cache() -> None:
    facts = {"vllm_version": "0.26.0", "gpu_total_gib": 80.0, "gpu_free_gib": 79.0, "gpu_memory_utilization": 0.9,
             "model_weights_gib": 16.0, "kv_cache_memory_bytes": 4 * 2**30, "cuda_graph_gib": 1.0}
    memory = told(facts)
    assert memory.budget_gib is None
    assert sizes(memory) == gib({"weights": 16.0, "cuda_graphs": 1.0, "kv_cache": 4.0, "other_processes": 1.0,
                                 "activations_and_non_torch_and_free": 58.0})
    too_much = told({**facts, "kv_cache_explicit_gib": 90.0})
    assert sizes(too_much) == gib({"other_processes": 1.0, "free": 79.0})
    assert "Its 90.00 GiB are more than the free memory." in str(too_much.note)


def test_cpu_backend() -> None:
    facts = {"vllm_version": "0.32.0", "device": "cpu", "cpu_node_available_gib": 13.57, "cpu_node_total_gib": 15.46,
             "gpu_memory_utilization": 0.99, "gpu_requested_gib": 15.31, "gpu_total_gib": 80.0}
    memory = told(facts)
    assert memory.device_gib == 15.46
    assert sizes(memory) == gib({"other_processes": 1.89, "free": 13.57})


def test_out_of_memory_while_loading() -> None:
    facts = {"gpu_total_gib": 31.48, "gpu_free_gib": 0.437, "oom_tried_gib": 0.4375, "oom_process_gib": 30.97,
             "oom_pytorch_allocated_gib": 27.98, "oom_reserved_unallocated_gib": 0.789}
    memory = told(facts)
    assert sizes(memory) == gib({"weights_and_activations": 27.98, "reserved_unallocated": 0.789, "non_torch": 2.201,
                                 "free": 0.437, "unaccounted": 0.073})
    assert origins(memory)["weights_and_activations"] == "log"
    assert memory.budget_gib is None
    before_2_1 = {**facts, "oom_reserved_unallocated_gib": None, "oom_reserved_gib": 28.769}
    assert sizes(told(before_2_1)) == gib(sizes(memory))


@pytest.mark.parametrize(("shown", "rest"), [
    ({}, "activations"), ({"kv_cache_tokens": 100000}, "activations_and_kv_cache"),
    ({"kv_cache_gpu_blocks": 900}, "activations_and_kv_cache"), ({"cuda_graph_gib": 0.5}, "activations_and_kv_cache"),
])
def test_a_kv_cache_of_unknown_size_is_no_activations(shown: dict[str, float], rest: str) -> None:
    memory = told({"vllm_version": "0.11.0", "gpu_total_gib": 79.25, "gpu_free_gib": 0.5, "model_weights_gib": 15.0,
                   "oom_tried_gib": 1.0, "oom_pytorch_allocated_gib": 70.0, **shown})
    assert sizes(memory)[rest] == 55.0


def test_what_is_free_at_an_out_of_memory_is_not_what_was_free_at_the_start() -> None:
    facts = {**HEALTHY, "vllm_version": "0.19.1", "gpu_free_gib": 0.2}
    assert "kv_cache" not in sizes(told(facts))  # the check at start-up failed
    memory = told({**facts, "oom_tried_gib": 0.5})
    assert sizes(memory) == sizes(told({**HEALTHY, "vllm_version": "0.19.1"}))


def test_out_of_memory_beside_another_process() -> None:
    facts = {"gpu_total_gib": 79.25, "gpu_free_gib": 0.15, "oom_tried_gib": 0.375, "oom_pytorch_allocated_gib": 69.0,
             "oom_process_gib": 70.1, "oom_other_process_gib": 8.96}
    assert sizes(told(facts))["other_processes"] == 8.96
    unlisted = {name: value for name, value in facts.items() if name != "oom_other_process_gib"}
    assert sizes(told(unlisted))["other_processes"] == pytest.approx(9.0, abs=0.01)
    itself = {**unlisted, "oom_process_gib": None, "oom_other_process_gib": 79.0, "oom_pytorch_allocated_gib": 77.0}
    assert sizes(told(itself)) == gib({"weights_and_activations": 77.0, "non_torch": 2.0, "free": 0.15,
                                       "unaccounted": 0.1})


def test_parts_that_do_not_fit_are_named_once() -> None:
    memory = told({"gpu_total_gib": 8.0, "gpu_free_gib": 7.9, "gpu_requested_gib": 7.2, "gpu_memory_utilization": 0.9,
                   "model_weights_gib": 9.0})
    assert sizes(memory) == gib({"weights": 9.0, "unaccounted": -1.8, "outside_budget": 0.8})
    worse = told({"vllm_version": "0.9.1", "gpu_total_gib": 8.0, "gpu_free_gib": 7.0, "gpu_requested_gib": 6.9,
                  "gpu_memory_utilization": 0.86, "model_weights_gib": 9.0, "cuda_graph_gib": 0.5})
    assert sizes(worse) == gib({"weights": 9.0, "cuda_graphs": 0.5, "other_processes": 1.0, "unaccounted": -2.5})


def test_nothing_known_is_no_ledger() -> None:
    assert ledger({}) is None
    assert derived({}) == {}
    assert ledger({"gpu_total_gib": 80.0}) is None
    assert ledger({"vllm_version": "0.9.1", "gpu_total_gib": 0.0, "gpu_free_gib": 0.0}) is None
    assert ledger({"vllm_version": "latest", "model_weights_gib": "16"}) is None


# --- derived ---------------------------------------------------------------------------------------------------


def test_a_healthy_start() -> None:
    facts = {"vllm_version": "0.28.0", "max_model_len": 16_384, "kv_cache_available_gib": 54.22, "max_num_seqs": 256,
             "kv_cache_tokens": 394_752, "max_concurrency": 24.09}
    assert derived(facts) == {
        "kv_bytes_per_token": 147_456, "kv_cache_capacity_tokens": 394_752, "concurrency_at_max_model_len": 24.09,
        "kv_tokens_per_sequence": 1542, "kv_gib_per_request": 2.25,
    }
    assert "kv_bytes_per_token" not in derived({**facts, "num_gpu_blocks_override": 512})


def test_a_hybrid_model_before_0_24_understates_its_tokens() -> None:
    found = derived({"vllm_version": "0.18.0", "kv_cache_available_gib": 17.36, "kv_cache_tokens": 188_640,
                     "max_model_len": 131_072, "max_concurrency": 5.23})
    assert found["kv_cache_capacity_tokens"] == 685_506
    assert found["concurrency_at_max_model_len"] == 5.23
    assert "kv_bytes_per_token" not in found


def test_a_need_that_is_not_in_proportion_gives_no_bytes_per_token() -> None:
    facts = {"vllm_version": "0.29.0", "max_model_len": 250_000, "kv_cache_needed_gib": 1.8,
             "kv_cache_available_gib": 0.35, "estimated_max_model_len": 856}
    found = derived(facts)
    assert "kv_bytes_per_token" not in found
    assert "kv_cache_capacity_tokens" not in found
    assert found["kv_cache_deficit_gib"] == 1.45


def test_swap_space_that_disagrees_with_the_gpu_blocks() -> None:
    facts = {**V100, "swap_space_gb": 8.0}
    assert "kv_bytes_per_token" not in derived(facts)
    assert derived({**facts, "kv_cache_cpu_blocks": 8192})["kv_bytes_per_token"] == 65_536


def test_capacity_from_blocks() -> None:
    found = derived({"vllm_version": "0.2.7", "kv_cache_gpu_blocks": 229, "kv_cache_cpu_blocks": 512,
                     "max_model_len": 4096})
    assert found["kv_cache_capacity_tokens"] == 3664
    assert found["kv_bytes_per_token"] == 524_288
    assert found["kv_gib_per_request"] == 2.0
    assert derived({"kv_cache_gpu_blocks": 10, "block_size": 64})["kv_cache_capacity_tokens"] == 640


# --- whatever the log says ---------------------------------------------------------------------------------------

NAMES = (
    "gpu_total_gib", "gpu_free_gib", "gpu_requested_gib", "gpu_memory_utilization", "model_weights_gib",
    "peak_activation_gib", "peak_torch_gib", "non_torch_gib", "kv_cache_available_gib", "kv_cache_needed_gib",
    "kv_cache_explicit_gib", "kv_cache_memory_bytes", "kv_cache_gpu_blocks", "kv_cache_cpu_blocks", "swap_space_gb",
    "block_size", "max_model_len", "max_num_seqs", "max_concurrency", "kv_cache_tokens", "estimated_max_model_len",
    "cuda_graph_gib", "cuda_graph_estimate_gib", "suggested_gpu_memory_utilization",
    "equivalent_gpu_memory_utilization", "pipeline_parallel_size", "num_gpu_blocks_override", "oom_tried_gib",
    "oom_process_gib", "oom_other_process_gib", "oom_pytorch_allocated_gib", "oom_reserved_unallocated_gib",
    "oom_reserved_gib", "oom_private_pools_gib", "cpu_node_total_gib", "cpu_node_available_gib",
)
words = {
    "vllm_version": st.sampled_from(["0.2.0", "0.2.7", "0.6.4", "0.7.2", "0.9.0", "0.15.2rc1", "0.20.0", "0.33.0", "x", ""]),
    "engine": st.sampled_from(["V0", "V1", "v1", ""]),
    "device": st.sampled_from(["cuda", "cpu"]),
    "gpu_name": st.sampled_from(["NVIDIA L4", "NVIDIA GB10", "?"]),
    "cuda_graph_estimate_enabled": st.booleans(),
}
sane = st.dictionaries(st.sampled_from(NAMES), st.one_of(st.floats(0.01, 200), st.integers(0, 300_000)))
wild = st.dictionaries(
    st.sampled_from(NAMES),
    st.one_of(st.floats(), st.integers(), st.text(max_size=3), st.booleans(), st.none()),
)


@given(st.one_of(sane, wild), st.fixed_dictionaries({}, optional=words))
def test_any_facts_give_a_balanced_ledger_or_none(numbers: dict[str, object], texts: dict[str, object]) -> None:
    facts = {**numbers, **texts}
    memory = ledger(facts)
    if memory is not None:
        assert memory.parts
        assert all(part.gib == part.gib and part.name and part.origin in {"log", "computed", "estimated"}
                   for part in memory.parts)
        assert len({part.name for part in memory.parts}) == len(memory.parts)
        if memory.device_gib is not None:
            total = sum(part.gib for part in memory.parts)
            assert total == pytest.approx(memory.device_gib, abs=0.05, rel=1e-6)
    for name, value in derived(facts).items():
        assert isinstance(value, (int, float)), name
    assert ledger(facts) == memory


@given(st.floats(1, 60), st.floats(0, 20), st.floats(0, 5), st.floats(0.1, 1), st.floats(8, 200), st.sampled_from(
    ["0.7.2", "0.10.2", "0.19.0", "0.26.0"]))
def test_printed_parts_leave_nothing_unaccounted(
    weights: float, peak: float, non_torch: float, share: float, total: float, version: str,
) -> None:
    available = total * share - weights - peak - non_torch
    memory = told({
        "vllm_version": version, "engine": "V1" if version >= "0.7.9" or version.startswith("0.1") else "V0",
        "gpu_total_gib": round(total, 2), "gpu_requested_gib": round(total * share, 2), "gpu_memory_utilization": share,
        "model_weights_gib": round(weights, 4), "peak_activation_gib": round(peak, 2),
        "non_torch_gib": round(non_torch, 2), "kv_cache_available_gib": round(available, 2),
    })
    assert memory.gib("unaccounted") is None
    assert memory.gib("weights") == round(weights, 4)
