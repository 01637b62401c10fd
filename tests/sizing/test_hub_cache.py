from __future__ import annotations

from pathlib import Path

import pytest
from model_configs import TINY, folder

from vllm_doctor.errors import InputError
from vllm_doctor.sizing.hub_cache import is_model_id
from vllm_doctor.sizing.model_config import read_model

REVISION = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(("variable", "below"), [("HF_HUB_CACHE", "."), ("HF_HOME", "hub"),
                                                 ("XDG_CACHE_HOME", "huggingface/hub")])
def test_a_cached_model_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, below: str) -> None:
    for name in ("HF_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, str(tmp_path))
    model = tmp_path / below / "models--org--tiny-1.5"
    snapshot = model / "snapshots" / REVISION
    for path in (snapshot, model / "refs"):
        path.mkdir(parents=True)
    folder(snapshot, TINY)
    (model / "refs" / "main").write_text(REVISION + "\n")
    assert read_model("org/tiny-1.5").name == "org/tiny-1.5"


@pytest.mark.parametrize("revision", [None, REVISION, "../../other"])
def test_a_missing_model_names_the_download(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, revision: str | None,
) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    if revision:
        refs = tmp_path / "models--org--name" / "refs"
        refs.mkdir(parents=True)
        (refs / "main").write_text(revision)
    with pytest.raises(InputError) as raised:
        read_model("org/name")
    assert str(raised.value) == ("org/name: no such folder, and not in the local Hugging Face cache; "
                                 "run: hf download org/name --include '*.json'")


@pytest.mark.parametrize(("text", "expected"), [
    ("Qwen/Qwen3-8B", True), ("meta-llama/Llama-3.1-8B", True), ("/models/m", False), ("./m", False), ("../m", False),
    ("a/b/c", False), ("m", False), ("org/name;id", False), ("org/$(id)", False), ("org/name\n", False)])
def test_the_form_of_an_id(text: str, expected: bool) -> None:
    assert is_model_id(text) is expected
