"""Templates of rules as `explain` and the site show them, without a log."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from vllm_doctor.authoring import explain, template_outline
from vllm_doctor.catalog import flags
from vllm_doctor.rulebase.loader import builtin

ROOT = Path(__file__).resolve().parents[2]
# Jinja's tags; `{{.Config.Cmd}}` is a Go template in a docker command, `${{ … }}` an expression of GitHub Actions.
JINJA = re.compile(r"\{%|%\}|\{#|(?<!\$)\{\{(?!\.)")
EXAMPLE = re.compile(r"(?ms)^## Example\n.*?^```\n")


@pytest.mark.parametrize(("template", "expected"), [
    ("nvidia-smi", ["nvidia-smi"]),
    ("{% if device | or_else('cuda') == 'rocm' %}rocm-smi{% elif device == 'npu' %}npu-smi info{% else %}nvidia-smi{% endif %}",
     ["On ROCm: rocm-smi", "On Ascend NPU: npu-smi info", "On CUDA: nvidia-smi"]),
    ("{% if device | or_else('cuda') == 'cuda' %}pip install vllm=={{ release }}{% else %}Use the image{% endif %}",
     ["On CUDA: pip install vllm==<release>", "Elsewhere: Use the image"]),
    ("{% if device is undefined %}Other platforms: rocm-smi{% endif %}", ["Other platforms: rocm-smi"]),
    ("docker inspect --format '{{ '{{' }}.Config.Cmd{{ '}}' }}'", ["docker inspect --format '{{.Config.Cmd}}'"]),
])
def test_steps(template: str, expected: list[str]) -> None:
    assert template_outline.steps(template) == expected


@pytest.mark.parametrize(("template", "expected"), [
    ("KV cache too small for {{ max_model_len | number }} tokens", "KV cache too small for <max_model_len> tokens"),
    ("{% if rank is defined %}Rank {{ rank }} failed{% elif x %}It failed{% else %}A rank failed{% endif %}", "A rank failed"),
    ("Limit{% if limit is defined %} {{ limit }}{% endif %} is reached", "Limit is reached"),
])
def test_titles_take_the_branch_that_needs_no_fact(template: str, expected: str) -> None:
    assert template_outline.title(template) == expected


def test_prose_has_every_branch() -> None:
    template = "{% if a %}The node is down.{% else %}The network failed.{% endif %}\n\n{% if b %}The code is {{ b }}.{% endif %}\n"
    assert template_outline.prose(template) == "The node is down.\n\nOr: The network failed.\n\nThe code is <b>."


def test_words_between_branches_are_translated() -> None:
    words = {"Or: {text}": "或：{text}", "On {platform}": "{platform} 平台", "{name}: {reason}": "{name}：{reason}"}
    translate = lambda text: words.get(text, text)  # noqa: E731
    assert template_outline.prose("{% if a %}节点故障。{% else %}网络故障。{% endif %}", translate) == "节点故障。\n\n或：网络故障。"
    assert template_outline.steps("{% if device == 'rocm' %}rocm-smi{% else %}nvidia-smi{% endif %}", translate) == [
        "ROCm 平台：rocm-smi", "CUDA 平台：nvidia-smi"]


def test_no_page_of_explain_shows_a_template() -> None:
    base = builtin()
    pages = [*base.rules, *base.names, *flags.flags_of(flags.releases()[-1])]
    assert len(pages) > 500
    for name in pages:
        page = explain.rule_page(base.rules[name], base) if name in base.rules else explain.page(name)
        assert JINJA.search(EXAMPLE.sub("", page)) is None, name


def test_no_document_shows_a_template() -> None:
    for path in (ROOT / "docs").rglob("*.md"):
        assert JINJA.search(EXAMPLE.sub("", path.read_text(encoding="utf-8"))) is None, path


def test_a_choice_inside_a_sentence_gives_the_sentence_for_each_branch() -> None:
    template = "It needs {{ need }}; {% if blocks is defined %}--block-size limits it{% else %}{{ have }} is left{% endif %}.\n\nMore memory helps."
    assert template_outline.prose(template) == "It needs <need>; --block-size limits it.\n\nOr: It needs <need>; <have> is left.\n\nMore memory helps."


def test_a_part_that_only_some_logs_have_is_included() -> None:
    assert template_outline.prose("The start fails{% if rank is defined %} on rank {{ rank }}{% endif %}.") == "The start fails on rank <rank>."


def test_each_page_of_a_rule_shows_the_messages_that_the_rule_reads() -> None:
    base = builtin()
    page = explain.rule_page(base.rules["cpu-kv-cache-space-too-small"], base)
    assert page.startswith("# CPU KV cache too small for one request\n\n`cpu-kv-cache-space-too-small` · error · phase kv-cache\n\n## Meaning\n")
    assert "KV cache is needed, which is larger than the available KV cache memory" in page.partition("## Messages\n")[2].partition("## Example")[0]
    for rule in base.rules.values():
        assert set(explain.samples.messages(rule)) == {pattern.id for pattern in rule.any}, rule.id


def test_the_page_of_a_rule_shows_every_case() -> None:
    page = explain.rule_page(builtin().rules["tls-files-unusable"], builtin())
    meaning = page.partition("## Meaning\n\n")[2].partition("## ")[0]
    for case in builtin().rules["tls-files-unusable"].cases:
        assert case.explain == "" or meaning.count(template_outline.prose(case.explain)) == 1
    assert "\n\n**TLS key is set without its certificate.** TLS needs the private key" in meaning
    assert "The report's title" not in meaning  # all of them stand before their explanation


def test_the_page_of_a_flag_says_what_it_does_and_its_real_default() -> None:
    page = explain.page("--max-num-seqs")
    assert page.startswith("# --max-num-seqs\n\nSets how many requests run at the same time; further requests wait.\n\nIn vLLM since 0.2.0 or earlier.\n\n"
                           "Default in 0.33.0: by GPU memory, 1024 from 70 GiB (A100 excepted), else 256; on CPU 128 per rank. Type: integer.")
    assert "Default in 0.6.4: `256`. Type: integer." in explain.page("--max-num-seqs", "0.6.4")


def test_the_page_of_a_fact_has_an_example() -> None:
    assert "Example: `226736`, read from\n\n```text\nGPU KV cache size: 226,736 tokens\n```" in explain.page("kv_cache_tokens")
    base = builtin()
    assert len([name for name, fact in base.names.items() if not (fact.args or fact.config) and explain.samples.example(name, base) is None]) <= 7
