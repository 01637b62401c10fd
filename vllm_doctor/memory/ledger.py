"""Build the memory ledger: the parts that hold the memory of one GPU, by the accounting of the release.

    requested = total * utilization
    KV cache  = requested - weights - activation peak - non-torch memory (- CUDA graph estimate, from 0.20)
    outside   = total - requested: CUDA graphs up to 0.19, other processes, growth at run time

Source: worker.determine_num_available_blocks (V0), gpu_worker.determine_available_memory (V1). GiB are 2**30
bytes; everything is per GPU. `release_accounting.Accounting` says which parts a release takes out of its budget.
"""

from __future__ import annotations

from vllm_doctor.memory.ledger_model import Memory, Origin, Part
from vllm_doctor.memory.quantities import TOLERANCE, Facts, Quantities
from vllm_doctor.messages import joined, message

_RUNTIME = (0.3, 1.0)  # GiB; what CUDA context, NCCL and allocator usually hold besides weights, graphs and cache
_NO_TOTAL = message("The log does not show the total memory, so the rest cannot be computed.")
_AFTER_KV_CACHE = ("kv_cache_tokens", "kv_cache_gpu_blocks", "cuda_graph_gib")  # known once the KV cache is there
_MIN_OTHER_PROCESS = 1.0  # GiB; less than this is a CUDA context or a desktop, not another server


def ledger(facts: Facts) -> Memory | None:
    """Return the ledger of the GPU's memory, or None if the log shows too little."""
    memory = _Ledger(Quantities(facts)).build()
    return memory if memory is not None and memory.parts else None


