"""The bytes of KV cache per token on one rank, by the shape of the model."""

from __future__ import annotations

from collections.abc import Mapping

from vllm_doctor.catalog.models import KvShape, kv_shape
from vllm_doctor.facts.store import number
from vllm_doctor.memory.solver.kv_cache import SIXTEEN_BIT_CACHES

_ONE_BYTE = ("fp8", "int8", "uint8")


def model_kv_bytes(given: tuple[int, int, int, bool] | None, facts: Mapping[str, object]) -> int | None:
    """Return the bytes per token on one rank: of the shape given, else of the model named; None if not known.

    Without a printed dtype the elements have 2 bytes, as in all listed models.
    """
    model = facts.get("model")
    shape = KvShape(*given) if given else kv_shape(model) if isinstance(model, str) else None
    if shape is None:
        return None
    cache = str(facts.get("kv_cache_dtype") or "auto").lower()
    dtype = str(facts.get("dtype") or "auto").lower()
    is_wide = "float32" in (dtype if cache == "auto" else cache)
    element = 1 if cache.startswith(_ONE_BYTE) else 4 if is_wide else 2
    if element == 2 and cache not in SIXTEEN_BIT_CACHES:
        return None  # of four bits, and scales
    pipeline = int(number(facts, "pipeline_parallel_size") or 1)
    tensor = int(number(facts, "tensor_parallel_size") or 0)
    if not tensor:  # a worker's rank shows at least that many
        tensor = max(1, int(number(facts, "ranks_at_least") or 1) // max(1, pipeline))
    if shape.is_latent and element == 1:
        return None  # the FP8 latent has scales of its own
    if not 1 <= tensor <= 4096 or not 1 <= pipeline <= 4096:
        return None
    heads = 1 if shape.is_latent else max(1, shape.kv_heads // tensor)
    layers = -(-shape.layers // pipeline)
    return layers * heads * shape.elements * element
