"""Find a model of the Hugging Face hub in the local cache. The network is never used."""

from __future__ import annotations

import os
import re
from pathlib import Path

from vllm_doctor.errors import InputError
from vllm_doctor.messages import message

_MODEL_ID = re.compile(r"[A-Za-z0-9]\w*(?:[.-]+\w+)*/[A-Za-z0-9]\w*(?:[.-]+\w+)*", re.ASCII)
_REVISION = re.compile(r"[0-9a-f]{7,64}")


def is_model_id(text: str) -> bool:
    """Return whether a text has the form of a hub id, org/name."""
    return _MODEL_ID.fullmatch(text) is not None


def cached_model(model_id: str) -> Path:
    """Return the folder of the cached snapshot that refs/main names. Raises InputError if there is none."""
    model = _cache() / f"models--{model_id.replace('/', '--')}"
    try:
        revision = (model / "refs" / "main").read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        revision = ""
    snapshot = model / "snapshots" / revision
    if _REVISION.fullmatch(revision) is None or not (snapshot / "config.json").is_file():
        raise InputError(message("{name}: no such folder, and not in the local Hugging Face cache; "
                                 "run: hf download {name} --include '*.json'", name=model_id))
    return snapshot


def _cache() -> Path:
    """Return the cache folder as huggingface_hub finds it."""
    environment = os.environ
    home = environment.get("HF_HOME") or Path(environment.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface"
    return Path(environment.get("HF_HUB_CACHE") or Path(home) / "hub").expanduser()
