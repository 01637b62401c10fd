"""The memory solver: the worked examples of the ledger number by number, and that what it offers really fits."""
# ruff: noqa: PLR0917 - hypothesis gives the values in order

from __future__ import annotations

import inspect
import math

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from vllm_doctor.memory import solver
from vllm_doctor.memory.solver import (
    activation_peak_for,
    available_with_graph_estimate,
    available_with_tensor_parallel,
    batched_tokens_for,
    bytes_per_token,
    bytes_per_token_from_cpu_blocks,
    cpu_kv_space_for,
    equivalent_utilization,
    fp8_need,
    human_bytes,
    kv_cache_memory_bytes_for,
    kv_gib,
    kv_need_with_tensor_parallel,
    length_that_fits,
    offload_gb_for,
    offload_gb_for_host_ram,
    pipeline_stage_need,
    sampler_gib,
    sequences_for_mamba,
    sequences_for_sampler,
    suggested_utilization,
    swap_space_for,
    tensor_parallel_for,
    tokens_in_blocks,
    tokens_that_fit,
    total_for_gpu,
    total_from_graph_message,
    total_from_two_runs,
    utilization_below_free,
    utilization_for_everybody,
    utilization_for_length,
    utilization_for_need,
    utilization_for_parts,
    utilization_for_sampler,
    utilization_limit,
    utilization_minus,
)
from vllm_doctor.memory.solver.rounding import GIB

EXACT = {"null_block": False, "rounding_gib": 0.0}


def about(value: float) -> object:
    """Equal to a number printed with two decimals."""
    return pytest.approx(value, abs=0.0051)


# --- the twelve worked examples --------------------------------------------------------------------------------


def test_example_1_v100_graph_capture() -> None:
    per_token = bytes_per_token_from_cpu_blocks(4096)
    assert per_token == 65536
    assert tokens_in_blocks(4660) == 74_560
    assert tokens_that_fit(4660 / 1024, per_token, 16, **EXACT) == 74_560
    assert tokens_that_fit(4.55, per_token, 16, null_block=False) == 74_464  # the printed 4.55 may be 4.545
    assert about(1.86) == 74_560 / 40_000
    assert utilization_minus(0.95, None, 15.77, 4.55, kv_gib(40_000, per_token, 16)) == 0.85
    lower = 15.77 * 0.90 - 7.51 - 0.39 - 2.53
    assert lower == about(3.76)
    tokens = tokens_that_fit(lower, per_token, 16, **EXACT)
    assert tokens is not None
    assert tokens // 16 == pytest.approx(3852, abs=5)  # the parts are printed with two decimals
    assert tokens / 40_000 == about(1.54)


def test_example_2_negative_budget_on_8_gb() -> None:
    per_token = bytes_per_token_from_cpu_blocks(4681)
    assert per_token == 57_344
    assert kv_gib(4096, per_token) == about(0.22)
    assert utilization_for_length(4096, per_token, -1.05, 0.70, 8.00, block_size=16, null_block=False) == 0.86
    assert utilization_for_parts(0.22, 8.00, 5.20, 1.42, 0.03, rounding_gib=0) == 0.86
    assert utilization_for_parts(0.22, 8.00, 5.20, 1.42, 0.03) == 0.87  # four printed numbers may add up to more


def test_example_3_long_context_on_h20() -> None:
    assert bytes_per_token(62.00, 262_144) == 253_952 == 62 * 8 * 128 * 2 * 2
    assert length_that_fits(262_144, 48.66, 62.00, 16, **EXACT) == 205_728
    assert length_that_fits(262_144, 48.66, 62.00, 16, null_block=False) == 205_696
    assert total_from_two_runs(48.66, 0.90, 55.65, 0.95) == pytest.approx(139.8)
    assert about(0.995) == 0.9 + (62.00 - 48.66) / 139.8
    assert utilization_for_need(62.00, 48.66, 0.9, 139.8) is None
    assert fp8_need(62.00, "auto", 48.66) == 31.0


def test_example_4_two_4090() -> None:
    per_token = 48 * 4 * 128 * 2 * 2
    assert per_token == 98_304
    assert tokens_in_blocks(5096) == 81_536
    assert tokens_that_fit(23.08 - 13.95 - 0.25 - 1.41, per_token, 16, **EXACT) == pytest.approx(81_536, rel=0.02)
    assert kv_gib(131_072, per_token) == 12.0
    assert utilization_for_need(12.0, 7.47, 0.98, 23.55) is None  # 1.17
    assert fp8_need(12.0, None, 7.47) == 6.0


def test_example_5_pipeline_check_counts_all_layers() -> None:
    assert length_that_fits(262_144, 3.18, 24.0, 1, **EXACT) == 34_734
    need = pipeline_stage_need(24.0, 2, layers_of_stage=16, num_layers=48)
    assert need == 8.0
    assert length_that_fits(262_144, 3.18, need, 1, **EXACT) == 104_202
    assert pipeline_stage_need(24.0, 2) == 12.0
    assert pipeline_stage_need(24.0) is None


