"""What `watch` says of a server that serves: a load too large for its KV cache, one that is not, requests it refuses, a stop."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from launches import Launch, releases
from server import Server, complete
from trial import Trial

pytestmark = pytest.mark.real
NEWEST = releases()[0]
TINY = "vllm serve {models}/tiny --port {port} --enforce-eager --max-model-len 4096"


@pytest.fixture
def serve(real: Any, tmp_path: Path) -> Iterator[Any]:
    """A function that starts a server on a command and waits until it serves."""
    started: list[Server] = []

    def start(command: str) -> Server:
        launch = Launch("service", command, environment={"VLLM_LOG_STATS_INTERVAL": "1"})
        server = Trial(NEWEST, *real.of(NEWEST), launch, tmp_path).start()
        started.append(server)
        assert server.wait_for_health(), server.text()[-3000:]
        return server

    yield start
    for server in started:
        server.kill()


def loud(report: dict[str, Any]) -> list[str]:
    return [finding["id"] for finding in report["findings"] if finding["severity"] in {"error", "warning"}]


def test_a_load_that_fills_the_cache_is_reported(serve: Any) -> None:
    server = serve(f"{TINY} --num-gpu-blocks-override 40 --max-num-seqs 64")
    with ThreadPoolExecutor(32) as clients:
        answers = list(clients.map(lambda at: complete(server.port, f"{at:03} " * 50, max_tokens=400, ignore_eos=True), range(64)))
    assert {status for status, _ in answers} == {200}
    server.stop()
    report = server.report()
    assert report["primary"] == "kv-cache-saturated"
    assert report["findings"][0]["fixes"][0]["unset"] == ["--num-gpu-blocks-override"]


def test_a_load_that_fits_and_ctrl_c_are_not_worth_a_word(serve: Any) -> None:
    server = serve(TINY)
    for at in range(8):
        assert complete(server.port, f"{at} hello", max_tokens=64, ignore_eos=True)[0] == 200
    server.interrupt()
    assert server.wait_for_end()
    report = server.report()
    assert (report["status"], loud(report), report["failure"]) == ("stopped", [], None)
    assert server.status == 0


def test_over_long_requests_are_told_and_a_termination_is_not(serve: Any) -> None:
    server = serve(TINY)
    assert [complete(server.port, "a" * 5000)[0] for _ in range(5)] == [400] * 5
    server.terminate()
    assert server.wait_for_end()
    report = server.report()
    assert report["status"] == "stopped"
    assert report["primary"] == "http-4xx-client-errors"
