from __future__ import annotations

from typing import Any

import pytest

from vllm_doctor import diagnose
from vllm_doctor.catalog.releases import Releases
from vllm_doctor.command import parse
from vllm_doctor.diagnosis.fixes import FixContext, fixes, let, typed
from vllm_doctor.rulebase.model import Action, FixRule, Rule

ACTIONS = {"free-gpu": Action("free-gpu", "Free the GPU", ("nvidia-smi", "GPU {{ oom_gpu_index }}"))}


def built_fix(fix: dict[str, Any], *, version: str = "0.8.5", command: str = "", known: dict | None = None,
         releases: Releases | None = None, settings: dict | None = None) -> Any:
    rule = Rule("r", "r", "error", "config", "cause", (), fixes=(FixRule(**{"id": "f", "title": "Do it", **fix}),))
    context = FixContext(known or {}, releases or Releases.of(version), ACTIONS,
                          parse(command) if command else None, settings or {})
    found = fixes(rule, context, 5)
    return found[0] if found else None


def test_the_users_command_is_corrected_and_all_else_kept() -> None:
    fix = built_fix({"set": {"--max-model-len": "fit"}}, known={"fit": 4096},
               command="CUDA_VISIBLE_DEVICES=1 vllm serve m --max_model_len 9999 --seed 3 2>&1 | tee log")
    assert fix.command == "CUDA_VISIBLE_DEVICES=1 vllm serve m --max_model_len 4096 --seed 3 2>&1 | tee log"
    assert fix.flags == {"--max-model-len": "4096"}
    assert fix.proof == {"fit": 4096}


@pytest.mark.parametrize(("flag", "value", "version", "offered"), [
    ("--swap-space", 1, "0.17.0", True),
    ("--swap-space", 1, "0.18.0", False),
    ("--max-model-len", "'auto'", "0.13.0", False),
    ("--max-model-len", "'auto'", "0.14.0", True),
    ("--kv-cache-dtype", "'fp8'", "0.2.7", False),
    ("--kv-cache-dtype", "'fp8'", "0.8.5", True),
    ("--cuda-graph-sizes", 128, "0.20.0", False),
    ("--language-model-only", True, "0.16.0", False),
    ("--language-model-only", True, "0.17.0", True),
])
def test_a_flag_or_value_that_the_release_lacks_is_never_offered(flag: str, value: Any, version: str, offered: bool) -> None:
    assert (built_fix({"set": {flag: value}}, version=version) is not None) is offered


def test_where_the_release_is_open_the_fix_says_what_it_needs() -> None:
    fix = built_fix({"set": {"--kv-cache-memory-bytes": "'4G'"}}, releases=Releases.every())
    assert fix.title == "Do it (vLLM 0.10.2 or newer)"
    some = Releases.every().narrow(">=0.18")
    assert built_fix({"set": {"--swap-space": 1}}, releases=some) is None
    assert built_fix({"set": {"--max-num-seqs": 64}}, releases=some).title == "Do it"


def test_a_fix_whose_number_is_unknown_drops_out() -> None:
    assert built_fix({"set": {"--max-model-len": "fit"}}) is None
    assert built_fix({"set": {"--max-num-seqs": 64}, "when": ["max_num_seqs > 64"]}) is None
    assert built_fix({"set": {"--max-num-seqs": 64}, "when": ["max_num_seqs > 64"]}, known={"max_num_seqs": 256}) is not None


def test_a_fix_that_changes_nothing_drops_out() -> None:
    settings = {"enforce_eager": True, "max_num_seqs": 64, "gpu_memory_utilization": 0.9, "dtype": "half"}
    assert built_fix({"set": {"--enforce-eager": True}}, settings=settings) is None
    assert built_fix({"set": {"--max-num-seqs": 64}}, settings=settings) is None
    assert built_fix({"set": {"--gpu-memory-utilization": 0.90}}, settings=settings) is None
    assert built_fix({"set": {"--dtype": "'half'"}}, settings=settings) is None
    assert built_fix({"unset": ["--enable-reasoning"]}, command="vllm serve m") is None


def test_flags_are_dropped() -> None:
    fix = built_fix({"unset": ["unrecognized_flag"]}, known={"unrecognized_flag": "--swap-space 4"}, version="0.20.0",
               command="vllm serve m --swap-space 4 --port 1")
    assert (fix.unset, fix.command) == (("--swap-space",), "vllm serve m --port 1")


