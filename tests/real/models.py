"""The models of the launches: the sound ones of build_models.py, and what goes wrong with a download or an upload.

A launch gets copies of its own, so that what mends one does not touch another.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from environment import Environment, Unavailable

POINTER = """version https://git-lfs.github.com/spec/v1
oid sha256:4f3d2c1b0a998877665544332211ffeeddccbbaa99887766554433221100ffee
size 4976698672
"""
REMOTE = """from transformers import LlamaConfig


class TinyConfig(LlamaConfig):
    model_type = "tiny_remote"
"""
WEIGHTS = "model.safetensors"
SECOND_SHARD = "model-00002-of-00002.safetensors"
INDEX = "model.safetensors.index.json"


def build(environment: Environment, folder: Path) -> Path:
    """The folder of the sound models, made with the environment's libraries when it is not there. Raises Unavailable."""
    if not folder.exists():
        unfinished = folder.with_name(f"{folder.name}.{os.getpid()}")  # two runs may build at once
        script = Path(__file__).resolve().parent / "build_models.py"
        done = subprocess.run([str(environment.python), str(script), str(unfinished)], capture_output=True, text=True, check=False)
        if done.returncode:
            raise Unavailable(f"no models: {done.stderr[-500:]}")
        if folder.exists():
            shutil.rmtree(unfinished)
        else:
            unfinished.rename(folder)
    return folder


def lay_out(sound: Path, names: set[str], into: Path) -> None:
    """Copies of those models below `into`, as broken as their names say. A name of neither table stays away."""
    for name in names:
        base, spoil = VARIANTS.get(name, (name, None))
        if (sound / base).is_dir():
            shutil.copytree(sound / base, into / name)
        if spoil:
            spoil(into / name)


def mend(sound: Path, into: Path) -> None:
    """The sound files in the place of those of every model below `into`, as a whole download would leave them."""
    for folder in into.iterdir():
        base, _ = VARIANTS.get(folder.name, (folder.name, None))
        shutil.rmtree(folder)
        shutil.copytree(sound / base, folder)


def named_in(command: str) -> set[str]:
    """The models of a command, by the names behind `{models}/`."""
    return set(re.findall(r"\{models\}/([\w.-]+)", command))


def _setting(name: str, **changes: Any) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        path = folder / name
        path.write_text(json.dumps(json.loads(path.read_text()) | changes, indent=1))

    return spoil


def _config(**changes: Any) -> Callable[[Path], None]:
    return _setting("config.json", **changes)


def _without(*patterns: str) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        for pattern in patterns:
            for path in folder.glob(pattern):
                path.unlink()

    return spoil


def _pointer(folder: Path) -> None:
    (folder / WEIGHTS).write_text(POINTER)


