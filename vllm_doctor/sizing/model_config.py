"""Read from a local model folder (`config.json` and checkpoint) what decides its memory. Nothing is downloaded."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from vllm_doctor.catalog.release_numbers import ReleaseNumbers
from vllm_doctor.errors import InputError
from vllm_doctor.messages import message
from vllm_doctor.sizing.checkpoint import Checkpoint, read_checkpoint
from vllm_doctor.sizing.hub_cache import cached_model, is_model_id
from vllm_doctor.sizing.model_fields import Fields, read_fields
from vllm_doctor.sizing.model_layers import Attention, Layer, State, kv_heads, layers_of
from vllm_doctor.text_files import read_bytes

DTYPE_BYTES: Mapping[str, int] = {
    "float32": 4, "float": 4, "bfloat16": 2, "float16": 2, "half": 2, "fp8": 1, "fp8_e4m3": 1, "fp8_e5m2": 1,
    "fp8_inc": 1, "int8": 1, "uint8": 1}
"""Bytes of one element of a dtype, by vLLM's dtype names."""

_MOST_CONFIG = 32 << 20  # bytes
_LENGTH_KEYS = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "model_max_length",
                "max_target_positions", "max_sequence_length", "max_seq_length", "seq_len")
# RoPE types whose maximum length is already scaled (config/model.py, 0.32); the others multiply it by their factor.
_SCALED_ALREADY = ("su", "longrope", "llama3", "yarn", "deepseek_yarn", "deepseek_llama_scaling")
_YARN_AS_CONFIGURED = (0, 30, 0)  # since then the factor of YaRN does not count
_ENCODERS = ("vision_config", "audio_config", "visual", "vision_tower", "encoder_config")


@dataclass(frozen=True)
class Experts:
    """The experts of an MoE model: number, number per token, intermediate size, layers with experts, shared size."""

    count: int = 0
    per_token: int = 0
    intermediate_size: int = 0
    layers: int = 0
    shared: int = 0


class ModelConfig(NamedTuple):
    """The sizes of a model. `kv_cache_dtype` is the one that --kv-cache-dtype auto means for this checkpoint.

    `max_model_len` is the default, `longest_model_len` the most that vLLM accepts; a model with YaRN has one length
    for both before 0.30, `yarn_model_len` (0: no YaRN). `lengths` chooses by release.
    """

    name: str
    model_type: str
    dtype: str
    quantization: str | None
    kv_cache_dtype: str
    num_layers: int
    layers: tuple[Layer, ...]
    hidden_size: int
    intermediate_size: int
    vocab_size: int
    attention_heads: int
    kv_heads: int
    head_size: int
    experts: Experts
    tied_embeddings: bool
    multimodal: bool
    max_model_len: int
    longest_model_len: int
    yarn_model_len: int
    checkpoint: Checkpoint | None

    def lengths(self, release: ReleaseNumbers) -> tuple[int, int]:
        """Return the default max_model_len and the longest that a release accepts (config/model.py)."""
        if self.yarn_model_len and release < _YARN_AS_CONFIGURED:
            return self.yarn_model_len, self.yarn_model_len
        return self.max_model_len, self.longest_model_len

    @property
    def has_states(self) -> bool:
        """Return whether some layers keep a state of fixed size per sequence (Mamba, linear attention)."""
        return any(isinstance(layer, State) for layer in self.layers)

    @property
    def latent(self) -> bool:
        """Return whether its attention keeps one latent vector per token (MLA)."""
        return any(getattr(layer, "kind", "") == "mla" for layer in self.layers)


def kv_shape_of(folder: str | Path) -> tuple[int, int, int, bool]:
    """Return the shape of a model's KV cache (`Options.kv_shape`). Raises InputError.

    Only a model that keeps every token in every layer, in layers of one shape, has one.
    """
    layers = read_model(folder).layers
    shapes = {(layer.kv_heads, layer.head_size + layer.head_size_v, layer.kind)
              if isinstance(layer, Attention) else None for layer in layers}
    shape = shapes.pop() if len(shapes) == 1 else None
    if shape is None or shape[2] not in {"full", "mla"}:
        raise InputError(f"{folder}: its layers differ in what they cache; `vllm-doctor size` plans such a model")
    return len(layers), shape[0], shape[1], shape[2] == "mla"


