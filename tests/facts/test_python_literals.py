"""Reading literals and reprs out of log lines."""

from __future__ import annotations

import math
import time
from argparse import Namespace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from vllm_doctor.facts.python_literals import MAX_DEPTH, Repr, read_pairs, read_value

ENGINE_LINE = (
    "model='org/model-7b', speculative_config=None, tokenizer='org/model-7b', dtype=torch.bfloat16, "
    "max_seq_len=4096, kv_cache_dtype=auto, served_model_name=my model, "
    "device_config=DeviceConfig(device=device(type='cuda'), device_type='cuda'), "
    "decoding_config=DecodingConfig(guided_decoding_backend='auto', reasoning_backend=None), seed=0, "
    'compilation_config={"splitting_ops":[],"compile_sizes":[],"level":3,"use_inductor":true,"extra":null}'
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("None", None),
        ("true", True),
        ("False", False),
        ("-12", -12),
        ("1_000", 1000),
        ("0x1f", 31),
        (".5", 0.5),
        ("1e-05", 1e-05),
        ("0.8.5", "0.8.5"),
        ("8k", "8k"),
        ("auto", "auto"),
        ("torch.bfloat16", "torch.bfloat16"),
        ("tcp://10.0.0.1:6379", "tcp://10.0.0.1:6379"),
        ("'it\\'s'", "it's"),
        ('"a\\n\\x41\\u00e9\\/"', "a\nA\u00e9/"),
        ('"\\ud83d\\ude00"', "\U0001f600"),
        ("b'\\xff\\x00'", b"\xff\x00"),
        ("r'a\\b'", "a\\b"),
        ("[1, 'a', (2,), (3), ()]", [1, "a", (2,), 3, ()]),
        ("{}", {}),
        ("set()", set()),
        ("{1, 2}", {1, 2}),
        ("{'a': {'b': [1.5]}, 2: None}", {"a": {"b": [1.5]}, 2: None}),
        ('{"level":3,"ops":["none"],"on":true}', {"level": 3, "ops": ["none"], "on": True}),
        ("Namespace(a=1, b='x')", Repr("Namespace", (("a", 1), ("b", "x")))),
        ("Namespace(**{'a-b': 1})", Repr("Namespace", (("a-b", 1),))),
        ("PosixPath('/x')", Repr("PosixPath", (), ("/x",))),
        ("device(type='cuda')", Repr("device", (("type", "cuda"),))),
        ("<CompilationMode.VLLM_COMPILE: 3>", Repr("CompilationMode.VLLM_COMPILE", (("value", 3),))),
        ("<CUDAGraphMode.FULL: (2, 1)>", Repr("CUDAGraphMode.FULL", (("value", (2, 1)),))),
        ("<function f at 0x7f00aa>", Repr("function f")),
        ("<function <lambda> at 0x7f00aa>", Repr("function <lambda>")),
        ("<class 'int'>", Repr("class 'int'")),
    ],
)
def test_reads_a_value_whole(text: str, value: object) -> None:
    read = read_value(text)
    assert read.value == value
    assert type(read.value) is type(value)
    assert read.complete
    assert read.end == len(text)


def test_reads_nested_configuration_objects() -> None:
    read = read_value("CompilationConfig(level=3, custom_ops=['+rms', 'none'], pass_config={'x': <M.A: 1>}) tail")
    assert isinstance(read.value, Repr)
    assert read.value.name == "CompilationConfig"
    assert read.value.get("custom_ops") == ["+rms", "none"]
    assert read.value.get("pass_config") == {"x": Repr("M.A", (("value", 1),))}
    assert read.complete


def test_reads_the_pairs_of_an_engine_line() -> None:
    read = read_pairs(ENGINE_LINE)
    assert read.complete
    assert read.value["max_seq_len"] == 4096
    assert read.value["dtype"] == "torch.bfloat16"
    assert read.value["speculative_config"] is None
    assert read.value["served_model_name"] == "my model"
    assert read.value["compilation_config"] == {
        "splitting_ops": [], "compile_sizes": [], "level": 3, "use_inductor": True, "extra": None,
    }  # fmt: skip
    device = read.value["device_config"]
    assert isinstance(device, Repr)
    assert device.get("device_type") == "cuda"


def test_pairs_start_where_they_are_told_and_end_at_a_closing_bracket() -> None:
    text = "with config: model='m', seed=0) done=1"
    read = read_pairs(text, text.index("model"))
    assert read.value == {"model": "m", "seed": 0}
    assert text[read.end] == ")"


