"""Compute the KV cache of a launch: bytes per request, longest request, tokens and concurrent requests.

Follows vLLM's V1 engine release by release: `check_enough_kv_cache_memory`, `estimate_max_model_len` and
`get_kv_cache_config_from_groups` in core/kv_cache_utils.py (0.8-0.33). All bytes are per rank, on the pipeline stage
that needs the most.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil

from vllm_doctor.catalog.release_numbers import ReleaseNumbers
from vllm_doctor.errors import InputError
from vllm_doctor.memory.release_accounting import NULL_BLOCK_SINCE, STAGE_NEED_SINCE
from vllm_doctor.sizing.kv_pages import Group, KvSettings, Page, groups_of, pages_of, stages
from vllm_doctor.sizing.model_config import ModelConfig


@dataclass(frozen=True, slots=True)
class KvAccounting:
    """How a release sizes the KV cache."""

    null_block: bool  # one block is reserved
    local_layers: bool  # sliding-window layers keep only their window
    need: str  # what is summed: "layers" one by one, the "first" group, or all "groups"
    stage_need: bool  # a pipeline stage needs its own layers only
    in_flight: bool  # windows also keep the tokens of all scheduled batches, not of one
    whole_tokens: bool  # the printed number of tokens is concurrency * length
    states_cached: bool  # prefix caching works for models with Mamba states: each sequence holds two states
    states_checkpointed: bool  # Mamba 2 layers hold a third state

    @classmethod
    def of(cls, version: ReleaseNumbers) -> KvAccounting:
        """Return the rules of a release."""
        need = "layers" if version < (0, 14, 0) else "first" if version < (0, 19, 0) else "groups"
        return cls(
            null_block=version >= NULL_BLOCK_SINCE, local_layers=version >= (0, 9, 1), need=need,
            stage_need=version >= STAGE_NEED_SINCE, in_flight=version >= (0, 26, 0), whole_tokens=version >= (0, 24, 0),
            states_cached=version >= (0, 28, 0), states_checkpointed=version >= (0, 29, 0))


@dataclass(frozen=True)
class KvLayout:
    """The KV cache of one launch: `groups` of all layers of the model, and the layers of each pipeline stage."""

    groups: tuple[Group, ...]
    stage_layers: tuple[range, ...]
    accounting: KvAccounting
    tokens_in_flight: int  # tokens that a sliding-window layer may hold in addition to its window
    states_cached: bool = False  # prefix caching keeps two Mamba states per sequence instead of one

    @cached_property
    def _stages(self) -> tuple[tuple[Group, ...], ...]:
        """Return the groups of each stage; a stage without a layer of a group still counts that group's blocks."""
        stages_groups = []
        for layers in self.stage_layers:
            own = []
            for group in self.groups:
                kept = [(layer, page) for layer, page in zip(group.layers, group.pages, strict=True)
                        if layer in layers]
                own.append((kept, group.page))
            stages_groups.append(tuple(
                Group(tuple(layer for layer, _ in kept), tuple(page for _, page in kept) or (_empty(page),))
                for kept, page in own))
        return tuple(stages_groups)

    def blocks_for(self, group: Group, length: int) -> int:
        """Return the blocks that a request of `length` tokens holds in a group (max_memory_usage_bytes / page size)."""
        page = group.page
        if page.kind == "state":
            if not self.states_cached:
                return 1
            return 3 if page.checkpointed and self.accounting.states_checkpointed else 2
        if page.kind == "sliding" and page.window is not None:
            held = min(page.window - 1 + self.tokens_in_flight, length)
            return ceil(held / page.block_size) + 1
        return ceil(length / page.block_size)

    def stage_block_bytes(self, stage: int) -> int:
        """Return the bytes of one block of the pool on a stage (_get_kv_cache_bytes_per_block)."""
        return max((group.block_bytes for group in self._stages[stage]), default=0)

    @cached_property
    def block_bytes(self) -> int:
        """Return the bytes of one block of the pool on the stage where it is largest."""
        return max((self.stage_block_bytes(stage) for stage in range(len(self.stage_layers))), default=0)

    def stage_need(self, stage: int, length: int) -> int:
        """Return the bytes of KV cache that a request of `length` tokens needs on a stage."""
        groups = self._stages[stage]
        if self.accounting.need == "layers":
            return sum(self.blocks_for(group, length) * page.size for group in groups for page in group.pages)
        counted = groups[:1] if self.accounting.need == "first" else groups
        return self.stage_block_bytes(stage) * sum(self.blocks_for(group, length) for group in counted)

    def need(self, length: int) -> int:
        """Return the bytes that a request of `length` tokens needs on the stage that needs the most."""
        return max((self.stage_need(stage, length) for stage in range(len(self.stage_layers))), default=0)

    def printed_need(self, length: int) -> int:
        """Return the need in bytes as vLLM prints it: up to 0.16 the sum over all pipeline stages."""
        if self.accounting.stage_need or len(self.stage_layers) == 1:
            return self.need(length)
        return replace(self, stage_layers=(range(1 << 20),)).need(length)

    def fits(self, length: int, available: int) -> bool:
        """Return whether a request of `length` tokens fits in `available` bytes on every stage (checked at startup)."""
        for stage in range(len(self.stage_layers)):
            held_back = self.stage_block_bytes(stage) if self.accounting.null_block else 0
            if self._checked_need(stage, length) > available - held_back:
                return False
        return available > 0

    def _checked_need(self, stage: int, length: int) -> int:
        return self.stage_need(stage, length) if self.accounting.stage_need else self.printed_need(length)

    def longest(self, available: int, at_most: int) -> int:
        """Return the longest request that fits, in tokens (estimate_max_model_len); 0 if not even one token does."""
        if not self.groups:
            return at_most
        if not self.fits(1, available):
            return 0
        low, high = 1, max(1, at_most)
        while low < high:
            middle = (low + high + 1) // 2
            if self.fits(middle, available):
                low = middle
            else:
                high = middle - 1
        return low

    def blocks(self, available: int) -> int:
        """Return the blocks of the pool: as many as fit on the stage with the largest block."""
        return max(0, available) // self.block_bytes if self.block_bytes else 1

    def concurrency(self, available: int, length: int) -> float:
        """Return how many requests of `length` tokens fit at once (get_max_concurrency_for_kv_cache_config)."""
        held = sum(self.blocks_for(group, length) for group in self.groups)
        return self.blocks(available) / held if held else 0.0

    def tokens(self, available: int, length: int) -> int:
        """Return the number of tokens that vLLM prints as the KV cache size for a max_model_len of `length`."""
        blocks = self.blocks(available)
        if not self.groups:
            return 0
        if self.accounting.whole_tokens:
            return int(self.concurrency(available, length) * length)
        if self.groups[0].page.kind == "state" and len(self.groups) == 1:
            return blocks * length
        smallest = min(group.page.block_size for group in self.groups if group.page.kind != "state")
        return blocks // len(self.groups) * smallest

    @cached_property
    def bytes_per_token(self) -> int:
        """Return the bytes of each further token of a long request, on the stage where that is most.

        Sliding-window and Mamba layers need nothing for tokens beyond their window or state.
        """
        most = 0
        for groups in self._stages:
            pool = max((group.block_bytes for group in groups), default=0)
            growing = [group for group in groups if group.page.kind not in {"state", "sliding"}]
            if self.accounting.need == "layers":
                most = max(most, sum(page.token_bytes for group in growing for page in group.pages))
            else:
                most = max(most, sum(pool // group.page.block_size for group in growing))
        return most

    @property
    def linear(self) -> bool:
        """Return whether the need is proportional to the length: no layer has a sliding window or a Mamba state."""
        return all(group.page.kind not in {"state", "sliding"} for group in self.groups)

    @property
    def block_size(self) -> int:
        """Return the largest number of tokens per block over the attention groups; 1 if there are none."""
        sizes = [group.page.block_size for group in self.groups if group.page.kind != "state"]
        return max(sizes, default=1)


def layout_of_tokens(token_bytes: int, block_size: int, version: ReleaseNumbers) -> KvLayout:
    """Return the KV cache of a model with full attention in every layer, given only its bytes per token."""
    group = Group((0,), (Page("full", block_size, 1, token_bytes),))
    return KvLayout((group,), (range(1),), KvAccounting.of(version), 0)


def _empty(page: Page) -> Page:
    """Return the page of a group without layers on a stage: it has no bytes, but its blocks are counted."""
    return Page(page.kind, page.block_size, 0, 0, page.window, 0 if page.padded else None)


def layout_of(
    model: ModelConfig, settings: KvSettings, version: ReleaseNumbers, max_num_batched_tokens: int, *,
    prefix_caching: bool = True,
) -> KvLayout:
    """Return the KV cache of a model for a launch. Raises InputError if the model or release is not supported."""
    accounting = KvAccounting.of(version)
    if model.has_states and version < (0, 10, 0):
        raise InputError("before vLLM 0.10 the states of such a model are kept beside the KV cache; unknown here")
    if model.latent and version < (0, 7, 1):
        raise InputError("before vLLM 0.7.1 this model's attention keeps entire heads, not a latent; unknown here")
    stage_layers = stages(model.num_layers, settings.pipeline_parallel_size)
    batches = 1
    if accounting.in_flight:  # except on the CPU, the next batch is scheduled while one runs (max_concurrent_batches)
        batches = settings.pipeline_parallel_size + (0 if settings.device == "cpu" else 1)
    pages = pages_of(model, settings)
    if version < (0, 8, 0):  # V0 keeps every token
        pages = tuple((layer, replace(page, kind="full", window=None) if page.kind == "sliding" else page)
                      for layer, page in pages)
    groups = groups_of(pages, local_layers=accounting.local_layers)
    attention = any(group.page.kind != "state" for group in groups)
    cached = accounting.states_cached and prefix_caching and attention
    return KvLayout(groups, stage_layers, accounting, batches * max_num_batched_tokens, cached)
