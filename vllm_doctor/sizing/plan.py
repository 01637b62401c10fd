"""Plan a launch: the memory ledger of one GPU, the KV cache, and whether the requested length fits.

    KV cache = total * utilization - weights - activations - non-torch memory (- CUDA graphs, from 0.20)

The KV cache arithmetic is vLLM's own (`kv_layout`). Estimates are ranges, and so is everything computed from them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

from vllm_doctor.errors import InputError
from vllm_doctor.memory.solver.rounding import GIB, HALF_UNIT
from vllm_doctor.messages import message
from vllm_doctor.sizing import memory_estimate
from vllm_doctor.sizing.kv_layout import KvLayout, layout_of, layout_of_tokens
from vllm_doctor.sizing.kv_pages import KvSettings
from vllm_doctor.sizing.launch import Launch
from vllm_doctor.sizing.memory_estimate import Range
from vllm_doctor.sizing.model_config import ModelConfig

LENGTHS = (2048, 8192, 32768, 131072)


@dataclass(frozen=True, slots=True)
class PlannedPart:
    """One part of the memory, in GiB. `origin` is checkpoint, log, computed or estimated."""

    name: str
    gib: Range
    origin: str
    outside: bool = False  # of the budget


@dataclass(frozen=True)
class Measured:
    """Measurements from the log of an earlier launch, GiB per GPU; they replace the estimates."""

    weights: float | None = None
    activations_and_non_torch: float | None = None
    graphs: float | None = None
    includes_graph_estimate: bool = False  # `activations_and_non_torch` includes the CUDA graph estimate
    tokens: int | None = None  # max_num_batched_tokens of that start
    token_bytes: int | None = None  # of the KV cache; None if the need is not proportional to the length
    block_size: int = 16
    kv_cache_dtype: str = "auto"
    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1


@dataclass(frozen=True)
class LaunchTarget:
    """What is to be launched: a model folder, the measurements of a log, or both. `device_gib` is the GPU's total."""

    device_gib: float
    model: ModelConfig | None = None
    measured: Measured | None = None
    derived_length: int = 0
    gpu_name: str = ""
    free_gib: float | None = None

    def lengths(self, launch: Launch) -> tuple[int, int]:
        """Return the default max_model_len and the longest that vLLM accepts; 0 if not known."""
        if self.model is not None:
            return self.model.lengths(launch.version)
        return self.derived_length, self.derived_length


@dataclass(frozen=True)
class Plan:
    """The planned memory of a launch on one GPU."""

    target: LaunchTarget
    launch: Launch
    length: int
    parts: tuple[PlannedPart, ...]
    layout: KvLayout
    notes: tuple[str, ...] = field(default=())

    @property
    def budget_gib(self) -> float:
        """Return the memory vLLM requests: total * utilization."""
        return self.target.device_gib * self.launch.utilization

    @cached_property
    def kv_gib(self) -> Range:
        """Return the KV cache: the rest of the budget, or --kv-cache-memory-bytes. `low` is the cautious end."""
        if self.launch.kv_cache_memory_bytes is not None:
            return Range.exactly(self.launch.kv_cache_memory_bytes / GIB)
        inside = [part.gib for part in self.parts if not part.outside]
        budget = self.budget_gib
        return Range(budget - sum(part.high for part in inside), budget - sum(part.expected for part in inside),
                     budget - sum(part.low for part in inside))

    @property
    def need_gib(self) -> float:
        """Return the KV cache that one request of the planned length needs, without the reserved null block."""
        return self.layout.need(self.length) / GIB

    @property
    def missing_gib(self) -> float:
        """Return the GiB of KV cache missing for one request at the cautious end; negative if there is room left."""
        held_back = self.layout.block_bytes if self.layout.accounting.null_block else 0
        return self.need_gib + held_back / GIB - self.kv_gib.low

    def _bytes(self, gib: float) -> int:
        return math.floor(max(0.0, gib) * GIB)

    @cached_property
    def verdict(self) -> str:
        """Return `fits` (even at the cautious end), `likely` (at the expected values) or `does-not-fit`."""
        if self.refusal or not self.layout.fits(self.length, self._bytes(self.kv_gib.expected)):
            return "does-not-fit"
        return "fits" if self.fits_at_cautious_end and not self.lacks_room_outside_budget else "likely"

    @property
    def fits_at_cautious_end(self) -> bool:
        """Return whether one request fits in the KV cache even at the cautious end of the estimates."""
        return self.refusal is None and self.layout.fits(self.length, self._bytes(self.kv_gib.low))

    @property
    def lacks_room_outside_budget(self) -> bool:
        """Return whether memory outside the budget (CUDA graphs up to 0.19) is expected to exceed the room there."""
        outside = sum(part.gib.expected for part in self.parts if part.outside)
        return self.launch.device != "cpu" and outside > self.target.device_gib - self.budget_gib

    @property
    def refusal(self) -> str | None:
        """Return why startup would fail before the KV cache is sized, as a clause; None if it would not."""
        free = self.target.free_gib
        if free is not None and self.budget_gib > free:
            return message("vLLM requests {budget:.2f} GiB at startup but {free:.2f} GiB are free",
                           budget=self.budget_gib, free=free)
        inside = sum(part.gib.expected for part in self.parts if not part.outside)
        if self.launch.kv_cache_memory_bytes is not None and self.launch.device != "cpu" \
                and inside + self.kv_gib.expected > self.target.device_gib:
            return message("the explicit KV cache size does not fit beside the weights")
        return None

    def longest(self, *, cautious: bool = False) -> int:
        """Return the longest max_model_len that fits, at most the model's own; 0 when none does."""
        available = self._bytes(self.kv_gib.low if cautious else self.kv_gib.expected)
        return self.layout.longest(available, max(self.length, self.target.lengths(self.launch)[1]))

    def tokens(self, end: str = "expected") -> int:
        """Return the tokens of the KV cache as vLLM prints them; `end` is low, expected or high."""
        return self.layout.tokens(self._bytes(getattr(self.kv_gib, end)), self.length)

    def concurrency(self, length: int, end: str = "expected") -> float:
        """Return how many requests of `length` tokens fit at once, regardless of --max-num-seqs."""
        return self.layout.concurrency(self._bytes(getattr(self.kv_gib, end)), length)

    @property
    def sequences(self) -> int:
        """Return --max-num-seqs, given or default."""
        return self.launch.sequences(self.target.device_gib, self.target.gpu_name)

    @property
    def batched_tokens(self) -> int:
        """Return --max-num-batched-tokens, given or default."""
        return self.launch.batched_tokens(self.target.device_gib, self.length, self.target.gpu_name)


