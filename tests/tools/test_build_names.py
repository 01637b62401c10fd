from __future__ import annotations

import importlib
import json
import lzma
from pathlib import Path
from typing import Any

import pytest

TOOLS = Path(__file__).resolve().parents[2] / "tools"

OLD = {
    "vllm/__init__.py": "from vllm.engine import Engine\nfrom .utils import *\n",
    "vllm/engine.py": """
import os
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from vllm.utils import hidden
class Engine(Base):
    limit: int = 1
    def __init__(self, model, *, seed=0):
        self.model = model
        if seed:
            self.seed = seed
        if model:
            self.kind = 1
        else:
            self.kind = 2
    @property
    def size(self): ...
""",
    "vllm/utils.py": "__all__ = ['public']\ndef public(a, b=1, **rest): ...\ndef private(): ...\n"
    "try:\n    import numba\n    def fast(): ...\nexcept ImportError:\n    slow = None\n",
    "setup.py": "ext_modules.append(CMakeExtension(name='vllm._C'))\n",
    "requirements.txt": "torch == 2.1.2  # pinned\ntransformers >= 4.36.0\nray; platform_machine == 's390x'\n-r other.txt\n",
}
NEW = {
    "vllm/__init__.py": """
import typing
TABLE = {"Engine": ".core.engine:Engine"}
if typing.TYPE_CHECKING:
    from vllm.core.engine import Engine
def __getattr__(name):
    if name == "computed":
        return 1
    return TABLE[name]
""",
    "vllm/core/engine.py": "class Engine:\n    def __init__(self, model, seed): ...\n",
    "vllm/utils.py": "def public(a): ...\nif True_:\n    both = 1\nelse:\n    both = 2\nif HAS_X:\n    one = 1\n",
    "setup.py": "",
    "requirements/common.txt": "transformers >= 4.51.1\n",
    "PKG-INFO": 'Name: vllm\nRequires-Dist: torch==2.7.0\nRequires-Dist: librosa; extra == "audio"\n\nRequires-Dist: no\n',
}


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.syspath_prepend(str(TOOLS))
    for release, sources in (("1.0", OLD), ("1.1", NEW)):
        for name, text in sources.items():
            path = tmp_path / "sdists" / f"vllm-{release}" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    tool = importlib.import_module("build_names")
    output = tmp_path / "names.jsonl.xz"
    assert tool.main([str(tmp_path / "sdists"), "-o", str(output)]) == 0
    found = [json.loads(line) for line in lzma.decompress(output.read_bytes()).splitlines()]
    assert found[0] == {"schema": 1, "releases": ["1.0", "1.1"]}
    return {row[0]: row[1:] for row in found[1:]}


def test_modules_and_their_lives(rows: dict[str, Any]) -> None:
    assert {name: row[0] for name, row in rows.items() if row[0].__class__ is str} == {
        "vllm": "0-",
        "vllm._C": "0",
        "vllm._version": "0-",
        "vllm.core": "1-",
        "vllm.core.engine": "1-",
        "vllm.core.engine:Engine": "1-",
        "vllm.engine": "0",
        "vllm.engine:Engine": "0",
        "vllm.utils": "0-",
    }


def test_reexports_stars_and_lazy_names(rows: dict[str, Any]) -> None:
    names = rows["vllm"][1]
    assert names["n"][""] == "Engine _version"
    assert names["r"] == {"0": "public"}
    assert names["n"]["1-"] == "TABLE __getattr__ computed"
    assert "hidden" not in str(rows["vllm.engine"])  # for type checkers only


def test_conditions(rows: dict[str, Any]) -> None:
    assert rows["vllm.utils"][1]["c"] == {"one": "HAS_X"}
    assert rows["vllm._C"][1]["c"] == {"": "built"}


def test_classes(rows: dict[str, Any]) -> None:
    parts = rows["vllm.engine:Engine"][1]
    assert parts["b"] == {"": "Base"}
    assert parts["m"] == {"": "limit size"}
    assert parts["i"] == {"": "kind model seed?"}


def test_only_parameters_that_change_are_kept(rows: dict[str, Any]) -> None:
    assert rows["vllm.utils"][1]["f"] == {"public": {"0": "** b="}}
    assert "p" not in rows["vllm.engine:Engine"][1]


def test_requirements(rows: dict[str, Any]) -> None:
    assert rows["=torch"][0]["r"] == [["1.0", "==2.1.2"], ["1.1", "==2.7.0"]]
    assert rows["=transformers"][0]["r"] == [["1.0", ">=4.36.0"], ["1.1", ">=4.51.1"]]
    assert rows["=librosa"][0]["r"] == [["1.1", "[audio]"]]
    assert "=ray" not in rows
    assert "=no" not in rows
