"""Compute KV cache pages: the bytes of a block of tokens in each layer, and which layers share a block table.

Sources: kv_cache_interface.py, core/kv_cache_utils.py (from 0.33 kv_cache_planning.py) and platforms/interface.py of
vLLM 0.32, with the layer-outer layout that vLLM uses unless a kernel needs another one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil

from vllm_doctor.errors import InputError
from vllm_doctor.sizing.model_config import DTYPE_BYTES, ModelConfig
from vllm_doctor.sizing.model_layers import Attention, Layer, State

DEFAULT_BLOCK_SIZE = 16
_LATENT_BLOCK_SIZE = 64  # FlashMLA, FlashInfer-MLA; CUTLASS-MLA has 128, Triton-MLA 16
_CPU_BLOCK_SIZE = 128
_SCALE_BYTES = 4  # a float32 scale for each head's keys and values


@dataclass(frozen=True, slots=True)
class KvSettings:
    """The settings of a launch that decide the pages.

    `kv_cache_dtype` "auto" is the checkpoint's KV cache dtype, else the model's dtype. `mamba_ssm_cache_dtype` "auto"
    is the model's; on a CPU with AVX-512 BF16 vLLM makes it float32 (CpuPlatform.check_and_update_config, 0.32).
    """

    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1
    kv_cache_dtype: str = "auto"
    dtype: str | None = None
    block_size: int | None = None
    device: str = "cuda"
    mamba_ssm_cache_dtype: str = "auto"


@dataclass(frozen=True, slots=True)
class Page:
    """The cache of one layer for one block of `block_size` tokens (a Mamba state: for one sequence).

    Pages are compared by value: layers with equal pages can share a block table. Hence fields that no size uses.
    """

    kind: str
    block_size: int
    heads: int
    content: int  # bytes per head and token; for a state, its total bytes
    window: int | None = None
    padded: int | None = None
    head_size: int = 0
    state_shape: tuple[int, ...] = ()
    checkpointed: bool = False  # a third copy of the state is kept at block ends (Mamba 2, prefix caching, 0.29)

    @property
    def size(self) -> int:
        """Return the bytes of one page."""
        own = self.content if self.kind == "state" else self.heads * self.content * self.block_size
        return own if self.padded is None else self.padded

    @property
    def token_bytes(self) -> int:
        """Return the bytes of one token; 0 for a state."""
        return 0 if self.kind == "state" else self.heads * self.content


@dataclass(frozen=True, slots=True)
class Group:
    """A group of layers that share a block table: their layer indices, and the page of each."""

    layers: tuple[int, ...]
    pages: tuple[Page, ...]

    @property
    def page(self) -> Page:
        """Return the first layer's page; all layers of a group need the same number of blocks."""
        return self.pages[0]

    @property
    def block_bytes(self) -> int:
        """Return the bytes of a block, summed over the layers of the group."""
        return sum(page.size for page in self.pages)


def cache_dtype(model: ModelConfig, settings: KvSettings) -> str:
    """Return the dtype that keys and values are stored in."""
    asked = settings.kv_cache_dtype
    if asked == "auto":
        asked = model.kv_cache_dtype
    if model.model_type == "falcon":
        asked = "auto"  # vLLM does not pass the cache dtype to Falcon's attention layers
    return (settings.dtype or model.dtype) if asked == "auto" else asked


def block_size_of(model: ModelConfig, settings: KvSettings) -> int:
    """Return the tokens per block: as set, else the attention kernel's default, enlarged until it holds a Mamba state.

    Source: update_block_size_for_backend and _align_hybrid_block_size, 0.32.
    """
    on_cpu = settings.device == "cpu"
    usual = _CPU_BLOCK_SIZE if on_cpu else _LATENT_BLOCK_SIZE if model.latent else DEFAULT_BLOCK_SIZE
    size = settings.block_size or usual
    states = [_state(layer, model, settings) for layer in model.layers if isinstance(layer, State)]
    attention = [layer for layer in model.layers if isinstance(layer, Attention) and layer.kind != "indexer"]
    if not states or not attention:
        return size
    kernel = 32 if on_cpu else _LATENT_BLOCK_SIZE if model.latent else DEFAULT_BLOCK_SIZE
    step = max(kernel, size, 128 if model.latent else 0)
    token = _attention(attention[0], model, settings, 1).token_bytes
    needed = step * ceil(max(state.size for state in states) / (step * token))
    needed = kernel * ceil(needed / kernel)
    return max(size, needed)


def pages_of(model: ModelConfig, settings: KvSettings) -> tuple[tuple[int, Page], ...]:
    """Return the page of each layer with a cache, as (layer index, page)."""
    size = block_size_of(model, settings)
    attention = next((layer for layer in model.layers if isinstance(layer, Attention)
                      and layer.kind != "indexer"), None)
    pages: list[tuple[int, Page]] = []
    for layer in model.layers:
        if isinstance(layer, State):
            page = _state(layer, model, settings)
            if attention is not None:
                full = size * _attention(attention, model, settings, 1).token_bytes
                page = replace(page, padded=full) if full > page.size else page
            pages.append((layer.layer, page))
        else:
            pages.append((layer.layer, _attention(layer, model, settings, size)))
    return tuple(pages)


