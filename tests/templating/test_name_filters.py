"""Which releases have a name that an import did not find."""

from vllm_doctor.catalog.releases import Releases
from vllm_doctor.templating.name_filters import lifetime_of_import, place_of_import, requirement_of_import

_MOVED = "cannot import name 'FlexibleArgumentParser' from 'vllm.utils'"


def test_a_moved_name_has_its_place_in_the_installed_release() -> None:
    assert place_of_import(_MOVED, Releases.of("0.20.2")) == "vllm.utils.argparse_utils.FlexibleArgumentParser"
    assert lifetime_of_import(_MOVED, Releases.of("0.20.2")) == (
        "`vllm.utils.FlexibleArgumentParser` exists in vLLM 0.5.1 to 0.11.0.")
    assert requirement_of_import(_MOVED, Releases.of("0.20.2")) == "vllm<0.11.1"


def test_an_unknown_release_gets_the_place_in_the_newest() -> None:
    assert place_of_import(_MOVED, Releases.every()) is None
    assert "it is `vllm.utils.argparse_utils.FlexibleArgumentParser`" in (lifetime_of_import(_MOVED, Releases.every()) or "")


def test_a_name_of_newer_releases() -> None:
    fault = "No module named 'vllm.tool_parsers'"
    assert lifetime_of_import(fault, Releases.of("0.10.2")) == "`vllm.tool_parsers` exists since vLLM 0.13.0."
    assert requirement_of_import(fault, Releases.of("0.10.2")) == "vllm>=0.13.0"
    assert place_of_import(fault, Releases.of("0.10.2")) is None


def test_a_name_that_no_release_has_and_other_texts() -> None:
    for fault in ("No module named 'vllm.nothing'", "name 'TOKENS' is not defined", "No module named 'yaml'"):
        assert lifetime_of_import(fault, Releases.of("0.20.2")) is None
        assert requirement_of_import(fault, Releases.every()) is None