def test_example_6_cpu_backend() -> None:
    assert kv_gib(40_960, 114_688) == 4.375
    assert bytes_per_token(4.38, 40_960) == 114_688 == 28 * 8 * 128 * 2 * 2
    assert tokens_that_fit(4.0, 114_688, 128, **EXACT) == 37_376
    assert cpu_kv_space_for(4.38) == 5
    assert cpu_kv_space_for(4.38, 7.1) == 5
    assert cpu_kv_space_for(4.38, 6.9) is None
    assert cpu_kv_space_for(5.0) == 6  # printed 5.0, it may be 5.004


def test_example_7_graph_estimate() -> None:
    assert equivalent_utilization(0.95, 20.88, 94.97) == 0.7301
    assert suggested_utilization(0.95, 20.88, 94.97) == 1.0
    assert available_with_graph_estimate(4.32, 20.88, 9.56) == about(15.64)
    assert available_with_graph_estimate(4.32, 20.88, 9.56) / 6.8 == pytest.approx(2.26, abs=0.05)  # measured
    assert available_with_graph_estimate(4.32, 20.88) == about(25.20)  # --enforce-eager
    assert total_from_graph_message(20.88, 1.0, 0.95, 0.7301) == pytest.approx(94.97, abs=0.1)
    assert total_from_graph_message(20.88, 1.0, 0.95) is None  # cut off at 1.0


def test_example_8_others_are_counted() -> None:
    assert about(-53.99) == 79.15 * 0.20 - 10.83 - 58.99
    assert pytest.approx(0.882, abs=0.0005) == (10.83 + 58.99) / 79.15
    assert utilization_for_everybody(10.83, 58.99, 79.15) == 0.89
    assert utilization_for_everybody(10.83 + 2.0, 58.99, 79.15) == 0.91
    assert utilization_for_everybody(10.83 + 9.0, 58.99, 79.15) is None


def test_example_9_activation_peak() -> None:
    peak = 79.19 * 0.9 - 65.97 + 2.14
    assert peak == about(7.44)
    assert 79.19 * 0.95 - 65.97 - peak == about(1.82)
    smaller = activation_peak_for(peak, 8192, 1024)
    assert smaller is not None
    assert 2 <= smaller <= 3
    assert 6 <= 79.19 * 0.95 - 65.97 - smaller <= 7


def test_example_10_sampler() -> None:
    assert sampler_gib(1024, 152_064, 4) == about(0.58)
    assert sampler_gib(1024, 152_064, 12) == about(1.74)
    assert sampler_gib(256, 152_064, 4) == about(0.15)
    assert sampler_gib(256, 152_064, 12) == about(0.44)
    assert sampler_gib(256, 152_064) == about(0.58)
    assert sequences_for_sampler(1024, 1.74, 0.9) == 520
    assert sampler_gib(520, 152_064, 12) < 0.9


def test_example_11_two_gb10() -> None:
    assert bytes_per_token(23.25, 196_608) == 126_976 == 62 * 4 * 128 * 2 * 2
    assert length_that_fits(196_608, 22.5, 23.25, 16, **EXACT) == pytest.approx(190_272, abs=16)
    offered = length_that_fits(196_608, 22.5, 23.25)
    assert offered is not None
    assert 189_000 < offered <= 190_272
    assert equivalent_utilization(0.80, 5.07, 121.69) == pytest.approx(0.7583, abs=0.0001)
    assert total_from_graph_message(5.07, None, 0.80, 0.7583) == pytest.approx(121.69, rel=0.002)
    assert pytest.approx(0.807, abs=0.001) == 0.80 + 0.75 / 121.69
    assert utilization_for_need(23.25, 22.5, 0.80, 121.69) == 0.81


@pytest.mark.parametrize(
    ("free", "total", "bound", "offer"),
    [(67.24, 79.25, 0.848, 0.83), (55.87, 119.56, 0.467, 0.45), (102.2, 121.69, 0.8398, 0.82)],
)
def test_example_12_free_memory(free: float, total: float, bound: float, offer: float) -> None:
    assert free / total == pytest.approx(bound, abs=0.0005)
    assert utilization_below_free(free, total) == offer < bound
    assert utilization_below_free(free, total, 0.02) == pytest.approx(offer - 0.01)


# --- what is refused -------------------------------------------------------------------------------------------


def test_utilization_for_need_refuses() -> None:
    assert utilization_for_need(6.0, 4.0, 0.90, 79.25) == 0.93
    assert utilization_for_need(6.0, 4.0, 0.90, 79.25, gpu_free_gib=73.5) is None  # 0.93 asks for 73.70
    assert utilization_for_need(6.0, 4.0, 0.90, 79.25, gpu_free_gib=73.8) == 0.93
    assert utilization_for_need(6.0, 4.0, 0.93, 79.25) is None
    assert utilization_for_need(6.0, 4.0, 0.93, 79.25, limit=utilization_limit(enforce_eager=True)) == 0.96
    assert utilization_for_need(4.0, 6.0, 0.90, 79.25) is None  # nothing is missing
    assert utilization_for_need(6.0, 4.0, 0.90, 0.0) is None


