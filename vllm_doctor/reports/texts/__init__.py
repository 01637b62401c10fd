"""The texts that all reports for people share: the headline, the change a fix asks for, the parts of the memory."""

from vllm_doctor.reports.texts.facts import fact_label, fact_message, fact_rows, value_text
from vllm_doctor.reports.texts.failures import advice, failure_place, failure_status, failure_title, numbered
from vllm_doctor.reports.texts.findings import (
    evidence_rows,
    evidence_text,
    line_of,
    line_with,
    others,
    reported,
    shown_causes,
    title_with_ranks,
)
from vllm_doctor.reports.texts.fixes import change, effect, proof, settings
from vllm_doctor.reports.texts.headlines import (
    file_name,
    grade,
    headline,
    log_name,
    notes,
    release,
    release_notes,
    serving_line,
    stall,
)
from vllm_doctor.reports.texts.limits import as_many_as_fit
from vllm_doctor.reports.texts.memory import length_heads, length_rows, memory_shown, memory_title, part_label

__all__ = [
    "advice",
    "as_many_as_fit",
    "change",
    "effect",
    "evidence_rows",
    "evidence_text",
    "fact_label",
    "fact_message",
    "fact_rows",
    "failure_place",
    "failure_status",
    "failure_title",
    "file_name",
    "grade",
    "headline",
    "length_heads",
    "length_rows",
    "line_of",
    "line_with",
    "log_name",
    "memory_shown",
    "memory_title",
    "notes",
    "numbered",
    "others",
    "part_label",
    "proof",
    "release",
    "release_notes",
    "reported",
    "serving_line",
    "settings",
    "shown_causes",
    "stall",
    "title_with_ranks",
    "value_text",
]
