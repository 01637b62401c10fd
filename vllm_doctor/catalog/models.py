"""The KV cache shapes of models that are often served, by the names of their repositories.

From the models' config.json: num_hidden_layers, num_key_value_heads, head_dim. Only models that keep every token in
every layer are listed; models with sliding windows, states or shared layers are not.
"""

from __future__ import annotations

from typing import NamedTuple

from vllm_doctor.text.patterns import lazy_pattern


class KvShape(NamedTuple):
    """What decides the bytes of KV cache per token.

    `elements` of one head: key and value, or the latent of MLA, which every rank holds (`is_latent`).
    """

    layers: int
    kv_heads: int
    elements: int
    is_latent: bool = False


_LATENT = (1, 576, True)
_SHAPES: dict[str, tuple[int, int, int] | tuple[int, int, int, bool]] = {
    "qwen3-0.6b": (28, 8, 256), "qwen3-1.7b": (28, 8, 256), "qwen3-4b": (36, 8, 256), "qwen3-8b": (36, 8, 256),
    "qwen3-14b": (40, 8, 256), "qwen3-32b": (64, 8, 256), "qwen3-30b-a3b": (48, 4, 256),
    "qwen3-coder-30b-a3b": (48, 4, 256), "qwen3-235b-a22b": (94, 4, 256),
    "qwen2.5-0.5b": (24, 2, 128), "qwen2.5-1.5b": (28, 2, 256), "qwen2.5-3b": (36, 2, 256), "qwen2.5-7b": (28, 4, 256),
    "qwen2.5-14b": (48, 8, 256), "qwen2.5-32b": (64, 8, 256), "qwen2.5-72b": (80, 8, 256),
    "qwen2.5-coder-7b": (28, 4, 256), "qwen2.5-coder-14b": (48, 8, 256), "qwen2.5-coder-32b": (64, 8, 256),
    "qwen2.5-vl-3b": (36, 2, 256), "qwen2.5-vl-7b": (28, 4, 256), "qwen2.5-vl-32b": (64, 8, 256),
    "qwen2.5-vl-72b": (80, 8, 256), "qwen2-7b": (28, 4, 256), "qwen2-72b": (80, 8, 256), "qwq-32b": (64, 8, 256),
    "qwen1.5-7b": (32, 32, 256), "qwen1.5-14b": (40, 40, 256), "qwen1.5-32b": (64, 8, 256),
    "qwen1.5-72b": (80, 64, 256),
    "llama-2-7b": (32, 32, 256), "llama-2-13b": (40, 40, 256), "llama-2-70b": (80, 8, 256),
    "llama-3-8b": (32, 8, 256), "llama-3.1-8b": (32, 8, 256), "llama-3-70b": (80, 8, 256),
    "llama-3.1-70b": (80, 8, 256), "llama-3.3-70b": (80, 8, 256), "llama-3.2-1b": (16, 8, 128),
    "llama-3.2-3b": (28, 8, 256), "llama-3.1-405b": (126, 8, 256),
    "meta-llama-3-8b": (32, 8, 256), "meta-llama-3.1-8b": (32, 8, 256), "meta-llama-3-70b": (80, 8, 256),
    "meta-llama-3.1-70b": (80, 8, 256), "codellama-34b": (48, 8, 256), "yi-34b": (60, 8, 256), "yi-6b": (32, 4, 256),
    "deepseek-r1-distill-qwen-1.5b": (28, 2, 256), "deepseek-r1-distill-qwen-7b": (28, 4, 256),
    "deepseek-r1-distill-qwen-14b": (48, 8, 256), "deepseek-r1-distill-qwen-32b": (64, 8, 256),
    "deepseek-r1-distill-llama-8b": (32, 8, 256), "deepseek-r1-distill-llama-70b": (80, 8, 256),
    "deepseek-r1-0528-qwen3-8b": (36, 8, 256),
    "deepseek-v3": (61, *_LATENT), "deepseek-r1": (61, *_LATENT), "deepseek-v2-lite": (27, *_LATENT),
    "deepseek-v2": (60, *_LATENT), "kimi-k2": (61, *_LATENT),
    "mixtral-8x7b": (32, 8, 256), "mixtral-8x22b": (56, 8, 256), "mistral-nemo": (40, 8, 256),
    "mistral-small-24b": (40, 8, 256), "glm-4-9b": (40, 2, 256), "chatglm3-6b": (28, 2, 256),
    "internlm2-5-7b": (32, 8, 256), "internlm2-7b": (32, 8, 256), "baichuan2-13b": (40, 40, 256),
    "opt-125m": (12, 12, 128), "phi-4": (40, 10, 256),
}
_SEPARATORS = lazy_pattern(r"[_\s]+")
# A version between the family and the size would make it another model; a suffix names a variant of the same shape.
_NOT_BEFORE = lazy_pattern(r"[a-z0-9.]$|(?:distill|deepseek|codellama|coder|vl|math|omni|audio|embedding|reranker)-?$")
_NOT_AFTER = lazy_pattern(r"^[a-z0-9.]|^-(?:a\d|vl|omni|audio|distill|mini|multimodal|zero-)")


def kv_shape(model: str) -> KvShape | None:
    """Return the shape of a model by the last part of its name or path; None for an unknown one."""
    name = _SEPARATORS.sub("-", model.rstrip("/").replace("\\", "/").rpartition("/")[2].lower())
    for known in sorted(_SHAPES, key=len, reverse=True):
        at = name.find(known)
        if at >= 0 and not _NOT_BEFORE.search(name[:at]) and not _NOT_AFTER.match(name[at + len(known):]):
            return KvShape(*_SHAPES[known])
    return None
