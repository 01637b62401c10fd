"""Estimate the memory of a launch other than the KV cache: weights, activations, non-torch memory, CUDA graphs.

Weights come from the checkpoint's headers and are near exact. The rest is estimated, because only vLLM's memory
profiling run on the GPU measures it. Each estimate is a range.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import ceil

from vllm_doctor.memory.solver.rounding import GIB
from vllm_doctor.messages import message
from vllm_doctor.sizing.checkpoint import Tensor
from vllm_doctor.sizing.kv_pages import stages
from vllm_doctor.sizing.launch import Launch
from vllm_doctor.sizing.model_config import DTYPE_BYTES, ModelConfig
from vllm_doctor.sizing.model_layers import State

_LAYER = re.compile(r"(?:^|\.)(?:layers|h|blocks|layer)\.(\d{1,9})\.")
_FLOATS = frozenset({"F64", "F32", "F16", "BF16"})
_ENCODER = re.compile(r"(?:^|\.)(?:visual|vision\w*|audio\w*|multi_modal_projector|mm_projector)\.")
# Every rank holds these in full: norms, routers, the first MLA projections.
_REPLICATED = re.compile(
    r"norm|(?:gate|router|e_score_correction\w{0,40})\.(?:weight|bias)$|_a_proj|kv_a_|q_a_|rotary|wpe\.")
_KV = re.compile(r"\.(?:k|v)_proj\.")
# Bytes per weight of a quantized linear layer, scales included.
_QUANTIZED = {"awq": 0.56, "gptq": 0.56, "bitsandbytes": 0.56, "mxfp4": 0.54, "modelopt-fp4": 0.57, "fp8": 1.01,
              "modelopt": 1.01, "compressed-tensors": 1.01, "fbgemm-fp8": 1.01, "int8": 1.01}


@dataclass(frozen=True, slots=True)
class Range:
    """A quantity in GiB: low end, expected value, high end."""

    low: float
    expected: float
    high: float

    def __add__(self, other: Range) -> Range:
        """Return the sum of the low ends, of the expected values and of the high ends."""
        return Range(self.low + other.low, self.expected + other.expected, self.high + other.high)

    @classmethod
    def exactly(cls, gib: float) -> Range:
        """Return the range of a known quantity."""
        return cls(gib, gib, gib)


def weights(model: ModelConfig, launch: Launch) -> tuple[Range, str]:
    """Return the weights on the GPU that holds the most, and a phrase that says where the number comes from."""
    ranks = launch.tensor_parallel_size * launch.pipeline_parallel_size
    checkpoint = model.checkpoint
    if checkpoint is not None and checkpoint.tensors:
        gib = max(_stage_bytes(model, launch)) / GIB
        estimate, source = Range(gib, gib * 1.005 + 0.01, gib * 1.03 + 0.05), checkpoint.source
    elif checkpoint is not None:
        gib = checkpoint.total / GIB / ranks
        estimate, source = Range(gib * 0.95, gib * 1.02, gib * (1.05 if ranks == 1 else 1.15)), checkpoint.source
    else:
        gib = _parameter_bytes(model, launch) / GIB / ranks
        plain = not model.latent and not model.has_states and not model.multimodal
        estimate = Range(gib * 0.98, gib * 1.01, gib * 1.05) if plain else Range(gib * 0.9, gib, gib * 1.15)
        source = message("the shapes in config.json; there are no weights in the folder")
    if launch.cpu_offload_gb:
        off = min(launch.cpu_offload_gb, estimate.expected)
        # Layers that a kernel repacks may stay on the GPU: up to a tenth of the offloaded size.
        estimate = Range(max(0.0, estimate.low - off), max(0.0, estimate.expected - off),
                         max(0.0, estimate.high - 0.9 * off))
        source = message("{source}, less {gib:g} GiB offloaded", source=source, gib=launch.cpu_offload_gb)
    return estimate, source


def _stage_bytes(model: ModelConfig, launch: Launch) -> list[float]:
    """Return the bytes of weights on one rank of each pipeline stage."""
    parts = stages(model.num_layers, launch.pipeline_parallel_size)
    totals = [0.0] * len(parts)
    for tensor in model.checkpoint.tensors if model.checkpoint is not None else ():
        if model.tied_embeddings and "lm_head." in tensor.name:
            continue  # vLLM keeps one copy
        size = _loaded_bytes(tensor, model, launch) / _shard_count(tensor.name, model, launch.tensor_parallel_size)
        layer = _LAYER.search(tensor.name)
        if _ENCODER.search(tensor.name) or layer is None:
            last = "lm_head" in tensor.name or "norm" in tensor.name
            totals[-1 if last else 0] += size
            if model.tied_embeddings and "embed" in tensor.name and len(parts) > 1 and not _ENCODER.search(tensor.name):
                totals[-1] += size
        elif int(layer.group(1)) < model.num_layers:  # the rest is an MTP draft model, not loaded by default
            totals[next(at for at, part in enumerate(parts) if int(layer.group(1)) in part)] += size
    return totals


def _loaded_bytes(tensor: Tensor, model: ModelConfig, launch: Launch) -> float:
    """Return the bytes of a loaded tensor: in the model's dtype, or quantized while loading (--quantization fp8)."""
    if tensor.dtype not in _FLOATS or model.quantization:
        return float(tensor.size)
    own = DTYPE_BYTES.get(model.dtype if launch.dtype == "auto" else launch.dtype, 2)
    inside = _LAYER.search(tensor.name) and not _REPLICATED.search(tensor.name) and not _ENCODER.search(tensor.name)
    if (size := _quantized_size(launch.quantization)) and inside and tensor.name.endswith("weight"):
        return tensor.elements * size
    return float(tensor.elements * own)


