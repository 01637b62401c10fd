"""The language of reports: how it is chosen, what is missing, and that both languages say the same."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from vllm_doctor.authoring.translations import problems
from vllm_doctor.diagnosis.engine import diagnose
from vllm_doctor.language import (
    ENGLISH,
    Language,
    catalogues,
    entries,
    language,
    read_catalogue,
    typed_language,
    wanted_language,
)
from vllm_doctor.messages import Message, joined, message, say
from vllm_doctor.options import Options
from vllm_doctor.redact import Redactor
from vllm_doctor.redact.rendered import redact_rendered
from vllm_doctor.reports import to_json, to_text
from vllm_doctor.reports.model import Fix
from vllm_doctor.reports.texts import effect
from vllm_doctor.templating.evaluator import parse, yielded
from vllm_doctor.templating.renderer import render_line
from vllm_doctor.text.terminal_width import columns, wrap

ROOT = Path(__file__).resolve().parent.parent
FIXTURES = ROOT / "fixtures" / "logs"
LOGS = sorted(FIXTURES.glob("*.log"))
TOY = Language("zh", "zh-CN", {"{n:,} lines": "{n:,} 行", "It needs {{ n }}.": "它需要 {{ n }}。", "a": "甲。", "b": "乙。",
                               "broken {{ n }}": "坏 {{ unknown_name }}"})


@pytest.mark.parametrize(("environment", "code"), [
    ({}, "en"),
    ({"LANG": "zh_CN.UTF-8"}, "zh"),
    ({"LANG": "zh_CN.UTF-8", "LC_ALL": "C"}, "en"),
    ({"LANG": "en_US.UTF-8", "LC_MESSAGES": "zh_TW"}, "zh"),
    ({"LC_ALL": "zh_CN.UTF-8", "VLLM_DOCTOR_LANG": "en"}, "en"),
    ({"VLLM_DOCTOR_LANG": "zh", "LANG": "de_DE"}, "zh"),
    ({"LANG": "de_DE.UTF-8"}, "en"),
])
def test_environment_chooses_language(environment: dict[str, str], code: str) -> None:
    assert wanted_language(environment) == code


@pytest.mark.parametrize(("arguments", "code"), [
    (["diagnose", "--lang", "zh", "x.log"], "zh"), (["--lang=zh"], "zh"), (["run", "--", "--lang", "zh"], ""),
    ([], ""), (["--lang"], ""), (["--lang", "fr"], ""), (["--lang", "zh", "--lang", "en"], "en")])
def test_option_as_typed(arguments: list[str], code: str) -> None:
    assert typed_language(arguments) == code


def test_message_is_its_english_text_and_keeps_its_source() -> None:
    text = message("{n:,} lines", n=1234)
    assert text == "1,234 lines"
    assert text.translated(TOY.gettext) == "1,234 行"
    assert say({"x": (text, 1)}, TOY.gettext) == {"x": ("1,234 行", 1)}
    assert message("untranslated {n}", n=1).translated(TOY.gettext) == "untranslated 1"


def test_masking_applies_in_every_language() -> None:
    text = message("{n:,} lines", n=1234).through(lambda shown: shown.replace("1,234", "***"))
    assert (text, text.translated(TOY.gettext)) == ("*** lines", "*** 行")


def test_no_blank_after_full_width_punctuation() -> None:
    assert joined(" ", [message("a"), message("b")]).translated(TOY.gettext) == "甲。乙。"


def test_text_of_rule_is_rendered_in_the_language() -> None:
    text = render_line("It  needs {{ n }}.", {"n": 3})
    assert isinstance(text, Message)
    assert (text, text.translated(TOY.gettext)) == ("It needs 3.", "它需要 3。")


def test_separators_are_translated() -> None:
    toy = Language("zh", "zh-CN", {", ": "、"})
    assert joined(", ", ["a", "b"]).translated(toy.gettext) == "a、b"


def test_text_of_rule_that_is_only_a_value_is_said_in_the_language() -> None:
    text = render_line("{{ notes }}", {"notes": message("{n:,} lines", n=3)})
    assert isinstance(text, Message)
    assert (text, text.translated(TOY.gettext)) == ("3 lines", "3 行")


def test_no_blank_between_a_chinese_value_and_chinese_text() -> None:
    toy = Language("zh", "zh-CN", {"Use {{ code }} now": "使用 {{ code }} 即可", "the code": "代码"})
    for value, translation in ((message("the code"), "使用代码即可"), ("trl", "使用 trl 即可")):
        text = render_line("Use {{ code }} now", {"code": value})
        assert text is not None
        assert text.translated(toy.gettext) == translation


@pytest.mark.parametrize(("expression", "english", "chinese"), [
    ("'this GPU' | given(n == 3)", "this GPU", "这张 GPU"),
    ("n | in_words('size ')", "size 3", "大小为 3"),
    ("absent | or_else('this GPU')", "this GPU", "这张 GPU"),
    ("name | or_else('this GPU')", "this GPU", "this GPU"),
])
def test_words_of_expression_are_said_in_the_language(expression: str, english: str, chinese: str) -> None:
    """A constant is translated where it is shown; a value from the log with the same text is not."""
    toy = Language("zh", "zh-CN", {"this GPU": "这张 GPU", "size ": "大小为 ", "It is {{ it }}.": "它是{{ it }}。"})
    value = parse(expression).value({"n": 3, "name": "this GPU"})
    assert value == english
    text = render_line("It is {{ it }}.", {"it": value})
    assert text is not None
    assert (text, text.translated(toy.gettext)) == (f"It is {english}.", f"它是{chinese}。")


def test_branches_of_translation_compare_english_constants() -> None:
    toy = Language("zh", "zh-CN", {"experts": "专家", "{{ part }}": "{% if part == 'experts' %}专家数{% else %}{{ part }}{% endif %}"})
    text = render_line("{{ part }}", {"part": parse("'experts'").value({})})
    assert text is not None
    assert text.translated(toy.gettext) == "专家数"


@pytest.mark.parametrize(("expression", "found"), [
    ("'this GPU' | given(pattern == 'a b')", ["this GPU"]),
    ("(text | contains('c d')) or 'e f'", ["e f"]),
    ("tensor_parallel_size | in_words('size ')", ["size "]),
    ("a | or_else('g h')", ["g h"]),
])
def test_constants_that_an_expression_yields(expression: str, found: list[str]) -> None:
    assert list(yielded(parse(expression).tree)) == found


def test_step_to_try_is_said_in_every_language() -> None:
    fix = Fix("x", "", why="试一试。", cost="更慢。", is_step=True)
    assert effect(fix) == "试一试。更慢。"
    assert effect(fix._replace(is_step=False)) == "更慢。"


def test_translation_that_cannot_be_rendered_is_english() -> None:
    text = render_line("broken {{ n }}", {"n": 3})
    assert text is not None
    assert text.translated(TOY.gettext) == "broken 3"


def test_fuzzy_and_empty_translations_do_not_count() -> None:
    text = 'msgid ""\nmsgstr ""\n\nmsgid "a"\nmsgstr "甲"\n\n#, fuzzy\n#| msgid "x"\nmsgid "b"\nmsgstr "乙"\n\nmsgid "c"\nmsgstr ""\n'
    assert read_catalogue(text) == {"a": "甲"}


def test_control_character_of_help_text() -> None:
    assert read_catalogue('msgid "a\b"\nmsgstr "甲\b"\n') == {"a\b": "甲\b"}


def test_string_on_several_lines() -> None:
    assert read_catalogue('msgid ""\n"a "\n"b\\n"\nmsgstr ""\n"甲"\n"乙"\n') == {"a b\n": "甲乙"}


@pytest.mark.parametrize(("english", "chinese", "found"), [
    ("Lower --max-model-len to {{ n }}", "将 --max-model-len 降到 {{ n }}", []),
    ("Lower --max-model-len to {{ n }}", "将 --max-num-seqs 降到 {{ n }}", ["other flags: --max-model-len, --max-num-seqs"]),
    ("Lower to {{ n | gib }}", "降到 {{ n }}", ["other variables or filters: |gib"]),
    ("uses 16 GiB", "使用 32 GiB", ["other numbers: 16, 32"]),
    ("Set HF_HOME", "设置 HF_TOKEN", ["other variables: HF_HOME, HF_TOKEN"]),
    ("the KV cache", "KV缓存", ["no blank between `V缓`"]),
    ("too small, so", "太小, 因此", ["half-width punctuation `小,`"]),
])
def test_check_of_translations(english: str, chinese: str, found: list[str]) -> None:
    assert problems(english, chinese, is_template=True) == found


def test_no_text_is_taken_for_a_secret() -> None:
    """What follows `--api-key` or a word for a secret is masked: a text must not end in one, or explain one."""
    redactor = Redactor()
    for path in catalogues("zh"):
        for source, translation, _ in entries(path.read_text(encoding="utf-8")):
            for text in (source, translation):
                line = f"{text}   word\n"
                assert redact_rendered(line, "text", redactor) == line


def test_wrapping_breaks_between_characters_but_not_before_punctuation() -> None:
    lines = wrap("显存不足，请将 --max-model-len 降到 4096，然后重新启动服务。" * 3, 40)
    assert all(columns(line) <= 40 for line in lines)
    assert not any(line[0] in "，。：；？！）」" for line in lines)
    assert sum(line.count("--max-model-len") for line in lines) == 3


def _plain(value: object) -> object:
    """Return a report document without its texts."""
    shown = {"id", "flags", "unset", "env", "command", "patch", "action", "safety", "proof", "primary", "status", "phase",
             "facts", "derived", "evidence", "severity", "role", "recovered", "line", "fixes", "findings", "program"}
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items() if key in shown or key in value.get("flags", {})}
    return [_plain(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("path", LOGS[::4], ids=lambda path: path.stem)
def test_both_languages_say_the_same(path: Path) -> None:
    report = diagnose(path)
    chinese = report.in_language(language("zh"))
    assert report.language is ENGLISH
    one, other = (json.loads(to_json.render(each)) for each in (report, chinese))
    assert _plain(one) == _plain(other)
    text = to_text.render(chinese, width=80)
    assert "\ufffd" not in text
    assert all(columns(line) <= 80 for line in text.split("\n") if re.search("[\u4e00-\u9fff]", line) and "--" not in line)


def test_api_takes_the_language() -> None:
    report = diagnose(b"", Options(language="zh"))
    assert report.language.code == "zh"


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_command_in_chinese(encoding: str) -> None:
    done = subprocess.run([sys.executable, "-m", "vllm_doctor", "--lang", "zh", "diagnose", str(LOGS[0])],
                          capture_output=True, check=False, env={**os.environ, "PYTHONIOENCODING": encoding})
    assert "修复 1" in done.stdout.decode("utf-8")
    assert done.stderr == b""


def test_help_in_chinese() -> None:
    done = subprocess.run([sys.executable, "-m", "vllm_doctor", "--help"], capture_output=True, check=True,
                          env={**os.environ, "LC_ALL": "zh_CN.UTF-8", "PYTHONIOENCODING": "utf-8"})
    assert done.stdout.decode("utf-8").startswith("用法：")


def test_every_text_is_translated() -> None:
    done = subprocess.run([sys.executable, str(ROOT / "tools" / "translations.py"), "check"], capture_output=True, check=False)
    assert done.stdout.decode("utf-8").splitlines()[-1].partition(" messages, ")[2] == "0 missing or fuzzy, 0 problems"


def test_what_a_log_that_ends_in_a_start_leaves_open_is_said_in_the_language() -> None:
    log = (b"INFO 11-30 09:49:17 llm_engine.py:72] Initializing an LLM engine with config: model='/models/a'\n"
           b"INFO 11-30 09:49:18 model_runner.py:104] Loading model weights took 30.6567 GB\n")
    report = diagnose(log, options=Options(language="zh"))
    assert "最常见的原因是" in report.caveats[-2]
    assert report.caveats[-1].startswith("如果进程已结束")
