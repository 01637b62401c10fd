"""The memory ledger: what holds the memory of one GPU, part by part, by the accounting of the release.

    requested = total * utilization
    KV cache  = requested - weights - activation peak - non-torch memory (- CUDA graph estimate, from 0.20)
    outside   = total - requested: CUDA graphs up to 0.19, other processes, growth at run time

Source: worker.determine_num_available_blocks (V0), gpu_worker.determine_available_memory (V1). GiB are 2**30
bytes; all is per GPU. Which parts a release counts as its own is in `_Era`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from vllm_doctor import solver

__all__ = ["Memory", "Part", "derived", "ledger"]

Origin = Literal["log", "computed", "estimated"]
Facts = Mapping[str, object]

_TOLERANCE = 0.03  # GiB; several printed numbers, each off by up to 0.005
_MOST = 1e15  # no quantity of a log is larger
_A_TENANT = 1.0  # GiB; less than this is a CUDA context or a desktop, not another server


@dataclass(frozen=True, slots=True)
class Part:
    """One holder of memory. `origin`: read from the log, computed from it exactly, or estimated.

    Names: weights, activations, non_torch, cuda_graphs, kv_cache, other_processes, reserved_unallocated,
    free, outside_budget, unaccounted. Where the log gives only the sum of some, their names are joined with
    `_and_`.
    """

    name: str
    gib: float
    origin: Origin


@dataclass(frozen=True, slots=True)
class Memory:
    """The ledger of one GPU. With a total, the parts sum to it; a KV cache below zero is what is lacking.

    `device_gib` and `budget_gib` are None when the log does not tell them; `note` says in words what was
    inferred.
    """

    device_gib: float | None
    budget_gib: float | None
    parts: tuple[Part, ...]
    note: str | None = None

    def gib(self, name: str) -> float | None:
        """The size of the part of that name, or None."""
        return next((part.gib for part in self.parts if part.name == name), None)


def ledger(facts: Facts) -> Memory | None:
    """Where the memory of the GPU went, or None when the log tells too little."""
    memory = _Ledger(facts).build()
    return memory if memory is not None and memory.parts else None


def derived(facts: Facts) -> dict[str, float | int]:
    """What follows from the facts by computation alone; absent when it does not follow.

    kv_bytes_per_token, kv_cache_capacity_tokens, kv_gib_per_request (of max_model_len tokens),
    concurrency_at_max_model_len, kv_tokens_per_sequence (with max_num_seqs running), kv_cache_deficit_gib,
    device_gib (when the log does not print the total), budget_gib, outside_budget_gib.
    """
    book = _Ledger(facts)
    found: dict[str, float | int] = {}
    if (per_token := _kv_bytes_per_token(book)) is not None:
        found["kv_bytes_per_token"] = per_token
    length = book.number("max_model_len")
    capacity = _capacity_tokens(book, per_token)
    if capacity is not None:
        found["kv_cache_capacity_tokens"] = capacity
        if length:
            found["concurrency_at_max_model_len"] = round(capacity / length, 2)
        if sequences := book.number("max_num_seqs"):
            found["kv_tokens_per_sequence"] = int(capacity // sequences)
    needed, available = book.number("kv_cache_needed_gib"), book.number("kv_cache_available_gib")
    if needed is None and per_token and length:
        needed = solver.kv_gib(length, per_token, book.block_size)
    if needed is not None:
        found["kv_gib_per_request"] = round(needed, 4)
        if available is not None and needed > available:
            found["kv_cache_deficit_gib"] = round(needed - available, 4)
    if book.total is not None and book.total_origin == "computed":
        found["device_gib"] = round(book.total, 2)
    if book.budget is not None and book.total_origin != "estimated":
        found["budget_gib"] = round(book.budget, 2)
        if book.total is not None:
            found["outside_budget_gib"] = round(book.total - book.budget, 2)
    return found


@dataclass(frozen=True)
class _Era:
    """How a release counts (section 1 of the memory ledger)."""

    counts_others: bool  # what other processes hold is taken from this instance's budget
    counts_non_torch: bool  # memory outside PyTorch is taken from the budget
    reserves_graphs: bool  # the CUDA graph estimate is taken from the budget
    peak_has_graphs: bool  # the printed activation peak includes that estimate
    default_utilization: float | None


def _era(version: tuple[int, int, int] | None, engine: str | None, graphs_enabled: bool | None) -> _Era:
    if version is None:
        return _Era(False, True, bool(graphs_enabled), False, None)
    if engine == "V1":
        counts_others = (0, 6, 4) <= version <= (0, 9, 0)
    else:
        counts_others = (0, 2, 5) <= version < (0, 3, 3) or version == (0, 6, 4)
    reserves = graphs_enabled if graphs_enabled is not None else version >= (0, 20, 0)
    return _Era(
        counts_others=counts_others,
        counts_non_torch=version >= (0, 2, 5),
        reserves_graphs=reserves,
        peak_has_graphs=reserves and (version >= (0, 27, 0) or version[:2] == (0, 18)),
        default_utilization=0.92 if version >= (0, 20, 0) else 0.9,
    )


@dataclass
class _Ledger:
    """Works out one ledger."""

    facts: Facts
    parts: list[Part] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.version = _release(self.facts.get("vllm_version"))
        self.block_size = max(1, int(self.number("block_size") or solver.DEFAULT_BLOCK_SIZE))
        self.engine = self._engine()
        self.on_cpu = self.facts.get("device") == "cpu"
        enabled = self.facts.get("cuda_graph_estimate_enabled")
        if enabled is None and self.number("equivalent_gpu_memory_utilization") is not None:
            enabled = True  # only the message of an enabled estimate has that number
        self.era = _era(self.version, self.engine, enabled if isinstance(enabled, bool) else None)
        self.out_of_memory = self.number("oom_tried_gib") is not None
        self.utilization, self.utilization_is_default = self._utilization()
        self.total_origin: Origin = "log"
        self.total_note = ""
        self.total = self._total()
        self.budget = self._budget()

    # --- facts ---

    def number(self, name: str) -> float | None:
        """A fact as a number of sane size, or None."""
        value = self.facts.get(name)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return None
        return float(value) if abs(value) <= _MOST else None

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
        return self.era.default_utilization, self.era.default_utilization is not None

    def _total(self) -> float | None:
        """The device's total: printed, else computed from other numbers, else the usual one of that GPU."""
        total = self.number("cpu_node_total_gib" if self.on_cpu else "gpu_total_gib")
        if total is not None and total > 0:
            return total
        if self.on_cpu:
            return None
        requested, share = self.number("gpu_requested_gib"), self.number("gpu_memory_utilization")
        if requested and share:
            self.total_origin = "computed"
            self.total_note = f"The GPU's total is {requested:g} GiB requested / {share:g} utilization."
            return requested / share
        estimate = self.number("cuda_graph_estimate_gib")
        if estimate is not None:
            total = solver.total_from_graph_message(
                estimate,
                self.number("suggested_gpu_memory_utilization"),
                share,
                self.number("equivalent_gpu_memory_utilization"),
            )
            if total is not None:
                self.total_origin = "computed"
                self.total_note = "The GPU's total follows from the message about CUDA graph memory."
                return total
        name = self.facts.get("gpu_name")
        if isinstance(name, str) and (total := solver.total_for_gpu(name)) is not None:
            self.total_origin = "estimated"
            self.total_note = f"The GPU's total is the usual one of {name}; the log does not print it."
            return total
        return None

    def _budget(self) -> float | None:
        requested = self.number("gpu_requested_gib")
        if requested is not None:
            return requested
        if self.total is None or self.utilization is None:
            return None
        return self.total * self.utilization

    def _explicit_kv(self) -> float | None:
        """The KV cache set by hand, GiB."""
        if (explicit := self.number("kv_cache_explicit_gib")) is not None:
            return explicit
        given = self.number("kv_cache_memory_bytes")
        return None if given is None else given / solver.GIB

    def _kv_cache(self) -> tuple[float, Origin] | None:
        if (explicit := self._explicit_kv()) is not None:
            return explicit, "log"
        if (available := self.number("kv_cache_available_gib")) is not None:
            return available, "log"
        blocks, per_token = self.number("kv_cache_gpu_blocks"), _kv_bytes_per_token(self)
        if blocks and per_token:
            return solver.kv_gib(blocks * self.block_size, per_token), "computed"
        return None

    def _activations(self) -> tuple[float, Origin] | None:
        peak, weights = self.number("peak_activation_gib"), self.number("model_weights_gib")
        estimate = self.number("cuda_graph_estimate_gib")
        if peak is not None and self.era.peak_has_graphs and estimate is not None:
            return peak - estimate, "computed"
        if peak is not None:
            return peak, "log"
        whole = self.number("peak_torch_gib")  # 0.6.4: weights included
        return (whole - weights, "computed") if whole is not None and weights is not None else None

    # --- the ledgers ---

    def build(self) -> Memory | None:
        """The ledger the facts allow: at an out of memory, at the check of free memory, or of the budget."""
        if self.total_note:
            self.notes.append(self.total_note)
        if self.total is None:
            return self._without_total()
        allocated = self.number("oom_pytorch_allocated_gib")
        if self.out_of_memory and allocated is not None:
            return self._at_out_of_memory(self.total, allocated)
        free = self._free_at_start()
        loaded = ("model_weights_gib", "kv_cache_available_gib")
        started = any(self.number(name) is not None for name in loaded)
        if free is not None and self.budget is not None and (free < self.budget or not started):
            return self._at_the_free_check(self.total, free, self.budget)
        if self._explicit_kv() is not None:
            return self._with_explicit_kv(self.total)
        if self.budget is None or not (started or self._activations() or self._kv_cache()):
            return None
        return self._of_the_budget(self.total, self.budget)

    def _free_at_start(self) -> float | None:
        """Free memory before vLLM took any; after a CUDA out of memory `gpu_free_gib` is something else."""
        if self.on_cpu:
            return self.number("cpu_node_available_gib")
        return None if self.out_of_memory else self.number("gpu_free_gib")

    def _add(self, name: str, gib: float | None, origin: Origin) -> None:
        """Enter a part; one of the same name grows."""
        if gib is None or round(gib, 4) == 0:
            return
        same = next((part for part in self.parts if part.name == name), None)
        if same is not None:
            self.parts.remove(same)
            gib += same.gib
        self.parts.append(Part(name, round(gib, 4), origin))

    def _add_known(self, graphs: float | None) -> list[str]:
        """Add the parts of the budget that are known; the names of those that are not."""
        missing = []
        weights = self.number("model_weights_gib")
        candidates: list[tuple[str, tuple[float, Origin] | None]] = [
            ("weights", None if weights is None else (weights, "log")),
            ("activations", self._activations()),
        ]
        if self.era.counts_non_torch:
            non_torch = self.number("non_torch_gib")
            name = "non_torch"
            if self.era.counts_others:
                name = "non_torch_and_other_processes"
                self.notes.append("This release counts the memory of other processes against its own budget.")
            candidates.append((name, None if non_torch is None else (non_torch, "log")))
        for name, found in candidates:
            if found is None:
                missing.append(name)
            else:
                self._add(name, *found)
        self._add("cuda_graphs", graphs, "log")
        kv_cache = self._kv_cache()
        if kv_cache is None:
            missing.append("kv_cache")
        else:
            self._add("kv_cache", *kv_cache)
        return missing

    def _add_rest(self, total: float, name: str) -> None:
        """Give what the parts leave of `total` that name; "unaccounted" where they exceed it."""
        left = total - sum(part.gib for part in self.parts)
        if left < -_TOLERANCE:
            self.notes.append(f"The parts are {-left:.2f} GiB more than there is: ranks or moments differ, "
                              "or memory is overcommitted.")
            name = "unaccounted"
        elif left <= (_TOLERANCE if name == "unaccounted" else 0.0):
            return
        self._add(name, left, self._computed())

    def _computed(self) -> Origin:
        return "estimated" if self.total_origin == "estimated" else "computed"

    def _memory(self, *, budget: bool = True) -> Memory:
        defaulted = self.utilization_is_default and self.number("gpu_requested_gib") is None
        if budget and defaulted and self.budget is not None:
            self.notes.append(f"The budget is of the default utilization, {self.utilization:g}.")
        return Memory(
            None if self.total is None else round(self.total, 2),
            round(self.budget, 2) if budget and self.budget is not None else None,
            tuple(self.parts),
            " ".join(self.notes) or None,
        )

    def _of_the_budget(self, total: float, budget: float) -> Memory:
        """The profile's account: parts inside the budget, then what lies outside of it."""
        estimate = self.number("cuda_graph_estimate_gib") if self.era.reserves_graphs else None
        actual = self.number("cuda_graph_gib")
        inside = budget
        graphs: float | None = None
        if estimate is not None and estimate < 0:
            inside -= estimate
            self.notes.append(f"A CUDA graph estimate of {estimate:g} GiB took the KV cache past the budget.")
        elif estimate is not None:
            graphs = estimate
            if actual is not None and actual < estimate - _TOLERANCE:
                self.notes.append(f"{estimate:g} GiB are kept for CUDA graphs, which took {actual:g} GiB.")
        missing = self._add_known(graphs)
        kv_cache = self._kv_cache()
        if kv_cache is not None and kv_cache[0] < 0:
            self.notes.append(f"The budget is {-kv_cache[0]:.2f} GiB short before any KV cache.")
        self._add_rest(inside, "_and_".join(missing) or "unaccounted")
        if graphs is None:
            self._add("cuda_graphs", actual, "log")
        free = self._free_at_start()
        if free is not None and not self.era.counts_others and total - free >= _A_TENANT:
            self._add("other_processes", total - free, self._computed())
        self._add_rest(total, "outside_budget")
        return self._memory()

    def _with_explicit_kv(self, total: float) -> Memory | None:
        """--kv-cache-memory-bytes sets the KV cache; utilization bounds nothing but the check at start-up."""
        self.notes.append("The KV cache was set by hand; gpu_memory_utilization does not bound it.")
        free = self._free_at_start()
        explicit = self._explicit_kv()
        if explicit is not None and explicit > (total if free is None else free):
            self.notes.append(f"Its {explicit:.2f} GiB are more than is free.")
            if free is None:
                return None
            self._add("other_processes", total - free, self._computed())
            self._add("free", free, "log")
            return self._memory(budget=False)
        missing = self._add_known(self.number("cuda_graph_gib"))
        if free is not None and total - free >= _A_TENANT:
            self._add("other_processes", total - free, self._computed())
        self._add_rest(total, "_and_".join([*missing, "free"]))
        return self._memory(budget=False)

    def _at_the_free_check(self, total: float, free: float, budget: float) -> Memory:
        """The start-up check: nothing is loaded yet (request_memory, 0.9.1-0.33)."""
        self._add("other_processes", total - free, "computed")
        self._add("free", free, "log")
        if free < budget:
            self.notes.append(f"vLLM asks for {budget:.2f} GiB, {budget - free:.2f} GiB more than is free.")
        return self._memory()

    def _at_out_of_memory(self, total: float, allocated: float) -> Memory:
        """What PyTorch's out-of-memory text says of the device at that moment."""
        number = self.number
        self.notes.append("At the moment of the CUDA out of memory.")
        free, process = number("gpu_free_gib"), number("oom_process_gib")
        other = number("oom_other_process_gib")
        if process is None and other is not None and allocated <= other > total - (free or 0.0) - _A_TENANT:
            process, other = other, None  # in a container the process itself is listed, by its host number
        self._add_allocated(allocated)
        reserved, whole = number("oom_reserved_unallocated_gib"), number("oom_reserved_gib")
        if reserved is None and whole is not None:
            reserved = max(0.0, whole - allocated)  # PyTorch before 2.1 prints the sum
        self._add("reserved_unallocated", reserved, "log")
        held = sum(part.gib for part in self.parts)
        if process is not None and process > held:
            self._add("non_torch", process - held, "computed")
        self._add("other_processes", other, "log")
        self._add("free", free, "log")
        left = total - sum(part.gib for part in self.parts)
        told = process is not None and free is not None and other is None
        self._add_rest(total, "other_processes" if told and left >= _A_TENANT else "unaccounted")
        return self._memory(budget=not self.utilization_is_default)

    def _add_allocated(self, allocated: float) -> None:
        """Split what PyTorch had allocated into weights, KV cache, CUDA graphs and the rest."""
        weights, kv_cache = self.number("model_weights_gib"), self._kv_cache()
        rest, names = allocated, ["weights", "activations"]
        if weights is not None:
            names.remove("weights")
            self._add("weights", min(weights, allocated), "log")
            rest -= min(weights, allocated)
        if kv_cache is not None and 0 < kv_cache[0] <= rest + _TOLERANCE:
            self._add("kv_cache", *kv_cache)
            rest -= kv_cache[0]
            pools = self.number("oom_private_pools_gib")
            self._add("cuda_graphs", pools, "log")
            rest -= pools or 0.0
            names += ["cuda_graphs"] if pools is None else []
        self._add("_and_".join(names), max(0.0, rest), "log" if rest == allocated else "computed")

    def _without_total(self) -> Memory | None:
        """The parts alone, when the log shows at least two but neither the total nor the GPU."""
        kv_cache = self._kv_cache()
        self._add("weights", self.number("model_weights_gib"), "log")
        if (activations := self._activations()) is not None:
            self._add("activations", *activations)
        self._add("non_torch", self.number("non_torch_gib"), "log")
        graphs = self.number("cuda_graph_gib")
        if graphs is None and self.era.reserves_graphs:
            graphs = self.number("cuda_graph_estimate_gib")
        self._add("cuda_graphs", graphs, "log")
        if kv_cache is not None:
            self._add("kv_cache", *kv_cache)
        if len(self.parts) < 2:
            return None
        self.notes.append("The log does not show the total memory, so what is left over cannot be told.")
        return self._memory()