def test_utilization_limit() -> None:
    assert utilization_limit() == 0.95
    assert utilization_limit(enforce_eager=False) == 0.95
    assert utilization_limit(None, graphs_reserved=True) == 0.97


def test_utilization_for_length_counts_a_block_more_where_the_release_is_unknown() -> None:
    known = utilization_for_length(4096, 2**21, -1.0, 0.5, 100.0, block_size=256, null_block=False)
    unknown = utilization_for_length(4096, 2**21, -1.0, 0.5, 100.0, block_size=256)
    assert (known, unknown) == (0.6, 0.6)
    assert utilization_for_length(4096, 2**24, 0.0, 0.1, 100.0, block_size=256, null_block=False) == 0.75
    assert utilization_for_length(4096, 2**24, 0.0, 0.1, 100.0, block_size=256) == 0.79


def test_utilization_below_free_refuses_what_the_weights_do_not_fit_in() -> None:
    assert utilization_below_free(20.0, 79.25) == 0.24
    assert utilization_below_free(20.0, 79.25, model_weights_gib=15.27, peak_activation_gib=1.5) == 0.24
    assert utilization_below_free(20.0, 79.25, model_weights_gib=18.5) is None
    assert utilization_below_free(0.5, 79.25) is None
    assert utilization_below_free(79.0, 79.25) == 0.95


def test_utilization_minus() -> None:
    assert utilization_minus(0.95, 0.1, 15.77) == 0.84
    assert utilization_minus(0.92, 0.02, 139.8) == 0.89
    assert utilization_minus(0.9) == 0.87
    assert utilization_minus(0.92, 0.02, 139.8, 10.0, 5.0) == 0.89
    assert utilization_minus(0.92, 0.02, 139.8, 10.0, 8.0) is None
    assert utilization_minus(0.03) is None


def test_utilization_for_sampler() -> None:
    assert utilization_for_sampler(0.95, 1.74, 0.5, 79.25) == 0.93
    assert utilization_for_sampler(0.95, 0.3, 0.5, 23.69) == 0.93  # 0.3 GiB stay the least


def test_total_from_graph_message_tells_nothing_when_rounding_decides() -> None:
    assert total_from_graph_message(0.26, 0.7021, 0.7) is None
    assert total_from_graph_message(-20.5, 0.9, 0.8) is None
    assert total_from_graph_message(5.07, 0.8417) is None
    assert total_from_graph_message(5.07, 0.8417, 0.8) == pytest.approx(121.6, abs=0.3)
    assert total_from_graph_message(5.07, 0.8, 0.8) is None


@pytest.mark.parametrize(
    ("name", "total"),
    [
        ("NVIDIA A100-SXM4-80GB", 79.25),
        ("NVIDIA A100-PCIE-40GB", 39.49),
        ("NVIDIA H100 80GB HBM3", 79.19),
        ("NVIDIA H100 NVL", 93.1),
        ("NVIDIA L4", 22.05),
        ("NVIDIA L40S", 44.4),
        ("Tesla T4", 14.58),
        ("Tesla V100-SXM2-16GB", 15.77),
        ("NVIDIA GeForce RTX 4090", 23.52),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", 94.97),
        ("NVIDIA GB10", 121.69),
        ("NVIDIA A100-SXM4-80GB MIG 3g.40gb", None),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", None),
        ("NVIDIA A10-8Q", None),
        ("GRID T4-4C", None),
        ("NVIDIA H20", None),
        ("NVIDIA L400", None),
        ("", None),
    ],
)
def test_total_for_gpu(name: str, total: float | None) -> None:
    assert total_for_gpu(name) == total


def test_bytes_per_token() -> None:
    assert bytes_per_token(24.0, 1_048_576) == 24_576
    assert bytes_per_token(5.62, 40_960) == 147_456
    assert bytes_per_token(0.35, 4096) == pytest.approx(91_750, abs=1)  # too coarse to tell the exact one
    assert bytes_per_token(0.0, 4096) is None
    assert bytes_per_token(4.0, 0) is None
    assert bytes_per_token_from_cpu_blocks(512) == 524_288
    assert bytes_per_token_from_cpu_blocks(327) == 819_200 == 2 * 40 * 40 * 128 * 2
    assert bytes_per_token_from_cpu_blocks(1024, swap_space_gb=1) == 65_536
    assert bytes_per_token_from_cpu_blocks(0) is None
    assert bytes_per_token_from_cpu_blocks(512, swap_space_gb=0) is None


