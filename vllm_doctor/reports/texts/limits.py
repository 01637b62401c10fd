"""Texts for places that take only so many bytes."""

from __future__ import annotations

from collections.abc import Iterable


def as_many_as_fit(pieces: Iterable[str], most: int) -> str:
    """Return the pieces that fit in `most` bytes, as paragraphs. No piece is cut: a cut command is a wrong one."""
    fitting = ""
    for piece in pieces:
        longer = f"{fitting}\n\n{piece}" if fitting else piece
        if piece and len(longer.encode("utf-8", "replace")) <= most:
            fitting = longer
    return fitting