def read_model(folder: str | Path) -> ModelConfig:
    """Read a model folder, the path of its config.json, or a hub id in the local cache. Raises InputError."""
    path = Path(folder)
    if not path.exists() and is_model_id(str(folder)):
        path = cached_model(str(folder))
    path = path.parent if path.is_file() and path.name == "config.json" else path
    if not path.is_dir():
        if path.exists():
            raise InputError(message("{name}: is a file, not a model folder", name=folder))
        raise InputError(message("{name}: no such folder; models are not downloaded", name=folder))
    document = _json(path / "config.json")
    if document is None:
        raise InputError(message("{name}: no config.json in this folder", name=folder))
    return model_of(document, name=str(folder), checkpoint=read_checkpoint(path),
                    tokenizer=_json(path / "tokenizer_config.json", forgiving=True),
                    quantization=_json(path / "hf_quant_config.json", forgiving=True))


def model_of(
    document: Mapping[str, Any], *, name: str = "model", checkpoint: Checkpoint | None = None,
    tokenizer: Mapping[str, Any] | None = None, quantization: Mapping[str, Any] | None = None,
) -> ModelConfig:
    """Return the model that a config.json describes. Raises InputError naming the missing field."""
    fields = read_fields(document)
    quantized = _quantization(document, quantization)
    heads = fields.number("num_attention_heads", "n_head") or 0
    if not document.get("model_type") and not heads and fields.number("num_hidden_layers", "n_layer") is None:
        raise InputError(message("{name}: its config.json does not describe a language model", name=name))
    layers = layers_of(fields)
    lengths = _lengths(fields, tokenizer)
    attention = next((layer for layer in layers if hasattr(layer, "head_size")), None)
    return ModelConfig(
        name=name,
        model_type=fields.model_type,
        dtype=_dtype(document, fields),
        quantization=str(quantized.get("quant_method") or "") or None,
        kv_cache_dtype=_kv_cache_dtype(quantized),
        num_layers=fields.layers,
        layers=layers,
        hidden_size=fields.require("hidden_size", "n_embd", "d_model"),
        intermediate_size=fields.number("intermediate_size", "ffn_hidden_size", "n_inner")
        or 4 * fields.require("hidden_size", "n_embd", "d_model"),
        vocab_size=fields.require("vocab_size"),
        attention_heads=heads,
        kv_heads=kv_heads(fields) if heads else 0,
        head_size=attention.head_size if isinstance(attention, Attention) else 0,
        experts=_experts(fields),
        tied_embeddings=bool(document.get("tie_word_embeddings", fields.get("tie_word_embeddings"))),
        multimodal=any(document.get(key) is not None for key in _ENCODERS),
        max_model_len=min(lengths.original or lengths.derived, lengths.derived),
        longest_model_len=lengths.derived,
        yarn_model_len=lengths.yarn,
        checkpoint=checkpoint,
    )


def _json(path: Path, *, forgiving: bool = False) -> dict[str, Any] | None:
    """Read a JSON object from a file; None if there is no file or, when `forgiving`, no valid object in it."""
    reason = "not a JSON object"
    value = None
    try:
        if not os.path.lexists(path):
            return None
        value = json.loads(read_bytes(path, _MOST_CONFIG).decode())
    except InputError:
        if not forgiving:
            raise
    except (ValueError, RecursionError) as error:
        reason += f" ({error})"
    if isinstance(value, dict) or forgiving:
        return value if isinstance(value, dict) else None
    raise InputError(f"{path}: {reason}")


def _dtype(document: Mapping[str, Any], fields: Fields) -> str:
    """Return the dtype that --dtype auto means on a GPU: config.json's, bfloat16 for float32 (_resolve_auto_dtype)."""
    for part in (document, fields.language_model):
        named = part.get("dtype") or part.get("torch_dtype")
        if isinstance(named, str):
            short = named.removeprefix("torch.")
            return "bfloat16" if short in {"float32", "float"} or short not in DTYPE_BYTES else short
    return "bfloat16"