class _Ledger:
    """Builder of one ledger."""

    def __init__(self, quantities: Quantities) -> None:
        self.quantities = quantities
        self.parts: list[Part] = []
        self.notes: list[str] = []

    def build(self) -> Memory | None:
        """Return the ledger for the moment the facts show: at a CUDA OOM, at the startup check, or of the budget."""
        if self.quantities.total_note:
            self.notes.append(self.quantities.total_note)
        used = self.quantities.used_while_running()
        if self.quantities.total is None:
            return self._device_usage_ledger(None, used) if used is not None else self._without_total()
        allocated = self.quantities.number("oom_pytorch_allocated_gib")
        if self.quantities.out_of_memory and allocated is not None:
            return self._at_out_of_memory(self.quantities.total, allocated)
        free = self.quantities.free_at_start()
        loaded = ("model_weights_gib", "kv_cache_available_gib")
        started = any(self.quantities.number(name) is not None for name in loaded)
        if free is not None and self.quantities.budget is not None and (free < self.quantities.budget or not started):
            return self._at_the_free_check(self.quantities.total, free, self.quantities.budget)
        if used is not None:
            return self._device_usage_ledger(self.quantities.total, used)
        if self.quantities.explicit_kv() is not None:
            return self._with_explicit_kv(self.quantities.total)
        profiled = started or self.quantities.activations() or self.quantities.kv_cache()
        if self.quantities.budget is None or not profiled:
            return self._ledger_without_budget(self.quantities.total)
        return self._profiling_ledger(self.quantities.total, self.quantities.budget)

    def _add(self, name: str, gib: float | None, origin: Origin) -> None:
        """Add a part; add to the part of the same name if there is one."""
        if gib is None or round(gib, 4) == 0:
            return
        same = next((part for part in self.parts if part.name == name), None)
        if same is not None:
            self.parts.remove(same)
            gib += same.gib
        self.parts.append(Part(name, round(gib, 4), origin))

    def _add_known(self, graphs: float | None) -> list[str]:
        """Add the known parts of the budget; return the names of the unknown ones."""
        missing = []
        weights = self.quantities.number("model_weights_gib")
        candidates: list[tuple[str, tuple[float, Origin] | None]] = [
            ("weights", None if weights is None else (weights, "log")),
            ("activations", self.quantities.activations()),
        ]
        if self.quantities.accounting.counts_non_torch:
            non_torch = self.quantities.number("non_torch_gib")
            name = self._non_torch_name()
            if self.quantities.accounting.counts_others:
                self.notes.append(message("This release counts the memory of other processes against its own budget."))
            candidates.append((name, None if non_torch is None else (non_torch, "log")))
        for name, found in candidates:
            if found is None:
                missing.append(name)
            else:
                self._add(name, *found)
        self._add("cuda_graphs", graphs, "log")
        kv_cache = self.quantities.kv_cache()
        if kv_cache is None:
            missing.append("kv_cache")
        else:
            self._add("kv_cache", *kv_cache)
        return missing

    def _non_torch_name(self) -> str:
        return "non_torch_and_other_processes" if self.quantities.accounting.counts_others else "non_torch"

    def _add_rest(self, total: float, name: str) -> None:
        """Add the rest of `total` as a part of that name; as "unaccounted" if the parts exceed the total."""
        left = total - sum(part.gib for part in self.parts)
        if left < -TOLERANCE:
            self.notes.append(message("The parts add up to {left:.2f} GiB more than the total: they are of different "
                                      "ranks or moments, or memory is overcommitted.", left=-left))
            name = "unaccounted"
        elif left <= (TOLERANCE if name == "unaccounted" else 0.0):
            return
        self._add(name, left, self._computed())

    def _computed(self) -> Origin:
        return "estimated" if self.quantities.total_origin == "estimated" else "computed"

    def _memory(self, *, budget: bool = True) -> Memory:
        defaulted = self.quantities.utilization_is_default and self.quantities.number("gpu_requested_gib") is None
        if budget and defaulted and self.quantities.budget is not None:
            self.notes.append(message("The budget assumes the default utilization, {utilization:g}.",
                                      utilization=self.quantities.utilization))
        return Memory(
            None if self.quantities.total is None else round(self.quantities.total, 2),
            round(self.quantities.budget, 2) if budget and self.quantities.budget is not None else None,
            tuple(self.parts),
            joined(" ", self.notes) or None,
        )

    def _profiling_ledger(self, total: float, budget: float) -> Memory:
        """Return the ledger of the memory profiling run: the parts inside the budget, then those outside."""
        reserves = self.quantities.accounting.reserves_graphs
        estimate = self.quantities.number("cuda_graph_estimate_gib") if reserves else None
        actual = self.quantities.number("cuda_graph_gib")
        inside = budget
        graphs: float | None = None
        if estimate is not None and estimate < 0:
            inside -= estimate
            self.notes.append(message("A CUDA graph estimate of {estimate:g} GiB made the KV cache exceed the budget.",
                                      estimate=estimate))
        elif estimate is not None:
            graphs = estimate
            if actual is not None and actual < estimate - TOLERANCE:
                self.notes.append(message("{estimate:g} GiB are reserved for CUDA graphs, which took {actual:g} GiB.",
                                          estimate=estimate, actual=actual))
        missing = self._add_known(graphs)
        kv_cache = self.quantities.kv_cache()
        if kv_cache is not None and kv_cache[0] < 0:
            self.notes.append(message("The budget is {gib:.2f} GiB short before any KV cache.", gib=-kv_cache[0]))
        self._add_rest(inside, "_and_".join(missing) or "unaccounted")
        if graphs is None:
            self._add("cuda_graphs", actual, "log")
        free = self.quantities.free_at_start()
        if free is not None and not self.quantities.accounting.counts_others and total - free >= _MIN_OTHER_PROCESS:
            self._add("other_processes", total - free, self._computed())
        self._add_rest(total, "outside_budget")
        return self._memory()

    def _device_usage_ledger(self, total: float | None, used: float) -> Memory:
        """Return the ledger of what the device's tool shows in use: the known parts, then what remains, named."""
        kv_cache = self.quantities.kv_cache()
        self._add("weights", self.quantities.number("model_weights_gib"), "log")
        self._add("cuda_graphs", self.quantities.number("cuda_graph_gib"), "log")
        if kv_cache is not None:
            self._add("kv_cache", *kv_cache)
        free = self.quantities.free_at_start()
        left = used - sum(part.gib for part in self.parts)
        if total is not None and free is not None and _MIN_OTHER_PROCESS <= total - free <= left:
            self._add("other_processes", total - free, self._computed())
            left -= total - free
        left = max(0.0, left)
        self._add("kv_cache_and_runtime" if kv_cache is None else "runtime", left, "computed")
        self._note_runtime_memory(left, kv_cache is not None)
        if (peak := self.quantities.activations()) is not None:
            self.notes.append(message("The budget also reserves {peak:.2f} GiB for the activation peak; between "
                                      "steps this is free or in the allocator's cache.", peak=peak[0]))
        if total is not None:
            self._add("free", max(0.0, total - sum(part.gib for part in self.parts)), "computed")
        return self._memory()

    def _note_runtime_memory(self, left: float, knows_kv_cache: bool) -> None:
        """Note what the rest of the used memory consists of, within bounds."""
        least, most = _RUNTIME
        runtime = message("CUDA context, NCCL buffers and the PyTorch allocator")
        if self.quantities.facts.get("device") not in {None, "cuda"}:
            runtime = message("the device's context, communication buffers and the PyTorch allocator")
        if knows_kv_cache:
            bounds = message("usually {least:g} to {most:g} GiB", least=least, most=most) if left <= most else \
                message("usually at most {most:g} GiB, so a part of it is other processes or allocator caches",
                        most=most)
            self.notes.append(message("runtime: {left:.2f} GiB are {runtime} ({bounds}).", left=left, runtime=runtime,
                                      bounds=bounds))
            return
        tokens = self.quantities.number("kv_cache_tokens")
        low, high = max(0.0, left - most), max(0.0, left - least)
        per_token = message(", {low:,.0f} to {high:,.0f} KiB per token of {tokens:,.0f}", low=low * 2 ** 20 / tokens,
                            high=high * 2 ** 20 / tokens, tokens=tokens) \
            if tokens else ""
        self.notes.append(message("{left:.2f} GiB are the KV cache and {runtime}. The latter usually take {least:g} "
                                  "to {most:g} GiB, which leaves {low:.2f} to {high:.2f} GiB for the KV "
                                  "cache{per_token}; the model's config.json (--model-config) gives its exact size.",
                                  left=left, runtime=runtime, least=least, most=most, low=low, high=high,
                                  per_token=per_token))

    def _ledger_without_budget(self, total: float) -> Memory | None:
        """Return the parts that the log shows and, as one, the rest of the device, where no budget is known."""
        without = self._without_total()
        if without is None:
            return None
        self.notes = [note for note in self.notes if note != _NO_TOTAL]
        missing = [name for name in ("activations", "non_torch", "kv_cache")
                   if not any(part.name.startswith(name) for part in self.parts)]
        self._add_rest(total, "_and_".join([*missing, "free"]))
        return self._memory()

    def _with_explicit_kv(self, total: float) -> Memory | None:
        """Return the ledger with --kv-cache-memory-bytes: the utilization then only matters for the startup check."""
        self.notes.append(message("The KV cache size was set explicitly; gpu_memory_utilization does not limit it."))
        free = self.quantities.free_at_start()
        explicit = self.quantities.explicit_kv()
        if explicit is not None and explicit > (total if free is None else free):
            self.notes.append(message("Its {explicit:.2f} GiB are more than the free memory.", explicit=explicit))
            if free is None:
                return None
            self._add("other_processes", total - free, self._computed())
            self._add("free", free, "log")
            return self._memory(budget=False)
        missing = self._add_known(self.quantities.number("cuda_graph_gib"))
        if free is not None and total - free >= _MIN_OTHER_PROCESS:
            self._add("other_processes", total - free, self._computed())
        self._add_rest(total, "_and_".join([*missing, "free"]))
        return self._memory(budget=False)

    def _at_the_free_check(self, total: float, free: float, budget: float) -> Memory:
        """Return the ledger at the startup check, when nothing is loaded yet (request_memory, 0.9.1-0.33)."""
        self._add("other_processes", total - free, "computed")
        self._add("free", free, "log")
        if free < budget:
            self.notes.append(message("vLLM requests {budget:.2f} GiB, {missing:.2f} GiB more than is free.",
                                      budget=budget, missing=budget - free))
        return self._memory()

    def _at_out_of_memory(self, total: float, allocated: float) -> Memory:
        """Return the ledger at a CUDA OOM, from the numbers in PyTorch's message."""
        number = self.quantities.number
        self.notes.append(message("At the moment of the failed allocation."))
        free, process = number("gpu_free_gib"), number("oom_process_gib")
        other = number("oom_other_process_gib")
        if process is None and other is not None and allocated <= other > total - (free or 0.0) - _MIN_OTHER_PROCESS:
            process, other = other, None  # in a container, the process itself is listed under its host PID
        self._add_allocated(allocated)
        reserved, reserved_total = number("oom_reserved_unallocated_gib"), number("oom_reserved_gib")
        if reserved is None and reserved_total is not None:
            reserved = max(0.0, reserved_total - allocated)  # PyTorch before 2.1 prints the sum
        self._add("reserved_unallocated", reserved, "log")
        held = sum(part.gib for part in self.parts)
        if process is not None and process > held:
            self._add("non_torch", process - held, "computed")
        self._add("other_processes", other, "log")
        self._add("free", free, "log")
        left = total - sum(part.gib for part in self.parts)
        complete = process is not None and free is not None and other is None
        self._add_rest(total, "other_processes" if complete and left >= _MIN_OTHER_PROCESS else "unaccounted")
        return self._memory(budget=not self.quantities.utilization_is_default)

    def _add_allocated(self, allocated: float) -> None:
        """Split the memory allocated by PyTorch into weights, KV cache, CUDA graphs and the rest."""
        weights, kv_cache = self.quantities.number("model_weights_gib"), self.quantities.kv_cache()
        rest, names = allocated, ["weights", "activations"]
        if weights is not None:
            names.remove("weights")
            self._add("weights", min(weights, allocated), "log")
            rest -= min(weights, allocated)
        if kv_cache is not None and 0 < kv_cache[0] <= rest + TOLERANCE:
            self._add("kv_cache", *kv_cache)
            rest -= kv_cache[0]
            pools = self.quantities.number("oom_private_pools_gib")
            self._add("cuda_graphs", pools, "log")
            rest -= pools or 0.0
            names += ["cuda_graphs"] if pools is None else []
        elif kv_cache is None and any(self.quantities.number(name) is not None for name in _AFTER_KV_CACHE):
            names.append("kv_cache")
        self._add("_and_".join(names), max(0.0, rest), "log" if rest == allocated else "computed")

    def _without_total(self) -> Memory | None:
        """Return a ledger of the parts alone, for a log that shows at least two but neither the total nor the GPU."""
        graphs = self.quantities.number("cuda_graph_gib")
        if graphs is None and self.quantities.accounting.reserves_graphs:
            graphs = self.quantities.number("cuda_graph_estimate_gib")
        self._add("weights", self.quantities.number("model_weights_gib"), "log")
        if (activations := self.quantities.activations()) is not None:
            self._add("activations", *activations)
        self._add(self._non_torch_name(), self.quantities.number("non_torch_gib"), "log")
        self._add("cuda_graphs", graphs, "log")
        if (kv_cache := self.quantities.kv_cache()) is not None:
            self._add("kv_cache", *kv_cache)
        if len(self.parts) < 2:
            return None
        self.notes.append(_NO_TOTAL)
        return self._memory()
