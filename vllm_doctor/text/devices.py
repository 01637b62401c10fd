"""What texts call one device of a platform."""

from __future__ import annotations

_DEVICES = {"npu": "NPU", "tpu": "TPU", "hpu": "HPU"}
"""Of the platforms whose devices are no GPUs."""


def device_word(platform: object) -> str:
    """Return what a device of a platform is called; GPU for an unknown platform."""
    return _DEVICES.get(str(platform), "GPU")
