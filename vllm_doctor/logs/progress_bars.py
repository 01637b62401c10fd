"""Progress bars: the final appearance of a line with carriage returns, or with bars joined to messages.

A bar (tqdm's, pip's, curl's) replaces its former state; a message never does and is never lost, whatever precedes or
follows it on the same physical line.
"""

from __future__ import annotations

import functools

from vllm_doctor.logs.line_prefix import LOG_HEAD
from vllm_doctor.text.patterns import lazy_pattern

# The end of a tqdm bar: `[00:02<00:06, 2.07s/it]`, `[00:02, 3.1it/s]`.
BAR_END = lazy_pattern(r"\[(?:\d+ days?, )?\d+:\d\d(?::\d\d)?(?:<|, )[^\[\]\r\n]{0,200}\]")
BAR_HINT = lazy_pattern(rb"\[(?:\d+ days?, )?\d+:\d\d")
_MAX_BAR = 2000  # characters of a line that may be a progress bar
_BAR_PERCENT = lazy_pattern(r"\d{1,3}%(?=\||\s{1,2}Completed)")
_BAR_COUNT = lazy_pattern(r"(?<![\w.])\d[\d.]{0,12}[kMGT]?[A-Za-z]{0,12} $")
_METER = lazy_pattern(r"\d%|\beta\b|\dB/s|[kKMG]i?B\b|/s\b|\d/\d|[━█╸#=>]{3}")
_MOVING = lazy_pattern(r"[\d.,:%\s=#>█▏▎▍▌▋▊▉━╸╺|/\\<?-]+|\b[kMGT]?i?B\b")
# Only a prefix precedes a carriage return: `(Worker pid=1) \rLoading …`, `web-1  | \r…`.
_ONLY_PREFIX = lazy_pattern(r"(?:pid=\d+[^()]{0,60}\)|\||[\dZ]|\]|\]:| [FP]|:) $")


def _bar_parts(text: str) -> list[str]:
    """Split `text` after each progress bar that other text follows."""
    parts, start = [], 0
    for m in BAR_END.finditer(text):
        rest = text[m.end() :]
        glued = bool(rest) and (rest[0] not in " ,.;)]'\"\\" or LOG_HEAD.match(rest.lstrip(" ")) is not None)
        if glued and _bar_head(text[start : m.start()]) is not None:
            parts.append(text[start : m.end()])
            start = m.end() + len(rest) - len(rest.lstrip(" ")) if rest[0] == " " else m.end()
    parts.append(text[start:])
    return parts


def _bar_head(head: str) -> str | None:
    """Return the text before a bar's percentage or count; None if `head` has neither."""
    percents = list(_BAR_PERCENT.finditer(head, max(0, len(head) - 400)))
    last = percents[-1] if percents else _BAR_COUNT.search(head, max(0, len(head) - 30))
    return head[: last.start()].rstrip(" ") + " " if last else None


def is_bar(text: str) -> bool:
    """Return whether a line ends in a progress bar of tqdm."""
    return len(text) < _MAX_BAR and _bar_label(text) is not None


@functools.lru_cache(maxsize=128)
def _bar_label(text: str) -> str | None:
    """Return the label of a line that ends in a progress bar, with all text before it; None without a bar."""
    text = text.rstrip()
    if not text.endswith("]"):
        return None
    opening = text.rfind("[", max(0, len(text) - 260))
    m = BAR_END.match(text, opening) if opening >= 0 else None
    return _bar_head(text[:opening]) if m and m.end() == len(text) else None


def overwrite(segments: list[str], part: str) -> None:
    """Add the text after a carriage return: a bar replaces its former state, a message never does."""
    for text in _bar_parts(part) if "]" in part else (part,):
        label = _bar_label(text) if len(text) < _MAX_BAR else None
        if label is not None:
            for i in range(len(segments) - 1, max(-1, len(segments) - 9), -1):
                former = _bar_label(segments[i]) if len(segments[i]) < _MAX_BAR else None
                if former is None:
                    break
                if former.endswith(label):  # the text before the label is kept: the prefix of the first state
                    prefix = former[: len(former) - len(label.lstrip(" "))]
                    segments[i] = prefix + (text if label.strip(" ") else text.lstrip(" "))
                    break
            else:
                former = None
            if former is not None and segments:
                continue
        if segments and segments[-1].endswith(" ") and len(segments[-1]) < 300 and _ONLY_PREFIX.search(segments[-1]):
            segments[-1] += text
        elif label is None and segments and _same_meter(segments[-1], text):
            segments[-1] = text
        else:
            segments.append(text)


def _same_meter(former: str, text: str) -> bool:
    """Return whether two texts are states of one meter other than a tqdm bar (pip, curl, huggingface_hub)."""
    if len(text) > 400 or not _METER.search(text) or LOG_HEAD.match(text) or not _METER.search(former):
        return False
    return _MOVING.sub(" ", text).strip() == _MOVING.sub(" ", former).strip()


def visible_texts(line: str) -> list[str]:
    """Return what a line with carriage returns shows: messages, and each bar's last state; at least one text."""
    segments: list[str] = []
    for part in line.split("\r"):
        if part.strip():
            overwrite(segments, part)
    return segments or [""]
