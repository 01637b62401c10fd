from __future__ import annotations

import importlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

TOOLS = Path(__file__).resolve().parents[2] / "tools"

OLD_SERVER = """
import argparse
from vllm.engine.arg_utils import AsyncEngineArgs

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="server")
    parser.add_argument("--host", type=str, default="localhost")
    parser.add_argument("--max_log_len", type=int)
    parser = AsyncEngineArgs.add_cli_args(parser)
    args = parser.parse_args()
"""
OLD_ENGINE = """
import argparse
from dataclasses import dataclass
from typing import Optional
import os

@dataclass
class EngineArgs:
    model: str = "small"
    block_size: int = 16 if not current_platform.is_hpu() else 128
    swap_space: float = 4
    cache: str = os.path.join(os.getcwd(), "x")

    @staticmethod
    def add_cli_args(parser):
        parser.add_argument("--model", type=str, default=EngineArgs.model)
        parser.add_argument("--block-size", "-b", type=int, choices=[8, 16] + [32], default=EngineArgs.block_size)
        parser.add_argument("--swap-space", type=float, default=EngineArgs.swap_space)
        parser.add_argument("--cache", default=EngineArgs.cache)
        parser.add_argument("--quiet", action="store_true")
        return parser

@dataclass
class AsyncEngineArgs(EngineArgs):
    @staticmethod
    def add_cli_args(parser):
        parser = EngineArgs.add_cli_args(parser)
        if some_plugin():
            parser.add_argument("--plugged", type=int, default=None)
        return parser
"""
NEW_SERVE = """
from vllm.entrypoints.openai.cli_args import make_arg_parser

class ServeSubcommand:
    name = "serve"

    def subparser_init(self, subparsers):
        serve_parser = subparsers.add_parser(self.name, help="h")
        serve_parser = make_arg_parser(serve_parser)
        serve_parser.add_argument("--grpc", action="store_true")
        return serve_parser
"""
NEW_CLI = """
import json
from dataclasses import field
from vllm.config import config
from vllm.engine.arg_utils import AsyncEngineArgs, get_kwargs
import vllm.envs as envs

@config
class BaseFrontendArgs:
    host: str | None = None
    origins: list[str] = field(default_factory=lambda: ["*"])
    verbose: bool = envs.VLLM_VERBOSE

    @classmethod
    def _customize(cls, kwargs):
        kwargs["origins"]["type"] = json.loads
        del kwargs["origins"]["nargs"]
        return kwargs

    @classmethod
    def add_cli_args(cls, parser):
        kwargs = cls._customize(get_kwargs(cls))
        for key, value in kwargs.items():
            parser.add_argument(f"--{key.replace('_', '-')}", **value)
        return parser

@config
class FrontendArgs(BaseFrontendArgs):
    port: int = 8000

    @classmethod
    def _customize(cls, kwargs):
        kwargs = super()._customize(kwargs)
        kwargs["port"]["default"] = 9000
        return kwargs

def make_arg_parser(parser):
    parser.add_argument("model_tag", nargs="?")
    parser = FrontendArgs.add_cli_args(parser)
    return AsyncEngineArgs.add_cli_args(parser)
"""
NEW_ENGINE = """
from vllm.config import ModelConfig

def get_kwargs(cls):
    for field in fields(cls):
        if contains_type(type_hints, int):
            if name == "max_len":
                kwargs[name]["type"] = human_readable_int_or_auto

@dataclass
class EngineArgs:
    dtype: str = ModelConfig.dtype

    @staticmethod
    def add_cli_args(parser):
        kwargs = get_kwargs(ModelConfig)
        group = parser.add_argument_group(title="ModelConfig")
        group.add_argument("--dtype", "-d", **kwargs["dtype"])
        group.add_argument("--max-len", **{**kwargs["max_len"], "default": None})
        group.add_argument("--fast", **kwargs["fast"])
        group.add_argument("--level", **kwargs["level"])
        for name, kind in [("--old-a", str), ("--old-b", int)]:
            group.add_argument(name, type=kind, deprecated=True)
        return parser

@dataclass
class AsyncEngineArgs(EngineArgs):
    pass
"""
NEW_CONFIG = """
from enum import IntEnum
from typing import Literal
from pydantic import Field

ModelDType = Literal["auto", "half"]

class Level(IntEnum):
    O0 = 0
    O1 = 1

@config
class ModelConfig:
    dtype: ModelDType | None = "auto"
    max_len: int = Field(default=None, gt=0)
    fast: bool = False
    level: Level = Level.O1
"""
NEW_ENVS = """
import os
environment_variables = {
    "VLLM_VERBOSE": lambda: bool(int(os.getenv("VLLM_VERBOSE", "0"))),
    "VLLM_ROOT": lambda: os.path.expanduser("~"),
}
"""


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The table of an old release, whose parser is in the server, and a new one with dataclasses."""
    monkeypatch.syspath_prepend(str(TOOLS))
    old = {
        "vllm/entrypoints/openai/api_server.py": OLD_SERVER,
        "vllm/engine/arg_utils.py": OLD_ENGINE,
        "vllm/x.py": 'import os\nos.environ.get(\n    "VLLM_OLD")\nNAME = "VLLM_NAMED"\nos.getenv(NAME)\n',
    }
    new = {
        "vllm/entrypoints/cli/serve.py": NEW_SERVE,
        "vllm/entrypoints/openai/cli_args.py": NEW_CLI,
        "vllm/engine/arg_utils.py": NEW_ENGINE,
        "vllm/config.py": NEW_CONFIG,
        "vllm/envs.py": NEW_ENVS,
    }
    write(tmp_path / "vllm-0.2.0", old)
    write(tmp_path / "vllm-0.10.0", new)
    build_flags = importlib.import_module("build_flags")
    successors = {"--swap-space": {"set": {"--max-len": "{value}"}, "note": "n"}}
    flags = build_flags.build(tmp_path, successors)
    head, *rows = map(json.loads, build_flags.dump(flags).splitlines())
    assert (head, dict(rows)) == ({"schema": 1, "releases": flags["releases"]}, {**flags["flags"], **flags["env"]})
    return flags  # type: ignore[no-any-return]


def test_releases_are_in_order_of_their_versions(table: dict[str, Any]) -> None:
    assert table["releases"] == ["0.2.0", "0.10.0"]


def test_flags_of_a_parser_built_in_the_server(table: dict[str, Any]) -> None:
    flags = table["flags"]
    assert flags["--host"]["default"] == [["0.2.0", "localhost"], ["0.10.0", None]]
    assert flags["--host"]["life"] == [["0.2.0", None]]
    assert flags["--max-log-len"]["life"] == [["0.2.0", "0.2.0"]]
    assert flags["--block-size"]["default"] == [["0.2.0", 16]]  # the CUDA platform
    assert flags["--block-size"]["choices"] == [["0.2.0", [8, 16, 32]]]
    assert flags["--block-size"]["aliases"] == [["0.2.0", ["-b"]]]
    assert flags["--plugged"]["kind"] == [["0.2.0", "int"]]  # either branch of an unknown test
    assert flags["--quiet"]["default"] == [["0.2.0", False]]
    assert flags["--swap-space"]["keyword"] == [["0.2.0", "swap_space"]]
    assert "keyword" not in flags["--host"]


def test_a_default_that_must_be_run_is_marked(table: dict[str, Any]) -> None:
    assert set(table["flags"]["--cache"]["default"][0][1]) == {"?"}


def test_flags_of_dataclasses(table: dict[str, Any]) -> None:
    flags = table["flags"]
    assert flags["--port"]["default"] == [["0.10.0", 9000]]  # customised through super()
    assert flags["--origins"]["kind"] == [["0.10.0", "json"]]
    assert flags["--origins"]["default"] == [["0.10.0", ["*"]]]
    assert flags["--verbose"]["default"] == [["0.10.0", False]]  # an unset environment variable
    assert flags["--dtype"]["choices"] == [["0.10.0", ["auto", "half"]]]
    assert flags["--dtype"]["open"] == [["0.10.0", False]]
    assert flags["--max-len"]["kind"] == [["0.10.0", "human_int_or_auto"]]
    assert flags["--fast"]["negatable"] == [["0.10.0", True]]
    assert flags["--level"]["choices"] == [["0.10.0", [0, 1]]]
    assert flags["--level"]["default"] == [["0.10.0", 1]]
    assert flags["--old-b"]["deprecated"] == [["0.10.0", True]]
    assert flags["--grpc"]["life"] == [["0.10.0", None]]
    assert "--model-tag" not in flags


def test_successors_are_carried_over(table: dict[str, Any]) -> None:
    assert table["flags"]["--swap-space"]["replaced_by"]["set"] == {"--max-len": "{value}"}


def test_environment_variables(table: dict[str, Any]) -> None:
    env = table["env"]
    assert env["VLLM_OLD"]["life"] == [["0.2.0", "0.2.0"]]
    assert env["VLLM_NAMED"]["life"] == [["0.2.0", "0.2.0"]]
    assert env["VLLM_VERBOSE"]["default"] == [["0.10.0", False]]
    assert set(env["VLLM_ROOT"]["default"][0][1]) == {"?"}


@pytest.mark.parametrize(
    ("successor", "message"),
    [
        ({"--never": {}}, "never existed"),
        ({"--swap-space": {"set": {"--nothing": ""}}}, "--nothing does not exist in 0.10.0"),
        ({"--swap-space": {"sett": {}}}, "unknown keys"),
    ],
)
def test_a_wrong_successor_is_refused(
    tmp_path: Path, table: dict[str, Any], successor: dict[str, Any], message: str
) -> None:
    build_flags = importlib.import_module("build_flags")
    with pytest.raises(ValueError, match=message):
        build_flags.build(tmp_path, successor)


def test_unpacking_takes_python_files_inside_the_package_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(TOOLS))
    sdists = importlib.import_module("sdists")
    archive = tmp_path / "vllm-1.0.tar.gz"
    names = [
        "vllm/a.py",
        "vllm/b/c.py",
        "vllm/d.so",
        "setup.py",
        "csrc/e.py",
        "../vllm/f.py",
        "vllm/../../g.py",
    ]
    with tarfile.open(archive, "w:gz") as sdist:
        for name in names:
            entry = tarfile.TarInfo(f"vllm-1.0/{name}")
            entry.size = 1
            sdist.addfile(entry, io.BytesIO(b"#"))
        link = tarfile.TarInfo("vllm-1.0/vllm/link.py")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        sdist.addfile(link)
    target = tmp_path / "out" / "vllm-1.0"
    assert sdists.unpack(archive, target) == 3
    found = {str(path.relative_to(target)) for path in target.rglob("*") if path.is_file()}
    assert found == {"vllm/a.py", "vllm/b/c.py", "setup.py"}


def test_release_candidates_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(TOOLS))
    sdists = importlib.import_module("sdists")

    class Link:
        def __init__(self, filename: str) -> None:
            self.filename = filename

    links = [Link(name) for name in ("vllm-0.10.0.tar.gz", "vllm-0.9.0rc1.tar.gz", "vllm-0.8.5.post1.tar.gz",
                                     "vllm-0.8.5.post1-cp38-abi3-manylinux1_x86_64.whl", "vllm-0.1.7.tar.gz",
                                     "notes.txt")]  # fmt: skip
    found = sdists.releases(links, sdists.Version("0.2.0"))
    assert [str(version) for version in found] == ["0.8.5.post1", "0.10.0"]
    assert [link.filename for link in found[sdists.Version("0.8.5.post1")]["wheel"]] == [links[3].filename]
