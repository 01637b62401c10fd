"""The start-up timeline: phases by the log's clock, printed durations, the remainder, advice by release."""

from __future__ import annotations

import json
from pathlib import Path

import click.testing
import pytest
from report_texts import log_reports

from vllm_doctor import diagnose
from vllm_doctor.catalog.releases import Releases
from vllm_doctor.cli.root import cli
from vllm_doctor.text.times import parse_time, seconds_between
from vllm_doctor.timeline.faster_start import advice

FIXTURES = Path(__file__).parent.parent.parent / "fixtures" / "logs"


def timeline_of(name):
    return diagnose(FIXTURES / "healthy" / name).timeline


def phases_of(name):
    return {one.phase: (one.seconds, one.printed) for one in timeline_of(name).phases}


@pytest.mark.parametrize(("name", "phases", "unexplained", "dominant"), [
    ("v1-0.8.5-tp2.log", {
        "args": (18.0, None), "config": (5.0, None), "distributed-init": (1.0, None), "weights": (11.0, 10.402112),
        "profiling": (40.0, 35.7), "kv-cache": (0.0, None), "graph-capture": (29.0, 29.0), "api": (0.0, None)},
     24.698, "profiling"),
    ("tiny-start-stop.log", {  # 0.32 on a CPU compiles before the KV cache
        "args": (0.0, None), "config": (12.0, None), "distributed-init": (0.0, None), "weights": (1.0, 0.01),
        "profiling": (10.0, None), "kv-cache": (2.0, None), "api": (0.0, None)}, 13.17, "config"),
    ("v0.14-cpu-tiny.log", {  # and 0.14 after it
        "args": (2.0, None), "config": (6.0, None), "distributed-init": (0.0, None), "weights": (0.0, 0.01),
        "kv-cache": (1.0, None), "graph-capture": (27.0, None), "api": (1.0, None)}, 9.56, "graph-capture"),
    ("v0-0.4.2-ray-tp2.log", {  # prints only the end of the loading
        "args": (1.0, None), "distributed-init": (0.0, None), "weights": (30.0, None), "profiling": (4.0, None),
        "kv-cache": (2.0, None), "graph-capture": (15.0, 14.0), "api": (0.0, None)}, 38.0, "weights"),
])
def test_phases_of_real_starts(name, phases, unexplained, dominant):
    timeline = timeline_of(name)
    assert phases_of(name) == phases
    assert (timeline.unexplained_seconds, timeline.dominant) == (unexplained, dominant)


@pytest.mark.parametrize("path", sorted(FIXTURES.rglob("*.log")), ids=lambda path: path.stem)
def test_the_phases_sum_to_the_start(path):
    timeline = log_reports()[path.name].timeline
    if timeline is not None:
        assert sum(one.seconds for one in timeline.phases) == pytest.approx(timeline.total_seconds, abs=0.01)
        assert all(one.seconds >= 0 for one in timeline.phases)
        assert 0 <= timeline.unexplained_seconds <= timeline.total_seconds


def test_the_graph_capture_begins_as_long_before_its_end_as_it_took():
    text = """\
INFO 12-31 23:59:00 [api_server.py:1090] vLLM API server version 0.10.0
INFO 12-31 23:59:10 [gpu_model_runner.py:1329] Starting to load model m...
INFO 12-31 23:59:40 [kv_cache_utils.py:634] GPU KV cache size: 176,016 tokens
INFO 01-01 00:00:20 [gpu_model_runner.py:1686] Graph capturing finished in 35 secs, took 0.58 GiB
INFO 01-01 00:00:20 [api_server.py:1090] Starting vLLM API server on http://0.0.0.0:8000
INFO:     Application startup complete.
"""
    timeline = diagnose(text.encode()).timeline
    assert [(one.phase, one.seconds) for one in timeline.phases] == [
        ("args", 10.0), ("weights", 30.0), ("kv-cache", 5.0), ("graph-capture", 35.0), ("api", 0.0)]
    assert (timeline.total_seconds, timeline.first_time, timeline.last_time, timeline.is_complete) == (
        80.0, "12-31 23:59:00", "01-01 00:00:20", True)


def test_a_failed_start_ends_with_its_first_error():
    text = """\
INFO 11-24 00:10:00 [api_server.py:1090] vLLM API server version 0.11.0
INFO 11-24 00:10:30 [gpu_model_runner.py:2602] Starting to load model m...
ERROR 11-24 00:10:35 [core.py:708] ValueError: no
ERROR 11-24 00:15:00 [core.py:708] EngineCore failed to start.
"""
    timeline = diagnose(text.encode()).timeline
    assert [(one.phase, one.seconds) for one in timeline.phases] == [("args", 30.0), ("weights", 5.0)]
    assert not timeline.is_complete


@pytest.mark.parametrize("text", [b"", b"Traceback (most recent call last):\nValueError: x\n", b"INFO:     Started server process [1]\n"])
def test_a_log_without_times_has_no_timeline(text):
    assert diagnose(text).timeline is None


