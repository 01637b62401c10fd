"""The catalog of programs around vLLM."""

from __future__ import annotations

from vllm_doctor.catalog import flags
from vllm_doctor.catalog.frontends import SettingName, anchors, frontends


def test_every_setting_is_one_of_vllms_flags() -> None:
    unknown = {flag for each in frontends() for flag in (*each.settings, *each.absent) if flags.lookup(flag) is None}
    assert unknown == set()


def test_every_program_has_a_source_and_a_way_to_be_seen() -> None:
    for each in frontends():
        assert each.source, each.id
        assert each.programs or each.lines or each.paths or each.frames, each.id
        assert each.others is not None or each.otherwise, each.id


def test_every_expression_needs_its_anchor() -> None:
    assert all(len(anchor) >= 8 for anchor in anchors())


def test_ids_are_unique() -> None:
    ids = [each.id for each in frontends()]
    assert len(ids) == len(set(ids))


def test_a_name_holds_from_its_first_to_its_last_release() -> None:
    name = SettingName("--max_len", since="0.3.6", until="0.10.1.post2")
    assert [name.holds(release) for release in ("0.3.5", "0.3.6", "0.10.1.post2", "0.10.2", "")] == [
        False, True, True, False, True]
