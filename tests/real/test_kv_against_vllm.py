"""The KV arithmetic against vLLM's own functions, on the models vLLM itself builds. Written for 0.32.0."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from launches import releases
from model_configs import CONFIGS, FAT, GEMMA_2, TINY, folder
from server import free_port

from vllm_doctor.sizing.kv_layout import KvLayout, layout_of
from vllm_doctor.sizing.kv_pages import KvSettings
from vllm_doctor.sizing.model_config import model_of

pytestmark = pytest.mark.real
ORACLE = Path(__file__).resolve().parent / "kv_oracle.py"
LAUNCHES = ((1, 1, "auto"), (2, 1, "auto"), (4, 1, "auto"), (1, 2, "auto"), (1, 1, "fp8"))
# vLLM itself refuses 71 heads on several ranks, and builds no sparse attention on a CPU.
SKIPPED = {("falcon-7b", 2), ("falcon-7b", 4)}
MODELS = sorted(set(CONFIGS) - {"deepseek-v3.2"})


@pytest.fixture(scope="module")
def vllm_python(real: Any) -> str:
    return str(real.of(releases()[0])[0].python)


def cases() -> list[dict[str, Any]]:
    found = []
    for name in MODELS:
        for ranks, stages, dtype in LAUNCHES:
            if (name, ranks) not in SKIPPED:
                found.append({
                    "name": name, "config": CONFIGS[name], "tp": ranks, "pp": stages, "kv_cache_dtype": dtype,
                    "mamba_ssm_cache_dtype": "auto", "device": "cuda",
                    "max_model_len": CONFIGS[name].get("max_position_embeddings") or 2048,
                    "available": 3_000_000_000 // ranks, "block_size": 64 if "kv_lora_rank" in CONFIGS[name] else None})
    plain = {case["name"]: case for case in found
             if (case["tp"], case["pp"], case["kv_cache_dtype"]) == (1, 1, "auto")}
    found += [dict(plain[name], device="cpu") for name in ("qwen3-0.6b", "gemma-3-1b")]
    found += [dict(plain[name], device="cpu", mamba_ssm_cache_dtype=dtype)
              for name in ("jamba-mini", "granite-4-h-tiny") for dtype in ("auto", "float32")]
    return found


@pytest.fixture(scope="module")
def answers(vllm_python: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    asked = cases()
    result = subprocess.run([vllm_python, str(ORACLE)], input=json.dumps(asked), capture_output=True, text=True,
                            check=False, timeout=1800)
    assert result.returncode == 0, result.stderr[-2000:]
    return list(zip(asked, json.loads(result.stdout), strict=True))


def layout(case: dict[str, Any], answer: dict[str, Any]) -> KvLayout:
    settings = KvSettings(case["tp"], case["pp"], case["kv_cache_dtype"], block_size=case["block_size"],
                          device=case["device"], mamba_ssm_cache_dtype=case["mamba_ssm_cache_dtype"])
    own = layout_of(model_of(case["config"]), settings, (0, 32, 0), 8192)
    # How many batches are under way depends on the model runner; the rest is ours.
    return dataclasses.replace(own, tokens_in_flight=answer["in_flight"])


def test_equal_to_the_byte_and_the_token(answers: Any, capsys: pytest.CaptureFixture[str]) -> None:
    rows, wrong = [], []
    for case, answer in answers:
        label = f"{case['name']} TP{case['tp']} PP{case['pp']} {case['kv_cache_dtype']} {case['device']}"
        assert "error" not in answer, f"{label}: {answer}"
        own, length = layout(case, answer), case["max_model_len"]
        found = {
            "block_bytes": own.block_bytes, "need": own.need(length), "need_half": own.need(length // 2),
            "need_one": own.need(1), "estimate": own.longest(case["available"], length),
            "blocks": own.blocks(answer["enough"]), "tokens": own.tokens(answer["enough"], length),
            "concurrency": own.concurrency(answer["enough"], length)}
        if own.linear:
            found["per_token"] = own.bytes_per_token
        wrong += [f"{label}: {key} {value}, vLLM {answer[key]}" for key, value in found.items() if value != answer[key]]
        rows.append(f"{label:44} {own.bytes_per_token:>9,} B/token  need {found['need']:>15,} B  "
                    f"fits {found['estimate']:>9,}  {len(own.groups)} group(s)")
    with capsys.disabled():
        print("", *rows, f"{len(rows)} launches of {len(MODELS)} models", sep="\n")
    assert not wrong, "\n".join(wrong)
    assert len(MODELS) >= 20


def test_the_derived_length_is_vllms(answers: Any) -> None:
    for case, answer in answers:
        if (case["tp"], case["pp"], case["kv_cache_dtype"], case["device"]) == (1, 1, "auto", "cuda"):
            assert model_of(case["config"]).max_model_len == answer["derived"], case["name"]


PRINTED = re.compile(r"KV cache size: ([\d,]+) tokens")


@pytest.mark.parametrize(("name", "space", "length"), [("TINY", 2, 32768), ("FAT", 3, 16384), ("GEMMA_2", 1, 65536)])
def test_the_tokens_that_a_server_prints(vllm_python: str, tmp_path: Path, name: str, space: int, length: int) -> None:
    """A launch with VLLM_CPU_KVCACHE_SPACE, ended with all it started once it has said how many tokens it holds."""
    config = {"TINY": TINY, "FAT": FAT, "GEMMA_2": GEMMA_2}[name]
    folder(tmp_path, config)
    predicted = layout_of(model_of(config), KvSettings(device="cpu"), (0, 32, 0), 2048).tokens(space << 30, length)
    command = [vllm_python, "-m", "vllm.entrypoints.openai.api_server", "--model", str(tmp_path), "--port", str(free_port()),
               "--max-model-len", str(length), "--load-format", "dummy", "--skip-tokenizer-init", "--enforce-eager"]
    environment = {**os.environ, "VLLM_CPU_KVCACHE_SPACE": str(space), "HF_HUB_OFFLINE": "1"}
    log = tmp_path / "server.log"
    with log.open("wb") as out:
        server = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env=environment, start_new_session=True)
    try:
        found = None
        for _ in range(150):
            found = PRINTED.search(log.read_text(errors="replace"))
            if found or server.poll() is not None:
                break
            time.sleep(2)
    finally:
        os.killpg(server.pid, signal.SIGKILL)  # its engine and workers too: they outlive an API server that is killed
        server.wait()
    assert found, log.read_text(errors="replace")[-2000:]
    assert int(found.group(1).replace(",", "")) == predicted