def plan(target: LaunchTarget, launch: Launch) -> Plan:
    """Plan a launch. Raises InputError if vLLM would refuse it or if its KV cache is not supported here."""
    length = launch.max_model_len or target.lengths(launch)[0]
    if not length:
        raise InputError(message("the context length is unknown: pass --max-model-len"))
    _check(target, launch)
    tokens = launch.batched_tokens(target.device_gib, length, target.gpu_name)
    layout = _layout(target, launch, tokens)
    parts, notes = _parts(target, launch, tokens)
    planned = Plan(target, launch, length, parts, layout, notes)
    if launch.max_model_len == 0:  # auto: the longest that fits, at most the model's own
        fitting = planned.longest()
        planned = Plan(target, launch, fitting or length, parts, layout, notes)
    return planned


def _check(target: LaunchTarget, launch: Launch) -> None:
    """Raise InputError for a launch that vLLM refuses regardless of the memory."""
    model, ranks = target.model, launch.tensor_parallel_size
    if model is not None and model.attention_heads and ranks > 0 and model.attention_heads % ranks:
        raise InputError(message("the model's {heads} attention heads are not divisible by "
                                 "--tensor-parallel-size {ranks}", heads=model.attention_heads, ranks=ranks))
    if min(launch.tensor_parallel_size, launch.pipeline_parallel_size) < 1 or (launch.max_model_len or 0) < 0:
        raise InputError(message("--tensor-parallel-size, --pipeline-parallel-size and --max-model-len are "
                                 "numbers from 1"))
    if not 0 < launch.utilization <= 1:
        raise InputError(message("--gpu-memory-utilization {share:g} must be greater than 0 and at most 1",
                                 share=launch.utilization))
    own = target.lengths(launch)[1]
    if launch.max_model_len and own and launch.max_model_len > own:
        raise InputError(message("--max-model-len {length} is more than the model's own {own}; vLLM refuses that "
                                 "without VLLM_ALLOW_LONG_MAX_MODEL_LEN=1 or a rope scaling",
                                 length=launch.max_model_len, own=own))


def _layout(target: LaunchTarget, launch: Launch, tokens: int) -> KvLayout:
    if target.model is not None:
        settings = KvSettings(
            launch.tensor_parallel_size, launch.pipeline_parallel_size, launch.kv_cache_dtype,
            None if launch.dtype == "auto" else launch.dtype, launch.block_size, launch.device,
            "float32" if _unsure_of_states(target, launch) else launch.mamba_ssm_cache_dtype)
        return layout_of(target.model, settings, launch.version, tokens, prefix_caching=launch.prefix_caching)
    measured = target.measured
    if measured is None or measured.token_bytes is None:
        raise InputError(message("the log does not show the KV cache's bytes per token; pass the model folder as well"))
    return layout_of_tokens(_token_bytes(measured, launch), measured.block_size, launch.version)


