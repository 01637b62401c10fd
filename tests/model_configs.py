"""The `config.json` of well-known models, cut down to what decides their memory; as published, defaults left out."""

# ruff: noqa: PLR0917 - a shape in one line
from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def _model(architecture: str, model_type: str, **fields: Any) -> dict[str, Any]:
    return {"architectures": [architecture], "model_type": model_type, "torch_dtype": "bfloat16", **fields}


def _shape(hidden: int, layers: int, heads: int, kv_heads: int, inner: int, vocab: int, length: int) -> dict[str, Any]:
    return {"hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": heads,
            "num_key_value_heads": kv_heads, "intermediate_size": inner, "vocab_size": vocab,
            "max_position_embeddings": length}


_DEEPSEEK = {
    "first_k_dense_replace": 1, "kv_lora_rank": 512, "moe_intermediate_size": 1408, "n_routed_experts": 64,
    "n_shared_experts": 2, "num_experts_per_tok": 6, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
    "q_lora_rank": None, "norm_topk_prob": False, "topk_method": "greedy", "n_group": 1, "topk_group": 1,
    "routed_scaling_factor": 1.0, "scoring_func": "softmax", "rope_theta": 10000, "hidden_act": "silu"}
_DEEPSEEK_V3 = {
    **_DEEPSEEK, "first_k_dense_replace": 3, "moe_intermediate_size": 2048, "n_routed_experts": 256, "n_shared_experts": 1,
    "num_experts_per_tok": 8, "q_lora_rank": 1536, "n_group": 8, "topk_group": 4, "topk_method": "noaux_tc",
    "scoring_func": "sigmoid", "routed_scaling_factor": 2.5}
