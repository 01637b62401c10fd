"""Secrets of a log reach neither the tables nor the summaries, nor a comparison or an incident."""

from __future__ import annotations

import json

import click.testing
import pytest
from leak_places import COMMANDS, TEXTS
from nightly import some

from vllm_doctor import fleet
from vllm_doctor.cli.root import cli
from vllm_doctor.fleet import render

SECRET = "Se7retValue9xQ"
STARTED = "INFO 10-08 20:33:40 [api_server.py:1044] vLLM API server version 0.10.2\n"
FAILED = "(EngineCore_DP0 pid=1) ERROR 10-08 20:33:48 [core.py:708] FrobError: {}\n"


def log_of(place, text):
    said = text.replace("{s}", SECRET)
    return f"$ {said}\n" + STARTED + FAILED.format("quite unknown") if place == "command" else STARTED + FAILED.format(said)


PLACES = [*(("command", text) for text in COMMANDS.values()), *(("text", text) for text in TEXTS.values())]


@pytest.mark.parametrize(("place", "text"), some(PLACES, 40))
def test_rows_have_no_secret(place, text, tmp_path):
    path = tmp_path / "a.log"
    path.write_text(log_of(place, text))
    assert SECRET not in json.dumps(fleet.rows(str(path)), ensure_ascii=False)


def test_summaries_have_no_secret(tmp_path):
    for number, (place, text) in enumerate(PLACES):
        (tmp_path / f"{number}.log").write_text(log_of(place, text))
    summary = fleet.fleet([str(tmp_path)], out=tmp_path / "out")
    assert summary.failed == len(PLACES)
    for page in (render.text(summary, every=True), render.markdown(summary), render.html(summary)):
        assert SECRET not in page
    for table in (tmp_path / "out").glob("*.*"):
        assert SECRET.encode() not in table.read_bytes()


FORMATS = ["text", "json", "markdown", "html"]


@pytest.mark.parametrize(("format_", "numbers"), [
    *((format_, slice(turn, None, len(FORMATS))) for turn, format_ in enumerate(FORMATS)),
    *(pytest.param(format_, slice(None), marks=pytest.mark.exhaustive) for format_ in FORMATS),
])
def test_comparisons_and_incidents_have_no_secret(format_, numbers, tmp_path):
    other = tmp_path / "other.log"
    other.write_text("$ vllm serve m --block-size 16\n" + STARTED + "INFO:     Application startup complete.\n")
    for number, text in list(enumerate(COMMANDS.values()))[numbers]:
        path = tmp_path / f"{number}.log"
        path.write_text(log_of("command", text))
        for arguments in ([str(path), "--against", str(other)], [str(other), "--against", str(path)],
                          ["--together", str(other), str(path)]):
            result = click.testing.CliRunner().invoke(cli, ["diagnose", "--format", format_, *arguments])
            assert SECRET not in result.output, text


def test_nothing_in_a_row_is_markup_or_a_command_of_a_runner(tmp_path):
    path = tmp_path / "<img src=x>\x1b[31m::error::.log"
    path.write_text(STARTED + FAILED.format("<script>alert(1)</script> \x1b]0;title\x07 ::error::now ##vso[task] @team"))
    summary = fleet.fleet([str(tmp_path)])
    text, html = render.text(summary), render.html(summary)
    assert "\x1b" not in text + html
    assert "<script" not in html
    assert "<img" not in html
    assert not any(line.lstrip().startswith("::") for line in text.splitlines())
    assert "##vso[" not in text + html
    assert "@team" not in render.markdown(summary)
