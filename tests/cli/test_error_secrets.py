"""What is typed stands in error messages: without its secrets."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from vllm_doctor.cli.root import cli


@pytest.mark.parametrize("arguments", [
    ["diagnose", "/logs/api_key=Maple7TreeQx/server.log"],
    ["diagnose", "--max-fixes", "sk-Maple7TreeQx12345", "x"],
    ["diagnose", "--format", "hf_Maple7TreeQx12345", "x"],
    ["hf_Maple7TreeQx12345"],
])
def test_secrets_of_arguments_are_masked(arguments: list[str]) -> None:
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 2
    assert "Maple7TreeQx" not in result.stderr
    assert "***" in result.stderr
