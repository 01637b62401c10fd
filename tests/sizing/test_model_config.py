from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from model_configs import CONFIGS, folder

from vllm_doctor.errors import InputError
from vllm_doctor.sizing.checkpoint import read_checkpoint
from vllm_doctor.sizing.model_config import model_of, read_model
from vllm_doctor.sizing.model_fields import read_fields
from vllm_doctor.sizing.model_layers import Attention, State

if TYPE_CHECKING:
    from pathlib import Path

WIDTH = {"BF16": 2, "F16": 2, "F32": 4, "I32": 4, "F8_E4M3": 1, "U8": 1}


def safetensors(path: Path, tensors: dict[str, tuple[str, list[int]]]) -> None:
    """A safetensors file without its tensors' bytes, which nobody reads."""
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, (dtype, shape) in tensors.items():
        size = WIDTH[dtype]
        for one in shape:
            size *= one
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}  # type: ignore[assignment]
        at += size
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text)


def kinds(config: dict[str, Any]) -> str:
    letters = {"full": "F", "sliding": "s", "mla": "L", "indexer": "i"}
    return "".join("M" if isinstance(layer, State) else letters[layer.kind] for layer in model_of(config).layers)


@pytest.mark.parametrize(("name", "expected"), [
    ("llama-3.1-8b", "F" * 32),
    ("gemma-2-9b", "sF" * 21),
    ("gemma-3-1b", "sssssF" * 4 + "ss"),
    ("gpt-oss-20b", "sF" * 12),
    ("command-r7b", "sssF" * 8),
    ("qwen2.5-7b", "F" * 28),  # use_sliding_window is false
    ("mistral-7b-v0.1", "s" * 32),
    ("mistral-small-24b", "F" * 40),
    ("deepseek-v3", "L" * 61),
    ("deepseek-v3.2", "iL" * 61),
    ("jamba-mini", "MMMMFMMM" * 4),
    ("mamba-2.8b", "M" * 64),
    ("qwen3-next-80b", "MMMF" * 12),
    ("falcon-h1-1.5b", "MF" * 24),
    ("lfm2-1.2b", "MMFMMFMMFMFMFMFM"),
    ("gemma-4-e4b-text", "sssssF" * 4),  # the last 18 layers share what others keep
])
def test_what_each_layer_keeps(name: str, expected: str) -> None:
    assert kinds(CONFIGS[name]) == expected


def test_heads_and_windows() -> None:
    llama = model_of(CONFIGS["llama-3.1-8b"]).layers[0]
    assert llama == Attention(0, "full", 8, 128, 128)
    assert model_of(CONFIGS["falcon-7b"]).layers[0] == Attention(0, "full", 1, 64, 64)  # multi-query
    assert model_of(CONFIGS["command-r7b"]).layers[0] == Attention(0, "sliding", 8, 128, 128, 4097)
    assert model_of(CONFIGS["deepseek-v3"]).layers[0] == Attention(0, "mla", 1, 576, 0)
    full = model_of(CONFIGS["gemma-4-31b-text"]).layers[5]
    assert full == Attention(5, "full", 4, 512, 512)


def test_a_multimodal_model_is_read_by_its_language_model() -> None:
    document = {"model_type": "gemma3", "architectures": ["Gemma3ForConditionalGeneration"], "torch_dtype": "bfloat16",
                "text_config": {"model_type": "gemma3_text", "hidden_size": 2560, "intermediate_size": 10240,
                                "num_hidden_layers": 34, "sliding_window": 1024,
                                "rope_scaling": {"factor": 8.0, "rope_type": "linear"}},
                "vision_config": {"hidden_size": 1152, "num_hidden_layers": 27}}
    model = model_of(document)
    assert (model.num_layers, model.kv_heads, model.head_size, model.vocab_size) == (34, 4, 256, 262208)
    assert model.multimodal
    assert model.max_model_len == 131072  # its rope scaling is in it already
    qwen = model_of({"model_type": "qwen3_5_moe", "text_config": {"model_type": "qwen3_5_moe_text"},
                     "vision_config": {}})
    assert qwen.has_states
    assert model_of({"model_type": "qwen2_5_vl", "vision_config": {"depth": 32}, "text_config": {}, "hidden_size": 3584,
                     "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4,
                     "vocab_size": 152064}).kv_heads == 4


@pytest.mark.parametrize(("rope", "extra", "expected"), [
    (None, {}, 32768),
    ({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}, {}, 32768),
    ({"type": "dynamic", "factor": 2.0}, {}, 65536),
    ({"rope_type": "llama3", "factor": 8.0}, {}, 32768),
    ({"type": "longrope"}, {"original_max_position_embeddings": 4096}, 4096),
])
def test_the_length_a_model_allows(rope: Any, extra: dict[str, Any], expected: int) -> None:
    config = {**CONFIGS["qwen2.5-7b"], "rope_scaling": rope, **extra}
    assert model_of(config).max_model_len == expected
    assert model_of(config, tokenizer={"model_max_length": 2048}).max_model_len in {2048, 4096}
    assert model_of(config, tokenizer={"model_max_length": 1e30}).max_model_len == expected


