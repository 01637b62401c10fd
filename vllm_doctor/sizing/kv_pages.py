"""The pages of the KV cache: the bytes of a block of tokens in each layer, and which layers share a block table.

Sources: kv_cache_interface.py, core/kv_cache_utils.py (from 0.33 kv_cache_planning.py) and platforms/interface.py of
vLLM 0.32. With the layer-outer layouts that vLLM chooses unless a kernel needs another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, lcm

from vllm_doctor.errors import InputError
from vllm_doctor.sizing.model_config import DTYPE_BYTES, ModelConfig
from vllm_doctor.sizing.model_layers import Attention, Layer, State

DEFAULT_BLOCK_SIZE = 16
_LATENT_BLOCK_SIZE = 64  # FlashMLA, FlashInfer-MLA; CUTLASS-MLA has 128, Triton-MLA 16
_CPU_BLOCK_SIZE = 128
_SCALE_BYTES = 4  # float32 beside each head's data


@dataclass(frozen=True, slots=True)
class KvSettings:
    """What of a launch decides the pages. `kv_cache_dtype` auto is the checkpoint's, else the model's dtype.

    `mamba_ssm_cache_dtype` auto is the model's own; on a processor with AVX-512 BF16 vLLM makes it float32
    (CpuPlatform.check_and_update_config, 0.32).
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
    """What a layer keeps of `block_size` tokens (a state: of a sequence). Layers of equal pages are of one kind."""

    kind: str
    block_size: int
    heads: int
    content: int  # bytes of one head and token; of a state, all of it
    window: int | None = None
    padded: int | None = None
    head_size: int = 0
    state_shape: tuple[int, ...] = ()
    checkpointed: bool = False  # a state that may be kept once more, at a block's end (Mamba 2, prefix caching, 0.29)

    @property
    def size(self) -> int:
        """Bytes of one page."""
        own = self.content if self.kind == "state" else self.heads * self.content * self.block_size
        return own if self.padded is None else self.padded

    @property
    def token_bytes(self) -> int:
        """Bytes of one token; 0 for a state."""
        return 0 if self.kind == "state" else self.heads * self.content


@dataclass(frozen=True, slots=True)
class Group:
    """Layers that share a block table: their hidden layer numbers, and the page of each."""

    layers: tuple[int, ...]
    pages: tuple[Page, ...]

    @property
    def page(self) -> Page:
        """The first layer's; all of a group need the same number of blocks."""
        return self.pages[0]

    @property
    def block_bytes(self) -> int:
        """Bytes of a block in all layers of the group."""
        return sum(page.size for page in self.pages)


def cache_dtype(model: ModelConfig, settings: KvSettings) -> str:
    """The dtype that keys and values are stored in."""
    asked = settings.kv_cache_dtype
    if asked == "auto":
        asked = model.kv_cache_dtype
    if model.model_type == "falcon":
        asked = "auto"  # its attention layers are not told the cache's dtype
    return (settings.dtype or model.dtype) if asked == "auto" else asked


def block_size_of(model: ModelConfig, settings: KvSettings) -> int:
    """Tokens of a block: as told, else the usual of the attention kernel; enlarged until it holds a state of the model.

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
    needed = lcm(1, kernel) * ceil(needed / kernel)
    return max(size, needed)


def pages_of(model: ModelConfig, settings: KvSettings) -> tuple[tuple[int, Page], ...]:
    """The page of each layer that keeps something, with the hidden layer it is in."""
    size = block_size_of(model, settings)
    attention = next((layer for layer in model.layers if isinstance(layer, Attention)
                      and layer.kind != "indexer"), None)
    found: list[tuple[int, Page]] = []
    for layer in model.layers:
        if isinstance(layer, State):
            page = _state(layer, model, settings)
            if attention is not None:
                full = size * _attention(attention, model, settings, 1).token_bytes
                page = replace(page, padded=full) if full > page.size else page
            found.append((layer.layer, page))
        else:
            found.append((layer.layer, _attention(layer, model, settings, size)))
    return tuple(found)


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
    """Bytes of one token in one head: keys and values, or the latent."""
    elements = layer.head_size + layer.head_size_v
    if dtype in DTYPE_BYTES:
        return elements * DTYPE_BYTES[dtype]
    if dtype in {"fp8_per_token_head", "int8_per_token_head"}:
        return elements + 2 * _SCALE_BYTES
    if dtype == "fp8_ds_mla" and layer.kind == "mla":
        return 656  # 512 bytes, their scales and the rotary part in 16 bits (FlashMLA sparse)
    if dtype == "nvfp4" and layer.kind != "mla":
        return elements // 2 + elements // 16  # an eight-bit scale for 16 values
    raise InputError(f"the size of a KV cache in `{dtype}` is not known here")


def _state(layer: State, model: ModelConfig, settings: KvSettings) -> Page:
    """The state of one sequence on one rank (MambaStateShapeCalculator, 0.32)."""
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
    """The groups of layers that share a block table (get_kv_cache_groups, 0.32).

    `local_layers`: sliding windows are managed as such; without it (before 0.9.1) they are kept whole where other
    layers are. Raises InputError for pages that cannot be brought to one size.
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
    found = []
    for page, layers in kinds.items():
        parts = ceil(len(layers) / size)
        for part in range(parts):
            chosen = tuple(layers[part::parts])
            found.append(Group(chosen, (page,) * len(chosen)))
    return tuple(found)


def _alike(pages: Sequence[tuple[int, Page]]) -> bool:
    """Whether all layers need the same number of blocks (UniformTypeKVCacheSpecs.is_uniform_type)."""
    first = pages[0][1]
    every = {"full", "mla", "indexer"}
    if first.kind in every:
        return all(page.kind in every and page.block_size == first.block_size for _, page in pages)
    if first.kind == "sliding":
        return all(page.kind == "sliding" and page.window == first.window and page.block_size == first.block_size
                   for _, page in pages)
    return all(page.kind == "state" and page.size == first.size for _, page in pages)


def _of_one_size(pages: Sequence[tuple[int, Page]]) -> list[tuple[int, Page]]:
    """The pages at the size of the largest: more tokens in a block, or padding (unify_kv_cache_spec_page_size)."""
    largest = max(page.size for _, page in pages)
    found = []
    for layer, page in pages:
        if page.size == largest:
            found.append((layer, page))
        elif page.kind != "state" and largest % page.size == 0:
            found.append((layer, replace(page, block_size=page.block_size * (largest // page.size))))
        elif page.kind not in {"mla", "indexer"}:
            found.append((layer, replace(page, padded=largest)))
        else:
            raise InputError("the pages of this model's KV cache do not fit one another; use --from LOG")
    return found


def stages(num_layers: int, pipeline_parallel_size: int) -> tuple[range, ...]:
    """The layers of each pipeline stage; what is left over goes to the last but one, and before (get_pp_indices)."""
    if pipeline_parallel_size > num_layers:
        raise InputError(f"{pipeline_parallel_size} pipeline stages are more than the model's {num_layers} layers")
    counts = [num_layers // pipeline_parallel_size] * pipeline_parallel_size
    for back in range(2, num_layers % pipeline_parallel_size + 2):
        counts[-back] += 1
    found, start = [], 0
    for count in counts:
        found.append(range(start, start + count))
        start += count
    return tuple(found)


def layer_kinds(layers: Sequence[Layer]) -> dict[str, int]:
    """How many layers there are of each kind: full, sliding, mla, indexer, state."""
    found: dict[str, int] = {}
    for layer in layers:
        kind = layer.kind if isinstance(layer, Attention) else "state"
        found[kind] = found.get(kind, 0) + 1
    return found
