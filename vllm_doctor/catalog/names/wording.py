"""The sentence for what an error about a name means."""

from __future__ import annotations

from vllm_doctor.catalog.names.directions import Direction
from vllm_doctor.messages import joined, listed, message


def sentence_of(answer: Direction) -> str:  # noqa: C901 - one sentence a kind
    """Return the direction in one or two sentences, without the command."""
    name = f"`{answer.name}`"
    span = _span_words(answer)
    match answer.kind:
        case "older" | "newer" | "range" if answer.subject == "required parameter":
            return message("Calls without {name} work {span}.", name=name, span=span)
        case "older" | "newer" | "range":
            return message("{name} exists {span}.", name=name, span=span)
        case "moved" if answer.last is None and answer.first is None:
            return message("vLLM {release} has it as `{moved_to}`.", release=answer.release, moved_to=answer.moved_to)
        case "moved":
            return message("{name} exists {span}; in vLLM {release} it is `{moved_to}`.", name=name, span=span,
                           release=answer.release, moved_to=answer.moved_to)
        case "incomplete" if answer.condition:
            return message("{name} is compiled when vLLM is built: it is missing here, or not built for this "
                           "platform.", name=name)
        case "incomplete" if answer.release:
            return message("{name} is part of vLLM {release}: the installation is incomplete or mixes two versions.",
                           name=name, release=answer.release)
        case "incomplete":
            return message("{name} is part of vLLM: the installation is incomplete or mixes two versions.", name=name)
        case "shadowed":
            return message("Another file or folder named vllm is imported in place of the installed package.")
        case "not-installed":
            return message("vLLM is not installed in this Python environment.")
        case "conditional":
            return message("vLLM {release} defines {name} only under a condition: {condition}.",
                           release=answer.release, name=name, condition=answer.condition)
        case "v0-engine":
            return message("{name} belongs to the V0 engine of vLLM {release}; its V1 engine does not have it.",
                           name=name, release=answer.release)
        case "plugin-older" if answer.subject == "abstract method":
            return message("vLLM requires {name} after {last}: the subclass is written for an older vLLM.", name=name,
                           last=answer.last)
        case "plugin-older":
            return message("vLLM passes {name} after {last}: the subclass is written for an older vLLM.", name=name,
                           last=answer.last)
        case "dependency" if answer.tested:
            return (
                message("vLLM {release} requires {asked}; tested with {tested}.", release=answer.release,
                        asked=listed(answer.asked), tested=joined(", ", answer.tested))
            )
        case "dependency" if answer.asked:
            return message("vLLM {release} requires {asked}.", release=answer.release, asked=listed(answer.asked))
        case "dependency":
            return message("{name} is missing from a package that vLLM requires.", name=name)
        case _:
            return message("{name} is not part of any vLLM release.", name=name)


def _span_words(answer: Direction) -> str:
    if answer.first and answer.last:
        return message("in vLLM {first}", first=answer.first) if answer.first == answer.last else message(
            "in vLLM {first} to {last}", first=answer.first, last=answer.last)
    if answer.first:
        return message("since vLLM {first}", first=answer.first)
    return message("up to vLLM {last}", last=answer.last)
