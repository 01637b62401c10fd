from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from model_configs import CONFIGS, FAT, GEMMA_2, GEMMA_3, TINY, folder
from test_model_config import safetensors

from vllm_doctor.catalog import gpus
from vllm_doctor.cli.root import cli
from vllm_doctor.errors import InputError
from vllm_doctor.sizing.changes import changes
from vllm_doctor.sizing.launch import Launch, human_int
from vllm_doctor.sizing.memory_estimate import weights
from vllm_doctor.sizing.model_config import model_of, read_model
from vllm_doctor.sizing.plan import LaunchTarget, plan
from vllm_doctor.sizing.size_report import as_text, document

ROOT = Path(__file__).resolve().parents[2]
# vLLM 0.7.2's words for a start with two ranks' numbers; the rest is made up.
V0_LOG = """\
INFO 02-11 09:00:01 api_server.py:840] vLLM API server version 0.7.2
INFO 02-11 09:00:09 llm_engine.py:234] Initializing a V0 LLM engine (v0.7.2) with config: model='/models/m', \
speculative_config=None, tokenizer='/models/m', dtype=torch.bfloat16, max_seq_len=131072, tensor_parallel_size=2, \
pipeline_parallel_size=1, quantization=None, enforce_eager=False, kv_cache_dtype=auto, device_config=cuda
INFO 02-11 09:01:30 model_runner.py:1115] Loading model weights took 13.9500 GB
INFO 02-11 09:01:40 worker.py:267] Memory profiling takes 3.52 seconds
INFO 02-11 09:01:40 worker.py:267] the current vLLM instance can use total_gpu_memory (23.55GiB) x \
gpu_memory_utilization (0.98) = 23.08GiB
INFO 02-11 09:01:40 worker.py:267] model weights take 13.95GiB; non_torch_memory takes 0.25GiB; PyTorch activation peak \
memory takes 1.41GiB; the rest of the memory reserved for KV Cache is 7.47GiB.
INFO 02-11 09:01:41 executor_base.py:110] # CUDA blocks: 5096, # CPU blocks: 2730
INFO 02-11 09:01:41 executor_base.py:115] Maximum concurrency for 131072 tokens per request: 0.62x
"""


