"""An ordinary command line is read as click reads it."""

from __future__ import annotations

import click
import pytest
from click.core import ParameterSource
from hypothesis import given, settings
from hypothesis import strategies as st

from vllm_doctor.cli.argv import read
from vllm_doctor.cli.diagnose import command
from vllm_doctor.cli.option_table import DIAGNOSE, SHARED

OPTIONS = (*DIAGNOSE, *SHARED)


def by_click(words: list[str]) -> tuple[tuple[str, ...], dict[str, object], dict[str, object]] | None:
    """The logs, all values, those typed; None where click ends with help or a mistake."""
    try:
        context = command.make_context("diagnose", list(words))
    except (click.exceptions.Exit, click.ClickException):
        return None
    values = dict(context.params)
    logs = values.pop("logs")
    typed = {key: value for key, value in values.items() if context.get_parameter_source(key) is not ParameterSource.DEFAULT}
    return logs, values, typed


def same(words: list[str]) -> bool:
    """Whether the command line is read here, and as click does."""
    ours = read(words, OPTIONS)
    if ours is None:
        return False
    theirs = by_click(words)
    assert theirs is not None
    logs, values, typed = theirs
    assert ours == (logs, typed)
    assert {option.key: option.default for option in OPTIONS} | ours[1] == values
    return True


@pytest.mark.parametrize("line", [
    "", "a.log", "a.log - b.log", "--format json a.log", "a.log --format=json", "-q a.log -v", "--quiet --verbose --isolated --show-secrets",
    "--only a --only b --ignore c --rules d --rules=e", "--max-fixes 3 --width 40 --gpu-memory 79.5", "--run 2", "--run all --why oom",
    "--report json=a.json --report=html=b.html --output c.txt", "--fail-on never --color always", "--settings no-such.toml",
    "--format json --format text", "--command= --vllm-version v0.8.5",
])
def test_read_here(line: str) -> None:
    assert same(line.split())


@pytest.mark.parametrize("line", [
    "--help", "-h", "--no-such", "-x", "-qv", "--", "a.log -- -b.log", "--format", "--format yaml", "--format=", "--quiet=yes", "-q=1", "--max-fixes 0", "--max-fixes two",
    "--width 39", "--width -1", "--gpu-memory 0", "--gpu-memory 1e1", "--gpu-memory nan", "--gpu-memory .", "--run 0", "--run zero", "--report json", "--report x=a",
    "--output -", "--command --port", "--form json", "--FORMAT json", "--color Always", "-",
])
def test_left_to_click(line: str) -> None:
    words = line.split()
    if line != "-":
        assert read(words, OPTIONS) is None
    assert same(words) is (line == "-")


_WORDS = [name for option in OPTIONS for name in option.names] + [
    "a.log", "-", "--", "json", "text", "never", "always", "last", "all", "0", "1", "40", "7.5", "-1", "", "json=a", "--format=json", "--format=x", "--width=50", "--max-fixes=0",
    "--report=html=b", "--quiet=1", "-qv", "--hel", "\u0662", "\u00b2", "1_0", " 1", "=", "--=", "-=",
]


@settings(max_examples=1500)
@given(st.lists(st.sampled_from(_WORDS), max_size=6))
def test_any_words(words: list[str]) -> None:
    same(words)


def test_each_option_stands_in_the_table() -> None:
    made = {tuple(sorted(parameter.opts)): parameter.name for parameter in command.params if isinstance(parameter, click.Option)}
    assert made == {tuple(sorted(option.names)): option.key for option in OPTIONS}