def test_lengths() -> None:
    assert length_that_fits(1_048_576, 9.97, 24.00) == 434_944
    assert length_that_fits(4096, 9.0, 1.0) == 4096
    assert length_that_fits(4096, 0.0, 1.0) is None
    assert length_that_fits(4096, -1.0, 1.0) is None
    assert length_that_fits(256, 0.5, 1.0, 256) is None
    assert tokens_that_fit(0.0, 65_536) is None
    assert tokens_that_fit(1.0, 0) is None
    # A captured start of 0.29: 100 MiB, 2048 bytes a token, blocks of 128, one of them held back.
    assert tokens_that_fit(100 / 1024, 2048, 128, null_block=True, rounding_gib=0) == 51_072
    assert tokens_that_fit(100 / 1024, 2048, 128, null_block=False, rounding_gib=0) == 51_200


def test_kv_gib_in_whole_blocks() -> None:
    assert kv_gib(17, 2**20, 16) == 32 / 1024
    assert kv_gib(17, 2**20) == 17 / 1024


@pytest.mark.parametrize("dtype", ["fp8", "fp8_e4m3", "fp8_e5m2", "fp8_ds_mla", "int8", "nvfp4"])
def test_fp8_halves_only_a_16_bit_cache(dtype: str) -> None:
    assert fp8_need(8.0, dtype) is None


def test_fp8_need() -> None:
    assert fp8_need(8.0) == 4.0
    assert fp8_need(8.0, "bfloat16", 4.02) == 4.0
    assert fp8_need(8.0, "auto", 4.0) is None  # 4.0 may be 3.995


def test_sequences() -> None:
    assert sequences_for_mamba(856) == 856
    assert sequences_for_mamba(857) == 856
    assert sequences_for_mamba(5) == 5
    assert sequences_for_mamba(0) is None
    assert sequences_for_sampler(256, 0.44, 0.001) is None
    assert sequences_for_sampler(256, 0.44, 5.0) == 256
    assert sequences_for_sampler(256, 0.44, 0.01) is None  # 2 sequences


def test_batched_tokens() -> None:
    assert batched_tokens_for(8192, 7.44, 2.14) == 4864
    assert batched_tokens_for(8192, 1.0, 2.14) is None
    assert batched_tokens_for(8192, 7.44, 0.0) is None
    assert activation_peak_for(4.0, 8192, 8192) == 4.0
    assert activation_peak_for(4.0, 0, 8192) is None


def test_tensor_parallel() -> None:
    assert tensor_parallel_for(131.4, 79.25) == 2
    assert tensor_parallel_for(131.4, 79.25, num_gpus_visible=1) is None
    assert tensor_parallel_for(131.4, 44.4) == 4
    assert tensor_parallel_for(70.0, 79.25, 2) == 4
    assert tensor_parallel_for(131.4, 79.25, num_attention_heads=28, num_gpus_visible=8) == 2
    assert tensor_parallel_for(131.4, 44.4, num_attention_heads=28, num_gpus_visible=8) == 4
    assert tensor_parallel_for(300.0, 44.4, num_attention_heads=28, num_gpus_visible=8) is None
    assert tensor_parallel_for(200.0, 44.4, num_attention_heads=12, num_gpus_visible=8) == 6
    assert kv_need_with_tensor_parallel(12.0, 4, 8) == 3.0
    assert kv_need_with_tensor_parallel(12.0, 16, 8, 8) == 12.0  # one head a rank already
    assert kv_need_with_tensor_parallel(12.0, 0, 8) is None
    assert available_with_tensor_parallel(-2.0, 16.0, 2) == 5.0
    assert available_with_tensor_parallel(-2.0, 16.0, 2, 2) is None


def test_host_memory() -> None:
    assert offload_gb_for(3.2) == 4
    assert offload_gb_for(3.999) == 5  # printed with two decimals it may be more than 4
    assert offload_gb_for(3.2, model_weights_gib=4.0) is None
    assert offload_gb_for(10.0, 40.0, host_free_gib=30.0) == 11
    assert offload_gb_for(10.0, 40.0, host_free_gib=30.0, tensor_parallel_size=2) is None
    assert offload_gb_for(0.0) is None
    assert offload_gb_for_host_ram(196.0) == 98
    assert offload_gb_for_host_ram(196.0, 2) == 49
    assert offload_gb_for_host_ram(1.0) is None
    assert swap_space_for(4.3) == 1
    assert swap_space_for(64.0, 8) == 3
    assert swap_space_for(0.5) == 0


def test_kv_cache_memory_bytes() -> None:
    size = kv_cache_memory_bytes_for(5.625, 40_960)
    assert size is not None
    assert size % 2**20 == 0
    assert 5.7 * GIB < size < 5.8 * GIB
    assert kv_cache_memory_bytes_for(5.625, 40_960, gpu_free_gib=22.0, model_weights_gib=15.27) is None
    assert kv_cache_memory_bytes_for(5.625, 40_960, gpu_free_gib=22.6, model_weights_gib=15.27) == size
    known = {"model_weights_gib": 15.27, "peak_activation_gib": 0.5, "cuda_graph_gib": 0.3}
    assert kv_cache_memory_bytes_for(5.625, 40_960, gpu_free_gib=22.0, **known) == size
    assert kv_cache_memory_bytes_for(0.0) is None


