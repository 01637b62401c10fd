"""Of a server that restarted many times the last starts are read in full, the earlier ones only counted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from wraps import coloured, compose, journald, kubectl, two_services, windows

from vllm_doctor.cli import diagnose_logs
from vllm_doctor.diagnosis import log_session
from vllm_doctor.fastpath import earlier_starts
from vllm_doctor.fastpath.earlier_starts import EarlierStarts
from vllm_doctor.logs.inputs import open_logs
from vllm_doctor.options import Options
from vllm_doctor.reports import to_json

LOGS = Path(__file__).resolve().parents[2] / "fixtures" / "logs"
HEALTHY = (LOGS / "healthy" / "tiny-load.log").read_bytes()
NO_ROOM = next(LOGS.rglob("v1-0.20-graph-estimate.log")).read_bytes()
REFUSED = next(LOGS.rglob("arg-max-model-len-word.log")).read_bytes()


def _answers(log: bytes, path: Path, options: Options = Options()) -> tuple[str, str]:  # noqa: B008 - frozen
    """The report as it is made, and with every start read in full."""
    path.write_bytes(log)
    with open_logs(str(path)) as logs:
        whole = diagnose_logs._fed(logs.only, options, whole=True).finish()
    with open_logs(str(path)) as logs:
        return to_json.render(diagnose_logs._fed(logs.only, options).finish()), to_json.render(whole)


@pytest.fixture(params=[1, *(pytest.param(scale, marks=pytest.mark.exhaustive) for scale in (4, 16))])
def scale(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many times as long the logs are: short ones, read in pieces as much smaller and with fewer starts kept, or those of a real crash loop."""
    scale: int = request.param
    monkeypatch.setattr(diagnose_logs, "_CHUNK", (1 << 13) * scale)
    if scale == 1:
        monkeypatch.setattr(earlier_starts, "_MANY", earlier_starts._MANY // 4)
        kept = log_session.KEEP_RUNS // 4
        monkeypatch.setattr(log_session, "KEEP_RUNS", kept)
        monkeypatch.setattr(diagnose_logs, "KEEP_RUNS", kept)
    return scale


@pytest.fixture
def passed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of what was passed over."""
    sizes: list[int] = []
    holds = EarlierStarts.contains

    def noted(self: EarlierStarts, size: int, starts: int) -> bool:
        within = holds(self, size, starts)
        sizes.extend([size] if within else [])
        return within

    monkeypatch.setattr(EarlierStarts, "contains", noted)
    return sizes


@pytest.mark.parametrize(("earlier", "times", "last"), [(HEALTHY, 23, NO_ROOM), (NO_ROOM, 30, HEALTHY), (REFUSED, 225, NO_ROOM),
                                                        (NO_ROOM, 30, REFUSED)])
def test_the_report_is_as_of_a_log_read_in_full(earlier: bytes, times: int, last: bytes, scale: int, tmp_path: Path, passed: list[int]) -> None:  # noqa: PLR0917
    times *= scale
    short, whole = _answers(earlier * times + last, tmp_path / "server.log")
    assert short == whole
    assert sum(passed) > len(earlier) * times / 5


def test_starts_of_many_kinds_are_counted(scale: int, tmp_path: Path, passed: list[int]) -> None:
    short, whole = _answers((HEALTHY + NO_ROOM + REFUSED) * 12 * scale, tmp_path / "server.log")
    assert short == whole
    assert f'"runs": {36 * scale}' in short
    assert passed


@pytest.mark.parametrize("wrap", [kubectl, compose, journald, coloured, windows, two_services])
def test_starts_are_counted_behind_a_wrapper(wrap: Callable[[bytes], bytes], scale: int, tmp_path: Path, passed: list[int]) -> None:
    lines = (HEALTHY + NO_ROOM + REFUSED).splitlines(keepends=True)
    short, whole = _answers(b"".join(map(wrap, lines)) * 8 * scale, tmp_path / "server.log")
    assert short == whole
    assert passed


def test_lines_that_only_look_like_starts_do_no_harm(scale: int, tmp_path: Path, passed: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Then too few starts lie behind them, and the log is read again."""
    monkeypatch.setattr(diagnose_logs, "_CHUNK", (1 << 15) * scale)
    talk = b"INFO 11-20 11:42:48 [x.py:1] usage: none of a server\n" * 5_000 * scale
    short, whole = _answers(NO_ROOM * 50 * scale + talk, tmp_path / "server.log")
    assert short == whole
    assert passed


def test_a_start_asked_for_is_read(scale: int, tmp_path: Path, passed: list[int]) -> None:
    short, whole = _answers(NO_ROOM * 13 * scale + REFUSED + NO_ROOM * 13 * scale, tmp_path / "server.log", Options(run=13 * scale + 1))
    assert short == whole
    assert '"primary": "' in short
    assert not passed


def test_a_log_of_few_starts_is_read_in_full(scale: int, tmp_path: Path, passed: list[int]) -> None:
    short, whole = _answers(NO_ROOM * 10 * min(scale, 4), tmp_path / "server.log")
    assert short == whole
    assert not passed


@pytest.mark.parametrize("prefix", ["", "web-1  | ", "[pod/web-7c9/vllm] "])
def test_crashes_of_a_script_end_its_starts_behind_any_wrapper(prefix: str, scale: int, tmp_path: Path) -> None:
    crash = ("INFO 07-01 10:00:12 [core.py:58] Initializing a V1 LLM engine (v0.9.1) with config: model='widget'\n"
             "Traceback (most recent call last):\n"
             '  File "/app/serve.py", line 8, in <module>\n'
             "ValueError: the bolt is loose\n")
    log = "".join(prefix + line + "\n" for line in (crash * 200 * scale).splitlines()).encode()
    short, whole = _answers(log, tmp_path / "server.log")
    assert short == whole
    assert f'"runs": {200 * scale}' in short
