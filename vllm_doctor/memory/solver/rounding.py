"""Units, rounding to hundredths and blocks, and recovering an exact number from a printed one."""

from __future__ import annotations

import math

GIB = 2**30
MIB = 2**20
HALF_UNIT = 0.005  # GiB; the largest rounding error of a number printed with two decimals
DEFAULT_BLOCK_SIZE = 16  # tokens; FlashAttention on CUDA, and V0
ANY_BLOCK_SIZE = 256  # tokens; a multiple of 16, 32, 64 and 128, so whole blocks of it are whole blocks of those too
EPSILON = 1e-9  # float error of a quotient; less than one byte on any GPU

def round_up(share: float) -> float:
    """Return a fraction rounded up to 0.01."""
    return math.ceil(share * 100 - EPSILON) / 100


def round_down(share: float) -> float:
    """Return a fraction rounded down to 0.01."""
    return math.floor(share * 100 + EPSILON) / 100


def blocks_for(tokens: float, block_size: int) -> int:
    """Return the number of blocks that hold `tokens`."""
    return math.ceil(tokens / block_size - EPSILON)


def most_even_integer(low: float, high: float) -> int | None:
    """Return the integer in [low, high] divisible by the largest power of two, if that is not a coincidence.

    Bytes per token are layers * heads * head size * bytes, so a multiple of a large power of two. An interval
    a quarter as wide as that power, or less, rarely holds one by chance; else the middle is the answer.
    """
    step = 1 << max(0, int(high).bit_length())
    while step >= max(1.0, 4 * (high - low)):
        candidate = math.floor(high / step) * step
        if candidate >= low - EPSILON and candidate > 0:
            return candidate
        step //= 2
    return round((low + high) / 2) or None