@pytest.mark.parametrize(
    ("size", "text"),
    [(4 * GIB, "4G"), (512 * 2**20, "512M"), (4 * GIB + 2**20, "4097M"), (1000, "1000"), (0, "0"), (-5, "-5")],
)
def test_human_bytes(size: int, text: str) -> None:
    assert human_bytes(size) == text


# --- each bound and each term decides --------------------------------------------------------------------------
# On a GPU of 1.005 GiB the total less its rounding error is 1 GiB, and the errors of the numbers show in the result.


def test_utilization_at_its_bounds() -> None:
    assert utilization_for_need(10.0, 0.0, 0.4, 100.0, 50.0, rounding_gib=0) == 0.5  # as much as is free
    assert utilization_for_need(10.0, 0.0, 0.4, 100.0, limit=0.5, rounding_gib=0) == 0.5
    assert utilization_for_need(4.0, 4.0, 0.4, 100.0, rounding_gib=0) is None  # nothing is missing
    assert utilization_for_need(6.0, 4.0, 0.4, 0.0, rounding_gib=0) is None
    assert utilization_for_length(4096, 2**24, 0.0, 0.1, 100.0, block_size=256, null_block=False, rounding_gib=0) == 0.74
    assert utilization_for_length(4096, 2**24, 0.0, 0.4, 100.0, block_size=256, null_block=False) is None  # 1.05


def test_utilization_for_parts_and_for_everybody_at_their_bounds() -> None:
    assert utilization_for_parts(0.22, 8.00, 5.20, 1.42, rounding_gib=0) == 0.86
    assert utilization_for_parts(0.10, 1.00, 0.20, 0.10, 0.08) == 0.51  # 0.50 of 0.995
    assert utilization_for_parts(0.22, 8.00, 5.20, 1.42, 0.03, gpu_free_gib=7.0) == 0.87
    assert utilization_for_parts(0.22, 8.00, 5.20, 1.42, 0.03, gpu_free_gib=6.96) is None  # 0.87 of 8.005 is 6.964
    assert utilization_for_parts(0.22, 8.00, 5.20, 1.42, 0.03, gpu_free_gib=6.96, rounding_gib=0) == 0.86
    assert utilization_for_parts(2.22, 8.00, 5.20, 1.42) is None
    assert utilization_for_parts(0.0, 8.0, 0.0, 0.0, rounding_gib=0) is None
    assert utilization_for_parts(0.22, 0.0, 5.20, 1.42, rounding_gib=0) is None
    assert utilization_for_everybody(0.300, 0.187, 1.000) == 0.50
    assert utilization_for_everybody(10.83, 58.99, 0.0, rounding_gib=0) is None


def test_utilization_below_free_at_its_bounds() -> None:
    assert utilization_below_free(20.0, 0.0) is None
    assert utilization_below_free(0.5, 1.0) == 0.48
    assert utilization_below_free(2.1, 100.0) == 0.01
    assert utilization_below_free(52.0, 100.0, model_weights_gib=49.0) == 0.50  # and 1 GiB of cache
    assert utilization_below_free(20.0, 79.25, model_weights_gib=17.5) == 0.24  # 18.5 GiB of 19.02
    assert utilization_below_free(20.0, 79.25, model_weights_gib=15.0, peak_activation_gib=3.5) is None


def test_utilization_minus_at_its_bounds() -> None:
    assert utilization_minus(0.04) == 0.01
    assert utilization_minus(0.92, 0.02, 139.8, None, 5.0) == 0.89
    # 0.03 of 139.805 GiB go: 5.80585 GiB are left, 0.01 more than the need.
    assert utilization_minus(0.92, 0.02, 139.8, 10.0, 5.793) == 0.89
    assert utilization_minus(0.92, 0.02, 139.8, 10.0, 5.796) is None


def test_utilization_for_sampler_at_its_bounds() -> None:
    assert utilization_for_sampler(0.95, 0.2, 0.1, 0.505) == 0.13  # 0.41 GiB of 0.5
    assert utilization_for_sampler(0.42, 0.2, 0.1, 1.005) == 0.01
    assert utilization_for_sampler(0.30, 0.2, 0.1, 1.005) is None


def test_equivalent_and_suggested_utilization() -> None:
    assert suggested_utilization(0.80, 5.07, 121.69) == 0.8417
    assert suggested_utilization(0.80, 0.1, 1.0) == 0.9
    assert suggested_utilization(0.80, 0.1, 0.0) is None
    assert equivalent_utilization(0.90, 0.1, 1.0) == 0.8
    assert equivalent_utilization(0.90, 0.1, 0.0) is None


