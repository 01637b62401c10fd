"""Which subcommand of `vllm` has which flag in which release."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from vllm_doctor.catalog import flags, subcommand_flags

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

from build_subcommand_flags import build, declared


def test_each_subcommand_with_its_releases() -> None:
    assert subcommand_flags.life("--request-rate") == {"bench serve": [["0.8.0", None]]}
    assert subcommand_flags.life("--input_file=x") == {"run-batch": [["0.4.3", None]]}
    assert subcommand_flags.life("--max-model-len") == {}


@pytest.mark.parametrize(("name", "release", "there"), [
    ("--endpoint-type", "0.11.0", True), ("--endpoint-type", "0.11.1", False), ("--endpoint-type", None, False),
    ("--request-rate", None, True), ("--nothing-such", "0.20.2", False),
])
def test_a_flag_of_a_release(name: str, release: str | None, there: bool) -> None:
    assert subcommand_flags.exists(name, release) is there


def test_a_misspelt_flag() -> None:
    assert subcommand_flags.nearest("--request-rates") == "--request-rate"
    assert subcommand_flags.nearest("--zzzzzzzzzz") is None
    assert subcommand_flags.nearest("--max-num-tokens") is None  # --max-tokens of `vllm chat` is another thing


def test_flags_of_the_server_are_in_the_other_table() -> None:
    table = json.loads(Path(subcommand_flags.__file__).with_name("subcommand_flags.json").read_text("utf-8"))
    assert len(table) > 150
    assert not set(table) & set(flags.flags_of())


def test_flags_are_read_from_calls_and_from_fields(tmp_path: Path) -> None:
    source = tmp_path / "vllm-0.9.0" / "vllm" / "entrypoints" / "openai" / "run_batch.py"
    source.parent.mkdir(parents=True)
    source.write_text("""
parser.add_argument("-i", "--input-file", required=True)
parser.add_argument("--max-model-len")
class BatchArgs:
    output_tmp_dir: str | None = None
""")
    assert sorted(declared(source)) == ["--input-file", "--max-model-len", "--output-tmp-dir"]
    assert build(tmp_path) == {"--input-file": {"run-batch": [["0.9.0", None]]},
                               "--output-tmp-dir": {"run-batch": [["0.9.0", None]]}}
