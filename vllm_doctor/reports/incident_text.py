"""An incident in sentences: which log has the cause, what followed in the others."""

from __future__ import annotations

from vllm_doctor.language import ENGLISH, Language
from vllm_doctor.messages import N_, joined
from vllm_doctor.reports.escape import one_line
from vllm_doctor.reports.model import Incident

_MOST = 8  # consequences that are named


def sentences(incident: Incident, language: Language = ENGLISH) -> list[str]:
    """Return the sentences, the cause first."""
    _, count = language.say, len(incident.logs)
    if incident.cause is None:
        texts = [_("One incident, {count} logs: none of them shows a failure.", count=count)]
    else:
        texts = [_("One incident, {count} logs: the cause is in {log}.", count=count, log=one_line(incident.cause.log))]
    for one in incident.consequences[:_MOST]:
        source = N_("Consequence in {log}: {id}.") if one.id else N_("Consequence in {log}.")
        texts.append(_(source, log=one_line(one.log), id=one.id))
    if len(incident.consequences) > _MOST:
        texts.append(_("Consequences in {count} more logs.", count=len(incident.consequences) - _MOST))
    ranks = joined(", ", map(str, incident.silent_ranks))
    if ranks:
        texts.append(_("Ranks {ranks} printed nothing.", ranks=ranks) if len(incident.silent_ranks) > 1
                     else _("Rank {rank} printed nothing.", rank=ranks))
    return [*texts, *incident.notes]
