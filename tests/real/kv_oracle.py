"""What vLLM's own code says of a model's KV cache. Run with a vLLM environment's python: kv_oracle.py < CASES > ANSWERS.

A case is {"config": …, "tp": 2, "pp": 1, "kv_cache_dtype": "auto", "max_model_len": n, "available": bytes, "device": "cuda",
"mamba_ssm_cache_dtype": "float32"}; the last is what the model's states are to be in, whatever this machine's processor prefers.
The model is built of meta tensors, so no weights and no memory are needed. With "cuda" the attention kernel is taken to
accept blocks of any multiple of 16 tokens, as FlashAttention does; the arithmetic is vLLM's.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import traceback
from pathlib import Path

os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")

import torch
from vllm.config import set_current_vllm_config
from vllm.distributed import init_distributed_environment, initialize_model_parallel, parallel_state
from vllm.engine.arg_utils import EngineArgs
from vllm.model_executor.model_loader.utils import initialize_model
from vllm.platforms import current_platform
from vllm.platforms.interface import Platform
from vllm.v1.attention.backend import MultipleOf
from vllm.v1.attention.backends.cpu_attn import CPUAttentionBackend
from vllm.v1.core import kv_cache_utils as kv
from vllm.v1.worker.gpu.attn_utils import get_kv_cache_spec


def main() -> None:
    answers = []
    for case in json.load(sys.stdin):
        try:
            answers.append(answer(case))
        except Exception as error:  # noqa: BLE001, PERF203 - a refusal is an answer, shown beside the case
            traceback.print_exc(file=sys.stderr)
            answers.append({"error": f"{type(error).__name__}: {error}"[:300]})
    json.dump(answers, sys.stdout)


def answer(case: dict) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "config.json").write_text(json.dumps(case["config"]))
        return measure(case, folder)


def measure(case: dict, folder: str) -> dict:
    ranks, stages, length = case["tp"], case["pp"], case["max_model_len"]
    on_gpu = case["device"] == "cuda"
    # vLLM makes the states float32 on a processor with AVX-512 BF16; the answer must not depend on where it is asked.
    torch.cpu._is_avx512_bf16_supported = lambda: False
    arguments = EngineArgs(
        model=folder, skip_tokenizer_init=True, load_format="dummy", max_model_len=length, enforce_eager=True,
        kv_cache_dtype=case["kv_cache_dtype"], mamba_ssm_cache_dtype=case["mamba_ssm_cache_dtype"],
        block_size=case.get("block_size") or (16 if on_gpu else None),
        dtype="bfloat16", max_num_batched_tokens=case.get("max_num_batched_tokens", 8192), max_num_seqs=256,
        enable_prefix_caching=case.get("prefix_caching"), limit_mm_per_prompt={"image": 0, "video": 0} if case.get("text_only") else {})
    config = arguments.create_engine_config()
    with set_current_vllm_config(config):
        if parallel_state._WORLD is None:
            init_distributed_environment(1, 0, f"file://{tempfile.mktemp()}", 0, "gloo")  # noqa: S306
            initialize_model_parallel(1, 1)
            parallel_state._EP = parallel_state._EP or parallel_state._DP  # one rank; experts keep nothing of a request
        config.parallel_config.tensor_parallel_size = ranks
        config.parallel_config.pipeline_parallel_size = stages
        tensor, pipeline = parallel_state._TP, parallel_state._PP
        tensor.world_size, tensor.ranks = ranks, list(range(ranks))
        pipeline.world_size, pipeline.ranks = stages, list(range(stages))
        config.cache_config.block_size = case.get("block_size") or config.cache_config.block_size
        specs = []
        if on_gpu:
            CPUAttentionBackend.get_supported_kernel_block_sizes = staticmethod(lambda spec=None: [MultipleOf(16)])
        else:
            CPUAttentionBackend.get_supported_kernel_block_sizes = staticmethod(lambda spec=None: [MultipleOf(32)])
        for stage in range(stages):
            pipeline.rank = pipeline.rank_in_group = stage
            config.compilation_config.static_forward_context.clear()
            config.compilation_config.static_all_moe_layers.clear()
            with torch.device("meta"):
                initialize_model(config)
            if config.model_config.is_hybrid and stage == 0:
                backends = Platform._find_non_ssm_backends.__func__(type(current_platform), config)
                Platform._align_hybrid_block_size.__func__(type(current_platform), config, backends[0])
            specs.append(get_kv_cache_spec(config))
        pipeline.rank = pipeline.rank_in_group = 0
        config.cache_config.kv_cache_layout = "LBNHC" if on_gpu else "LBHNC"
        from vllm.config.model import _get_and_verify_max_len

        model = config.model_config
        derived = _get_and_verify_max_len(model.hf_config, model.model_arch_config, None, None, False, None)
        return {**ask(config, specs, case), "derived": derived}


def ask(config: object, specs: list, case: dict) -> dict:
    length, available = case["max_model_len"], case["available"]
    merged = {name: spec for stage in specs for name, spec in stage.items()}
    groups = kv.get_kv_cache_groups(config, dict(merged))
    projected = [kv._project_kv_cache_groups_to_worker(groups, stage) for stage in specs]
    blocks = [kv._pool_bytes_per_block(config, own) for own in projected]

    def need(at: int) -> int:
        config.model_config.max_model_len = at
        found = max(kv._max_memory_usage_bytes_from_groups(config, own) for own in projected)
        config.model_config.max_model_len = length
        return found

    estimates = [kv._estimate_max_model_len_from_groups(config, own, available - block)
                 for own, block in zip(projected, blocks, strict=True)]
    enough = 1 << 44
    configs = kv.get_kv_cache_configs(config, specs, [enough] * len(specs))
    per_token = max(sum(getattr(spec, "unpadded_page_size_bytes", 0) // spec.block_size for spec in stage.values()
                        if not hasattr(spec, "shapes") and getattr(spec, "sliding_window", None) is None)
                    for stage in specs)
    tokens, concurrency = kv.get_kv_cache_capacity(config, configs[0])
    return {
        "groups": [[len(group.layer_names), group.kv_cache_spec.page_size_bytes, group.kv_cache_spec.block_size]
                   for group in groups],
        "block_bytes": max(blocks), "need": need(length), "need_half": need(length // 2), "need_one": need(1),
        "estimate": min(estimates), "blocks": configs[0].num_blocks, "tokens": tokens, "concurrency": concurrency,
        "per_token": per_token, "in_flight": config.max_in_flight_tokens, "enough": enough,
        "mode": config.cache_config.mamba_cache_mode,
    }


if __name__ == "__main__":
    main()