_GDN = {"linear_num_key_heads": 16, "linear_num_value_heads": 32, "linear_key_head_dim": 128,
        "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4}
_EXPERTS = {"decoder_sparse_step": 1, "moe_intermediate_size": 512, "num_experts": 32, "num_experts_per_tok": 4,
            "shared_expert_intermediate_size": 512, "norm_topk_prob": True}

CONFIGS: dict[str, dict[str, Any]] = {
    "llama-3.1-8b": _model("LlamaForCausalLM", "llama", **_shape(4096, 32, 32, 8, 14336, 128256, 131072),
                           rope_scaling={"factor": 8.0, "rope_type": "llama3", "low_freq_factor": 1.0,
                                         "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}),
    "llama-3.1-70b": _model("LlamaForCausalLM", "llama", **_shape(8192, 80, 64, 8, 28672, 128256, 131072)),
    "llama-2-13b": _model("LlamaForCausalLM", "llama", **_shape(5120, 40, 40, 40, 13824, 32000, 4096)),
    "mistral-7b-v0.1": _model("MistralForCausalLM", "mistral", sliding_window=4096,
                              **_shape(4096, 32, 32, 8, 14336, 32000, 32768)),
    "mistral-small-24b": _model("MistralForCausalLM", "mistral", sliding_window=None, head_dim=128,
                                **_shape(5120, 40, 32, 8, 32768, 131072, 32768)),
    "mixtral-8x7b": _model("MixtralForCausalLM", "mixtral", num_local_experts=8, num_experts_per_tok=2,
                           sliding_window=None, **_shape(4096, 32, 32, 8, 14336, 32000, 32768)),
    "qwen2.5-7b": _model("Qwen2ForCausalLM", "qwen2", use_sliding_window=False, sliding_window=131072,
                         max_window_layers=28, **_shape(3584, 28, 28, 4, 18944, 152064, 32768)),
    "qwen3-8b": _model("Qwen3ForCausalLM", "qwen3", head_dim=128, **_shape(4096, 36, 32, 8, 12288, 151936, 40960)),
    "qwen3-0.6b": _model("Qwen3ForCausalLM", "qwen3", head_dim=128, tie_word_embeddings=True,
                         **_shape(1024, 28, 16, 8, 3072, 151936, 40960)),
    "qwen3-30b-a3b": _model("Qwen3MoeForCausalLM", "qwen3_moe", head_dim=128,
                            **{**_EXPERTS, "moe_intermediate_size": 768}, **_shape(2048, 48, 32, 4, 6144, 151936, 40960)),
    "gemma-2-9b": _model("Gemma2ForCausalLM", "gemma2", head_dim=256, sliding_window=4096, query_pre_attn_scalar=256,
                         **_shape(3584, 42, 16, 8, 14336, 256000, 8192)),
    "gemma-3-1b": _model("Gemma3ForCausalLM", "gemma3_text", head_dim=256, sliding_window=512, sliding_window_pattern=6,
                         **_shape(1152, 26, 4, 1, 6912, 262144, 32768)),
    "gemma-3-27b-text": _model("Gemma3ForCausalLM", "gemma3_text", head_dim=128, sliding_window=1024,
                               **_shape(5376, 62, 32, 16, 21504, 262208, 131072)),
    "gpt-oss-20b": _model("GptOssForCausalLM", "gpt_oss", head_dim=64, sliding_window=128, num_local_experts=32,
                          num_experts_per_tok=4,
                          layer_types=["sliding_attention", "full_attention"] * 12,
                          **_shape(2880, 24, 64, 8, 2816, 201088, 131072)),
    "command-r7b": _model("Cohere2ForCausalLM", "cohere2", head_dim=128, sliding_window=4096, sliding_window_pattern=4,
                          **_shape(4096, 32, 32, 8, 14336, 256000, 132096)),
    "phi-3-mini-4k": _model("Phi3ForCausalLM", "phi3", sliding_window=2047, **_shape(3072, 32, 32, 32, 8192, 32064, 4096)),
    "falcon-7b": _model("FalconForCausalLM", "falcon", multi_query=True, new_decoder_architecture=False, hidden_size=4544,
                        num_hidden_layers=32, num_attention_heads=71, vocab_size=65024, parallel_attn=True, bias=False,
                        alibi=False),
    "deepseek-v2-lite": _model("DeepseekV2ForCausalLM", "deepseek_v2", **_DEEPSEEK,
                               **_shape(2048, 27, 16, 16, 10944, 102400, 163840)),
    "deepseek-v3": _model("DeepseekV3ForCausalLM", "deepseek_v3", **_DEEPSEEK_V3,
                          **_shape(7168, 61, 128, 128, 18432, 129280, 163840)),
    "jamba-mini": _model("JambaForCausalLM", "jamba", attn_layer_period=8, attn_layer_offset=4, expert_layer_period=2,
                         expert_layer_offset=1, num_experts=16, num_experts_per_tok=2, mamba_d_state=16, mamba_d_conv=4,
                         mamba_expand=2, mamba_dt_rank=256, **_shape(4096, 32, 32, 8, 14336, 65536, 262144)),
    "mamba-2.8b": _model("MambaForCausalLM", "mamba", hidden_size=2560, num_hidden_layers=64, state_size=16, conv_kernel=4,
                         expand=2, intermediate_size=5120, vocab_size=50280, time_step_rank=160),
    "granite-4-h-tiny": _model(
        "GraniteMoeHybridForCausalLM", "granitemoehybrid", mamba_d_conv=4, mamba_d_head=64, mamba_d_state=128,
        mamba_expand=2, mamba_n_groups=1, mamba_n_heads=48, mamba_chunk_size=256, num_local_experts=64,
        num_experts_per_tok=6, shared_intermediate_size=1024, position_embedding_type="nope",
        layer_types=(["mamba"] * 5 + ["attention"] + ["mamba"] * 9 + ["attention"] + ["mamba"] * 9 + ["attention"]
                     + ["mamba"] * 9 + ["attention"] + ["mamba"] * 4),
        **_shape(1536, 40, 12, 4, 512, 100352, 131072)),
    "qwen3-next-80b": _model("Qwen3NextForCausalLM", "qwen3_next", head_dim=256, full_attention_interval=4,
                             partial_rotary_factor=0.25, **_GDN, **_EXPERTS,
                             **_shape(2048, 48, 16, 2, 5120, 151936, 262144)),
    "nemotron-h-8b": _model(
        "NemotronHForCausalLM", "nemotron_h", head_dim=128, conv_kernel=4, n_groups=8, mamba_num_heads=128,
        mamba_head_dim=64, ssm_state_size=128, chunk_size=128, expand=2,
        hybrid_override_pattern="M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-",
        **_shape(4096, 52, 32, 8, 21504, 131072, 8192)),
    "falcon-h1-1.5b": _model("FalconH1ForCausalLM", "falcon_h1", head_dim=128, mamba_d_conv=4, mamba_d_head=64,
                             mamba_d_ssm=3072, mamba_d_state=256, mamba_n_groups=1, mamba_n_heads=48, mamba_expand=2,
                             mamba_chunk_size=256, **_shape(2048, 24, 8, 2, 4096, 65537, 131072)),
    "mamba2-2.7b": _model("Mamba2ForCausalLM", "mamba2", hidden_size=2560, num_hidden_layers=64, state_size=128,
                          conv_kernel=4, expand=2, n_groups=1, num_heads=80, head_dim=64, chunk_size=256, vocab_size=50288),
    "deepseek-v3.2": _model("DeepseekV32ForCausalLM", "deepseek_v32", **_DEEPSEEK_V3, index_head_dim=128, index_n_heads=64,
                            index_topk=2048, **_shape(7168, 61, 128, 128, 18432, 129280, 163840)),
    "gemma-4-e4b-text": _model("Gemma4ForCausalLM", "gemma4_text", head_dim=256, global_head_dim=512, sliding_window=512,
                               num_kv_shared_layers=18, num_global_key_value_heads=None, attention_k_eq_v=False,
                               **_shape(2560, 42, 8, 2, 10240, 262144, 131072)),
    "gemma-4-31b-text": _model("Gemma4ForCausalLM", "gemma4_text", head_dim=256, global_head_dim=512, sliding_window=1024,
                               num_kv_shared_layers=0, num_global_key_value_heads=4, attention_k_eq_v=True,
                               **_shape(5376, 60, 32, 16, 21504, 262144, 262144)),
    "olmo-3-7b": _model("Olmo3ForCausalLM", "olmo3", sliding_window=4096, **_shape(4096, 32, 32, 32, 11008, 100278, 65536)),
    "starcoder2-7b": _model("Starcoder2ForCausalLM", "starcoder2", sliding_window=4096, use_bias=True,
                            **_shape(4608, 32, 36, 4, 18432, 49152, 16384)),
    "lfm2-1.2b": _model("Lfm2ForCausalLM", "lfm2", conv_L_cache=3, conv_dim=2048, conv_dim_out=2048, block_dim=2048,
                        block_ff_dim=12288, block_multiple_of=256, block_ffn_dim_multiplier=1.0, block_auto_adjust_ff_dim=True,
                        full_attn_idxs=[2, 5, 8, 10, 12, 14], norm_eps=1e-5, conv_bias=False,
                        **_shape(2048, 16, 32, 8, 12288, 65536, 128000)),
}

# Models of a few kilobytes for a launch with `--load-format dummy`.
TINY = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 256, "num_hidden_layers": 4,
        "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 512, "vocab_size": 128,
        "max_position_embeddings": 131072, "dtype": "bfloat16"}
FAT = {**TINY, "hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 16, "num_attention_heads": 16,
       "num_key_value_heads": 16, "head_dim": 128}
_WINDOWS = {**TINY, "head_dim": 64, "sliding_window": 512, "tie_word_embeddings": True}
GEMMA_2 = {**_WINDOWS, "architectures": ["Gemma2ForCausalLM"], "model_type": "gemma2",
           "layer_types": ["sliding_attention", "full_attention"] * 2}
GEMMA_3 = {**_WINDOWS, "architectures": ["Gemma3ForCausalLM"], "model_type": "gemma3_text",
           "layer_types": ["sliding_attention"] * 4}


def folder(path: Path, config: dict[str, Any]) -> Path:
    """Write a model folder that has only its `config.json`."""
    (path / "config.json").write_text(json.dumps(config))
    return path
