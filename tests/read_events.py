"""The events of some lines, as one log has them."""

from __future__ import annotations

from vllm_doctor.events.event import Event
from vllm_doctor.events.reader import EventReader
from vllm_doctor.logs.lines import Line


def read(*texts: str, source: str = "") -> list[Event]:
    reader = EventReader()
    events = [reader.read(Line(number, text, source)) for number, text in enumerate(texts, 1)]
    return [event for event in events if event is not None]