def test_variables_stand_in_front_and_actions_bring_their_steps() -> None:
    fix = built_fix({"env": {"VLLM_CPU_KVCACHE_SPACE": 5}}, command="vllm serve m")
    assert fix.command == "VLLM_CPU_KVCACHE_SPACE=5 vllm serve m"
    action = built_fix({"action": "free-gpu"}, known={"oom_gpu_index": 3}, command="vllm serve m")
    assert (action.action, action.steps, action.command) == ("free-gpu", ("nvidia-smi", "GPU 3"), None)
    assert built_fix({"action": "free-gpu"}).steps == ("nvidia-smi",)


@pytest.mark.parametrize("command", ["vllm serve m", 'llm = LLM("m")'])
def test_what_does_not_change_the_command_does_not_show_it(command: str) -> None:
    fix = built_fix({"action": "free-gpu"}, known={"oom_gpu_index": 3}, command=command)
    assert (fix.command, fix.patch) == (None, None)


@pytest.mark.parametrize(("value", "text"), [(True, ""), (0.9, "0.9"), (4096.0, "4096"), (4096, "4096"), ("auto", "auto"),
                                             (0.123456789, "0.123457")])
def test_values_as_typed(value: Any, text: str) -> None:
    assert typed(value) == text


@pytest.mark.parametrize(("since", "title"), [
    (">=0.15", None),  # none of these releases has the variable
    (">=0.14", "Do it (vLLM 0.4.1 to 0.14.1)"),
    (">=0.13,<0.14", "Do it"),
])
def test_a_variable_that_only_some_releases_have(since: str, title: str | None) -> None:
    fix = built_fix({"env": {"VLLM_ATTENTION_BACKEND": "'FLASH_ATTN'"}}, releases=Releases.every().narrow(since))
    assert (fix and fix.title) == title


@pytest.mark.parametrize(("since", "title"), [
    (">=0.17,<0.18", "Do it"), (">=0.17", "Do it (vLLM 0.17.1 or older)"), (">=0.18", None),
])
def test_a_flag_that_only_some_releases_have(since: str, title: str | None) -> None:
    fix = built_fix({"set": {"--swap-space": 1}}, releases=Releases.every().narrow(since))
    assert (fix and fix.title) == title


def test_a_flag_that_no_release_has_is_not_offered() -> None:
    assert built_fix({"set": {"--no-such-flag": 1}}) is None
    assert built_fix({"set": {"--no-such-flag": 1}}, releases=Releases.every()) is None


@pytest.mark.parametrize(("named", "offered"), [
    ("--max-num-seqs", True), ("--max-num-seqs=3", True), ("VLLM_ATTENTION_BACKEND", True),
    ("--worker-cls", False), ("--worker-cls=evil.Worker", False), ("LD_PRELOAD", False), ("HOME", False),
    ("VLLM_PLUGINS", False),
])
def test_a_log_may_name_only_settings_that_load_no_code(named: str, offered: bool) -> None:
    fix = built_fix({"set" if named.startswith("-") else "env": {"flag_meant": 8}}, known={"flag_meant": named})
    assert (fix is not None) is offered
    if offered:
        assert {**fix.flags, **fix.env} == {named.partition("=")[0]: "8"}


@pytest.mark.parametrize(("value", "offered"), [("8", True), ("-1", True), ("-1.5", True), ("--worker-cls", False), ("a\nb", False)])
def test_a_value_from_a_log_is_never_an_option_or_several_lines(value: str, offered: bool) -> None:
    fix = built_fix({"set": {"--served-model-name": "value"}}, known={"value": value})
    assert (fix.flags if fix else None) == ({"--served-model-name": value} if offered else None)


@pytest.mark.parametrize(("settings", "value", "needed"), [
    ({"enforce_eager": False}, True, True), ({"enforce_eager": True}, True, False), ({}, True, True),
])
def test_a_switch_that_is_off_may_be_set(settings: dict, value: Any, needed: bool) -> None:
    assert (built_fix({"set": {"--enforce-eager": value}}, settings=settings) is not None) is needed


@pytest.mark.parametrize(("current", "value", "needed"), [
    (64, 64, False), (64, 32, True), (64, "'auto'", True), (True, 1, True), ("auto", "'auto'", False), (None, 64, True),
])
def test_a_value_in_use_is_not_offered_again(current: Any, value: Any, needed: bool) -> None:
    fix = built_fix({"set": {"--max-model-len": value}}, settings={"max_model_len": current}, version="0.20.0")
    assert (fix is not None) is needed


