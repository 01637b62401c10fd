"""An archive to attach to an issue: the log with its secrets masked, the report, the text of an issue to fill in."""

from vllm_doctor.bundle.archive import Bundle, write_bundle

__all__ = ["Bundle", "write_bundle"]