def _release(version: object) -> tuple[int, int, int] | None:
    """The first three numbers of a version: (0, 8, 5) of `0.8.5.post1`, (0, 15, 2) of `0.15.2rc1`."""
    if not isinstance(version, str):
        return None
    numbers = []
    for piece in version.lstrip("vV").split("+")[0].split(".")[:3]:
        digits = piece[: len(piece) - len(piece.lstrip("0123456789"))]
        if not digits:
            break
        numbers.append(int(digits))
    if len(numbers) < 2:
        return None
    return numbers[0], numbers[1], numbers[2] if len(numbers) > 2 else 0


def _kv_bytes_per_token(book: _Ledger) -> int | None:
    """Bytes of KV cache a token of a request of full length takes on one rank."""
    number = book.number
    needed, length = number("kv_cache_needed_gib"), number("max_model_len")
    available, estimate = number("kv_cache_available_gib"), number("estimated_max_model_len")
    if needed and length:
        per_stage = book.version is not None and book.version >= (0, 17, 0)
        if (number("pipeline_parallel_size") or 1) > 1 and not per_stage:
            return None  # up to 0.16 the need is that of all stages
        if available and estimate and available > 0 and not _linear(needed, available, length, estimate):
            return None
        return solver.bytes_per_token(needed, int(length), book.block_size)
    cpu_blocks, blocks = number("kv_cache_cpu_blocks"), number("kv_cache_gpu_blocks")
    if cpu_blocks and not book.on_cpu:
        swap = number("swap_space_gb")
        found = solver.bytes_per_token_from_cpu_blocks(int(cpu_blocks), swap, book.block_size)
        if found and blocks and available and available > 0:
            size = solver.kv_gib(blocks * book.block_size, found)
            # Another swap space than the log shows would make it disagree with the GPU blocks.
            if abs(size - available) > _TOLERANCE + found * book.block_size / solver.GIB:
                return None
        return found
    tokens, concurrency = number("kv_cache_tokens"), number("max_concurrency")
    if number("num_gpu_blocks_override"):
        return None  # then the blocks say nothing about the memory
    if available and available > 0 and tokens and concurrency and length:
        if abs(concurrency * length / tokens - 1) > 0.01 + 0.005 / concurrency:
            return None  # a hybrid model before 0.24: the printed tokens are of one group of layers
        most = tokens + 2 * book.block_size  # printed in whole blocks, one of them perhaps held back
        return solver.roundest((available - solver.HALF_UNIT) * solver.GIB / most,
                               (available + solver.HALF_UNIT) * solver.GIB / tokens)
    return None


