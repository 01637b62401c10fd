"""Which value is meant, and what was meant as JSON."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vllm_doctor.catalog.releases import Releases
from vllm_doctor.templating.repair_filters import (
    as_json,
    as_json_list,
    as_pairs,
    bound_meant,
    inside_typographic_quotes,
    integers_meant,
    mm_limits,
    nearest_choice,
    number_meant,
    release_with_choice,
    share_meant,
    table_choice,
    with_key,
    with_position_limit,
    with_renamed_key,
    yarn_overrides,
)


@pytest.mark.parametrize(("value", "choices", "wanted"), [
    ("48", "1, 8, 16, 32, 64", "64"),
    (600, "(8, 16, 512)", "512"),
    ("'fp16'", "'auto', 'half', 'float16'", "float16"),
    ("bf16", "auto, bfloat16", "bfloat16"),
    ("int3", "'auto', 'bfloat16', 'half'", None),
    ("deepseek", "cohere,deepseek_r1,deepseek_v3", "deepseek_r1"),
    ("many", "1, 2", None),
    ("FLASH", "TRITON_ATTN, FLASHINFER, FLASHMLA, FLASH_ATTN, FLASH_ATTN_DIFFKV", "FLASH_ATTN"),
    ("half_precision", "'auto', 'half', 'float16', 'float'", "half"),
    ("bfloat", "'auto', 'float', 'float16', 'bfloat16'", "bfloat16"),
    ("deepseek", "'granite', 'deepseek_v31', 'deepseek_v3'", "deepseek_v3"),
])
def test_nearest_choice(value: object, choices: str, wanted: str | None) -> None:
    assert nearest_choice(value, choices) == wanted


def test_choices_of_the_table() -> None:
    assert table_choice("fp8_e4m3b", "--kv-cache-dtype", Releases.of("0.9.2")) == "fp8_e4m3"
    assert table_choice("x", "--max-model-len", Releases.of("0.9.2")) is None
    assert release_with_choice("kimi_k2", "--tool-call-parser", Releases.of("0.8.5")) == "0.10.0"
    assert release_with_choice("hermes", "--tool-call-parser", Releases.of("0.8.5")) is None
    assert release_with_choice("kimi_k2", "--tool-call-parser", Releases.every()) == "0.10.0"
    assert release_with_choice("nobody", "--tool-call-parser", Releases.every()) is None


@pytest.mark.parametrize(("value", "wanted"), [
    ("32k", 32000), ("32K", 32768), ("8,192", 8192), ("8192.0", 8192), ("8192", None), ("many", None), ("1.5", None),
    ("1,2,4", None), ("1e4", 10000), ("1.5E3", 1500), ("1e", None),
])
def test_number_meant(value: str, wanted: int | None) -> None:
    assert number_meant(value) == wanted


@pytest.mark.parametrize(("value", "wanted"), [
    ("'1,2,4'", "1 2 4"), ("[8, 16]", "8 16"), ("1,", None), ("a,b", None), ("", None),
])
def test_integers_meant(value: str, wanted: str | None) -> None:
    assert integers_meant(value) == wanted


@pytest.mark.parametrize(("value", "wanted"), [("90", 0.9), ("90%", 0.9), ("0,9", 0.9), ("1.5", None), ("x", None),
                                              ("9", None), ("3.5", None), ("9%", 0.09), ("10", 0.1)])
def test_share_meant(value: str, wanted: float | None) -> None:
    assert share_meant(value) == wanted


@pytest.mark.parametrize(("value", "wanted"), [
    ("image=4,audio=1", {"image": 4, "audio": 1}),
    ("{'model':'x','n':5}", {"model": "x", "n": 5}),
    ("{method:ngram,n:4}", {"method": "ngram", "n": 4}),
    ("{model:s3://b/m}", {"model": "s3://b/m"}),
    ("{'a': True, 'b': None, 'c': [1, 2.5]}", {"a": True, "b": None, "c": [1, 2.5]}),
    ("'{\"a\": {\"b\": 1}}'", {"a": {"b": 1}}),
    ('{"a": [1, {"b": 2', {"a": [1, {"b": 2}]}),
    ('\\{\\"a\\":\\"x\\"\\,\\"n\\":2\\}', {"a": "x", "n": 2}),
    ('{\\"a\\": 1}', {"a": 1}),
    ('{{"a": 1}}', {"a": 1}),
    ('{{"a": {{"b": 1}}}}', {"a": {"b": 1}}),
    ("{\u201ca\u201d:0.5,\u201cb\u201d: \u201cx y\u201d}", {"a": 0.5, "b": "x y"}),
    ('{\u201ca": [\u2018b\u2019]}', {"a": ["b"]}),
    ('{"eps": 1e-05, "n": 2E+3}', {"eps": 1e-05, "n": 2000.0}),
    (r"{'a': 'it\'s'}", {"a": "it's"}),
    ("{'a': [1, 2, ], 'b': 007, }", {"a": [1, 2], "b": "007"}),
])
def test_json_meant(value: str, wanted: dict[str, object]) -> None:
    assert json.loads(as_json(value) or "") == wanted


@pytest.mark.parametrize("value", ['{"a": 1...', '{"a": ', '{"a": 1]', "plain", "", "{'a': }", "{'a': 1,, }"])
def test_what_cannot_be_mended(value: str) -> None:
    assert as_json(value) is None


@given(st.text(alphabet="{}[]:,'\"ab1 \\/=.", max_size=40))
def test_json_meant_is_json(text: str) -> None:
    repaired = as_json(text)
    assert repaired is None or json.loads(repaired) is not Ellipsis


@given(st.dictionaries(st.text(alphabet="abc_", min_size=1), st.one_of(st.integers(), st.booleans(), st.none(),
                                                                     st.text(alphabet="xy z/", max_size=5)), min_size=1))
def test_a_python_dict_becomes_its_json(settings: dict[str, object]) -> None:
    assert json.loads(as_json(repr(settings)) or "null") == settings


@pytest.mark.parametrize(("value", "wanted"), [
    ("'*'", '["*"]'),
    ("*", '["*"]'),
    ("GET,POST", '["GET", "POST"]'),
    ("['http://a.example', 'http://b.example']", '["http://a.example", "http://b.example"]'),
    ("", None),
    ("GET,,POST", None),
])
def test_one_word_or_several_are_a_json_list(value: str, wanted: str | None) -> None:
    assert as_json_list(value) == wanted


def test_settings_of_a_json_flag() -> None:
    assert with_key("{'model': 'x'}", "n", 5) == '{"model": "x", "n": 5}'
    assert with_renamed_key('{"a": 1, "b": 2}', "a", "c") == '{"c": 1, "b": 2}'
    assert with_renamed_key('{"a": 1}', "b", "c") is None
    assert as_pairs('{"image": 2, "video": 1}') == "image=2,video=1"
    assert as_pairs("plain") is None
    nested = '{"text_config": {"rope_parameters": {"factor": 4.0}}}'
    assert json.loads(with_position_limit(nested, 131072) or "")["text_config"]["max_position_embeddings"] == 131072


def test_limits_of_items_in_the_releases_form() -> None:
    assert mm_limits("image", 2, Releases.of("0.6.3")) == "image=2"
    assert mm_limits("image", 2, Releases.of("0.8.5")) == '{"image": 2}'
    assert mm_limits("image", 2, Releases.of("0.11.0")) == '{"image": 2}'


def test_yarn() -> None:
    overrides = json.loads(yarn_overrides(131072, 32768, 1000000, Releases.of("0.31.0")) or "")
    assert overrides["rope_parameters"]["factor"] == 4.0
    assert overrides["max_position_embeddings"] == 131072
    older = json.loads(yarn_overrides(131072, 32768, 1000000, Releases.of("0.12.0")) or "")
    assert "max_position_embeddings" not in older
    assert yarn_overrides(10_000_000, 32768, 1000000, Releases.of("0.12.0")) is None


@pytest.mark.parametrize(("condition", "number"), [
    (">= max_loras (4).", 4), ("greater than or equal to 1.", 1), ("> 0", 1), ("less than 8", 7), ("<= 16", 16),
    ("one of (8, 16)", None), (">= max_loras", None),
])
def test_bound_meant(condition: str, number: int | None) -> None:
    assert bound_meant(condition) == number


def test_typographic_quotes_around_a_value() -> None:
    assert inside_typographic_quotes("'\u201chalf\u201d'") == "half"
    assert inside_typographic_quotes("\u2018/srv/a.jinja\u2019") == "/srv/a.jinja"
    assert inside_typographic_quotes("half") is None