def _truncated(folder: Path) -> None:
    whole = (folder / WEIGHTS).read_bytes()
    (folder / WEIGHTS).write_bytes(whole[: len(whole) * 2 // 3])


def _half_written_config(folder: Path) -> None:
    text = (folder / "config.json").read_text()
    (folder / "config.json").write_text(text[: len(text) // 2])


def _remote_code(folder: Path) -> None:
    _config(model_type="tiny_remote", auto_map={"AutoConfig": "configuration_tiny.TinyConfig"})(folder)
    (folder / "configuration_tiny.py").write_text(REMOTE)


def _no_template(folder: Path) -> None:
    _without("chat_template.jinja")(folder)
    path = folder / "tokenizer_config.json"
    settings = json.loads(path.read_text())
    settings.pop("chat_template", None)
    path.write_text(json.dumps(settings))


def _tokenizer_class(name: str) -> Callable[[Path], None]:
    return _setting("tokenizer_config.json", tokenizer_class=name)


def _commented_config(folder: Path) -> None:
    path = folder / "config.json"
    path.write_text(path.read_text().replace("{", "{\n  // smaller than the original", 1))


def _remote_code_needs_package(folder: Path) -> None:
    _remote_code(folder)
    path = folder / "configuration_tiny.py"
    path.write_text("import attention_of_ours\n" + path.read_text())


def _file(name: str, content: str | bytes) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)

    return spoil


def _marked(name: str) -> Callable[[Path], None]:
    """With a byte order mark, as some editors on Windows write it."""
    def spoil(folder: Path) -> None:
        (folder / name).write_bytes(b"\xef\xbb\xbf" + (folder / name).read_bytes())

    return spoil


def _half(name: str) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        whole = (folder / name).read_bytes()
        (folder / name).write_bytes(whole[: len(whole) // 2])

    return spoil


def _garbled(folder: Path) -> None:
    whole = (folder / WEIGHTS).read_bytes()
    (folder / WEIGHTS).write_bytes(b"<!DOCTYPE html><html>" + whole[21:])


def _bin_of_zeros(folder: Path) -> None:
    _without("*.safetensors")(folder)
    (folder / "pytorch_model.bin").write_bytes(bytes(4096))


def _shard_missing(folder: Path) -> None:
    """Half of the tensors in the first of two files; the second is not there."""
    whole = (folder / WEIGHTS).read_bytes()
    size = int.from_bytes(whole[:8], "little")
    tensors = json.loads(whole[8 : 8 + size])
    tensors.pop("__metadata__", None)
    by_place = sorted(tensors, key=lambda name: int(tensors[name]["data_offsets"][0]))
    kept = by_place[: len(by_place) // 2]
    header = json.dumps({name: tensors[name] for name in kept}).encode()
    data = whole[8 + size : 8 + size + tensors[kept[-1]]["data_offsets"][1]]
    (folder / "model-00001-of-00002.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + data)
    (folder / WEIGHTS).unlink()
    places = {name: f"model-0000{1 if name in kept else 2}-of-00002.safetensors" for name in by_place}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {"total_size": len(whole)}, "weight_map": places}))


def _remote_code_missing(folder: Path) -> None:
    _remote_code(folder)
    (folder / "configuration_tiny.py").unlink()


def _renamed_weights(folder: Path) -> None:
    """The index names a file of another spelling than the one that is there."""
    described, _ = _read_tensors(folder / WEIGHTS)
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": dict.fromkeys(described, "model-00001-of-00001.safetensors")}))


def _newer_tokenizer_file(folder: Path) -> None:
    """Its model is of a type that the installed tokenizers library does not know."""
    path = folder / "tokenizer.json"
    settings = json.loads(path.read_text())
    settings["model"]["type"] = "SuperBPE"
    path.write_text(json.dumps(settings))


def _token_above_vocabulary(folder: Path) -> None:
    """The tokenizer has one token more than the model's embeddings, and the chat template uses it."""
    path = folder / "tokenizer.json"
    settings = json.loads(path.read_text())
    settings["added_tokens"].append({"id": 128, "content": "<|user|>", "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True})
    for filler in range(len(settings["model"]["vocab"]), 128):
        settings["model"]["vocab"][f"<filler{filler}>"] = filler
    path.write_text(json.dumps(settings))
    _no_template(folder)
    (folder / "chat_template.jinja").write_text("{% for m in messages %}<|user|>{{ m['content'] }}{% endfor %}")


def _index_cut(folder: Path) -> None:
    _shard_missing(folder)
    _half("model.safetensors.index.json")(folder)


def _without_key(name: str) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        path = folder / "config.json"
        settings = json.loads(path.read_text())
        settings.pop(name)
        path.write_text(json.dumps(settings))

    return spoil


def _llava(*spoils: Callable[[Path], None]) -> Callable[[Path], None]:
    """A model of images and text around tiny, for random weights."""
    def spoil(folder: Path) -> None:
        text = json.loads((folder / "config.json").read_text())
        vision = {"model_type": "clip_vision_model", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
                  "image_size": 28, "patch_size": 14, "projection_dim": 64}
        (folder / "config.json").write_text(json.dumps({
            "architectures": ["LlavaForConditionalGeneration"], "model_type": "llava", "image_token_index": 97, "image_token_id": 97, "text_config": text,
            "vision_config": vision, "projector_hidden_act": "gelu", "vision_feature_select_strategy": "default", "vision_feature_layer": -2,
            "image_seq_length": 4, "torch_dtype": "bfloat16"}))
        (folder / "processor_config.json").write_text(json.dumps({
            "processor_class": "LlavaProcessor", "patch_size": 14, "vision_feature_select_strategy": "default", "image_token": "<image>",
            "num_additional_image_tokens": 1}))
        (folder / "preprocessor_config.json").write_text(json.dumps({
            "image_processor_type": "CLIPImageProcessor", "processor_class": "LlavaProcessor", "crop_size": {"height": 28, "width": 28},
            "size": {"shortest_edge": 28}, "do_resize": True, "do_center_crop": True, "do_normalize": True, "image_mean": [0.5, 0.5, 0.5],
            "image_std": [0.5, 0.5, 0.5]}))
        for further in spoils:
            further(folder)

    return spoil


def _bert(*spoils: Callable[[Path], None]) -> Callable[[Path], None]:
    """An encoder of 512 positions with the tokenizer of tiny, for random weights."""
    def spoil(folder: Path) -> None:
        _without("*.safetensors", "generation_config.json")(folder)
        (folder / "config.json").write_text(json.dumps({
            "architectures": ["BertModel"], "model_type": "bert", "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 2,
            "max_position_embeddings": 512, "type_vocab_size": 2, "vocab_size": 128, "layer_norm_eps": 1e-12, "hidden_act": "gelu", "torch_dtype": "float32"}))
        for further in spoils:
            further(folder)

    return spoil


def _pooling_cut(folder: Path) -> None:
    (folder / "modules.json").write_text(json.dumps([
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text('{"word_embedding_dimension": 128, "pooling_mode_')


def _remote_code_with(change: Callable[[str], str]) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        _remote_code(folder)
        path = folder / "configuration_tiny.py"
        path.write_text(change(path.read_text()))

    return spoil


def _no_merges(folder: Path) -> None:
    """A byte-pair tokenizer in its older form, without the second of its two files."""
    vocabulary = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
    _without("tokenizer.json")(folder)
    _tokenizer_class("GPT2Tokenizer")(folder)
    (folder / "vocab.json").write_text(json.dumps(vocabulary))


def _two_templates(folder: Path) -> None:
    _no_template(folder)
    template = "{% for m in messages %}{{ m['content'] }}{% endfor %}"
    _setting("tokenizer_config.json", chat_template=[{"name": "tool_use", "template": template}, {"name": "rag", "template": template}])(folder)


def _with_params(folder: Path) -> None:
    (folder / "params.json").write_text('{"dim": 256, "n_layers": 4, "n_heads": 4, "n_kv_heads": 2, "vocab_size": 128, "norm_eps": 1e-05, "rope_theta": 10000.0}')
    (folder / "consolidated.00.pth").write_bytes(bytes(4096))


def _wider_adapter(folder: Path) -> None:
    """Its tensors are as many numbers, in rows of twice the length."""
    path = folder / "adapter_model.safetensors"
    whole = path.read_bytes()
    size = int.from_bytes(whole[:8], "little")
    tensors = json.loads(whole[8 : 8 + size])
    for name, tensor in tensors.items():
        if name != "__metadata__":
            first, second = tensor["shape"]
            tensor["shape"] = [first // 2, second * 2]
    header = json.dumps(tensors).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + whole[8 + size :])


def _tensors(change: Callable[[dict[str, bytes]], dict[str, bytes]]) -> Callable[[Path], None]:
    """The tensors after `change`, which maps name -> content to what is to be there (a name that is new has the shape of the old one of its content)."""
    def spoil(folder: Path) -> None:
        described, contents = _read_tensors(folder / WEIGHTS)
        by_content = {id(content): described[name] for name, content in contents.items()}
        wanted = change(contents)
        _write_tensors(folder / WEIGHTS, {name: by_content[id(content)] for name, content in wanted.items()}, wanted)

    return spoil


def _read_tensors(path: Path) -> tuple[dict[str, Any], dict[str, bytes]]:
    """What a file of weights says of its tensors, and their contents, by name."""
    whole = path.read_bytes()
    size = int.from_bytes(whole[:8], "little")
    described = json.loads(whole[8 : 8 + size])
    described.pop("__metadata__", None)
    data = whole[8 + size :]
    return described, {name: data[slice(*tensor["data_offsets"])] for name, tensor in described.items()}


def _write_tensors(path: Path, described: dict[str, Any], contents: dict[str, bytes]) -> None:
    """Write a file of weights."""
    header, at = {}, 0
    for name, content in contents.items():
        header[name] = described[name] | {"data_offsets": [at, at + len(content)]}
        at += len(content)
    text = json.dumps({"__metadata__": {"format": "pt"}, **header}).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(contents.values()))


def _without_head(contents: dict[str, bytes]) -> dict[str, bytes]:
    return {name: content for name, content in contents.items() if not name.startswith("lm_head")}


def _prefixed(contents: dict[str, bytes]) -> dict[str, bytes]:
    return {f"module.{name}": content for name, content in contents.items()}


def _adapter_beside(folder: Path) -> None:
    """The adapter that was merged still lies beside the weights."""
    described, contents = _read_tensors(folder / WEIGHTS)
    name = "model.layers.0.self_attn.q_proj.weight"
    stem = "base_model.model.model.layers.0.self_attn.q_proj.lora_{}.weight"
    _write_tensors(folder / "adapter_model.safetensors", {stem.format(side): described[name] for side in "AB"},
                   {stem.format(side): contents[name] for side in "AB"})


def _two_shards(folder: Path) -> None:
    """The weights in two files with their index."""
    described, contents = _read_tensors(folder / WEIGHTS)
    names = sorted(contents)
    halves = (names[: len(names) // 2], names[len(names) // 2 :])
    places = {}
    for at, half in enumerate(halves, 1):
        file = f"model-0000{at}-of-00002.safetensors"
        _write_tensors(folder / file, described, {name: contents[name] for name in half})
        places |= dict.fromkeys(half, file)
    (folder / WEIGHTS).unlink()
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {"total_size": 0}, "weight_map": places}))


def _second_shard_cut(folder: Path) -> None:
    _two_shards(folder)
    _half("model-00002-of-00002.safetensors")(folder)


def _index_without_map(folder: Path) -> None:
    _two_shards(folder)
    (folder / "model.safetensors.index.json").write_text('{"metadata": {"total_size": 0}}')


def _merges_of_another_release(folder: Path) -> None:
    """The merges of tokenizer.json in a form that the installed tokenizers package does not know."""
    path = folder / "tokenizer.json"
    content = json.loads(path.read_text())
    content["model"]["merges"] = [{"pair": ["a", "b"]}]
    path.write_text(json.dumps(content))


def _sentencepiece_garbled(folder: Path) -> None:
    _without("tokenizer.json")(folder)
    _tokenizer_class("LlamaTokenizer")(folder)
    (folder / "tokenizer.model").write_bytes(b"<html><body>504 Gateway Time-out</body></html>")


def _template_cut(folder: Path) -> None:
    _no_template(folder)
    (folder / "chat_template.jinja").write_text("{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n")


VARIANTS: dict[str, tuple[str, Callable[[Path], None] | None]] = {
    "llava-no-processor": ("tiny", _llava(_without("preprocessor_config.json", "processor_config.json"))),
    "llava-processor-cut": ("tiny", _llava(_half("preprocessor_config.json"))),
    "llava-processor-unknown": ("tiny", _llava(_setting("preprocessor_config.json", image_processor_type="OursImageProcessor", processor_class="OursProcessor"))),
    "llava-no-image-token": ("tiny", _llava()),
    "bert": ("tiny", _bert()),
    "bert-pooling-cut": ("tiny", _bert(_pooling_cut)),
    "tiny-scores": ("tiny", _config(architectures=["LlamaForSequenceClassification"], num_labels=2)),
    "adapter-of-prompts": ("adapter", _file("adapter_config.json", '{"peft_type": "PROMPT_TUNING", "num_virtual_tokens": 8, "task_type": "CAUSAL_LM", "base_model_name_or_path": "tiny"}')),
    "adapter-with-bias": ("adapter", _setting("adapter_config.json", bias="all")),
    "adapter-without-settings": ("adapter", _without("adapter_config.json")),
    "tiny-remote-class-missing": ("tiny", _remote_code_with(lambda text: text.replace("class TinyConfig", "class TinyConfiguration"))),
    "tiny-remote-code-cut": ("tiny", _remote_code_with(lambda text: text[:-10])),
    "tiny-remote-code-older": ("tiny", _remote_code_with(lambda text: "from transformers.utils import is_torch_fx_available\n" + text)),
    "tiny-no-merges": ("tiny", _no_merges),
    "tiny-two-templates": ("tiny", _two_templates),
    "tiny-with-params": ("tiny", _with_params),
    "tiny-generation-list": ("tiny", _file("generation_config.json", "[]")),
    "fatkv-1m": ("fatkv", _config(max_position_embeddings=1048576)),
    "tiny-lfs": ("tiny", _pointer),
    "tiny-truncated": ("tiny", _truncated),
    "tiny-no-weights": ("tiny", _without("*.safetensors")),
    "tiny-no-tokenizer": ("tiny", _without("tokenizer*", "special_tokens_map.json", "chat_template.jinja")),
    "tiny-newer-tokenizer": ("tiny", _tokenizer_class("TokenizersBackend")),
    "tiny-no-template": ("tiny", _no_template),
    "tiny-half-config": ("tiny", _half_written_config),
    "tiny-unknown-architecture": ("tiny", _config(architectures=["TinyNewForCausalLM"])),
    "tiny-unknown-type": ("tiny", _config(model_type="tinynew")),
    "tiny-remote-code": ("tiny", _remote_code),
    "tiny-empty": ("tiny", _without("*")),
    "tiny-config-empty": ("tiny", _file("config.json", "{}")),
    "tiny-no-architecture": ("tiny", _without_key("architectures")),
    "tiny-heads-5": ("tiny", _config(num_attention_heads=5)),
    "tiny-dtype-unknown": ("tiny", _config(torch_dtype="brain16", dtype="brain16")),
    "tiny-remote-code-missing": ("tiny", _remote_code_missing),
    "tiny-quantized-by-unknown": ("tiny", _config(quantization_config={"quant_method": "quip7", "bits": 2})),
    "tiny-awq-incomplete": ("tiny", _config(quantization_config={"quant_method": "awq", "group_size": 128})),
    "tiny-zero-bytes": ("tiny", _file(WEIGHTS, b"")),
    "tiny-garbled": ("tiny", _garbled),
    "tiny-bin-of-zeros": ("tiny", _bin_of_zeros),
    "tiny-shard-missing": ("tiny", _shard_missing),
    "tiny-wider": ("tiny", _config(intermediate_size=1024)),
    "tiny-6-layers": ("tiny", _config(num_hidden_layers=6)),
    "tiny-2-layers": ("tiny", _config(num_hidden_layers=2)),
    "tiny-tokenizer-cut": ("tiny", _half("tokenizer.json")),
    "tiny-generation-cut": ("tiny", _half("generation_config.json")),
    "adapter-no-weights": ("adapter", _without("*.safetensors")),
    "adapter-other-base": ("adapter", _setting("adapter_config.json", target_modules=["c_attn"])),
    "tiny-activation-unknown": ("tiny", _config(hidden_act="gelu_of_ours")),
    "tiny-kv-heads-3": ("tiny", _config(num_key_value_heads=3)),
    "tiny-head-60": ("tiny", _config(head_dim=60)),
    "tiny-no-hidden-size": ("tiny", _without_key("hidden_size")),
    "tiny-of-vision": ("tiny", _config(architectures=["LlavaForConditionalGeneration"], model_type="llava")),
    "tiny-vocabulary-64": ("tiny", _config(vocab_size=64)),
    "tiny-index-cut": ("tiny", _index_cut),
    "tiny-tokenizer-config-cut": ("tiny", _half("tokenizer_config.json")),
    "adapter-settings-cut": ("adapter", _half("adapter_config.json")),
    "tiny-commented": ("tiny", _commented_config),
    "tiny-positions-in-quotes": ("tiny", _config(max_position_embeddings="4096")),
    "tiny-rope-unknown": ("tiny", _config(rope_scaling={"rope_type": "spiral", "factor": 2.0}, rope_parameters={"rope_type": "spiral", "factor": 2.0, "rope_theta": 10000.0})),
    "tiny-tokenizer-of-ours": ("tiny", _tokenizer_class("TokenizerOfOurs")),
    "tiny-remote-code-needs-package": ("tiny", _remote_code_needs_package),
    "tiny-compressed-incomplete": ("tiny", _config(quantization_config={"quant_method": "compressed-tensors", "format": "float-quantized"})),
    "adapter-rank-8": ("adapter", _setting("adapter_config.json", r=8)),
    "adapter-dora": ("adapter", _setting("adapter_config.json", use_dora=True)),
    "adapter-wider": ("adapter", _wider_adapter),
    "tiny-config-list": ("tiny", _file("config.json", "[]")),
    "tiny-config-pointer": ("tiny", _file("config.json", POINTER)),
    "tiny-tokenizer-pointer": ("tiny", _file("tokenizer.json", POINTER)),
    "tiny-vocabulary-4096": ("tiny", _config(vocab_size=4096)),
    "tiny-positions-0": ("tiny", _config(max_position_embeddings=0)),
    "tiny-quantized-by-nobody": ("tiny", _config(quantization_config={"bits": 4, "group_size": 128})),
    "tiny-no-config": ("tiny", _without("config.json")),
    "tiny-config-with-mark": ("tiny", _marked("config.json")),
    "tiny-4k": ("tiny", _config(max_position_embeddings=4096)),
    "tiny-second-shard-cut": ("tiny", _second_shard_cut),
    "tiny-renamed-weights": ("tiny", _renamed_weights),
    "tiny-saved-from-a-wrapper": ("tiny", _tensors(_prefixed)),
    "tiny-newer-tokenizer-file": ("tiny", _newer_tokenizer_file),
    "tiny-token-above-vocabulary": ("tiny", _token_above_vocabulary),
    "tiny-architecture-as-text": ("tiny", _config(architectures="LlamaForCausalLM")),
    "tiny-layers-in-quotes": ("tiny", _config(num_hidden_layers="4")),
    "tiny-heads-8": ("tiny", _config(num_attention_heads=8)),
    "tiny-of-gpt2": ("tiny", _config(architectures=["GPT2LMHeadModel"])),
    "tiny-rope-as-text": ("tiny", _config(rope_scaling="yarn", rope_parameters="yarn")),
    "tiny-dtype-float8": ("tiny", _config(torch_dtype="float8_e4m3fn", dtype="float8_e4m3fn")),
    "tiny-temperature-as-text": ("tiny", _setting("generation_config.json", temperature="hot", do_sample=True)),
    "tiny-tied": ("tiny", _config(tie_word_embeddings=True)),
    "adapter-with-head": ("adapter", _setting("adapter_config.json", modules_to_save=["lm_head"])),
    "tiny-rope": ("tiny", _config(rope_parameters={"rope_type": "yarn", "rope_theta": 10000.0})),
    "tiny-no-head": ("tiny", _tensors(_without_head)),
    "tiny-prefixed": ("tiny", _tensors(_prefixed)),
    "tiny-adapter-beside": ("tiny", _adapter_beside),
    "tiny-kv-heads-4": ("tiny", _config(num_key_value_heads=4)),
    "tiny-merges-unknown": ("tiny", _merges_of_another_release),
    "tiny-index-without-map": ("tiny", _index_without_map),
    "tiny-bitsandbytes": ("tiny", _config(quantization_config={
        "quant_method": "bitsandbytes", "load_in_4bit": True, "load_in_8bit": False, "bnb_4bit_quant_type": "nf4",
        "bnb_4bit_compute_dtype": "bfloat16", "bnb_4bit_use_double_quant": True, "bnb_4bit_quant_storage": "uint8"})),
    "tiny-gptq-of-plain": ("tiny", _config(quantization_config={
        "quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False, "sym": True})),
    "tiny-sentencepiece-garbled": ("tiny", _sentencepiece_garbled),
    "tiny-template-cut": ("tiny", _template_cut),
    "tiny-temperature-in-quotes": ("tiny", _setting("generation_config.json", temperature="0.7")),
    "tiny-layers-null": ("tiny", _config(num_hidden_layers=None)),
    "tiny-of-ours": ("tiny", _config(architectures=["OursForCausalLM"])),
}
