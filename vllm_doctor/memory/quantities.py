"""Compute the quantities of a memory ledger from a log's facts: read, computed or estimated."""

from __future__ import annotations

from collections.abc import Mapping

from vllm_doctor.catalog.gpus import total_for_gpu
from vllm_doctor.catalog.release_numbers import release_numbers
from vllm_doctor.facts.store import number
from vllm_doctor.memory.ledger_model import Origin
from vllm_doctor.memory.release_accounting import STAGE_NEED_SINCE, accounting_of
from vllm_doctor.memory.solver.device_total import total_from_graph_message
from vllm_doctor.memory.solver.kv_cache import bytes_per_token, bytes_per_token_from_cpu_blocks, kv_gib
from vllm_doctor.memory.solver.rounding import DEFAULT_BLOCK_SIZE, GIB, HALF_UNIT, most_even_integer
from vllm_doctor.messages import message

Facts = Mapping[str, object]

TOLERANCE = 0.03  # GiB; several printed numbers, each off by up to 0.005
_MAX_NUMBER = 1e15  # no quantity in a log is larger


class Quantities:
    """The memory quantities of one server start, in GiB: total, budget, KV cache, activations, each with its origin."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        version = self.facts.get("vllm_version")
        self.version = release_numbers(version) if isinstance(version, str) else None
        self.block_size = max(1, int(self.number("block_size") or DEFAULT_BLOCK_SIZE))
        self.engine = self._engine()
        self.on_cpu = self.facts.get("device") == "cpu"
        enabled = self.facts.get("cuda_graph_estimate_enabled")
        if enabled is None and self.number("equivalent_gpu_memory_utilization") is not None:
            enabled = True  # vLLM prints that number only if the estimate is enabled
        self.accounting = accounting_of(self.version, self.engine, enabled if isinstance(enabled, bool) else None)
        self.out_of_memory = self.number("oom_tried_gib") is not None
        self.utilization, self.utilization_is_default = self._utilization()
        self.total_origin: Origin = "log"
        self.total_note = ""
        self.total = self._total()
        self.budget = self._budget()

    def number(self, name: str) -> float | None:
        """Return a fact as a number, or None if it is absent or absurdly large."""
        value = number(self.facts, name)
        return value if value is not None and abs(value) <= _MAX_NUMBER else None

    def _engine(self) -> str | None:
        engine = self.facts.get("engine")
        if isinstance(engine, str):
            return engine.upper()
        if self.version is not None and (self.version >= (0, 11, 0) or self.version < (0, 6, 4)):
            return "V1" if self.version >= (0, 11, 0) else "V0"
        if self.number("kv_cache_cpu_blocks"):
            return "V0"
        return "V1" if self.version is not None and self.version >= (0, 8, 0) else None

    def _utilization(self) -> tuple[float | None, bool]:
        given = self.number("gpu_memory_utilization")
        if given is not None or self.on_cpu:
            return given, False
        return self.accounting.default_utilization, self.accounting.default_utilization is not None

    def _total(self) -> float | None:
        """Return the device's total: printed, else computed from other numbers, else the usual one of this GPU."""
        total = self.number("cpu_node_total_gib" if self.on_cpu else "gpu_total_gib")
        if total is not None and total > 0:
            return total
        if self.on_cpu:
            return None
        requested, share = self.number("gpu_requested_gib"), self.number("gpu_memory_utilization")
        if requested and share:
            self.total_origin = "computed"
            self.total_note = message("The GPU's total is computed: {requested:g} GiB requested / {share:g} "
                                      "utilization.", requested=requested, share=share)
            return requested / share
        estimate = self.number("cuda_graph_estimate_gib")
        if estimate is not None:
            total = total_from_graph_message(
                estimate,
                self.number("suggested_gpu_memory_utilization"),
                share,
                self.number("equivalent_gpu_memory_utilization"),
            )
            if total is not None:
                self.total_origin = "computed"
                self.total_note = message("The GPU's total follows from the message about CUDA graph memory.")
                return total
        name = self.facts.get("gpu_name")
        if not isinstance(name, str):
            return None

        total = total_for_gpu(name)
        if total is not None:
            self.total_origin = "estimated"
            self.total_note = message("The log does not print the GPU's total; this is the usual one of {name}.",
                                      name=name)
        return total

    def _budget(self) -> float | None:
        requested = self.number("gpu_requested_gib")
        if requested is not None:
            return requested
        if self.total is None or self.utilization is None:
            return None
        return self.total * self.utilization

    def explicit_kv(self) -> float | None:
        """Return the KV cache size set on the command line, in GiB."""
        if (explicit := self.number("kv_cache_explicit_gib")) is not None:
            return explicit
        given = self.number("kv_cache_memory_bytes")
        return None if given is None else given / GIB

    def kv_cache(self) -> tuple[float, Origin] | None:
        """Return the KV cache in GiB and its origin: set, printed, or computed from its blocks or the model's shape."""
        return self._printed_kv_cache() or self._kv_cache_from_shape()

    def _printed_kv_cache(self) -> tuple[float, Origin] | None:
        """Return the KV cache by the log alone."""
        if (explicit := self.explicit_kv()) is not None:
            return explicit, "log"
        if (available := self.number("kv_cache_available_gib")) is not None:
            return available, "log"
        blocks, per_token = self.number("kv_cache_gpu_blocks"), kv_bytes_per_token(self)
        if blocks and per_token:
            return kv_gib(blocks * self.block_size, per_token), "computed"
        return None

    def _kv_cache_from_shape(self) -> tuple[float, Origin] | None:
        """Return the KV cache in GiB by its tokens and the shape of the model; None if it does not fit what is used."""
        blocks, tokens = self.number("kv_cache_gpu_blocks"), self.number("kv_cache_tokens")
        per_token = self.number("model_kv_bytes_per_token")
        held = blocks * self.block_size if blocks else tokens
        if not held or not per_token or per_token <= 0:
            return None
        size = kv_gib(held, per_token)
        weights, graphs = self.number("model_weights_gib") or 0.0, self.number("cuda_graph_gib") or 0.0
        bounds = ((self.used_while_running(), weights + graphs), (self.budget, weights), (self.total, weights))
        if any(bound is not None and size + beside > bound + TOLERANCE for bound, beside in bounds):
            return None
        return size, "computed"

    def used_while_running(self) -> float | None:
        """Return what is used of the device, if that was read while the server held its memory.

        Before the KV cache is allocated, after a CUDA OOM, or with less in use than the known parts take or more than
        there is, the figure is of another moment.
        """
        used, weights = self.number("gpu_used_gib"), self.number("model_weights_gib")
        allocates = any(self.number(name) for name in ("kv_cache_tokens", "kv_cache_gpu_blocks", "cuda_graph_gib"))
        if used is None or used <= 0 or weights is None or self.out_of_memory or self.on_cpu or not allocates:
            return None
        kv_cache = self._printed_kv_cache()
        held = weights + (self.number("cuda_graph_gib") or 0.0) + (max(0.0, kv_cache[0]) if kv_cache else 0.0)
        if (kv_cache is not None and kv_cache[0] < 0) or (self.total is not None and used > self.total):
            return None
        return used if used >= held - TOLERANCE else None

    def activations(self) -> tuple[float, Origin] | None:
        """Return the activation peak of the memory profiling run in GiB, without weights and CUDA graphs."""
        peak, weights = self.number("peak_activation_gib"), self.number("model_weights_gib")
        estimate = self.number("cuda_graph_estimate_gib")
        if peak is not None and self.accounting.peak_has_graphs and estimate is not None:
            return peak - estimate, "computed"
        if peak is not None:
            return peak, "log"
        torch_peak = self.number("peak_torch_gib")  # 0.6.4: weights included
        return (torch_peak - weights, "computed") if torch_peak is not None and weights is not None else None

    def free_at_start(self) -> float | None:
        """Return the free memory at startup in GiB; None after a CUDA OOM, when `gpu_free_gib` is a later value."""
        if self.on_cpu:
            return self.number("cpu_node_available_gib")
        return None if self.out_of_memory else self.number("gpu_free_gib")