def _linear(needed: float, available: float, length: float, estimate: float) -> bool:
    """Whether the estimated length is in proportion to the memory: then all layers attend to every token."""
    slack = 0.01 + solver.HALF_UNIT / available + solver.HALF_UNIT / needed + 512 / estimate
    return abs(estimate * needed / (available * length) - 1) <= slack


def _capacity_tokens(book: _Ledger, per_token: int | None) -> int | None:
    """Tokens that the KV cache holds."""
    number = book.number
    tokens, concurrency = number("kv_cache_tokens"), number("max_concurrency")
    length = number("max_model_len")
    if tokens is not None:
        hybrid = concurrency and length and concurrency * length > 1.02 * tokens + 0.005 * length
        # Before 0.24 a hybrid model's tokens are understated and the concurrency is right.
        return int(concurrency * length) if hybrid and concurrency and length else int(tokens)
    if (blocks := number("kv_cache_gpu_blocks")) is not None:
        return solver.tokens_in_blocks(int(blocks), book.block_size)
    available, estimate = number("kv_cache_available_gib"), number("estimated_max_model_len")
    if per_token is None or available is None or available <= 0:
        return None
    if estimate is not None:
        return int(estimate)
    held_back = book.version is None or book.version >= (0, 29, 0)
    block_size = book.block_size if number("block_size") else None
    return solver.tokens_that_fit(available, per_token, block_size, held_back)