def _quantization(document: Mapping[str, Any], modelopt_file: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the quantization config with vLLM's spelling of `quant_method`; ModelOpt keeps it in a separate file."""
    inner = document.get("text_config")
    config = document.get("quantization_config") or document.get("compression_config")
    if config is None and isinstance(inner, Mapping):
        config = inner.get("quantization_config")
    if isinstance(config, Mapping):
        return {**config, "quant_method": str(config.get("quant_method", "")).lower().replace("_", "-")}
    if modelopt_file is not None and isinstance(modelopt_file.get("quantization"), Mapping):
        algorithm = str(modelopt_file["quantization"].get("quant_algo", "")).upper()
        return {**modelopt_file, "quant_method": "modelopt-fp4" if "FP4" in algorithm else "modelopt"}
    return {}


def _kv_cache_dtype(quantized: Mapping[str, Any]) -> str:
    """Return what --kv-cache-dtype auto means for a checkpoint (get_kv_cache_quant_algo_string, 0.32).

    Only ModelOpt checkpoints choose a dtype.
    """
    if not str(quantized.get("quant_method", "")).startswith("modelopt"):
        return "auto"
    inner = quantized.get("quantization")
    for part in (inner if isinstance(inner, Mapping) else {}, quantized):
        scheme = part.get("kv_cache_scheme") or part.get("kv_cache_quant_algo")
        if isinstance(scheme, Mapping):
            return "fp8_e4m3" if scheme.get("num_bits") == 8 else "auto"
        if isinstance(scheme, str):
            return {"fp8": "fp8_e4m3", "nvfp4": "nvfp4"}.get(scheme.lower(), "auto")
    return "auto"


def _experts(fields: Fields) -> Experts:
    count = fields.number("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts") or 0
    if count < 2:
        return Experts()
    every = fields.number("decoder_sparse_step", "expert_layer_period") or 1
    dense = fields.number("first_k_dense_replace") or 0
    size = fields.number("moe_intermediate_size", "expert_ffn_hidden_size") or fields.number("intermediate_size") or 0
    shared = fields.number("shared_expert_intermediate_size", "moe_shared_expert_intermediate_size")
    if shared is None:
        shared = (fields.number("n_shared_experts", "num_shared_experts") or 0) * size
    return Experts(count, fields.number("num_experts_per_tok", "num_experts_per_token", "moe_topk") or 1, size,
                   max(0, fields.layers - dense) // every, shared)


class _Lengths(NamedTuple):
    """The length derived from config.json, LongRoPE's original one, and YaRN's before 0.30; 0: the model has none."""

    derived: int
    original: int = 0
    yarn: int = 0


def _lengths(fields: Fields, tokenizer: Mapping[str, Any] | None) -> _Lengths:
    """Return the context lengths (_get_and_verify_max_len, 0.32); 2048 if config.json does not say."""
    lengths = [length for key in _LENGTH_KEYS if (length := fields.number(key))]
    if (command_r := fields.number("model_max_length")) is not None:
        lengths = [command_r]
    limit = tokenizer.get("model_max_length") if tokenizer else None
    if isinstance(limit, (int, float)) and 0 < limit < 1 << 40:
        lengths.append(int(limit))
    derived = float(min(lengths, default=2048))
    parameters = fields.get("rope_parameters", "rope_scaling")
    if not isinstance(parameters, Mapping) or "gemma3" in fields.model_type:
        return _Lengths(int(derived))
    kinds = [parameters]
    if not ({"rope_type", "type"} & set(parameters)):
        kinds = [one for one in parameters.values() if isinstance(one, Mapping)]
    factor, original, yarn = 1.0, 0, 0
    for one in kinds:
        kind = one.get("rope_type") or one.get("type") or "default"
        given, before = one.get("factor"), one.get("original_max_position_embeddings")
        is_scaled = isinstance(given, (int, float)) and 0 < given < 1 << 20
        if kind == "longrope":
            original = fields.number("original_max_position_embeddings") or 0
        elif kind == "yarn" and is_scaled and isinstance(before, int):
            yarn = int(before * float(given or 1))
        elif kind not in _SCALED_ALREADY and is_scaled:
            factor = float(given or 1)
    return _Lengths(int(derived * factor), original, yarn)
