"""What an error about a name means: which releases of vLLM or of another package have the name."""

from __future__ import annotations

from typing import Literal, NamedTuple

from vllm_doctor.catalog.name_table import Indices, below, possible_releases, releases, spans_of

Kind = Literal[
    "older",  # the name was removed after `last`: the code needs an older vLLM
    "newer",  # the name was added in `first`: the code needs a newer vLLM
    "range",  # the release is unknown, and the name was both added and removed
    "moved",  # as older, and the user's release has it as `moved_to`
    "incomplete",  # the release has the name: the installation is incomplete, or of two releases
    "shadowed",  # the `vllm` that was imported is another file or folder
    "not-installed",  # this Python has no vLLM
    "conditional",  # the release has the name only where `condition` holds
    "v0-engine",  # the release's V0 engine has the attribute, its V1 engine does not
    "plugin-older",  # vLLM passes or asks for it since `first`; the subclass is written for an older vLLM
    "dependency",  # another package is not the version that the release asks for: `requirements`
    "unknown",  # no vLLM release has the name
]
Subject = Literal["name", "parameter", "required parameter", "abstract method", "package"]


class Direction(NamedTuple):
    """What an error about a name means for the installed release.

    `first` and `last` are the releases in which the code works; None for an open end. `requirements` are pip
    requirements without quotes; empty if no other version helps. For kind "dependency", `asked` is what the release
    itself requires and `tested` the versions that its tests ran with; `requirements` combines the two.
    """

    kind: Kind
    name: str
    subject: Subject = "name"
    release: str | None = None
    first: str | None = None
    last: str | None = None
    requirements: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()
    tested: tuple[str, ...] = ()
    moved_to: str = ""
    condition: str = ""
    path: str = ""

    @property
    def command(self) -> str:
        """Return the pip command for `requirements`, quoted for a shell; "" without requirements."""
        return "pip install " + " ".join(f"'{one}'" for one in self.requirements) if self.requirements else ""


def judge(found: Indices, question: Direction) -> Direction:
    """Return the direction for a name that exists in the releases `found` and failed in the user's release."""
    newest = len(releases()) - 1
    possible = possible_releases(question.release)
    if not found:
        return question._replace(kind="unknown")
    if possible and possible <= found:
        return question._replace(kind="incomplete")
    absent = possible - found
    spans = spans_of(found)
    if not absent:
        if spans == [(0, newest)]:
            return question._replace(kind="incomplete")
        if len(spans) > 1 or (spans[0][0] > 0 and spans[0][1] < newest):
            return toward(question, "range", spans[-1])
        return toward(question, "newer" if spans[0][1] == newest else "older", spans[0])
    later = [span for span in spans if span[0] > min(absent)]
    earlier = [span for span in spans if span[1] < max(absent)]
    if later:  # also for a name that was removed and added again: prefer the newer vLLM
        return toward(question, "newer", later[0])
    return toward(question, "older", earlier[-1])


def toward(question: Direction, kind: Kind, span: tuple[int, int]) -> Direction:
    """Return the direction to a span of releases."""
    first, last = span
    newest = len(releases()) - 1
    lower = f">={releases()[first]}" if kind != "older" else ""
    upper = below(last) if last < newest else ""
    return question._replace(
        kind=kind,
        first=releases()[first] if first or kind == "newer" else None,
        last=releases()[last] if last < newest else None,
        requirements=("vllm" + ",".join(part for part in (lower, upper) if part),),
    )


def before_all(firsts: set[int], question: Direction) -> Direction | None:
    """Return the direction for a subclass that is written for the releases before the one in `firsts`."""
    possible = possible_releases(question.release)
    if len(firsts) != 1 or min(firsts) == 0 or (possible and max(possible) < min(firsts)):
        return None
    first = min(firsts)
    return question._replace(
        kind="plugin-older",
        last=releases()[first - 1],
        requirements=(f"vllm{below(first - 1)}",),
    )
