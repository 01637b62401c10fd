"""The wrappers of CI systems (GitHub Actions, Azure, GitLab, Jenkins, Buildkite) and of pytest, which they run.

Their group and section markers contain no message and are dropped; plain time stamps are in timestamps.py.
"""

from __future__ import annotations

from vllm_doctor.logs.wrappers.timestamps import STAMP
from vllm_doctor.logs.wrappers.wrapper_match import WrapperMatch
from vllm_doctor.text.patterns import lazy_pattern

_GH_VIEW = lazy_pattern(rf"(?P<job>[^\t]{{1,200}})\t[^\t]{{1,300}}\t\ufeff?{STAMP}(?: |$)")
_GH_MARK = lazy_pattern(r"##\[(?P<kind>[a-z-]{1,20})\]")
_SECTION = lazy_pattern(r"(?:[0-9a-f]{2}[OE][ +])?section_(?:start|end):\d{1,12}:[\w.-]{1,200}(?:\[[^\]]{0,200}\])?")
_GITLAB_BARE = lazy_pattern(r"[0-9a-f]{2}[OE](?: |\+|$)")
_IN_BRACKETS = rf"\[{STAMP}\](?: |$)"
_JENKINS = lazy_pattern(_IN_BRACKETS)
_BUILDKITE_ROW = lazy_pattern(r" {2}\| " + _IN_BRACKETS)
_BUILDKITE = lazy_pattern(r"_bk;t=\d{13}[\x07\u2407]?")
_PYTEST = lazy_pattern(r"E {3}(?: {4}){0,20}(?= {0,3}\S)")


def gh_run_view(text: str) -> WrapperMatch | None:
    """Match `gh run view --log`: job TAB step TAB time stamp message."""
    m = _GH_VIEW.match(text) if "\t" in text else None
    return WrapperMatch("github-actions", text[m.end() :], m["job"]) if m else None


def actions_mark(text: str) -> WrapperMatch | None:
    """Match the markers of GitHub and Azure runners: `##[group]Run vllm serve`."""
    m = _GH_MARK.match(text)
    return WrapperMatch("github-actions", text[m.end() :], drop=m.end() == len(text)) if m else None


def gitlab(text: str) -> WrapperMatch | None:
    """Match GitLab's section markers and stream letters."""
    if "section_" in text and (m := _SECTION.match(text)):
        return WrapperMatch("gitlab", text[m.end() :], drop=m.end() == len(text))
    m = _GITLAB_BARE.match(text) if text[2:3] in {"O", "E"} else None
    return WrapperMatch("gitlab", text[m.end() :], key="gitlab", sure=False) if m else None


def jenkins(text: str) -> WrapperMatch | None:
    """Match Jenkins' `[2024-05-06T10:00:01.123Z] msg` and `[Pipeline] sh`."""
    if text[5:6] == "-" and (m := _JENKINS.match(text)):
        return WrapperMatch("jenkins", text[m.end() :])
    return WrapperMatch("jenkins", text[11:]) if text.startswith("[Pipeline] ") else None


def buildkite(text: str) -> WrapperMatch | None:
    """Match Buildkite's `_bk;t=1715000000000` (without its escape and bell, which are removed earlier)."""
    m = _BUILDKITE.match(text)
    return WrapperMatch("buildkite", text[m.end() :]) if m else None


def buildkite_row(text: str) -> WrapperMatch | None:
    """Match a row copied from Buildkite's page: `  | [2025-03-10T15:07:20Z] msg`."""
    m = _BUILDKITE_ROW.match(text) if text.startswith("  | [") else None
    return WrapperMatch("buildkite", text[m.end() :]) if m else None


def pytest_failure(text: str) -> WrapperMatch | None:
    """Match pytest's `E       ValueError: msg`: an exception, indented like the source line that raised it."""
    m = _PYTEST.match(text)
    return WrapperMatch("pytest", text[m.end() :], key="pytest", sure=False) if m else None