def _attention(layer: Attention, model: ModelConfig, settings: KvSettings, block_size: int) -> Page:
    dtype = cache_dtype(model, settings)
    if layer.kind == "indexer":
        return Page("indexer", block_size, 1, layer.head_size, head_size=layer.head_size)
    latent = layer.kind == "mla"
    heads = 1 if latent else max(1, layer.kv_heads // settings.tensor_parallel_size)
    content = _content(layer, dtype)
    step = 32 if settings.device == "cpu" else DEFAULT_BLOCK_SIZE
    size = max(step, block_size // step * step) if layer.kind == "sliding" and block_size > 1 else block_size
    return Page(layer.kind, size, heads, content, layer.window, head_size=layer.head_size)


def _content(layer: Attention, dtype: str) -> int:
    """Return the bytes of one token in one head: key and value, or the MLA latent. Raises InputError."""
    elements = layer.head_size + layer.head_size_v
    if dtype in DTYPE_BYTES:
        return elements * DTYPE_BYTES[dtype]
    if dtype in {"fp8_per_token_head", "int8_per_token_head"}:
        return elements + 2 * _SCALE_BYTES
    if dtype == "fp8_ds_mla" and layer.kind == "mla":
        return 656  # 512 bytes, their scales, and the rotary part in 16 bits (FlashMLA sparse)
    if dtype == "nvfp4" and layer.kind != "mla":
        return elements // 2 + elements // 16  # one 8-bit scale for 16 values
    raise InputError(f"the size of a KV cache in `{dtype}` is unknown")


def _state(layer: State, model: ModelConfig, settings: KvSettings) -> Page:
    """Return the state of one sequence on one rank (MambaStateShapeCalculator, 0.32)."""
    ranks = settings.tensor_parallel_size
    extra = 0 if not layer.groups or layer.groups % ranks == 0 else ranks - layer.groups
    channels = (layer.channels + (layer.groups + extra) * layer.group_channels) // ranks
    own = settings.dtype or model.dtype
    cells = layer.cells // ranks
    asked = settings.mamba_ssm_cache_dtype
    cell_dtype = (layer.cell_dtype or own) if asked == "auto" else asked
    size = channels * layer.taps * DTYPE_BYTES.get(own, 2) + cells * DTYPE_BYTES.get(cell_dtype, 2)
    return Page("state", 1, 1, size, state_shape=(channels, layer.taps, cells), checkpointed=bool(layer.groups))


def groups_of(pages: Sequence[tuple[int, Page]], *, local_layers: bool = True) -> tuple[Group, ...]:
    """Return the groups of layers that share a block table (get_kv_cache_groups, 0.32).

    Without `local_layers` (before 0.9.1), sliding-window layers keep every token if the model also has full attention.
    Raises InputError for pages that cannot be unified to one size.
    """
    if not pages:
        return ()
    if not local_layers and any(page.kind in {"full", "mla"} for _, page in pages):
        pages = [(layer, replace(page, kind="full", window=None) if page.kind == "sliding" else page)
                 for layer, page in pages]
    if _alike(pages):
        return (Group(tuple(layer for layer, _ in pages), tuple(page for _, page in pages)),)
    kinds: dict[Page, list[int]] = {}
    for layer, page in _of_one_size(pages):
        kinds.setdefault(page, []).append(layer)
    fewest, most = min(map(len, kinds.values())), max(map(len, kinds.values()))
    size = most if most < fewest * 1.5 else fewest
    groups = []
    for page, layers in kinds.items():
        parts = ceil(len(layers) / size)
        for part in range(parts):
            chosen = tuple(layers[part::parts])
            groups.append(Group(chosen, (page,) * len(chosen)))
    return tuple(groups)


def _alike(pages: Sequence[tuple[int, Page]]) -> bool:
    """Return whether all layers need the same number of blocks (UniformTypeKVCacheSpecs.is_uniform_type)."""
    first = pages[0][1]
    every = {"full", "mla", "indexer"}
    if first.kind in every:
        return all(page.kind in every and page.block_size == first.block_size for _, page in pages)
    if first.kind == "sliding":
        return all(page.kind == "sliding" and page.window == first.window and page.block_size == first.block_size
                   for _, page in pages)
    return all(page.kind == "state" and page.size == first.size for _, page in pages)


def _of_one_size(pages: Sequence[tuple[int, Page]]) -> list[tuple[int, Page]]:
    """Return the pages enlarged to the largest: more tokens per block, or padding (unify_kv_cache_spec_page_size)."""
    largest = max(page.size for _, page in pages)
    unified = []
    for layer, page in pages:
        if page.size == largest:
            unified.append((layer, page))
        elif page.kind != "state" and largest % page.size == 0:
            unified.append((layer, replace(page, block_size=page.block_size * (largest // page.size))))
        elif page.kind not in {"mla", "indexer"}:
            unified.append((layer, replace(page, padded=largest)))
        else:
            raise InputError("the page sizes of this model's KV cache cannot be unified; use --from LOG")
    return unified


def stages(num_layers: int, pipeline_parallel_size: int) -> tuple[range, ...]:
    """Return the layers of each pipeline stage (get_pp_indices).

    Layers that do not divide evenly go to the second-to-last stage and the ones before it. Raises InputError.
    """
    if pipeline_parallel_size > num_layers:
        raise InputError(f"{pipeline_parallel_size} pipeline stages exceed the model's {num_layers} layers")
    counts = [num_layers // pipeline_parallel_size] * pipeline_parallel_size
    for back in range(2, num_layers % pipeline_parallel_size + 2):
        counts[-back] += 1
    ranges, start = [], 0
    for count in counts:
        ranges.append(range(start, start + count))
        start += count
    return tuple(ranges)


def layer_kinds(layers: Sequence[Layer]) -> dict[str, int]:
    """Return how many layers there are of each kind: full, sliding, mla, indexer, state."""
    counts: dict[str, int] = {}
    for layer in layers:
        kind = layer.kind if isinstance(layer, Attention) else "state"
        counts[kind] = counts.get(kind, 0) + 1
    return counts
