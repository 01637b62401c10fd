"""The start-up timeline: how long each phase of a server start took, by the log's own clock."""

from __future__ import annotations

from vllm_doctor.timeline.clock import StartClock
from vllm_doctor.timeline.model import PhaseTime, Timeline
from vllm_doctor.timeline.phase_times import timeline

__all__ = ["PhaseTime", "StartClock", "Timeline", "timeline"]
