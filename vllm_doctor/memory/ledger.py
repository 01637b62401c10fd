"""The memory ledger: what holds the memory of one GPU, part by part, by the accounting of the release.

    requested = total * utilization
    KV cache  = requested - weights - activation peak - non-torch memory (- CUDA graph estimate, from 0.20)
    outside   = total - requested: CUDA graphs up to 0.19, other processes, growth at run time

Source: worker.determine_num_available_blocks (V0), gpu_worker.determine_available_memory (V1). GiB are 2**30
bytes; all is per GPU. Which parts a release counts as its own is in `_Era`.
"""

from __future__ import annotations

from vllm_doctor.memory.ledger_model import Memory, Origin, Part
from vllm_doctor.memory.quantities import TOLERANCE, Book, Facts

_A_TENANT = 1.0  # GiB; less than this is a CUDA context or a desktop, not another server


def ledger(facts: Facts) -> Memory | None:
    """Where the memory of the GPU went, or None when the log tells too little."""
    memory = _Ledger(Book(facts)).build()
    return memory if memory is not None and memory.parts else None


class _Ledger:
    """Works out one ledger."""

    def __init__(self, book: Book) -> None:
        self.book = book
        self.parts: list[Part] = []
        self.notes: list[str] = []

    def build(self) -> Memory | None:
        """The ledger the facts allow: at an out of memory, at the check of free memory, or of the budget."""
        if self.book.total_note:
            self.notes.append(self.book.total_note)
        if self.book.total is None:
            return self._without_total()
        allocated = self.book.number("oom_pytorch_allocated_gib")
        if self.book.out_of_memory and allocated is not None:
            return self._at_out_of_memory(self.book.total, allocated)
        free = self.book.free_at_start()
        loaded = ("model_weights_gib", "kv_cache_available_gib")
        started = any(self.book.number(name) is not None for name in loaded)
        if free is not None and self.book.budget is not None and (free < self.book.budget or not started):
            return self._at_the_free_check(self.book.total, free, self.book.budget)
        if self.book.explicit_kv() is not None:
            return self._with_explicit_kv(self.book.total)
        if self.book.budget is None or not (started or self.book.activations() or self.book.kv_cache()):
            return None
        return self._of_the_budget(self.book.total, self.book.budget)

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
        weights = self.book.number("model_weights_gib")
        candidates: list[tuple[str, tuple[float, Origin] | None]] = [
            ("weights", None if weights is None else (weights, "log")),
            ("activations", self.book.activations()),
        ]
        if self.book.era.counts_non_torch:
            non_torch = self.book.number("non_torch_gib")
            name = "non_torch"
            if self.book.era.counts_others:
                name = "non_torch_and_other_processes"
                self.notes.append("This release counts the memory of other processes against its own budget.")
            candidates.append((name, None if non_torch is None else (non_torch, "log")))
        for name, found in candidates:
            if found is None:
                missing.append(name)
            else:
                self._add(name, *found)
        self._add("cuda_graphs", graphs, "log")
        kv_cache = self.book.kv_cache()
        if kv_cache is None:
            missing.append("kv_cache")
        else:
            self._add("kv_cache", *kv_cache)
        return missing

    def _add_rest(self, total: float, name: str) -> None:
        """Give what the parts leave of `total` that name; "unaccounted" where they exceed it."""
        left = total - sum(part.gib for part in self.parts)
        if left < -TOLERANCE:
            self.notes.append(f"The parts are {-left:.2f} GiB more than there is: ranks or moments differ, "
                              "or memory is overcommitted.")
            name = "unaccounted"
        elif left <= (TOLERANCE if name == "unaccounted" else 0.0):
            return
        self._add(name, left, self._computed())

    def _computed(self) -> Origin:
        return "estimated" if self.book.total_origin == "estimated" else "computed"

    def _memory(self, *, budget: bool = True) -> Memory:
        defaulted = self.book.utilization_is_default and self.book.number("gpu_requested_gib") is None
        if budget and defaulted and self.book.budget is not None:
            self.notes.append(f"The budget is of the default utilization, {self.book.utilization:g}.")
        return Memory(
            None if self.book.total is None else round(self.book.total, 2),
            round(self.book.budget, 2) if budget and self.book.budget is not None else None,
            tuple(self.parts),
            " ".join(self.notes) or None,
        )

    def _of_the_budget(self, total: float, budget: float) -> Memory:
        """The profile's account: parts inside the budget, then what lies outside of it."""
        estimate = self.book.number("cuda_graph_estimate_gib") if self.book.era.reserves_graphs else None
        actual = self.book.number("cuda_graph_gib")
        inside = budget
        graphs: float | None = None
        if estimate is not None and estimate < 0:
            inside -= estimate
            self.notes.append(f"A CUDA graph estimate of {estimate:g} GiB took the KV cache past the budget.")
        elif estimate is not None:
            graphs = estimate
            if actual is not None and actual < estimate - TOLERANCE:
                self.notes.append(f"{estimate:g} GiB are kept for CUDA graphs, which took {actual:g} GiB.")
        missing = self._add_known(graphs)
        kv_cache = self.book.kv_cache()
        if kv_cache is not None and kv_cache[0] < 0:
            self.notes.append(f"The budget is {-kv_cache[0]:.2f} GiB short before any KV cache.")
        self._add_rest(inside, "_and_".join(missing) or "unaccounted")
        if graphs is None:
            self._add("cuda_graphs", actual, "log")
        free = self.book.free_at_start()
        if free is not None and not self.book.era.counts_others and total - free >= _A_TENANT:
            self._add("other_processes", total - free, self._computed())
        self._add_rest(total, "outside_budget")
        return self._memory()

    def _with_explicit_kv(self, total: float) -> Memory | None:
        """--kv-cache-memory-bytes sets the KV cache; utilization bounds nothing but the check at start-up."""
        self.notes.append("The KV cache was set by hand; gpu_memory_utilization does not bound it.")
        free = self.book.free_at_start()
        explicit = self.book.explicit_kv()
        if explicit is not None and explicit > (total if free is None else free):
            self.notes.append(f"Its {explicit:.2f} GiB are more than is free.")
            if free is None:
                return None
            self._add("other_processes", total - free, self._computed())
            self._add("free", free, "log")
            return self._memory(budget=False)
        missing = self._add_known(self.book.number("cuda_graph_gib"))
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
        number = self.book.number
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
        return self._memory(budget=not self.book.utilization_is_default)

    def _add_allocated(self, allocated: float) -> None:
        """Split what PyTorch had allocated into weights, KV cache, CUDA graphs and the rest."""
        weights, kv_cache = self.book.number("model_weights_gib"), self.book.kv_cache()
        rest, names = allocated, ["weights", "activations"]
        if weights is not None:
            names.remove("weights")
            self._add("weights", min(weights, allocated), "log")
            rest -= min(weights, allocated)
        if kv_cache is not None and 0 < kv_cache[0] <= rest + TOLERANCE:
            self._add("kv_cache", *kv_cache)
            rest -= kv_cache[0]
            pools = self.book.number("oom_private_pools_gib")
            self._add("cuda_graphs", pools, "log")
            rest -= pools or 0.0
            names += ["cuda_graphs"] if pools is None else []
        self._add("_and_".join(names), max(0.0, rest), "log" if rest == allocated else "computed")

    def _without_total(self) -> Memory | None:
        """The parts alone, when the log shows at least two but neither the total nor the GPU."""
        kv_cache = self.book.kv_cache()
        self._add("weights", self.book.number("model_weights_gib"), "log")
        if (activations := self.book.activations()) is not None:
            self._add("activations", *activations)
        self._add("non_torch", self.book.number("non_torch_gib"), "log")
        graphs = self.book.number("cuda_graph_gib")
        if graphs is None and self.book.era.reserves_graphs:
            graphs = self.book.number("cuda_graph_estimate_gib")
        self._add("cuda_graphs", graphs, "log")
        if kv_cache is not None:
            self._add("kv_cache", *kv_cache)
        if len(self.parts) < 2:
            return None
        self.notes.append("The log does not show the total memory, so what is left over cannot be told.")
        return self._memory()
