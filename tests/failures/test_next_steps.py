"""The table of next steps: its conditions name what there is, its expressions are linear, and its steps can be offered."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from vllm_doctor import diagnose
from vllm_doctor.authoring import writing_style
from vllm_doctor.catalog.yaml_catalog import read_catalog
from vllm_doctor.failures.model import Failure, Place
from vllm_doctor.failures.next_step_names import names_of
from vllm_doctor.failures.next_steps import next_steps
from vllm_doctor.rulebase.loader import builtin
from vllm_doctor.rulebase.regex_check import slow_code
from vllm_doctor.templating.evaluator import parse

TABLE = read_catalog("next_steps.yaml")
PATTERNS = {**TABLE["in_message"], **TABLE["in_text"]}
OPTIONAL = {"missing_from", "imported_package", "needed_by", "asked_flag", "asked_value", "asked_setting", "asks_for_variable", "less_utilization"}


def nodes(part: Any) -> Iterator[dict[str, Any]]:
    if isinstance(part, dict):
        yield part
        for inner in (*part.get("first", ()), *part.get("all", ())):
            yield from nodes(inner)


ALL = [node for tree in (TABLE["steps"], *TABLE["groups"].values()) for node in nodes(tree)]
STEPS = [node for node in ALL if "title" in node]


def failure(**fields: Any) -> Failure:
    basis = Failure(line=1, last_line=1, exception="RuntimeError", message="the widget is bent", origin=Place("vllm", "vllm/widgets.py", "bend", 3), vllm_frame=None,
                    caller=None, own_frame=None, feature=None, kind="bug", settings=(), signature="")
    return basis._replace(**fields)


def ids(**fields: Any) -> list[str]:
    failed = failure(**fields)
    return [step.id for step in next_steps(failed, None, {}, failed.message)[0]]


def test_conditions_name_what_there_is() -> None:
    known = {*names_of(failure(), None, {}), *PATTERNS, *OPTIONAL, *builtin().names}
    conditions = [source for node in ALL if (when := node.get("when")) for source in ([when] if isinstance(when, str) else when)]
    assert {name for source in conditions for name in parse(source).names} - known == set()


def test_each_group_and_each_expression_is_used() -> None:
    assert {node["use"] for node in ALL if "use" in node} == set(TABLE["groups"])
    conditions = " ".join(str(node["when"]) for node in ALL if "when" in node)
    assert [name for name in PATTERNS if re.search(rf"\b{name}\b", conditions) is None] == []


def test_each_step_has_a_known_action_or_changes_settings() -> None:
    assert [step for step in STEPS if "id" not in step and "action" not in step] == []
    assert {step["action"] for step in STEPS if "action" in step} - set(builtin().actions) == set()
    assert [problem for step in STEPS for problem in writing_style.check_text(re.sub(r"\{\{.*?\}\}", "X", step["title"]))] == []


@pytest.mark.parametrize("name", PATTERNS)
def test_expressions_take_linear_time(name: str) -> None:
    assert slow_code(re.compile(PATTERNS[name]).search, PATTERNS[name]) is None


def test_the_first_that_holds_and_each_that_holds() -> None:
    assert ids() == ["upgrade-vllm", "report-bug", "downgrade-vllm"]
    assert ids(direction="moved") == ["downgrade-vllm", "correct-plugin-file", "report-bug"]
    assert ids(kind="environment", exception="OSError", message="No space left on device") == ["free-disk-space"]
    assert ids(kind="resource", message="CUDA out of memory", is_alone=True)[-1] == "add-server-output"
    assert ids(is_consequence=True) == ["find-root-cause-above"]


def test_a_step_is_offered_once() -> None:
    assert ids(kind="refusal", direction="newer").count("upgrade-vllm") == 1


@pytest.mark.parametrize(("message", "title"), [
    ("max_num_seqs is bent", "Change the setting that the message names"),
    ("data parallel size must be 1 here", "Change the setting that the message names"),
    ("set VLLM_WIDGETS for this", "Change the setting that the message names"),
    ("Method 'bend' is not implemented.", "Correct what the message rejects"),
])
def test_a_setting_is_mentioned_only_where_the_message_names_one(message: str, title: str) -> None:
    assert next_steps(failure(kind="refusal", message=message), None, {}, message)[0][0].title == title


def test_a_package_that_imports_a_missing_one_is_named() -> None:
    missing = failure(kind="environment", exception="ModuleNotFoundError", message="No module named 'dateutil'",
                      origin=Place("pandas", "pandas/compat.py", "<module>", 3))
    step = next_steps(missing, None, {}, missing.message)
    assert (step[0][0].action, step[1]["missing_package"], step[1]["needed_by"]) == ("install-package", "python-dateutil", "pandas")
    of_python = missing._replace(message="No module named '_lzma'")
    assert "needed_by" not in next_steps(of_python, None, {}, of_python.message)[1]


def test_a_module_of_own_code_is_no_package_to_install() -> None:
    own = failure(kind="environment", exception="ModuleNotFoundError", message="No module named 'team.tools'",
                  origin=Place(None, "/home/user/main.py", "<module>", 3))
    assert [step.action for step in next_steps(own, None, {}, own.message)[0]] == ["add-to-python-path", "correct-plugin-file"]
    package = own._replace(message="No module named 'transformers.new'")
    assert "add-to-python-path" not in [step.action for step in next_steps(package, None, {}, package.message)[0]]


@pytest.mark.parametrize(("module", "file", "steps"), [
    ("widgetlib.core.bend", "home/me/run.py", ["reinstall-package", "reinstall-vllm-clean-env"]),
    ("widgetlib.core.bend", "src/widgetlib/run.py", ["add-to-python-path", "correct-plugin-file"]),
    ("widgetlib.core", "home/me/run.py", ["add-to-python-path", "correct-plugin-file"]),
    ("vllm_ascend.widgets", "home/me/run.py", ["reinstall-plugin"]),
    ("vllm_ascend", "home/me/run.py", ["install-package", "reinstall-vllm-clean-env"]),
])
def test_a_module_that_an_installed_package_does_not_have(module: str, file: str, steps: list[str]) -> None:
    own = Place(None, file, "<module>", 3)
    failed = failure(exception="ModuleNotFoundError", kind="environment", feature="environment", origin=own, own_frame=own,
                     message=f"No module named '{module}'")
    assert [step.action for step in next_steps(failed, None, {}, failed.message)[0]] == steps


def test_the_package_kernels_is_optional() -> None:
    assert ids(kind="library", exception="ValueError", origin=Place("kernels", "kernels/layer/layer.py", "__init__", 7)) == [
        "reinstall-package", "uninstall-package"]


def test_a_template_that_uses_an_unknown_name_is_corrected_and_not_the_request() -> None:
    refused = failure(kind="request", exception="UndefinedError", message="'today' is undefined")
    assert [step.action for step in next_steps(refused, None, {}, refused.message)[0]] == ["correct-chat-template"]
    part = failure(kind="request", exception="UndefinedError", message="'dict object' has no attribute 'content'")
    assert next_steps(part, None, {}, part.message)[0][0].action == "fix-request-messages"


@pytest.mark.parametrize(("rank", "device", "devices"), [(0, 0, 2), (0, 3, 2), (1, 3, 8), (5, 5, 16), (7, 7, 16)])
def test_the_ranks_in_the_log_tell_how_many_devices_there_are(rank: int, device: int, devices: int) -> None:
    log = (f"(VllmWorker rank={rank} pid=9) ERROR 07-07 15:19:48 [multiproc_executor.py:492] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate"
           f" 2.50 GiB. GPU {device} has a total capacity of 79.25 GiB of which 1.79 GiB is free. Including non-PyTorch memory, this process has 77.46 GiB"
           " memory in use. Of the allocated memory 76.04 GiB is allocated by PyTorch, and 13.88 MiB is reserved by PyTorch but unallocated.\n")
    failure = diagnose(log.encode()).failure
    assert failure is not None
    assert failure.fixes[0].flags == {"--tensor-parallel-size": str(devices)}


def test_a_name_that_another_package_lacks_is_no_matter_of_vllm() -> None:
    report = diagnose(b"ImportError: cannot import name 'get_bolt' from 'bolt.widget'\n")
    assert report.failure is not None
    assert [(fix.action, fix.title) for fix in report.failure.fixes] == [
        ("reinstall-package", "Install the release of bolt that has this name"),
        ("correct-script", "Or correct the import in the code that uses bolt")]


def test_a_name_of_vllm_without_its_quotation_marks() -> None:
    report = diagnose(b"ImportError: cannot import name 'Fp8LinearOp' from vllm.model_executor.layers.quantization.utils.w8a8_utils\n")
    assert report.failure is not None
    assert (report.failure.feature, report.failure.fixes[0].action) == ("other-software", "downgrade-vllm")
    assert "0.8.0 to 0.14.1" in report.failure.fixes[0].why


@pytest.mark.parametrize(("command", "is_offered"), [
    ("vllm serve m --distributed-executor-backend ray", True), ("vllm serve m --distributed-executor-backend mp", False)])
def test_another_value_of_a_flag_can_be_offered(command: str, is_offered: bool) -> None:
    log = (f"$ {command}\nTraceback (most recent call last):\n"
           '  File "/opt/venv/lib/python3.12/site-packages/vllm/executor/ray_utils.py", line 3, in bend\n    return bolts[0]\n'
           "IndexError: list index out of range\n")
    found = diagnose(log.encode()).failure
    assert found is not None
    assert found.feature == "ray"
    assert any(fix.flags.get("--distributed-executor-backend") == "mp" for fix in found.fixes) is is_offered


def test_a_plugin_for_other_hardware_is_offered_none_of_cudas_backends() -> None:
    own = failure(exception="ValueError", message="Check 0 == ret failed", origin=Place("vllm_kunlun", "vllm_kunlun/attention.py", "forward", 9),
                  feature="attention", kind="library")
    assert [step.action for step in next_steps(own, None, {}, own.message)[0]] == ["reinstall-plugin", "report-bug"]
