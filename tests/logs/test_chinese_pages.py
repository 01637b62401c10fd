"""Logs pasted into Chinese posts: prose around them, the copy buttons of code blocks, line numbers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from vllm_doctor import diagnose
from vllm_doctor.reports.model import Report

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "logs"
LOGS = sorted(path for path in FIXTURES.glob("*.log") if path.stat().st_size < 40_000)[::14]
BEFORE = "最近在服务器上部署大模型，用 vLLM 启动服务时报错，完整日志如下：\n\n"
AFTER = "\n\n请问这个问题怎么解决？已经试过重启，没有用。谢谢！\n"


def _lines(log: str) -> list[str]:
    return log.rstrip("\n").split("\n")


def _numbers(log: str) -> str:
    return "\n".join(str(number) for number in range(1, len(_lines(log)) + 1))


POSTS: dict[str, Callable[[str], str]] = {
    "prose": lambda log: BEFORE + log + AFTER,
    "copy-button": lambda log: f"{BEFORE}bash\n复制代码\n{log}{AFTER}",
    "copy-after-login": lambda log: f"{BEFORE}{log}\n登录后复制\n",
    "numbered-lines": lambda log: BEFORE + "".join(f"{number}.\t{line}\n" for number, line in enumerate(_lines(log), 1)) + "登录后复制\n",
    "numbers-in-front": lambda log: f"{BEFORE}{_numbers(log)}\n{log}\n登录后复制\n",
    "numbers-behind": lambda log: f"{BEFORE}{log}\n{_numbers(log)}\n复制代码\n",
}


def _answer(report: Report) -> tuple[object, ...]:
    return report.primary, report.status, [(fix.id, fix.flags) for fix in report.cause.fixes] if report.cause else []


@pytest.mark.parametrize("post", POSTS)
@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem)
def test_log_in_chinese_post_is_read_as_the_bare_one(path: Path, post: str) -> None:
    log = path.read_text(encoding="utf-8")
    assert _answer(diagnose(POSTS[post](log).encode())) == _answer(diagnose(log.encode()))


def test_ten_logs() -> None:
    assert len(LOGS) >= 10