def test_pairs_step_over_what_is_no_pair() -> None:
    read = read_pairs("a=1, what is this, b=2")
    assert read.value == {"a": 1, "b": 2}
    assert not read.complete


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{'max_model_len': 81", {}),  # may have been 8192
        ("{'model': 'org/mod", {}),
        ("{'model': 'm', 'max_mo", {"model": "m"}),
        ("{'a': {'b': 1, 'c': 2", {"a": {"b": 1}}),
        ("{'a': 1, 'b': 20...", {"a": 1}),
        ("[1, 2, ..., 9]", [1, 2, 9]),
        ("Namespace(host=None, port=80", Repr("Namespace", (("host", None),))),
    ],
)
def test_a_cut_value_is_left_out(text: str, value: object) -> None:
    read = read_value(text)
    assert read.value == value
    assert not read.complete


def test_a_cut_pair_is_left_out() -> None:
    assert read_pairs("a=1, b=40...").value == {"a": 1}
    assert not read_pairs("a=1, b=40...").complete
    assert read_pairs("a=1, b='unfinished").value == {"a": 1}


def test_deep_brackets_stop_at_the_limit() -> None:
    for text in ("[" * 100_000, "{1:" * 100_000, "A(" * 100_000, "<A: " * 100_000, "(" * MAX_DEPTH + "1"):
        assert not read_value(text).complete


def test_long_input_takes_linear_time() -> None:
    start = time.process_time()
    for unit in ("a=1, ", "'x' ", "<", "1_1", "a,", "{'a':", "[1],", "\\", "..., ", ")", "a=[(1),{}],", ", "):
        read_pairs("k=" + unit * 40_000)
        read_pairs(unit * 40_000)
        read_value("[" + unit * 40_000)
    assert time.process_time() - start < 20


scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary()
keys = st.text() | st.integers() | st.booleans()
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(keys, inner, max_size=4)
        | st.sets(st.integers() | st.text(), max_size=4)
    ),
    max_leaves=12,
)
names = st.from_regex(r"[a-z][a-z_0-9]{0,8}", fullmatch=True)


@given(values)
def test_a_repr_is_read_back(value: object) -> None:
    read = read_value(repr(value))
    assert read.value == value
    assert read.complete
    assert read.end == len(repr(value))


@given(st.dictionaries(names, values, max_size=5))
@example({"self": 1})
def test_a_namespace_is_read_back(fields: dict[str, object]) -> None:
    namespace = Namespace()
    vars(namespace).update(fields)
    read = read_value(repr(namespace))
    assert isinstance(read.value, Repr)
    assert read.value.as_dict() == fields
    assert read.complete


@given(st.dictionaries(names, values, min_size=1, max_size=5), st.data())
def test_a_truncated_namespace_gives_a_prefix(fields: dict[str, object], data: st.DataObject) -> None:
    namespace = Namespace()
    vars(namespace).update(fields)
    text = repr(namespace)
    cut = data.draw(st.integers(len("Namespace("), len(text) - 1))
    read = read_value(text[:cut])
    assert not read.complete
    assert isinstance(read.value, Repr)
    got = read.value.as_dict()
    assert list(got) == list(fields)[: len(got)]
    for name in list(got)[:-1]:  # the last one may be a container that lost its end
        assert got[name] == fields[name]
    if got and not isinstance(fields[list(got)[-1]], (list, tuple, dict, set)):
        assert got[list(got)[-1]] == fields[list(got)[-1]]


@given(st.integers(0, len(ENGINE_LINE)))
def test_truncated_pairs_give_a_prefix_of_the_keys(cut: int) -> None:
    whole = list(read_pairs(ENGINE_LINE).value)
    got = list(read_pairs(ENGINE_LINE[:cut]).value)
    assert got == whole[: len(got)]


@given(
    st.text(alphabet=st.sampled_from("{}[]()<>'\"\\,:=.- \nabxuUNnone01e_*"), max_size=80),
    st.integers(-3, 90),
)
def test_nothing_raises(text: str, pos: int) -> None:
    assert read_value(text, pos).end >= 0
    assert read_pairs(text, pos).end >= 0


def test_not_a_number_and_infinities() -> None:
    read = read_value("[nan, inf, -inf, NaN, Infinity]").value
    assert isinstance(read, list)
    assert math.isnan(read[0])
    assert read[1:3] == [math.inf, -math.inf]
