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


def build(environment: Environment, folder: Path) -> Path:
    """The folder of the sound models, made with the environment's libraries when it is not there. Raises Unavailable."""
    if not folder.exists():
        made = folder.with_name(f"{folder.name}.{os.getpid()}")  # two runs may build at once
        script = Path(__file__).resolve().parent / "build_models.py"
        done = subprocess.run([str(environment.python), str(script), str(made)], capture_output=True, text=True, check=False)
        if done.returncode:
            raise Unavailable(f"no models: {done.stderr[-500:]}")
        if folder.exists():
            shutil.rmtree(made)
        else:
            made.rename(folder)
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
    """The sound files over those of every model below `into`, as a whole download would leave them."""
    for folder in into.iterdir():
        base, _ = VARIANTS.get(folder.name, (folder.name, None))
        shutil.copytree(sound / base, folder, dirs_exist_ok=True)


def named_in(command: str) -> set[str]:
    """The models of a command, by the names behind `{models}/`."""
    return set(re.findall(r"\{models\}/([\w.-]+)", command))


def _config(**changes: Any) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        path = folder / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes, indent=1))

    return spoil


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


def _newer_tokenizer(folder: Path) -> None:
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"tokenizer_class": "TokenizersBackend"}))


VARIANTS: dict[str, tuple[str, Callable[[Path], None] | None]] = {
    "fatkv-1m": ("fatkv", _config(max_position_embeddings=1048576)),
    "tiny-lfs": ("tiny", _pointer),
    "tiny-truncated": ("tiny", _truncated),
    "tiny-no-weights": ("tiny", _without("*.safetensors")),
    "tiny-no-tokenizer": ("tiny", _without("tokenizer*", "special_tokens_map.json", "chat_template.jinja")),
    "tiny-newer-tokenizer": ("tiny", _newer_tokenizer),
    "tiny-no-template": ("tiny", _no_template),
    "tiny-half-config": ("tiny", _half_written_config),
    "tiny-unknown-architecture": ("tiny", _config(architectures=["TinyNewForCausalLM"])),
    "tiny-unknown-type": ("tiny", _config(model_type="tinynew")),
    "tiny-remote-code": ("tiny", _remote_code),
    "tiny-4k": ("tiny", _config(max_position_embeddings=4096)),
    "tiny-rope": ("tiny", _config(rope_parameters={"rope_type": "yarn", "rope_theta": 10000.0})),
}