def test_dtype_and_quantization() -> None:
    config = CONFIGS["llama-3.1-8b"]
    assert model_of(config).dtype == "bfloat16"
    assert model_of({**config, "torch_dtype": "float32"}).dtype == "bfloat16"  # as --dtype auto takes it
    assert model_of({**config, "torch_dtype": None, "dtype": "float16"}).dtype == "float16"
    quantized = model_of({**config, "quantization_config": {"quant_method": "compressed_tensors"}})
    assert (quantized.quantization, quantized.kv_cache_dtype) == ("compressed-tensors", "auto")
    modelopt = model_of(config, quantization={"quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}})
    assert (modelopt.quantization, modelopt.kv_cache_dtype) == ("modelopt", "fp8_e4m3")


def test_exact_bytes_from_the_headers(tmp_path: Path) -> None:
    safetensors(tmp_path / "model-00001-of-00002.safetensors", {"a": ("BF16", [3, 5]), "b": ("F8_E4M3", [7])})
    safetensors(tmp_path / "model-00002-of-00002.safetensors", {"c": ("F32", [2, 2]), "scalar": ("F32", [])})
    safetensors(tmp_path / "consolidated.safetensors", {"again": ("BF16", [1000])})
    found = read_checkpoint(tmp_path)
    assert found is not None
    assert (found.total, found.files) == (30 + 7 + 16 + 4, 2)
    assert found.by_dtype == {"BF16": 30, "F32": 20, "F8_E4M3": 7}


def test_weights_that_are_not_there(tmp_path: Path) -> None:
    assert read_checkpoint(tmp_path) is None
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"metadata": {"total_size": 16060522496}}))
    found = read_checkpoint(tmp_path)
    assert found is not None
    assert (found.total, found.tensors) == (16060522496, ())
    (tmp_path / "model.safetensors").write_text(
        "version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 4976698672\n")
    found = read_checkpoint(tmp_path)
    assert found is not None
    assert (found.total, found.tensors) == (4976698672, ())
    assert "LFS" in found.source


@pytest.mark.parametrize("data", [b"", b"\x00" * 8, b"\xff" * 16, struct.pack("<Q", 4) + b"[[[]", struct.pack("<Q", 2) + b"[]",
                                  struct.pack("<Q", 30) + b'{"a":{"shape":[-1]}}          '])
def test_what_is_no_safetensors_file(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "model.safetensors").write_bytes(data)
    with pytest.raises(InputError):
        read_checkpoint(tmp_path)


@pytest.mark.parametrize(("config", "words"), [
    ({"model_type": "llama", "num_hidden_layers": 0, "vocab_size": 5}, "invalid number of layers: 0"),
    ({"model_type": "llama", "num_hidden_layers": 10**9}, "layers"),
    ({"model_type": "deepseek_v4", "compress_ratios": [4]}, "--from LOG"),
    ({"_name": "adapter"}, "does not describe a language model"),
    ({"model_type": "unheard_of", "num_hidden_layers": 2, "num_attention_heads": 2}, "hidden_size"),
    ({**CONFIGS["gemma-2-9b"], "layer_types": ["full_attention"]}, "42 layers but 1 layer types"),
])
def test_configs_that_say_too_little(config: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        model_of(config)


def test_folders_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not downloaded"):
        read_model(tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"no config\.json"):
        read_model(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(InputError, match="not a JSON object"):
        read_model(tmp_path)
    assert read_model(folder(tmp_path, CONFIGS["qwen3-0.6b"]) / "config.json").num_layers == 28


VALUES = st.recursive(st.none() | st.booleans() | st.integers(-2, 1 << 70) | st.floats() | st.text(max_size=5),
                      lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3))


@given(base=st.sampled_from(sorted(CONFIGS)), changed=st.dictionaries(
    st.sampled_from(sorted({key for config in CONFIGS.values() for key in config}
                           | {"text_config", "quantization_config", "rope_scaling", "compress_ratios"})), VALUES, max_size=4))
def test_any_config_is_read_or_refused(base: str, changed: dict[str, Any]) -> None:
    try:
        model = model_of({**CONFIGS[base], **changed})
    except InputError:
        return
    assert model.num_layers > 0
    assert model.max_model_len >= 0


def test_fields_of_other_names() -> None:
    gpt2 = read_fields({"model_type": "gpt2", "n_layer": 24, "n_embd": 1024, "n_head": 16})
    assert (gpt2.layers, gpt2.require("hidden_size"), gpt2.require("num_attention_heads")) == (24, 1024, 16)
    assert read_fields({"model_type": "gemma2"}).number("head_dim") == 256
    assert read_fields({"model_type": "gemma2", "head_dim": None}).number("head_dim") is None


@pytest.mark.parametrize(("rope", "extra", "release", "expected"), [
    ({"type": "longrope"}, {"original_max_position_embeddings": 4096}, (0, 32, 0), (4096, 32768)),
    ({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}, {}, (0, 29, 0), (131072, 131072)),
    ({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}, {}, (0, 30, 0), (32768, 32768)),
    ({"type": "dynamic", "factor": 2.0}, {}, (0, 20, 2), (65536, 65536)),
])
def test_the_default_length_and_the_longest_that_a_release_accepts(
        rope: Any, extra: dict[str, Any], release: tuple[int, int, int], expected: tuple[int, int]) -> None:
    assert model_of({**CONFIGS["qwen2.5-7b"], "rope_scaling": rope, **extra}).lengths(release) == expected
