"""Exact values were read from the sources of the releases named here, not from the table."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from importlib.resources import files

import pytest

from vllm_doctor.catalog import flags
from vllm_doctor.catalog.name_table import indices, releases, releases_with_attribute, releases_with_name, row_of
from vllm_doctor.catalog.names import Direction, direction, sentence_of

PLUGIN = "/opt/venv/lib/python3.12/site-packages/plugin/worker.py"
VLLM_FILE = "/opt/venv/lib/python3.12/site-packages/vllm/engine/arg_utils.py"


def asked(exception: str, message: str, release: str | None = None, file: str | None = PLUGIN) -> Direction:
    found = direction(exception, message, release, file)
    assert found is not None
    return found


# -- lifetimes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "first", "last"),
    [
        ("vllm.model_executor.layers.sampler", "0.2.0", "0.10.2"),
        ("vllm.v1.engine.async_llm.AsyncLLM", "0.6.4", None),
        ("vllm.utils.FlexibleArgumentParser", "0.5.1", "0.11.0"),
        ("vllm.utils.argparse_utils.FlexibleArgumentParser", "0.11.1", None),
        ("vllm.LLM", "0.2.0", None),  # from 0.8 on through the module's own __getattr__
        ("vllm.sequence.SamplerOutput", "0.2.0", "0.5.5"),
        ("vllm.envs.VLLM_USE_V1", "0.6.4", "0.11.0"),
        ("vllm.entrypoints.llm.LLM.collective_rpc", "0.7.0", None),
        ("vllm.activation_ops", "0.2.0", "0.2.2"),  # compiled: only setup.py names it
    ],
)
def test_the_lifetime_of_a_name(name: str, first: str, last: str | None) -> None:
    row = row_of(name)
    parent, _, last_part = name.rpartition(".")
    module, _, local = parent.rpartition(".")
    found = (releases_with_name(parent, last_part) | releases_with_attribute(f"{module}:{local}", last_part)
             | (indices(row[1]) if row else frozenset()))
    assert (releases()[min(found)], releases()[max(found)]) == (first, last or releases()[-1])


@pytest.mark.parametrize("name", ["vllm.v1.engine.async_llm.AsyncLM", "torch.nn", "vllm..x", "", 'vllm."x'])
def test_what_is_no_name_of_vllm_is_in_no_release(name: str) -> None:
    parent, _, last_part = name.rpartition(".")
    assert row_of(name) is None
    assert not releases_with_name(parent, last_part)


def test_the_releases_are_those_of_the_flag_table() -> None:
    assert releases() == flags.releases()


# -- names -----------------------------------------------------------------------------------------------------------------


def test_a_module_that_ended_needs_an_older_release() -> None:
    found = asked("ModuleNotFoundError", "No module named 'vllm.model_executor.layers.sampler'", "0.13.0")
    assert (found.kind, found.first, found.last) == ("older", None, "0.10.2")
    assert found.requirements == ("vllm<0.11",)
    assert found.command == "pip install 'vllm<0.11'"
    assert sentence_of(found) == "`vllm.model_executor.layers.sampler` exists up to vLLM 0.10.2."


def test_it_is_the_same_without_a_known_release() -> None:
    found = asked("ModuleNotFoundError", "No module named 'vllm.model_executor.layers.sampler'")
    assert (found.kind, found.requirements) == ("older", ("vllm<0.11",))


def test_a_module_that_the_release_has_means_an_incomplete_installation() -> None:
    found = asked("ModuleNotFoundError", "No module named 'vllm.model_executor.layers.sampler'", "0.10.2")
    assert (found.kind, found.requirements) == ("incomplete", ())


def test_a_module_that_does_not_exist_yet_needs_a_newer_release() -> None:
    found = asked("ModuleNotFoundError", "No module named 'vllm.v1.engine.async_llm'", "0.6.3.post1")
    assert (found.kind, found.first, found.last) == ("newer", "0.6.4", None)
    assert found.requirements == ("vllm>=0.6.4",)


def test_a_newer_release_is_not_the_newest_when_that_lacks_the_name() -> None:
    found = asked("ImportError", "cannot import name 'FlexibleArgumentParser' from 'vllm.utils'", "0.5.0")
    assert found.requirements == ("vllm>=0.5.1,<0.11.1",)


def test_with_an_unknown_release_both_ends_are_in_the_requirement() -> None:
    found = asked("ImportError", "cannot import name 'FlexibleArgumentParser' from 'vllm.utils'")
    assert (found.kind, found.requirements) == ("range", ("vllm>=0.5.1,<0.11.1",))


@pytest.mark.parametrize(
    ("message", "release", "moved_to"),
    [
        (
            "cannot import name 'FlexibleArgumentParser' from 'vllm.utils'",
            "0.12.0",
            "vllm.utils.argparse_utils.FlexibleArgumentParser",
        ),
        (
            "cannot import name 'SamplerOutput' from 'vllm.sequence'",
            "0.6.1.post2",
            "vllm.model_executor.layers.sampler.SamplerOutput",
        ),
    ],
)
def test_a_moved_class_is_reported_with_its_new_module(message: str, release: str, moved_to: str) -> None:
    found = asked("ImportError", message, release)
    assert (found.kind, found.moved_to) == ("moved", moved_to)
    assert found.requirements


def test_a_module_whose_names_moved_together() -> None:
    found = asked("ModuleNotFoundError", "No module named 'vllm.attention.backends.abstract'", "0.20.0")
    assert (found.kind, found.moved_to) == ("moved", "vllm.v1.attention.backend")
    assert found.requirements == ("vllm<0.14",)


def test_a_name_of_no_release_is_unknown() -> None:
    found = asked("ImportError", "cannot import name 'frobnicate_all' from 'vllm.utils'", "0.10.0")
    assert (found.kind, found.requirements) == ("unknown", ())


def test_vllms_own_file_that_misses_a_name_is_of_another_release() -> None:
    message = "cannot import name 'FlexibleArgumentParser' from 'vllm.utils'"
    assert asked("ImportError", message, "0.12.0", VLLM_FILE).kind == "incomplete"
    assert asked("ImportError", message, "0.12.0", "/src/vllm-0.12/vllm/config/vllm.py").kind == "incomplete"
    for other in ("/home/u/vllm/my_script.py", "/venv/site-packages/verl/utils/vllm/utils.py", "/a/b/verl/vllm/utils.py"):
        assert asked("ImportError", message, "0.12.0", other).kind == "moved"


def test_a_compiled_module_is_missing_or_not_built() -> None:
    found = asked("ModuleNotFoundError", "No module named 'vllm._C'", "0.9.2", VLLM_FILE)
    assert (found.kind, found.condition) == ("incomplete", "built")
    assert "compiled" in sentence_of(found)
    assert asked("ModuleNotFoundError", "No module named 'vllm._version'").condition == "built"
    assert asked("ModuleNotFoundError", "No module named 'vllm.vllm_flash_attn.layers'", "0.9.0.1").condition == "built"
    operator = "'_OpNamespace' '_C' object has no attribute 'rms_norm'"
    assert asked("AttributeError", operator, "0.9.2", VLLM_FILE).kind == "incomplete"


def test_another_vllm_on_the_path() -> None:
    assert asked("ImportError", "cannot import name 'LLM' from 'vllm' (unknown location)").kind == "shadowed"
    message = "cannot import name 'LLM' from partially initialized module 'vllm' (most likely due to a circular import) (/home/u/vllm.py)"
    found = asked("ImportError", message, None, "/home/u/vllm.py")
    assert (found.kind, found.path) == ("shadowed", "/home/u/vllm.py")
    assert asked("ModuleNotFoundError", "No module named 'vllm.engine'; 'vllm' is not a package").kind == "shadowed"
    assert asked("ModuleNotFoundError", "No module named 'vllm'").kind == "not-installed"


def test_an_attribute_of_a_module() -> None:
    found = asked("AttributeError", "module 'vllm.envs' has no attribute 'VLLM_USE_V1'", "0.12.0")
    assert (found.kind, found.requirements) == ("older", ("vllm<0.11.1",))


# -- attributes -----------------------------------------------------------------------------------------------------------


def test_a_method_that_does_not_exist_yet() -> None:
    found = asked("AttributeError", "'LLM' object has no attribute 'collective_rpc'", "0.6.6")
    assert (found.kind, found.first, found.requirements) == ("newer", "0.7.0", ("vllm>=0.7.0",))


def test_an_attribute_that_ended() -> None:
    found = asked("AttributeError", "'LLMEngine' object has no attribute 'driver_worker'", "0.6.2")
    assert (found.kind, found.last) == ("older", "0.3.3")


def test_an_attribute_of_the_v0_engine() -> None:
    found = asked("AttributeError", "'LLMEngine' object has no attribute 'model_executor'", "0.10.0")
    assert (found.kind, found.name) == ("v0-engine", "vllm.engine.llm_engine.LLMEngine.model_executor")


@pytest.mark.parametrize(
    ("message", "release", "file"),
    [
        ("'LLM' object has no attribute 'llm_engine'", None, PLUGIN),  # its constructor failed
        ("'LLM' object has no attribute 'llm_engine'", "0.9.2", PLUGIN),
        ("'LlamaForCausalLM' object has no attribute 'vllm_engine'", "0.8.4", PLUGIN),
        ("'LLMEngine' object has no attribute 'model_executor'", "0.8.1", VLLM_FILE),
        ("'Namespace' object has no attribute 'port'", "0.9.2", PLUGIN),
        ("'NoneType' object has no attribute 'shape'", "0.9.2", PLUGIN),
    ],
)
def test_attributes_that_the_release_does_not_decide(message: str, release: str | None, file: str) -> None:
    assert direction("AttributeError", message, release, file) is None


def test_an_attribute_of_no_release() -> None:
    assert asked("AttributeError", "'LLM' object has no attribute 'frobnicate'", "0.6.0").kind == "unknown"


# -- parameters -----------------------------------------------------------------------------------------------------------


def test_a_parameter_that_came_and_went() -> None:
    message = "EngineArgs.__init__() got an unexpected keyword argument 'use_v2_block_manager'"
    late, early = asked("TypeError", message, "0.10.0"), asked("TypeError", message, "0.3.3")
    assert (late.kind, late.subject, late.last, late.requirements) == ("older", "parameter", "0.9.2", ("vllm<0.10",))
    assert (early.kind, early.first, early.requirements) == ("newer", "0.4.1", ("vllm>=0.4.1,<0.10",))
    assert asked("TypeError", message, "0.6.0").kind == "incomplete"


def test_a_parameter_of_a_base_class() -> None:
    message = "AsyncEngineArgs.__init__() got an unexpected keyword argument 'limit_mm_per_prompt'"
    assert asked("TypeError", message, "0.5.3").requirements == ("vllm>=0.5.5",)


def test_llm_hands_the_arguments_of_its_caller_on() -> None:
    file = "/opt/venv/lib/python3.12/site-packages/vllm/entrypoints/llm.py"
    message = "EngineArgs.__init__() got an unexpected keyword argument 'enforce_eager'"
    found = asked("TypeError", message, "0.2.5", file)
    assert (found.kind, found.requirements) == ("newer", ("vllm>=0.2.6",))
    old_python = asked("TypeError", message.removeprefix("EngineArgs."), "0.2.5", file)
    assert (old_python.kind, old_python.requirements) == ("newer", ("vllm>=0.2.6",))


def test_msgspec_names_no_class() -> None:
    found = asked("TypeError", "Unexpected keyword argument 'use_beam_search'", "0.8.0")
    assert (found.kind, found.last, found.requirements) == ("older", "0.6.2", ("vllm<0.6.3",))


def test_pydantic_names_the_class_on_another_line() -> None:
    message = "1 validation error for EngineArgs\nuse_v2_block_manager\n  Unexpected keyword argument [type=unexpected_keyword_argument]"
    assert asked("ValidationError", message, "0.12.0").requirements == ("vllm<0.10",)


def test_an_argument_that_became_required() -> None:
    message = "OpenAIServingChat.__init__() missing 1 required keyword-only argument: 'chat_template_content_format'"
    found = asked("TypeError", message, "0.7.0")
    assert (found.kind, found.subject, found.last) == ("older", "required parameter", "0.6.4.post1")
    assert found.requirements == ("vllm<0.6.5",)
    assert direction("TypeError", message, "0.6.3", PLUGIN) is None


def test_a_subclass_written_for_an_older_vllm() -> None:
    found = asked("TypeError", "MyToolParser.__init__() got an unexpected keyword argument 'tools'", "0.20.0", VLLM_FILE)
    assert (found.kind, found.last, found.requirements) == ("plugin-older", "0.18.1", ("vllm<0.19",))
    message = "Can't instantiate abstract class MyConnector with abstract method get_num_new_matched_tokens"
    found = asked("TypeError", message, "0.20.0")
    assert (found.kind, found.subject, found.last) == ("plugin-older", "abstract method", "0.8.4")
    assert direction("TypeError", "Can't instantiate abstract class VLLM with abstract method _agenerate", None) is None


@pytest.mark.parametrize(
    "message",
    [
        "execute_model() got an unexpected keyword argument 'num_lookahead_slots'",
        "unsupported operand type(s) for +: 'int' and 'NoneType'",
        "my_function() missing 1 required positional argument: 'x'",
    ],
)
def test_type_errors_that_the_release_does_not_decide(message: str) -> None:
    assert direction("TypeError", message, "0.4.2", VLLM_FILE) is None


# -- releases that are not in the table ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("release", "kind", "requirement"),
    [
        ("0.15.1", "older", "vllm<0.14"),  # no source distribution: between 0.14.1 and 0.16.0
        ("0.20.1rc1.dev5+g0123456", "older", "vllm<0.14"),
        ("0.1.dev1+g0123456", "range", "vllm>=0.4.1,<0.14"),  # a checkout without tags
        ("nonsense", "range", "vllm>=0.4.1,<0.14"),
        ("0.1.7", "newer", "vllm>=0.4.1,<0.14"),
    ],
)
def test_a_version_between_two_releases(release: str, kind: str, requirement: str) -> None:
    found = asked("ModuleNotFoundError", "No module named 'vllm.attention.backends.abstract'", release)
    assert (kind if found.kind != "moved" else "older", found.requirements) == (kind, (requirement,))


# -- other packages --------------------------------------------------------------------------------------------------------


def test_the_range_that_the_release_asks_for() -> None:
    message = "cannot import name 'AutoProcessor' from 'transformers' (/x)"
    found = asked("ImportError", message, "0.9.2", VLLM_FILE)
    assert (found.kind, found.asked, found.tested) == (
        "dependency",
        ("transformers>=4.51.1",),
        ("transformers 4.52.4",),
    )
    assert found.command == "pip install 'transformers>=4.51.1,<4.53'"
    assert asked("ImportError", message, "0.14.0", VLLM_FILE).requirements == ("transformers>=4.56.0,<5",)
    assert asked("ImportError", message, None, VLLM_FILE).requirements == ()


def test_one_package_that_misses_a_name_of_another() -> None:
    file = "/opt/venv/lib/python3.12/site-packages/transformers/utils/hub.py"
    found = asked("ImportError", "cannot import name 'is_offline_mode' from 'huggingface_hub'", "0.8.5", file)
    assert found.requirements == ("transformers>=4.51.1,<4.52", "huggingface-hub>=0.30.0,<0.31")


def test_an_extra_is_asked_for_by_its_name() -> None:
    found = asked("ModuleNotFoundError", "No module named 'librosa'", "0.9.2", VLLM_FILE)
    assert found.requirements == ("vllm[audio]==0.9.2",)


@pytest.mark.parametrize(
    ("message", "file"),
    [
        ("cannot import name 'AutoProcessor' from 'transformers'", "/home/u/project/train.py"),
        ("No module named 'lmcache.experimental'", VLLM_FILE),
        ("cannot import name 'get_vllm_engine' from 'swift.llm'", PLUGIN),
        ("libcudart.so.12: cannot open shared object file: No such file or directory", VLLM_FILE),
    ],
)
def test_imports_of_other_software_are_not_vllms(message: str, file: str) -> None:
    assert direction("ImportError", message, "0.9.2", file) is None


# -- loading -----------------------------------------------------------------------------------------------------------------


def test_other_exceptions_do_not_read_the_table() -> None:
    code = (
        "from vllm_doctor.catalog import name_table, names\n"
        "names.direction('ValueError', \"No module named 'vllm.x'\")\n"
        "names.direction('TypeError', 'unsupported operand')\n"
        "print(name_table.table.cache_info().misses)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0"]


def test_the_table_ships_with_the_package_and_is_small() -> None:
    packed = files("vllm_doctor.catalog").joinpath("names.jsonl.xz").read_bytes()
    assert len(packed) < 700_000


@pytest.mark.parametrize("name", ["x" * 5000, "vllm." * 800 + "x", "vllm.a\\b", "vllm.%s"])
def test_a_hostile_message_costs_little(name: str) -> None:
    tracemalloc.start()
    direction("ModuleNotFoundError", f"No module named '{name}'", "0.9.2", name)
    direction("ImportError", f"cannot import name '{name}' from '{name}'", name, name)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20_000_000
