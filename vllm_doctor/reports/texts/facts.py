"""Facts: their names and values for display."""

from __future__ import annotations

from typing import Any

from vllm_doctor.language import ENGLISH, Language
from vllm_doctor.messages import Message, joined
from vllm_doctor.reports.model import Report

_WORDS = {
    "api": "API", "cpu": "CPU", "cuda": "CUDA", "fp8": "FP8", "gpu": "GPU", "gpus": "GPUs", "hf": "Hugging Face",
    "json": "JSON", "kv": "KV", "lora": "LoRA", "loras": "LoRAs", "mm": "multimodal", "nccl": "NCCL", "npu": "NPU",
    "oom": "OOM", "ram": "RAM", "ray": "Ray", "rocm": "ROCm", "shm": "shared memory", "v0": "V0", "v1": "V1",
    "vllm": "vLLM", "pytorch": "PyTorch", "len": "length", "num": "number of", "seqs": "sequences",
    "dtype": "data type", "numpy": "NumPy", "nvshmem": "NVSHMEM", "otlp": "OTLP",
}  # fmt: skip
_UNITS = {"gib": "GiB", "gb": "GB", "mib": "MiB", "bytes": "bytes", "seconds": "s", "percent": "%", "s": "s"}


def fact_rows(report: Report) -> list[tuple[str, str, str]]:
    """Return (label, value, where) of each fact and each derived number."""
    rows = []
    for name, value in report.facts.items():
        lines = list(dict.fromkeys(str(place["line"]) for place in report.facts_at.get(name, ())))
        where = joined(", ", lines[:3] + ["…"] * (len(lines) > 3)).translated(report.language.gettext)
        rows.append((fact_label(name, report.language), value_text(value), where))
    computed = report.language.say("computed")
    return rows + [(fact_label(name, report.language), value_text(value), computed)
                   for name, value in report.derived.items()]


def fact_message(name: str) -> Message:
    """Return a fact's name in lower case, for a list of differences."""
    text = name.replace("_gib", " (GiB)").replace("_", " ")
    return Message(text, lambda translate: translate(fact_label(name)) if translate(text) == text else translate(text))


def fact_label(name: str, language: Language = ENGLISH) -> str:
    """Return a fact's name for display: `KV cache available (GiB)` for `kv_cache_available_gib`."""
    words = name.split("_")
    unit = f" ({_UNITS[words.pop()]})" if len(words) > 1 and words[-1] in _UNITS and "per" not in words else ""
    text = " ".join(_WORDS.get(word, word) for word in words)
    return language.gettext((text if text.startswith("vLLM") else text[:1].upper() + text[1:]) + unit)


def value_text(value: Any) -> str:
    """Return a fact's value formatted for display."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{round(value, 6):g}" if abs(value) < 1e6 else str(round(value, 2))
    if isinstance(value, (list, tuple)):
        return ", ".join(value_text(item) for item in value)
    return str(value)