def _shard_count(name: str, model: ModelConfig, ranks: int) -> int:
    """Return the number of ranks that a tensor is sharded over."""
    if ranks == 1 or _REPLICATED.search(name):
        return 1
    return min(ranks, max(1, model.kv_heads)) if _KV.search(name) else ranks


def _parameter_bytes(model: ModelConfig, launch: Launch) -> float:
    """Return the bytes of all weights, computed from the shapes in config.json."""
    hidden, experts = model.hidden_size, model.experts
    attention = sum(1 for layer in model.layers if not isinstance(layer, State) and layer.kind != "indexer")
    heads = (2 * model.attention_heads + 2 * model.kv_heads) * model.head_size
    if model.latent:
        heads = 3 * model.attention_heads * 128 + 2 * model.head_size  # most goes through low ranks
    states = sum(3 * hidden * layer.channels for layer in model.layers if isinstance(layer, State))
    dense = model.num_layers - experts.layers
    if model.model_type == "nemotron_h":
        dense = model.num_layers - len(model.layers)  # a layer is a Mamba, an attention or a feed-forward layer
    elif not attention:
        dense = 0
    feed = 3 * hidden * (dense * model.intermediate_size
                         + experts.layers * (experts.count * experts.intermediate_size + experts.shared))
    linear = attention * hidden * heads + states + feed
    own = DTYPE_BYTES.get(model.dtype if launch.dtype == "auto" else launch.dtype, 2)
    method = model.quantization or launch.quantization
    embeddings = model.vocab_size * hidden * (1 if model.tied_embeddings else 2) * own
    return linear * (_quantized_size(method) or own) + embeddings


def _quantized_size(method: str | None) -> float | None:
    """Return the bytes per weight of a quantization, in either spelling; None without a known one."""
    return _QUANTIZED.get((method or "").replace("_", "-"))


def activations(model: ModelConfig, launch: Launch, tokens: int, sequences: int) -> Range:
    """Estimate the activation peak: a batch of `tokens` in the widest layer, or the sampler over `sequences`.

    vLLM measures the peak with a dummy run of `tokens` and one of the sampler (`profile_run` in
    vllm/v1/worker/gpu_model_runner.py, 0.8-0.33). Measured peaks lie between the larger of the two and twice their sum.
    """
    ranks, width = launch.tensor_parallel_size, 2
    experts = model.experts
    hidden = tokens * model.hidden_size * width * 4
    dense = tokens * 3 * ceil(model.intermediate_size / ranks) * width
    routed = min(tokens, 32768) * experts.per_token * (
        3 * ceil(experts.intermediate_size / ranks) + model.hidden_size) * width
    keys = tokens * ceil((model.attention_heads + 2 * model.kv_heads) * model.head_size / ranks) * 2 * width
    forward = (hidden + max(dense if experts.layers < model.num_layers else 0, routed, keys)) / GIB
    sampler = min(sequences, tokens) * model.vocab_size * 16 / GIB
    larger, smaller = max(forward, sampler), min(forward, sampler)
    peak = Range(0.7 * larger, larger + 0.25 * smaller, 2 * (larger + smaller))
    return peak + Range(0.1, 1.0, 4.0) if model.multimodal else peak


def non_torch(launch: Launch) -> Range:
    """Estimate non-torch memory: library workspaces; with several ranks also NCCL and the custom all-reduce."""
    if launch.device == "cpu":
        return Range.exactly(0.0)
    several = launch.tensor_parallel_size * launch.pipeline_parallel_size > 1
    return Range(0.3, 0.9, 1.6) if several else Range(0.03, 0.25, 0.6)


def cuda_graphs(model: ModelConfig | None, launch: Launch) -> Range:
    """Estimate the CUDA graphs of the default capture sizes; 0 with --enforce-eager, more for MoE and MLA models."""
    if launch.enforce_eager or launch.device == "cpu":
        return Range.exactly(0.0)
    layers = 32 if model is None else ceil(model.num_layers / launch.pipeline_parallel_size)
    expected = 0.3 + 0.02 * layers
    heavy = model is not None and (model.experts.count or model.latent)
    return Range(0.2, expected, expected * (4 if heavy else 2.5))