def test_totals_to_two_decimals() -> None:
    assert total_from_graph_message(5.07, 0.8417, 0.8) == 121.58
    assert total_from_graph_message(0.9, 0.91, 0.9) == 90.0
    assert total_from_graph_message(0.0, 0.91, 0.9) is None
    assert total_from_two_runs(10.0, 0.90, 11.0, 0.93) == 33.33
    assert total_from_two_runs(10.0, 0.90, 11.0, 0.90) is None
    assert total_from_two_runs(10.0, 0.90, 10.0, 0.95) is None
    assert total_from_two_runs(11.0, 0.90, 10.0, 0.95) is None


def test_host_memory_at_its_bounds() -> None:
    assert offload_gb_for(0.5) == 1
    assert offload_gb_for(9.5, host_free_gib=18.0) == 10
    assert offload_gb_for_host_ram(2.0) == 1
    assert swap_space_for(5.0) == 1  # printed 5.0, it may be 4.995
    assert cpu_kv_space_for(0.5) == 1
    assert cpu_kv_space_for(4.38, 7.0) == 5


def test_activations_and_sequences_at_their_bounds() -> None:
    assert sequences_for_sampler(256, 0.0, 5.0) is None
    assert sequences_for_mamba(1) == 1
    assert activation_peak_for(4.0, 1, 1) == 4.0
    assert batched_tokens_for(8192, 6.0, 1.25) == 5888
    assert batched_tokens_for(8192, 1.0, 0.25) == 5120
    assert batched_tokens_for(8192, 0.0, 0.25) is None
    assert batched_tokens_for(4096, 1.0, 0.6) == 512  # the least that is offered
    assert batched_tokens_for(8192, 2.0, 0.41) == 5888


def test_tensor_parallel_at_its_bounds() -> None:
    assert tensor_parallel_for(300.0, 44.4, num_gpus_visible=8) == 8
    assert tensor_parallel_for(300.0, 44.4, num_gpus_visible=8, num_attention_heads=8) == 8
    assert tensor_parallel_for(600.0, 79.25, num_attention_heads=9) is None  # 8 GPUs at most where none are counted
    assert tensor_parallel_for(600.0, 79.25, num_gpus_visible=8, num_attention_heads=9) is None
    assert tensor_parallel_for(10.0, 79.25, 2) == 4  # larger than now, although the weights fit
    assert tensor_parallel_for(80.0, 44.4, 2) == 8
    assert tensor_parallel_for(170.0, 100.0) == 4  # printed 170.0, it may be 170.005
    assert kv_need_with_tensor_parallel(12.0, 1, 8, 4) == 48.0
    assert kv_need_with_tensor_parallel(12.0, 4, 1) == 12.0
    assert kv_need_with_tensor_parallel(12.0, 2, 6, 4) == 36.0  # whole heads: one a rank now, three then
    assert kv_need_with_tensor_parallel(12.0, 4, 6) == 2.0
    assert pipeline_stage_need(24.0, 2, layers_of_stage=16) == 12.0


def test_lengths_and_tokens_at_their_bounds() -> None:
    assert length_that_fits(4096, 0.5, 1.0, 16, **EXACT) == 2048
    assert length_that_fits(512, 0.5, 1.0, **EXACT) == 256
    assert length_that_fits(4096, 4.0, 0.0, **EXACT) is None
    assert tokens_that_fit(0.505, 2**20) == 256  # two blocks of 256, one of them held back
    assert bytes_per_token_from_cpu_blocks(300) == 893_298
    assert str(bytes_per_token(24.0, 1_048_576)) == "24576"
    assert fp8_need(8.0, "float16") == fp8_need(8.0, "half") == 4.0
    assert fp8_need(8.0, "auto", 4.01) == 4.0
    assert fp8_need(8.0, "auto", 4.0, rounding_gib=0) == 4.0


def test_kv_cache_memory_bytes_at_their_bounds() -> None:
    size = 5876 * 2**20  # 5.738 GiB
    assert kv_cache_memory_bytes_for(0.5) == 523 * 2**20
    assert kv_cache_memory_bytes_for(5.625, 40_960, gpu_free_gib=10.0) == size
    assert kv_cache_memory_bytes_for(5.625, 40_960, model_weights_gib=15.27) == size
    all_known = {"model_weights_gib": 15.27, "peak_activation_gib": 0.5, "cuda_graph_gib": 0.3}
    assert kv_cache_memory_bytes_for(5.625, 40_960, gpu_free_gib=21.96, **all_known) == size
    assert kv_cache_memory_bytes_for(5.625, 40_960, gpu_free_gib=21.95, **all_known) is None
    for known in ({"peak_activation_gib": 1.0}, {"cuda_graph_gib": 1.0}):  # 1.5 GiB are assumed
        assert kv_cache_memory_bytes_for(5.625, 40_960, gpu_free_gib=22.51, model_weights_gib=15.27, **known) == size
        assert kv_cache_memory_bytes_for(5.625, 40_960, gpu_free_gib=22.50, model_weights_gib=15.27, **known) is None