def _unsure_of_states(target: LaunchTarget, launch: Launch) -> bool:
    """Return whether the CPU decides the dtype of Mamba states: float32 with AVX-512 BF16, else the model's dtype."""
    states = target.model is not None and target.model.has_states
    return launch.device == "cpu" and launch.mamba_ssm_cache_dtype == "auto" and states


def _token_bytes(measured: Measured, launch: Launch) -> int:
    """Return the bytes per token and rank of this launch, scaled from a measured one.

    Assumes that KV heads and layers are divided evenly.
    """
    then = measured.tensor_parallel_size * measured.pipeline_parallel_size
    now = launch.tensor_parallel_size * launch.pipeline_parallel_size
    was_fp8, is_fp8 = (dtype.startswith("fp8") for dtype in (measured.kv_cache_dtype, launch.kv_cache_dtype))
    size = max(1, measured.token_bytes or 0) * then // now
    return size if was_fp8 == is_fp8 else size // 2 if is_fp8 else size * 2


def _parts(target: LaunchTarget, launch: Launch, tokens: int) -> tuple[tuple[PlannedPart, ...], tuple[str, ...]]:
    model, measured = target.model, target.measured
    parts: list[PlannedPart] = []
    notes: list[str] = []
    if measured is not None and measured.weights is not None:
        then = measured.tensor_parallel_size * measured.pipeline_parallel_size
        now = launch.tensor_parallel_size * launch.pipeline_parallel_size
        gib = max(0.0, measured.weights * then / now - launch.cpu_offload_gb)
        parts.append(PlannedPart("weights", Range.exactly(gib) if then == now else Range(gib, gib * 1.02, gib * 1.08),
                                 "log" if then == now else "computed"))
    elif model is not None:
        gib_range, source = memory_estimate.weights(model, launch)
        exact = model.checkpoint is not None and bool(model.checkpoint.tensors)
        parts.append(PlannedPart("weights", gib_range, "checkpoint" if exact else "estimated"))
        notes.append(message("The weights are by {source}.", source=source))
    else:
        raise InputError(message("the log does not show the size of the weights; pass the model folder as well"))
    if _unsure_of_states(target, launch):
        notes.append(message("The states are taken to be float32, as on a processor with AVX-512 BF16; without it they "
                             "are in the model's dtype."))
    if launch.device == "cpu":
        return tuple(parts), tuple(notes)
    parts += _beside(target, launch, tokens)
    if model is not None and model.multimodal:
        notes.append(message("The encoder's peak depends on the largest image or video; "
                             "the range allows for 4 GiB."))
    return tuple(parts), tuple(notes)


def _beside(target: LaunchTarget, launch: Launch, tokens: int) -> list[PlannedPart]:
    """Return activations, non-torch memory and CUDA graphs: measured if a log has them, else estimated."""
    model, measured = target.model, target.measured
    parts: list[PlannedPart] = []
    graphs = memory_estimate.cuda_graphs(model, launch)
    if measured is not None and measured.activations_and_non_torch is not None:
        peak = measured.activations_and_non_torch + HALF_UNIT  # printed with two decimals
        gib, origin = Range(measured.activations_and_non_torch, peak, peak), "log"
        if measured.tokens and measured.tokens != tokens:
            scaled = peak * (0.25 + 0.75 * tokens / measured.tokens)  # a quarter is fixed
            origin = "estimated"
            gib = Range(0.9 * min(peak, scaled), scaled, peak if scaled < peak else 1.2 * scaled)
        if measured.tensor_parallel_size == 1 < launch.tensor_parallel_size:
            gib, origin = Range(gib.low, gib.expected + 0.6, gib.high + 1.3), "estimated"
        name = "activations_and_non_torch" + ("_and_cuda_graphs" if measured.includes_graph_estimate else "")
        parts.append(PlannedPart(name, gib, origin))
        if measured.includes_graph_estimate:
            return parts
    elif model is not None:
        sequences = launch.sequences(target.device_gib, target.gpu_name)
        peak_range = memory_estimate.activations(model, launch, tokens, sequences)
        parts.append(PlannedPart("activations", peak_range, "estimated"))
        parts.append(PlannedPart("non_torch", memory_estimate.non_torch(launch), "estimated"))
    else:
        raise InputError(message("the log does not show the memory profiling run; pass the model folder as well"))
    if graphs.high:
        known = measured.graphs if measured is not None else None
        parts.append(PlannedPart("cuda_graphs", graphs if known is None else Range.exactly(known),
                                 "estimated" if known is None else "log", outside=not launch.reserves_graphs))
    return parts