def run(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(cli, ["size", *map(str, arguments)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


def planned(*arguments: object) -> tuple[int, dict[str, Any]]:
    status, out, error = run(*arguments, "--format", "json")
    assert not error, error
    return status, json.loads(out)


def llama(path: Path) -> Path:
    """Llama 3.1 8B's checkpoint, by the shapes of its headers: 16,060,522,496 bytes."""
    tensors: dict[str, tuple[str, list[int]]] = {
        "model.embed_tokens.weight": ("BF16", [128256, 4096]), "lm_head.weight": ("BF16", [128256, 4096]),
        "model.norm.weight": ("BF16", [4096])}
    shapes = {"self_attn.q_proj": [4096, 4096], "self_attn.k_proj": [1024, 4096], "self_attn.v_proj": [1024, 4096],
              "self_attn.o_proj": [4096, 4096], "mlp.gate_proj": [14336, 4096], "mlp.up_proj": [14336, 4096],
              "mlp.down_proj": [4096, 14336], "input_layernorm": [4096], "post_attention_layernorm": [4096]}
    for layer in range(32):
        tensors |= {f"model.layers.{layer}.{name}.weight": ("BF16", shape) for name, shape in shapes.items()}
    safetensors(path / "model.safetensors", tensors)
    return folder(path, CONFIGS["llama-3.1-8b"])


# --- what vLLM printed ---


@pytest.mark.parametrize(("config", "space", "arguments", "tokens", "longest"), [
    (TINY, 1, ("--max-model-len", 8192), 524288, 131072),  # fixtures/logs/healthy
    (TINY, 1, ("--max-model-len", 131072, "--block-size", 17), 524220, 131072),
    (FAT, 1, ("--max-model-len", 8064), 8192, 8064),
    (TINY, 2, ("--max-model-len", 32768), 1048576, 131072),
    (FAT, 3, ("--max-model-len", 16384), 24576, 24448),
    (GEMMA_2, 1, ("--max-model-len", 65536), 1007262, 131072),  # windows beside full attention
    (GEMMA_3, 1, ("--max-model-len", 32768), 6391320, 131072),  # windows alone
])
def test_the_tokens_a_real_vllm_printed(  # noqa: PLR0917
    tmp_path: Path, config: dict[str, Any], space: int, arguments: tuple[object, ...], tokens: int, longest: int,
) -> None:
    safetensors(tmp_path / "model.safetensors", {"model.embed_tokens.weight": ("BF16", [128, 256])})
    status, found = planned(folder(tmp_path, config), "--device", "cpu", "--kv-cache-space", space, "--vllm-version",
                            "0.32.0", *arguments)
    assert (status, found["verdict"]) == (0, "fits")
    assert found["kv_cache"]["tokens"] == {"low": tokens, "expected": tokens, "high": tokens}
    assert found["longest_max_model_len"]["expected"] == longest


def test_what_a_real_vllm_refused(tmp_path: Path) -> None:
    status, found = planned(folder(tmp_path, FAT), "--device", "cpu", "--kv-cache-space", 1, "--vllm-version", "0.32.0")
    assert (status, found["verdict"]) == (1, "does-not-fit")
    assert found["kv_cache"]["needed_gib"] == 16.0
    assert found["longest_max_model_len"]["expected"] == 8064  # "the estimated maximum model length is 8064"
    assert found["changes"][0]["flags"] == {"--max-model-len": "7936"}


def test_the_states_of_a_cpu_are_float32_unless_set(tmp_path: Path) -> None:
    """As answered by vLLM 0.32 (tests/kv_answers.jsonl): a processor with AVX-512 BF16 keeps them so, another does not."""
    model = folder(tmp_path, CONFIGS["granite-4-h-tiny"])
    cpu = ("--device", "cpu", "--kv-cache-space", 8, "--vllm-version", "0.32.0")
    _, taken = planned(model, *cpu)
    _, told = planned(model, *cpu, "--mamba-ssm-cache-dtype", "float32")
    _, own = planned(model, *cpu, "--mamba-ssm-cache-dtype", "bfloat16")
    assert taken["kv_cache"]["needed_gib"] == told["kv_cache"]["needed_gib"] > own["kv_cache"]["needed_gib"]
    assert any("AVX-512 BF16" in note for note in taken["notes"])
    assert not any("AVX-512 BF16" in note for note in (*told["notes"], *own["notes"]))


# --- a model folder and a GPU ---


def test_a_model_that_fits(tmp_path: Path) -> None:
    status, found = planned(llama(tmp_path), "--gpu", "24GiB", "--max-model-len", "8k", "--vllm-version", "0.10.0")
    assert (status, found["verdict"]) == (0, "fits")
    parts = {part["name"]: part for part in found["memory"]["parts"]}
    assert parts["weights"]["low"] == pytest.approx(14.9575, abs=1e-3)
    assert parts["weights"]["from"] == "checkpoint"
    assert not parts["cuda_graphs"]["in_budget"]
    assert found["memory"]["budget_gib"] == 21.6
    assert found["launch"]["max_model_len"] == 8000
    assert found["kv_cache"]["bytes_per_token"] == 131072
    ends = found["kv_cache"]["gib"]
    assert 0 < ends["low"] < ends["expected"] < ends["high"] < 21.6 - 14.95
    assert found["kv_cache"]["tokens"]["low"] == int(ends["low"] * 8192) // 16 * 16
    assert found["model"]["weights_by_dtype"] == {"BF16": 16060522496}


def test_a_model_that_does_not_and_what_makes_it(tmp_path: Path) -> None:
    status, found = planned(llama(tmp_path), "--gpu", "rtx-4090", "--vllm-version", "0.10.0")
    assert (status, found["verdict"]) == (1, "does-not-fit")
    assert found["kv_cache"]["needed_gib"] == 16.0
    assert found["changes"][0]["flags"] == {"--kv-cache-dtype": "fp8", "--quantization": "fp8"}
    assert found["changes"][0]["cost"] == ("slight accuracy loss; not every attention backend supports an FP8 cache; "
                                           "not every GPU supports FP8 weights")
    length = next(int(change["flags"]["--max-model-len"]) for change in found["changes"] if len(change["flags"]) == 1)
    assert length % 256 == 0
    assert found["longest_max_model_len"]["cautious"] - 256 < length <= found["longest_max_model_len"]["cautious"]
    again, after = planned(tmp_path, "--gpu", "rtx-4090", "--vllm-version", "0.10.0", "--max-model-len", length)
    assert (again, after["verdict"], after["changes"]) == (0, "fits", [])
    # What keeps the context comes first.
    status, wanted = planned(tmp_path, "--gpu", "h100-80gb", "--max-model-len", 131072, "--gpu-memory-utilization", 0.4,
                             "--vllm-version", "0.10.0")
    assert status == 1
    offered = [list(change["flags"]) for change in wanted["changes"]]
    assert offered[0] == ["--gpu-memory-utilization"]
    assert offered.index(["--kv-cache-dtype"]) < offered.index(["--max-model-len"]) < offered.index(["--tensor-parallel-size"])
    for change in wanted["changes"]:
        flags = [word for name, value in change["flags"].items() for word in (name, value) if word]
        assert run(tmp_path, "--gpu", "h100-80gb", "--max-model-len", 131072, "--gpu-memory-utilization", 0.4,
                   "--vllm-version", "0.10.0", *flags)[0] == 0


def test_too_large_for_any_single_change(tmp_path: Path) -> None:
    _, found = planned(llama(tmp_path), "--gpu", "16GiB", "--vllm-version", "0.10.0", "--max-model-len", 32768)
    names = [set(change["flags"]) for change in found["changes"]]
    assert {"--tensor-parallel-size"} in names
    assert not any("--enforce-eager" in name for name in names)  # gains nothing before 0.20


def test_auto_takes_the_longest_that_fits(tmp_path: Path) -> None:
    status, found = planned(llama(tmp_path), "--gpu", "24GiB", "--max-model-len", "auto")
    assert status == 0
    assert found["launch"]["max_model_len"] == found["longest_max_model_len"]["expected"] < 131072


def test_more_ranks_share_the_weights(tmp_path: Path) -> None:
    model = read_model(llama(tmp_path))
    whole = weights(model, Launch((0, 10, 0)))[0].low
    halves = weights(model, Launch((0, 10, 0), tensor_parallel_size=2))[0].low
    assert halves == pytest.approx(whole / 2, rel=1e-3)  # the norms are held twice
    last = weights(model, Launch((0, 10, 0), pipeline_parallel_size=2))[0].low
    assert last == pytest.approx(whole / 2, rel=1e-3)
    eight = weights(model, Launch((0, 10, 0), quantization="fp8"))[0].low
    assert weights(model, Launch((0, 10, 0), quantization="fbgemm_fp8"))[0].low == eight
    assert eight == pytest.approx((16060522496 - 2 * 128256 * 4096 * 2) / 2 / 2**30 * 1.01 + 1.957, abs=0.01)
    offloaded = weights(model, Launch((0, 10, 0), cpu_offload_gb=4))[0]
    assert whole - 4 == pytest.approx(offloaded.low, abs=0.01)
    assert offloaded.high > offloaded.low


def test_weights_by_the_shapes_alone(tmp_path: Path) -> None:
    """Against the checkpoints' real sizes, GiB."""
    for name, gib in {"llama-3.1-8b": 14.96, "llama-3.1-70b": 131.4, "mixtral-8x7b": 86.99, "qwen3-8b": 15.26,
                      "gemma-2-9b": 17.21}.items():
        found, told = weights(read_model(folder(tmp_path, CONFIGS[name])), Launch((0, 10, 0)))
        assert found.low <= gib <= found.high, (name, found)
        assert "no weights" in told


def test_estimates_hold_what_real_threads_measured(tmp_path: Path) -> None:
    """Activations and non-torch memory of the ledger's worked examples, GiB."""
    gpt_oss = {**CONFIGS["gpt-oss-20b"], "num_hidden_layers": 36, "num_local_experts": 128, "layer_types": None}
    measured = [(gpt_oss, 79.19, (0, 10, 1), 7.44), (CONFIGS["qwen2.5-7b"], 8.0, (0, 7, 2), 1.45),
                (CONFIGS["qwen3-8b"], 79.19, (0, 28, 0), 3.36 - 1.02)]
    for config, total, version, gib in measured:
        model = read_model(folder(tmp_path, config))
        planned = plan(LaunchTarget(total, model), Launch(version, max_model_len=4096))
        beside = [part.gib for part in planned.parts if part.name in {"activations", "non_torch"}]
        assert sum(part.low for part in beside) <= gib <= sum(part.high for part in beside)


def test_defaults_by_release_and_gpu() -> None:
    assert (Launch((0, 19, 0)).utilization, Launch((0, 20, 0)).utilization) == (0.9, 0.92)
    assert Launch((0, 10, 0)).batched_tokens(79.2, 40960) == 8192
    assert Launch((0, 10, 0)).batched_tokens(79.25, 40960, "a100-80gb") == 2048
    assert Launch((0, 28, 0)).batched_tokens(178.0, 40960) == 16384
    assert Launch((0, 7, 0)).batched_tokens(24.0, 40960) == 40960
    assert Launch((0, 8, 3)).sequences(24.0) == 1024
    assert [human_int(text) for text in ("8192", "8k", "8K", "25.6k")] == [8192, 8000, 8192, 25600]


@pytest.mark.parametrize(("text", "gib"), [
    ("24GiB", 24.0), ("24", 24.0), ("80GB", 74.506), ("h100-80gb", 79.19), ("H100", 79.19), ("4090", 23.52),
    ("NVIDIA L4", 22.05), ("NVIDIA A100-SXM4-80GB", 79.25), ("l40s", 44.4), ("banana", None), ("0GiB", None)])
def test_gpus(text: str, gib: float | None) -> None:
    assert gpus.gib_of(text) == (None if gib is None else pytest.approx(gib, abs=1e-3))


def test_crowded_by_graphs_outside_the_budget(tmp_path: Path) -> None:
    model = read_model(llama(tmp_path))
    planned = plan(LaunchTarget(23.52, model), Launch((0, 10, 0), max_model_len=2048, gpu_memory_utilization=0.99))
    assert (planned.verdict, planned.fits_at_cautious_end, planned.lacks_room_outside_budget) == ("likely", True, True)
    first = changes(planned)[0]
    assert list(first.flags) == ["--gpu-memory-utilization"]
    assert float(first.flags["--gpu-memory-utilization"]) < 0.99


# --- from a log ---


def test_the_launch_of_a_log(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text(V0_LOG)
    status, found = planned("--from", log)
    assert (status, found["verdict"]) == (1, "does-not-fit")
    assert found["memory"]["device_gib"] == 23.55
    assert found["kv_cache"]["bytes_per_token"] == 98304
    assert found["longest_max_model_len"]["expected"] == 81536  # 5096 blocks
    assert found["kv_cache"]["needed_gib"] == 12.0
    flags = [change["flags"] for change in found["changes"]]
    assert {"--kv-cache-dtype": "fp8"} in flags
    assert planned("--from", log, "--max-model-len", 65536)[0] == 0
    assert planned("--from", log, "--kv-cache-dtype", "fp8")[1]["kv_cache"]["bytes_per_token"] == 49152
    log.write_text(V0_LOG.replace("kv_cache_dtype=auto", "kv_cache_dtype=fp8"))
    assert planned("--from", log)[1]["kv_cache"]["bytes_per_token"] == 98304
    assert planned("--from", log, "--kv-cache-dtype", "bfloat16")[1]["kv_cache"]["bytes_per_token"] == 196608


def test_a_log_that_tells_nothing(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("INFO: nothing\n")
    assert run("--from", log)[0] == 2
    status, _, error = run("--from", ROOT / "fixtures" / "logs" / "fatkv-cpu-space-1.log")
    assert (status, "CPU backend" in error) == (2, True)


# --- wrong use, and the text ---


@pytest.mark.parametrize(("arguments", "words"), [
    ((), "nothing to plan"),
    (("MODEL",), "the GPU is unknown"),
    (("MODEL", "--gpu", "banana"), "neither a size"),
    (("MODEL", "--gpu", "24GiB", "--tensor-parallel-size", "3"), "are not divisible by"),
    (("MODEL", "--gpu", "24GiB", "--max-model-len", "1000000"), "more than the model's own"),
    (("MODEL", "--gpu", "24GiB", "--max-model-len", "many"), "is not a number"),
    (("MODEL", "--gpu", "24GiB", "--gpu-memory-utilization", "90"), "at most 1"),
    (("MODEL", "--gpu", "24GiB", "--vllm-version", "new"), "not a version"),
    (("MODEL", "--gpu", "24GiB", "--kv-cache-memory-bytes", "4G", "--vllm-version", "0.9.0"), "does not exist"),
    (("MODEL", "--gpu", "24GiB", "--kv-cache-space", "4"), "--device cpu"),
    (("MODEL", "--device", "cpu"), "--kv-cache-space"),
    (("/nowhere", "--gpu", "24GiB"), "no such folder"),
])
def test_wrong_use(tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    folder(tmp_path, TINY)
    status, out, error = run(*(str(tmp_path) if word == "MODEL" else word for word in arguments))
    assert (status, out) == (2, "")
    assert words in error


def test_the_text(tmp_path: Path) -> None:
    status, out, _ = run(llama(tmp_path), "--gpu", "24GiB", "--vllm-version", "0.30.0", "--width", "80")
    assert status == 1
    assert max(map(len, out.splitlines())) <= 80 + len(str(tmp_path))
    for words in ("131,072 tokens of context on 1 GPU of 24.00 GiB (vLLM 0.30.0) One request of 131,072 tokens needs 16.00 GiB of KV cache, and 5.30 GiB",
                  "131,072 bytes per token, blocks of 16", "Estimates are ranges",
                  "Fix 2 Set --max-model-len 18176 KV cache 2.24 to 6.55, expected 5.30 GiB. Cost: requests longer than 18,176 tokens are rejected."):
        assert words in re.sub(r"\s+", " ", out)
    assert out.startswith("✗ Does not fit: ")
    rows = out.splitlines()
    at = rows.index("  Fix 1  Set --kv-cache-dtype fp8 --quantization fp8")
    command = " ".join(row.strip().rstrip("\\") for row in rows[at:rows.index("", at)] if "serve" in row or row.startswith("             --"))
    assert command.split() == ["vllm", "serve", str(tmp_path), "--kv-cache-dtype", "fp8", "--quantization", "fp8"]
    assert run(tmp_path, "--gpu", "24GiB", "--vllm-version", "0.30.0")[1] == run(
        tmp_path, "--gpu", "24GiB", "--vllm-version", "0.30.0")[1]


@given(name=st.sampled_from(sorted(CONFIGS)), total=st.floats(4, 200), ranks=st.sampled_from([1, 2, 4, 8]),
       minor=st.integers(2, 33), length=st.none() | st.integers(0, 1 << 18), share=st.none() | st.floats(0.05, 1.0),
       eager=st.booleans(), dtype=st.sampled_from(["auto", "fp8"]))
@settings(max_examples=60, deadline=None)
def test_every_change_that_is_offered_makes_it_fit(  # noqa: PLR0917
    name: str, total: float, ranks: int, minor: int, length: int | None, share: float | None, eager: bool, dtype: str,
) -> None:
    launch = Launch((0, minor, 0), tensor_parallel_size=ranks, max_model_len=length, gpu_memory_utilization=share,
                    enforce_eager=eager, kv_cache_dtype=dtype)
    try:
        planned = plan(LaunchTarget(total, model_of(CONFIGS[name])), launch)
    except InputError:
        return
    assert planned.kv_gib.low <= planned.kv_gib.expected <= planned.kv_gib.high
    assert planned.longest(cautious=True) <= planned.longest()
    found = changes(planned)
    assert not (found and planned.verdict == "fits")
    for change in found:
        assert change.plan.fits_at_cautious_end
        assert 0 < change.plan.launch.utilization <= max(0.97, planned.launch.utilization)
        assert change.flags
    assert as_text(planned, found).endswith("\n")
    json.dumps(document(planned, found))


def test_a_cache_below_zero_is_a_shortage(tmp_path: Path) -> None:
    def text(gpu: str) -> str:
        return " ".join(run(llama(tmp_path), "--gpu", gpu, "--vllm-version", "0.30.0", "--width", "200")[1].split())

    assert ("Without any KV cache, the parts inside the budget exceed it by 8.17 to 12.48, expected 9.42 GiB."
            in text("8GiB"))
    assert ("KV cache 0.00 to 1.03, expected 0.00 rest of the budget "
            "At the cautious end, the parts inside the budget exceed it by 3.28 GiB." in text("18GiB"))
    assert "KV cache 2.24 to 6.55, expected 5.30 rest of the budget KV cache:" in text("24GiB")


def test_fp8_weights_are_offered_only_for_unquantized_ones_that_fit_first(tmp_path: Path) -> None:
    def offered(*arguments: object) -> list[dict[str, str]]:
        _, found = planned(llama(tmp_path), "--max-model-len", 32768, "--vllm-version", "0.30.0", *arguments)
        return [change["flags"] for change in found["changes"]]

    assert {"--quantization": "fp8"} in offered("--gpu", "20GiB")
    assert not any("--quantization" in one for one in offered("--gpu", "20GiB", "--quantization", "fp8"))
    assert not any("--quantization" in one for one in offered("--gpu", "15GiB"))


@pytest.mark.parametrize(("gpu", "quantization", "offered"), [
    ("16GiB", (), True), ("8GiB", (), False), ("80GiB", (), False), ("16GiB", ("--quantization", "fp8"), False)])
def test_a_4_bit_checkpoint_is_named_only_where_it_makes_the_launch_fit(
    tmp_path: Path, gpu: str, quantization: tuple[str, ...], *, offered: bool,
) -> None:
    text = run(llama(tmp_path), "--gpu", gpu, "--max-model-len", 32768, "--vllm-version", "0.30.0", *quantization)[1]
    assert ("Use a 4-bit checkpoint (AWQ or GPTQ) of this model" in text) is offered