# --- it really fits, by vLLM's own arithmetic --------------------------------------------------------------------

totals = st.integers(4 * GIB, 200 * GIB)
shares = st.integers(5, 99).map(lambda percent: percent / 100)
blocks = st.sampled_from([16, 32, 64, 128, 256])
per_tokens = st.integers(1, 4000).map(lambda units: units * 512)
lengths = st.integers(64, 2_000_000)


def printed(size: float) -> float:
    """A number of bytes as vLLM prints it: GiB, two decimals (mem_utils.format_gib)."""
    return round(size / GIB, 2)


def need_of(length: int, block: int, per_token: int) -> int:
    """KV cache that one request needs, in bytes (FullAttentionSpec.max_memory_usage_bytes)."""
    return math.ceil(length / block) * block * per_token


def test_utilization_at_the_worst_of_all_roundings() -> None:
    total, need, available = (int(gib * GIB) for gib in (99.99501, 90.00499, 0.00501))
    assert [printed(size) for size in (total, need, available)] == [100.0, 90.0, 0.01]
    other = math.ceil(total * 0.05) - available
    assert math.ceil(total * 0.95) - other < need  # 0.95 is what the printed numbers seem to allow
    assert utilization_for_need(90.0, 0.01, 0.05, 100.0, limit=0.99) == 0.96
    assert math.ceil(total * 0.96) - other >= need


# Where the naive number is a hair wrong: a few MiB beside a whole hundredth of the GPU.
near = st.integers(-30 * 2**20, 30 * 2**20)


