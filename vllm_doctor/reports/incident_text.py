"""An incident in sentences: which log has the cause, what followed in the others."""

from __future__ import annotations

from vllm_doctor.reports.escape import one_line
from vllm_doctor.reports.model import Incident

_MOST = 8  # consequences that are named


def sentences(incident: Incident) -> list[str]:
    """Return the sentences, the cause first."""
    count = len(incident.logs)
    if incident.cause is None:
        said = [f"One incident, {count} logs: none of them shows a failure."]
    else:
        said = [f"One incident, {count} logs: the cause is in {one_line(incident.cause.log)}."]
    for one in incident.consequences[:_MOST]:
        said.append(f"Consequence in {one_line(one.log)}" + (f": {one.id}." if one.id else "."))
    if len(incident.consequences) > _MOST:
        said.append(f"Consequences in {len(incident.consequences) - _MOST} more logs.")
    ranks = incident.silent_ranks
    if ranks:
        said.append(f"Rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))} printed nothing.")
    return [*said, *incident.notes]