@pytest.mark.parametrize(("earlier", "later", "seconds"), [
    ("11-24 00:10:00", "11-24 00:11:01", 61.0),
    ("12-31 23:59:59", "01-01 00:00:01", 2.0),
    ("02-29 12:00:00", "03-01 12:00:00", 86400.0),
    ("02-28 23:59:20", "03-01 00:00:30", 70.0),
    ("2028-02-28 23:59:20", "03-01 00:00:30", 86470.0),
    ("02-28 23:59:20", "2026-03-01 00:00:30", 70.0),
    ("2027-12-31 23:59:59", "01-01 00:00:01", 2.0),
    ("12-31 23:59:59", "2028-01-01 00:00:01", 2.0),
    ("02-29 12:00:00", "2028-02-28 12:00:00", -86400.0),
    ("2026-11-24 00:10:00.25", "2026-11-24T00:10:01,5", 1.25),
    ("2026-11-24 00:10:00", "11-24 00:10:05", 5.0),
    ("11-24 00:10:05", "11-24 00:10:00", -5.0),
    ("11-24 00:10:05", "no time", None),
    ("13-45 99:99:99", "11-24 00:10:00", None),
])
def test_seconds_between_printed_times(earlier, later, seconds):
    assert seconds_between(earlier, later) == seconds


def test_a_time_without_a_year_is_of_a_leap_year():
    assert parse_time("02-29 01:02:03").isoformat() == "2000-02-29T01:02:03"


@pytest.mark.parametrize(("phase", "release", "facts", "flag"), [
    ("weights", "0.8.5", {}, "--load-format runai_streamer"),
    ("weights", "0.6.0", {}, "NVMe"),
    ("weights", "0.8.5", {"load_format": "gguf"}, "NVMe"),
    ("graph-capture", "0.12.0", {"device": "cuda"}, "--max-cudagraph-capture-size"),
    ("graph-capture", "0.10.0", {"device": "cuda"}, "--cuda-graph-sizes"),
    ("graph-capture", "0.8.5", {"device": "cuda"}, "--compilation-config"),
    ("graph-capture", "0.5.0", {"device": "cuda"}, "--max-num-seqs"),
    ("graph-capture", "0.14.0", {"device": "cpu", "engine": "V1"}, "VLLM_CACHE_ROOT"),
    ("profiling", "0.14.0", {"engine": "V1"}, "VLLM_CACHE_ROOT"),
    ("profiling", "0.14.0", {"engine": "V1", "enforce_eager": True}, "--max-num-batched-tokens"),
])
def test_a_phase_is_shortened_by_what_the_release_has(phase, release, facts, flag):
    assert flag in advice(phase, facts, Releases.of(release))[0]


def test_advice_for_an_unknown_release_needs_a_flag_of_all():
    assert "--max-cudagraph-capture-size" not in " ".join(advice("graph-capture", {}, Releases.every()))


def test_the_reports_show_it(tmp_path):
    path = str(FIXTURES / "healthy" / "v1-0.8.5-tp2.log")
    run = click.testing.CliRunner().invoke
    text = run(cli, ["diagnose", "--timeline", path]).output
    assert "  Start-up timeline: 104 s until the server was ready\n" in text
    assert "  graph-capture          29 s  █████████████████████████████ (29 s printed)\n" in text
    assert "Start-up timeline" in run(cli, ["diagnose", "-v", path]).output
    assert "Start-up timeline" not in run(cli, ["diagnose", path]).output
    assert "<h2>Start-up timeline: 104 s until the server was ready</h2>" in run(cli, ["diagnose", "--format", "html", path]).output
    document = json.loads(run(cli, ["diagnose", "--format", "json", path]).output)["timeline"]
    assert (document["total_seconds"], document["dominant"], len(document["phases"])) == (104.0, "profiling", 8)
    (tmp_path / "x.log").write_text("ValueError: x\n")
    assert "the log shows no phase of the start with its time" in run(cli, ["diagnose", "--timeline", str(tmp_path / "x.log")]).output


START = """\
INFO 07-01 10:00:05 [api_server.py:1234] vLLM API server version 0.9.1
INFO 07-01 10:00:12 [core.py:58] Initializing a V1 LLM engine (v0.9.1) with config: model='widget'
INFO 07-01 10:03:00 [gpu_model_runner.py:1595] Model loading took 5.0 GiB and 3.0 seconds
"""
READY = "INFO:     Application startup complete.\n"
OTHER_ZONE = "2026-07-01 12:02:59,123 - sidecar - INFO - the bolt was sent\n"
SAME_ZONE = "2026-07-01 10:03:25,123 - INFO - bolts.py:256 - the bolt was sent\n"


@pytest.mark.parametrize(("text", "total"), [
    (START + READY, 175.0), (START + OTHER_ZONE + READY, 175.0), (OTHER_ZONE + START + READY, 175.0),
    (START + SAME_ZONE + READY, 200.0)])
def test_the_clock_of_another_program_is_not_mixed_in(text, total):
    timeline = diagnose(text.encode()).timeline
    assert (timeline and timeline.total_seconds) == total
