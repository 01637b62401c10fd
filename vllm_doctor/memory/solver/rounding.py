"""Units, rounding to whole hundredths and blocks, and reading a printed number back."""

from __future__ import annotations

import math

GIB = 2**30
MIB = 2**20
HALF_UNIT = 0.005  # GiB; the most that a number printed with two decimals is off
DEFAULT_BLOCK_SIZE = 16  # tokens; FlashAttention on CUDA, and V0
ANY_BLOCK_SIZE = 256  # tokens; a multiple of 16, 32, 64 and 128: what is whole in it is whole in all of them
HAIR = 1e-9  # float noise of a quotient; less than one byte on any GPU

def up(share: float) -> float:
    """A share rounded up to 0.01."""
    return math.ceil(share * 100 - HAIR) / 100


def down(share: float) -> float:
    """A share rounded down to 0.01."""
    return math.floor(share * 100 + HAIR) / 100


def blocks_for(tokens: float, block_size: int) -> int:
    """Blocks that hold `tokens`."""
    return math.ceil(tokens / block_size - HAIR)


def roundest(low: float, high: float) -> int | None:
    """The whole number in [low, high] with the largest power of two as a factor, if that is no coincidence.

    Bytes per token are layers * heads * head size * bytes, so a multiple of a large power of two. An interval
    a quarter as wide as that power, or less, rarely holds one by chance; else the middle is the answer.
    """
    step = 1 << max(0, int(high).bit_length())
    while step >= max(1.0, 4 * (high - low)):
        candidate = math.floor(high / step) * step
        if candidate >= low - HAIR and candidate > 0:
            return candidate
        step //= 2
    return round((low + high) / 2) or None