def kv_bytes_per_token(quantities: Quantities) -> int | None:
    """Return the bytes of KV cache per token of a max_model_len request on one rank; None if unknown."""
    number = quantities.number
    needed, length = number("kv_cache_needed_gib"), number("max_model_len")
    available, estimate = number("kv_cache_available_gib"), number("estimated_max_model_len")
    if needed and length:
        per_stage = quantities.version is not None and quantities.version >= STAGE_NEED_SINCE
        if (number("pipeline_parallel_size") or 1) > 1 and not per_stage:
            return None  # up to 0.16 the printed need is the sum over all stages
        if available and estimate and available > 0 and not _is_proportional(needed, available, length, estimate):
            return None
        return bytes_per_token(needed, int(length), quantities.block_size)
    cpu_blocks, blocks = number("kv_cache_cpu_blocks"), number("kv_cache_gpu_blocks")
    if cpu_blocks and not quantities.on_cpu:
        swap = number("swap_space_gb")
        per_token = bytes_per_token_from_cpu_blocks(int(cpu_blocks), swap, quantities.block_size)
        if per_token and blocks and available and available > 0:
            size = kv_gib(blocks * quantities.block_size, per_token)
            # A swap space other than the logged one would contradict the GPU blocks.
            if abs(size - available) > TOLERANCE + per_token * quantities.block_size / GIB:
                return None
        return per_token
    tokens, concurrency = number("kv_cache_tokens"), number("max_concurrency")
    if number("num_gpu_blocks_override"):
        return None  # then the number of blocks does not follow from the memory
    if available and available > 0 and tokens and concurrency and length:
        if abs(concurrency * length / tokens - 1) > 0.01 + 0.005 / concurrency:
            return None  # a hybrid model before 0.24: the printed tokens count one group of layers
        most = tokens + 2 * quantities.block_size  # printed in whole blocks, of which one may be reserved
        return most_even_integer((available - HALF_UNIT) * GIB / most,
                               (available + HALF_UNIT) * GIB / tokens)
    return None


def _is_proportional(needed: float, available: float, length: float, estimate: float) -> bool:
    """Return whether the estimated length is proportional to the memory, that is, all layers use full attention."""
    slack = 0.01 + HALF_UNIT / available + HALF_UNIT / needed + 512 / estimate
    return abs(estimate * needed / (available * length) - 1) <= slack
