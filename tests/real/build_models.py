"""Tiny models with random weights, sound ones. Run with a vLLM environment's python: build_models.py FOLDER

tiny        Llama, 4 layers, 4 heads, 2 KV heads of 64: 2 KiB of KV cache per token, context 131,072
fatkv       Llama, 16 layers, 16 KV heads of 128: 128 KiB of KV cache per token, so 16 GiB for its context of 131,072
adapter     a LoRA adapter of rank 64 for tiny
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

TINY = {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 4, "num_attention_heads": 4,
        "num_key_value_heads": 2, "vocab_size": 128}
SHAPES = {
    "tiny": TINY,
    "fatkv": TINY | {"hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 16, "num_attention_heads": 16,
                     "num_key_value_heads": 16, "head_dim": 128},
}
RANK = 64


def main(folder: Path) -> None:
    """Write every model into a folder of its name."""
    torch.manual_seed(0)
    for name, shape in SHAPES.items():
        tokenizer().save_pretrained(folder / name)
        config = LlamaConfig(max_position_embeddings=131072, bos_token_id=95, eos_token_id=96, **shape)
        LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(folder / name)
    adapter(folder / "adapter")


def tokenizer() -> PreTrainedTokenizerFast:
    """One token for each printable character."""
    pieces = [chr(code) for code in range(32, 127)] + ["<s>", "</s>", "<unk>"]
    core = Tokenizer(models.BPE(vocab={piece: at for at, piece in enumerate(pieces)}, merges=[], unk_token="<unk>"))
    core.decoder = decoders.Fuse()
    fast = PreTrainedTokenizerFast(tokenizer_object=core, bos_token="<s>", eos_token="</s>", unk_token="<unk>")
    fast.chat_template = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}"
    return fast


def adapter(folder: Path) -> None:
    """A LoRA adapter for the query projections of tiny."""
    folder.mkdir(parents=True, exist_ok=True)
    size = TINY["hidden_size"]
    stem = "base_model.model.model.layers.{}.self_attn.q_proj.lora_"
    tensors = {}
    for layer in range(TINY["num_hidden_layers"]):
        tensors[stem.format(layer) + "A.weight"] = torch.randn(RANK, size)
        tensors[stem.format(layer) + "B.weight"] = torch.zeros(size, RANK)
    save_file(tensors, folder / "adapter_model.safetensors")
    settings = {"peft_type": "LORA", "r": RANK, "lora_alpha": RANK, "target_modules": ["q_proj"], "bias": "none",
                "task_type": "CAUSAL_LM", "base_model_name_or_path": "tiny", "lora_dropout": 0.0}
    (folder / "adapter_config.json").write_text(json.dumps(settings), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