@settings(max_examples=300)
@given(totals, shares, st.floats(0.01, 1.2), st.integers(5, 99), near, st.integers(-1, 3), near, blocks, per_tokens)
@example(total=14_026_458_983, share=0.85, taken=0.375, wanted=85, hair=-1, more=1, free_hair=0, block=16, per_token=512)
def test_utilization_offered_fits_and_is_free(
    total: int, share: float, taken: float, wanted: int, hair: int, more: int, free_hair: int, block: int,
    per_token: int,
) -> None:
    other = int(total * taken)  # weights, activations, non-torch
    available = math.ceil(total * share) - other
    free = min(total, math.ceil(total * (wanted + more) / 100) + free_hair)
    need = max(1, math.ceil(total * (wanted / 100)) - other + hair)
    length = max(1, need // per_token)
    facts = {"kv_cache_available_gib": printed(available), "gpu_memory_utilization": share,
             "gpu_total_gib": printed(total), "gpu_free_gib": printed(free), "limit": 0.99}
    for offer, needed in (
        (utilization_for_need(printed(need), **facts), need),
        (utilization_for_length(length, per_token, **facts, block_size=block, null_block=False),
         need_of(length, block, per_token)),
        (utilization_for_length(length, per_token, **facts, block_size=block),
         need_of(length, block, per_token) + block * per_token),
        (utilization_for_length(length, per_token, **facts), need_of(length, 256, per_token)),
    ):
        if offer is not None:
            assert share < offer <= 0.99
            assert round(offer, 2) == offer
            assert math.ceil(total * offer) <= free
            assert math.ceil(total * offer) - other >= needed


@settings(max_examples=300)
@given(totals, st.integers(0, 101), near, st.sampled_from([0.0, 0.01, 0.02]))
def test_utilization_below_free_is_free(total: int, percent: int, hair: int, margin: float) -> None:
    free = max(0, min(total, math.ceil(total * percent / 100) + hair))
    offer = utilization_below_free(printed(free), printed(total), margin)
    if offer is not None:
        assert math.ceil(total * offer) <= free
        assert math.ceil(total * (offer + margin)) <= free + 2**20


@settings(max_examples=300)
@given(totals, st.floats(0.1, 0.5), st.floats(0.0, 0.3), st.floats(0.0, 0.1), st.integers(61, 99), near)
def test_utilization_for_parts_covers_them(
    total: int, weights: float, peak: float, non_torch: float, wanted: int, hair: int,
) -> None:
    parts = [int(total * part) for part in (weights, peak, non_torch)]
    need = max(1, math.ceil(total * (wanted / 100)) - sum(parts) + hair)
    for offer in (
        utilization_for_parts(printed(need), printed(total), *(printed(part) for part in parts), limit=0.99),
        utilization_for_everybody(printed(sum(parts)), printed(need), printed(total), limit=0.99),
    ):
        if offer is not None:
            assert offer <= 0.99
            assert math.ceil(total * offer) >= sum(parts) + need


@settings(max_examples=300)
@given(st.floats(0.0, 1.0), near, blocks, per_tokens, lengths, st.booleans(), st.booleans())
def test_length_offered_fits(
    part: float, hair: int, block: int, per_token: int, length: int, null_block: bool, block_known: bool,
) -> None:
    available = int(part * length / block) * block * per_token + hair  # beside a whole number of blocks
    need = max(available + 1, need_of(length, block, per_token))
    page = block * per_token
    room = available - (page if null_block else 0)  # get_kv_cache_configs, 0.29: the check plans without the null block
    size = block if block_known else None
    known = null_block if block_known else None
    for offer in (
        length_that_fits(length, printed(available), printed(need), size, known),
        tokens_that_fit(printed(available), per_token, size, known),
    ):
        if offer is not None:
            assert offer > 0
            assert offer % block == 0 or offer == length
            assert need_of(offer, block, per_token) <= room
    assert (length_that_fits(length, printed(available), printed(need), size, known) or 0) <= length


@given(st.floats(0.05, 0.95), blocks, per_tokens, lengths)
def test_length_offered_is_not_needlessly_short(part: float, block: int, per_token: int, length: int) -> None:
    need = need_of(length, block, per_token)
    available = int(need * part)
    assume(available > GIB // 50)
    best = available // (block * per_token) * block
    offer = length_that_fits(length, printed(available), printed(need), block, null_block=False) or 0
    slack = best * (0.0101 / (available / GIB) + 0.0101 / (need / GIB)) + 2 * block
    assert offer >= best - slack


@given(blocks, per_tokens, lengths, st.booleans())
def test_kv_cache_memory_bytes_hold_the_need(block: int, per_token: int, length: int, known: bool) -> None:
    need = need_of(length, block, per_token)
    size = kv_cache_memory_bytes_for(printed(need), length, block if known else None)
    if size is not None:
        assert size // (block * per_token) - 1 >= need // (block * per_token)  # 0.29: without the null block
        text = human_bytes(size)
        assert int(text[:-1]) * {"G": GIB, "M": 2**20}[text[-1]] == size


@given(per_tokens, lengths)
def test_bytes_per_token_prints_as_the_need(per_token: int, length: int) -> None:
    need = printed(need_of(length, 16, per_token))
    found = bytes_per_token(need, length)
    if found is not None:
        assert need_of(length, 16, found) / GIB == pytest.approx(need, abs=0.0051 + length / GIB)


@given(st.integers(1, 80), st.sampled_from([1, 2, 4, 8]), st.sampled_from([64, 128]), st.integers(200, 400_000))
def test_cpu_blocks_give_the_true_bytes_per_token(layers: int, heads: int, size: int, swap_mib: int) -> None:
    per_token = 2 * layers * heads * size * 2
    cpu_blocks = swap_mib * 2**20 // (16 * per_token)
    assume(cpu_blocks > 400)
    found = bytes_per_token_from_cpu_blocks(cpu_blocks, swap_mib / 1024)
    assert found == pytest.approx(per_token, rel=1 / cpu_blocks)


@given(st.floats(0.1, 50), st.floats(0, 10), st.floats(-5, 40), shares, st.floats(8, 200))
def test_more_need_is_never_a_smaller_utilization(
    need: float, more: float, available: float, share: float, total: float,
) -> None:
    less = utilization_for_need(need, available, share, total, limit=9.0)
    greater = utilization_for_need(need + more, available, share, total, limit=9.0)
    assert (less or 0) <= (greater or 0)
    assert less is None or less > share


@given(lengths, st.floats(0.1, 50), st.floats(0, 10), st.floats(0.1, 50))
def test_more_memory_is_never_a_shorter_length(length: int, available: float, more: float, need: float) -> None:
    assert (length_that_fits(length, available, need) or 0) <= (length_that_fits(length, available + more, need) or 0)
    assert (length_that_fits(length, available, need) or 0) >= (length_that_fits(length, available, need + more) or 0)


@given(shares, st.floats(0, 5), st.floats(8, 200))
def test_room_for_graphs_is_left(share: float, tried: float, total: float) -> None:
    offer = utilization_minus(share, tried, total)
    if offer is not None:
        assert offer <= share - 0.03 + 1e-9
        assert (1 - offer) * total - (1 - share) * total >= 1 + tried - 1e-6


# --- as filters --------------------------------------------------------------------------------------------------


def test_every_function_is_a_documented_filter() -> None:
    for name in solver.__all__:
        function = getattr(solver, name)
        assert inspect.isfunction(function), name
        assert function.__doc__, name
        kinds = {parameter.kind for parameter in inspect.signature(function).parameters.values()}
        assert kinds == {inspect.Parameter.POSITIONAL_OR_KEYWORD}, name


def test_an_unknown_fact_can_be_none() -> None:
    assert utilization_for_need(6.0, 4.0, 0.90, 79.25, None) == 0.93
    assert length_that_fits(131_072, 8.0, 16.0, None, None) == 65_024
    assert tensor_parallel_for(131.4, 79.25, None, None, None) == 2
    assert kv_cache_memory_bytes_for(5.625, None, None, None, None, None, None) is not None
