"""Work out what each layer caches: full attention, a sliding window, an MLA latent, or a Mamba state.

Source: the attention and Mamba layers of vLLM 0.32 (model_executor/models and
model_executor/layers/mamba/mamba_utils.py).
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from vllm_doctor.errors import InputError
from vllm_doctor.sizing.model_fields import Fields

Kind = Literal["full", "sliding", "mla", "indexer"]

# model_arch_config_convertor.is_deepseek_mla of 0.32, without the models in _UNKNOWN.
_MLA = frozenset({
    "axk1", "deepseek_v2", "deepseek_v3", "deepseek_v32", "deepseek_mtp", "glm_moe_dsa", "glm4_moe_lite", "kimi_k2",
    "pangu_ultra_moe"})
# Models with a special cache that is not implemented here (compressed latents, several kinds of states, encoders,
# pooled blocks).
_UNKNOWN = frozenset({
    "deepseek_v4", "deepseek_v41", "zamba2", "plamo2", "minimax", "minimax_text_01", "bailing_hybrid", "qwen4_exp",
    "kimi_k3", "kimi_linear", "glm5_next", "longcat_flash", "whisper", "t5", "bart", "mllama", "rwkv", "inkling",
    "minimax_m3"})
_STATE_WORDS = frozenset({"mamba", "mamba2", "linear_attention", "conv", "recurrent"})
_ATTENTION_WORDS = frozenset({"attention", "full_attention", "sliding_attention", "chunked_attention",
                              "hybrid", "global"})


class Attention(NamedTuple):
    """A layer that caches every token, or the tokens of a sliding window. `layer` is its index."""

    layer: int
    kind: Kind
    kv_heads: int  # of the entire model; MLA has one latent head, which every rank holds
    head_size: int
    head_size_v: int
    window: int | None = None


class State(NamedTuple):
    """A layer that keeps a state of fixed size per sequence (Mamba, linear attention).

    The convolution state has shape (`channels`, `taps`), the SSM state `cells` elements of `cell_dtype` (None: the
    model's dtype). `groups` * `group_channels` are added to the channels; a rank without an entire group gets a copy
    (extra_groups_for_head_shards).
    """

    layer: int
    channels: int
    taps: int
    cells: int = 0
    groups: int = 0
    group_channels: int = 0
    cell_dtype: str | None = None


Layer = Attention | State


def layers_of(fields: Fields) -> tuple[Layer, ...]:
    """Return the layers with a cache, first to last. Raises InputError for a model that is not supported here."""
    if fields.model_type in _UNKNOWN or fields.get("compress_ratios") is not None:
        raise InputError(f"the KV cache of a `{fields.model_type}` model has an unsupported layout; "
                         "start it once and use --from LOG")
    if fields.get("kv_lora_rank") is not None and fields.model_type in _MLA:
        return _latent(fields)
    if fields.model_type in {"mamba", "falcon_mamba", "mamba2"}:
        return tuple(_state(fields, layer) for layer in range(fields.layers))
    words = _layer_words(fields)
    layers: list[Layer] = []
    shared_from = fields.layers - (fields.number("num_kv_shared_layers") or 0)
    for layer in range(fields.layers):
        word = words[layer] if words is not None else "attention"
        if word in _STATE_WORDS or word == "hybrid":
            layers.append(_state(fields, layer))
        if word in _ATTENTION_WORDS and layer < shared_from:
            layers.append(_attention(fields, layer, word, words))
    return tuple(layers)


def _latent(fields: Fields) -> tuple[Layer, ...]:
    """Return MLA layers: one vector per token, replicated on every rank; DeepSeek V3.2 adds an indexer cache."""
    size = fields.require("kv_lora_rank") + fields.require("qk_rope_head_dim")
    index = fields.number("index_head_dim")
    layers: list[Layer] = []
    for layer in range(fields.layers):
        if index:
            layers.append(Attention(layer, "indexer", 1, index + index // 128 * 4, 0))
        layers.append(Attention(layer, "mla", 1, size, 0))
    return tuple(layers)


def _layer_words(fields: Fields) -> tuple[str, ...] | None:
    """Return the kind of each layer in the terms of `layer_types`; None if all layers are the same attention."""
    count, model_type = fields.layers, fields.model_type
    given = fields.strings("layers_block_type", "layer_types")
    if model_type == "falcon_h1":
        return ("hybrid",) * count
    if model_type == "nemotron_h":
        letters = fields.strings("hybrid_override_pattern")
        names = {"M": "mamba", "*": "attention"}
        given = tuple(names.get(letter, "mlp") for letter in letters) if letters else given
    if given is not None:
        if len(given) < count:
            raise InputError(f"config.json has {count} layers but {len(given)} layer types")
        return given[:count]
    if model_type == "jamba":
        period, offset = fields.require("attn_layer_period"), fields.require("attn_layer_offset")
        return tuple("attention" if layer % max(1, period) == offset else "mamba" for layer in range(count))
    if model_type == "bamba":
        attention = fields.integers("attn_layer_indices") or ()
        return tuple("attention" if layer in attention else "mamba" for layer in range(count))
    if model_type in {"lfm2", "lfm2_moe"}:
        attention = fields.integers("full_attn_idxs") or tuple(range(count))
        return tuple("full_attention" if layer in attention else "conv" for layer in range(count))
    if model_type in {"qwen3_next", "qwen3_5_text", "qwen3_5_moe_text"}:
        every = fields.number("full_attention_interval") or 4
        return tuple("full_attention" if (layer + 1) % every == 0 else "linear_attention" for layer in range(count))
    return _windowed_words(fields)


def _windowed_words(fields: Fields) -> tuple[str, ...] | None:
    """Return the alternation of sliding and full attention that is implied by a model type."""
    count, model_type = fields.layers, fields.model_type
    every = {"gemma2": 2, "gpt_oss": 2, "gemma3_text": 6, "gemma3n_text": 5, "gemma4_text": 6, "cohere2": 4,
             "exaone4": 4, "olmo3": 4}.get(model_type)
    every = fields.number("sliding_window_pattern", "_sliding_window_pattern") or every
    if every and fields.number("sliding_window"):
        words = ["full_attention" if (layer + 1) % every == 0 else "sliding_attention" for layer in range(count)]
        if model_type in {"gemma4_text", "olmo3"}:
            words[-1] = "full_attention"
        return tuple(words)
    if model_type.startswith(("qwen2", "qwen3")) and fields.get("use_sliding_window"):
        first = fields.number("max_window_layers")
        first = 28 if first is None else first
        return tuple("sliding_attention" if layer >= first else "full_attention" for layer in range(count))
    return None


def _attention(fields: Fields, layer: int, word: str, words: tuple[str, ...] | None) -> Attention:
    heads = kv_heads(fields)
    size = head_size(fields)
    value = size
    window = fields.number("sliding_window") or None
    if fields.model_type.startswith(("qwen2", "qwen3")) and not fields.get("use_sliding_window"):
        window = None
    if fields.model_type == "gemma4_text" and word == "full_attention":
        size = value = fields.number("global_head_dim") or 512
        if fields.get("attention_k_eq_v"):
            heads = fields.number("num_global_key_value_heads") or heads
    if words is not None and word != "sliding_attention":
        window = None  # without layer types the window applies to every layer (engine/arg_utils.py)
    if window and fields.model_type == "cohere2":
        window += 1
    return Attention(layer, "sliding" if window else "full", heads, size, value, window)


def head_size(fields: Fields) -> int:
    """Return the size of an attention head."""
    given = fields.number("head_dim", "attention_head_dim", "hidden_size_per_head")
    if given:
        return given
    heads = fields.require("num_attention_heads", "n_head")
    if not heads:
        raise InputError("config.json has 0 attention heads")
    return fields.require("hidden_size", "n_embd") // heads


def kv_heads(fields: Fields) -> int:
    """Return the key/value heads of the entire model (get_total_num_kv_heads)."""
    if fields.model_type in {"falcon", "gpt_bigcode"} and fields.get("multi_query") \
            and not fields.get("new_decoder_architecture"):
        return 1
    configured = fields.get("attn_config")  # Dbrx, MPT
    if isinstance(configured, dict) and isinstance(configured.get("kv_n_heads"), int):
        return int(configured["kv_n_heads"])
    heads = fields.number("n_head_kv", "num_kv_heads", "num_key_value_heads", "multi_query_group_num",
                          "num_attention_groups")
    return heads or fields.require("num_attention_heads", "n_head")


def _state(fields: Fields, layer: int) -> State:
    """Return the state of a layer (MambaStateShapeCalculator, get_mamba_state_shape_from_config, 0.32)."""
    require, model_type = fields.require, fields.model_type
    cell_dtype = fields.get("mamba_ssm_dtype")
    if not isinstance(cell_dtype, str):
        cell_dtype = None
    if fields.number("linear_num_value_heads"):  # gated delta net: Qwen3-Next, Qwen3.5
        keys = require("linear_key_head_dim") * require("linear_num_key_heads") * 2
        values = require("linear_value_head_dim") * require("linear_num_value_heads")
        return State(layer, channels=keys + values, taps=require("linear_conv_kernel_dim") - 1,
                     cells=values * require("linear_key_head_dim"), cell_dtype=cell_dtype)
    if model_type in {"lfm2", "lfm2_moe"}:
        return State(layer, channels=require("conv_dim", "hidden_size"), taps=require("conv_L_cache") - 1)
    if model_type in {"mamba", "falcon_mamba"}:
        inner = fields.number("intermediate_size") or require("expand") * require("hidden_size")
        return State(layer, channels=inner, taps=require("conv_kernel") - 1, cells=inner * require("state_size"))
    if model_type == "jamba":
        inner = require("mamba_expand") * require("hidden_size")
        return State(layer, channels=inner, taps=require("mamba_d_conv") - 1, cells=inner * require("mamba_d_state"))
    if model_type in {"nemotron_h", "mamba2"}:
        heads, size = require("mamba_num_heads", "num_heads"), require("mamba_head_dim", "head_dim")
        states, groups, taps = require("ssm_state_size", "state_size"), require("n_groups"), require("conv_kernel") - 1
        inner = heads * size if model_type == "nemotron_h" else require("expand") * require("hidden_size")
        if model_type == "nemotron_h":
            named = fields.get("mamba_ssm_cache_dtype")
            cell_dtype = named if isinstance(named, str) else "float32"
    else:
        heads, states, groups = require("mamba_n_heads"), require("mamba_d_state"), require("mamba_n_groups")
        taps = require("mamba_d_conv") - 1
        given = fields.number("mamba_d_ssm") if model_type == "falcon_h1" else None
        inner = given or require("mamba_expand") * require("hidden_size")
        named = fields.number("mamba_d_head")
        size = named or inner // max(1, heads)
    return State(layer, channels=inner, taps=taps, cells=heads * size * states, groups=groups,
                 group_channels=2 * states, cell_dtype=cell_dtype)
