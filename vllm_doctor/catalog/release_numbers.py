"""Parse the first three numbers of a vLLM version, which decide how a release behaves, if it has them."""

from __future__ import annotations

from vllm_doctor.text.patterns import lazy_pattern

ReleaseNumbers = tuple[int, int, int]

_NUMBERS = lazy_pattern(r"[vV]{0,2}(\d{1,9})\.(\d{1,9})(?:\.(\d{1,9}))?")
_UNTAGGED = lazy_pattern(r"\s*[vV]{0,2}0\.(?:0(?!\d)|1(?:\.0)?\.dev)")


def release_numbers(version: str) -> ReleaseNumbers | None:
    """Return (0, 8, 5) for `0.8.5.post1`, (0, 15, 2) for `v0.15.2rc1`, (0, 9, 0) for `0.9`; None for other texts."""
    numbers = _NUMBERS.match(version)
    if numbers is None:
        return None
    return int(numbers[1]), int(numbers[2]), int(numbers[3] or 0)


def is_untagged(version: str) -> bool:
    """Return whether it is the version of a build from a checkout without git tags, which does not know its release."""
    return _UNTAGGED.match(version) is not None