def test_a_flag_is_removed_if_the_command_is_unknown_or_has_it() -> None:
    assert built_fix({"unset": ["--swap-space"]}).unset == ("--swap-space",)
    assert built_fix({"unset": ["--swap-space"]}, command="vllm serve m --swap-space 4").unset == ("--swap-space",)
    assert built_fix({"unset": ["--swap-space"]}, command="vllm serve m") is None
    by_key = built_fix({"unset": ["--hf-overrides"]}, command="vllm serve m --hf-overrides.rope_theta 1")
    assert (by_key.unset, by_key.command) == (("--hf-overrides",), "vllm serve m")
    of_variable = built_fix({"unset": ["--api-key"]}, command="vllm serve m --api-key $KEY")
    assert (of_variable.unset, of_variable.command) == (("--api-key",), "vllm serve m")
    assert built_fix({"unset": ["--no-enable-prefix-caching"]}, command="vllm serve m --enable-prefix-caching") is None


def test_a_key_of_a_json_flag_needs_a_release_that_reads_dotted_keys() -> None:
    dotted = {"set": {"--compilation-config.level": 0}}
    assert built_fix(dotted, version="0.9.1") is None
    assert built_fix(dotted, version="0.9.2").flags == {"--compilation-config.level": "0"}


@pytest.mark.parametrize(("releases", "title"), [
    (Releases.every(), "Do it (vLLM 0.10.0 or newer)"), (Releases.of("0.10.2"), "Do it"), (Releases.of("0.9.2"), None),
])
def test_a_fix_for_some_releases_says_so_where_the_release_is_open(releases: Releases, title: str | None) -> None:
    fix = built_fix({"set": {"--max-num-seqs": 64}, "vllm": ">=0.10"}, releases=releases)
    assert (fix and fix.title) == title


def test_quantities_are_the_first_of_their_expressions_that_can_be_computed() -> None:
    rule = Rule("r", "r", "error", "config", "cause", (),
                let={"need": ("unknown_fact + 1", "free * 2", "7"), "twice": ("need * 2",), "none": ("unknown_fact",)})
    assert let(rule, {"free": 4}) == {"need": 8, "twice": 16}
    assert let(rule, {}) == {"need": 7, "twice": 14}


def test_every_text_of_a_fix_is_rendered() -> None:
    texts = {"title": "Set {{ fit }}", "why": "It is {{ fit }}.", "cost": "Costs {{ fit }}.", "verify": "Look for {{ fit }}.",
             "safety": "safe"}
    fix = built_fix({"set": {"--max-num-seqs": "fit"}, **texts}, known={"fit": 8})
    assert (fix.id, fix.title, fix.why, fix.cost, fix.verify, fix.safety) == (
        "f", "Set 8", "It is 8.", "Costs 8.", "Look for 8.", "safe")
    plain = built_fix({"set": {"--max-num-seqs": 8}})
    assert (plain.why, plain.cost, plain.verify) == ("", "", "")
    assert built_fix({"set": {"--max-num-seqs": 8}, "title": "Set {{ unknown_fact }}"}) is None


def test_a_fix_of_a_python_call_is_a_patch() -> None:
    fix = built_fix({"set": {"--max-num-seqs": 8}}, command='llm = LLM("m", max_num_seqs=64)')
    assert fix.command is None
    assert fix.patch == {"kind": "python", "text": 'llm = LLM("m", max_num_seqs=8)'}


def test_a_flag_of_the_server_is_not_offered_for_a_python_call() -> None:
    fix = {"set": {"--chat-template": "'chat.jinja'"}}
    assert built_fix(fix, command="vllm serve m").command == "vllm serve m --chat-template chat.jinja"
    assert built_fix(fix, command='llm = LLM("m")') is None


def test_no_more_fixes_than_asked_for() -> None:
    entries = tuple(FixRule(id=name, title=name, set={"--max-num-seqs": number}) for number, name in enumerate("abc", 8))
    rule = Rule("r", "r", "error", "config", "cause", (), fixes=entries, verify="Look.")
    context = FixContext({}, Releases.of("0.8.5"), ACTIONS)
    assert [fix.id for fix in fixes(rule, context, 2)] == ["a", "b"]
    assert [(fix.id, fix.verify) for fix in fixes(rule, context, 5)] == [("a", "Look."), ("b", "Look."), ("c", "Look.")]


@pytest.mark.parametrize(("port", "other"), [(8000, "8001"), (65535, "65534")])
def test_another_port_is_one_that_exists(port: int, other: str) -> None:
    log = f"OSError: [Errno 98] error while attempting to bind on address ('0.0.0.0', {port}): address already in use\n"
    finding = next(one for one in diagnose(log.encode()).findings if one.id == "port-in-use")
    assert [fix.flags for fix in finding.fixes if fix.flags] == [{"--port": other}]


def test_an_argument_after_the_only_one_follows_a_blank() -> None:
    assert built_fix({"set": {"--max-num-seqs": 8}}, command='llm = LLM("m")').patch["text"] == 'llm = LLM("m", max_num_seqs=8)'
