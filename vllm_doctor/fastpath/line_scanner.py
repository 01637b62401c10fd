"""Find the lines of a block of bytes that may matter: the candidates for the rules, facts and readers.

Skipped: lines that are known to be healthy (`rules/healthy.yaml`) or contain none of the required literals.
Safe, because every line that a rule, fact or reader can match contains at least one of its literals, and the
literals are also searched for as they are escaped in JSON and HTML.
The lines of a busy server repeat except for their numbers. The result for a line is therefore remembered for its
template, in which each digit is a zero; few lines of a block have a new template. Where most lines are healthy, one
expression skips them; elsewhere all lines of a piece are looked up together.
Gain: most lines of a long log are never decoded, split or parsed.
"""

from __future__ import annotations

import html
import json
import re
import threading
from bisect import bisect_left
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate, compress, count, repeat
from typing import Any, NamedTuple

from vllm_doctor.fastpath.repeated_tracebacks import HEAD, traceback_at
from vllm_doctor.logs.encoding import NOISE, is_binary, is_noise, line_ends
from vllm_doctor.logs.wrappers.byte_patterns import NO_WRAPPER, MessageWrapper, wrapper_of
from vllm_doctor.text.literal_search import Trie, rare_pieces, without_extensions
from vllm_doctor.text.patterns import lazy_pattern, portable

# What the line reader removes or converts, so that a literal may be hidden in it: terminal escapes, non-breaking
# spaces, and line continuations of a shell. As Latin-1.
_ODD = ("\x1b[", "\x1b(B", "\x1b]", "\xc2\x9b", "\xc2\xa0", "\xef\xbb\xbf", "\\\n", "^\n", "`\n")
_ZEROS = bytes.maketrans(b"123456789", b"000000000")
_DIGIT = lazy_pattern(rb"\d")
_ID = lazy_pattern(rb"[0-9a-f](?<!\w.)[0-9a-f-]{15,}(?!\w)")
_PATIENCE = 500  # templates for which `may_matter` is not called: its preparation costs as much as reading many lines
_LONG = 512  # maximal bytes of a line whose template is remembered
_MOST = 1 << 14  # templates remembered
_SAMPLE = 4096  # bytes that are checked for noise
_SPARSE = 256  # bytes for each unhealthy line: with fewer, lines of the next pieces are looked up
_FEW = 64  # unhealthy lines in any piece: a traceback alone changes nothing
_DENSE = 160  # bytes for each literal: with fewer, looking up lines is cheaper than a call for each literal
_AGAIN = 32  # number of such pieces, after which healthy lines are skipped by the expression again
_LEAST, _PART = 1 << 12, 1 << 16  # bytes in which lines are looked up together


class LineTemplate(NamedTuple):
    """The properties of lines that differ only in digits and long ids; `text` has zeros and placeholders for them.

    `wrapper` stands before their message. With `is_candidate` one of the literals may follow the wrapper;
    `certain`: it does, whatever the digits are. `layout` is the scanner's layout of a statistics line, else None.
    `opens_traceback`: such a line begins a traceback.
    """

    text: bytes
    is_candidate: bool
    certain: bool = True
    layout: Any = None
    opens_traceback: bool = False
    wrapper: MessageWrapper = NO_WRAPPER


_UNKNOWN = LineTemplate(b"", is_candidate=False, certain=False)  # of lines that are not known yet
_HEALTHY = LineTemplate(b"", is_candidate=True, certain=False)  # of healthy lines whose numbers matter
Row = tuple[int, int, bytes, LineTemplate | None]
"""A line of a block: the count of lines before it, its position, its bytes. The last row is the block's end."""


class Scanner:
    """The search for candidate lines, by literals of which each such line contains at least one.

    `healthy` is an expression for entire lines that never matter. `layout` returns for a template how its statistics
    lines are parsed, None for other lines. `may_matter` returns whether lines of a template that contain a literal may
    matter; it is not called for the first `patience` templates.
    """

    def __init__(self, literals: Iterable[str], healthy: str = "", layout: Callable[[bytes], Any] = lambda _: None,
                 may_matter: Callable[[bytes], bool] = lambda _: True, patience: int = _PATIENCE) -> None:
        self._literals = literal_forms(literals)
        healthy_line = rf"(?:{healthy or '(?!)'})\r?\n"
        self._healthy = lazy_pattern(portable(healthy_line).encode("latin-1"))
        # Any number of healthy lines, then another line; nothing more at the end.
        self._next = lazy_pattern(portable(rf"(?:{healthy_line})*+(?:([^\n]*\n)|\Z)").encode("latin-1"))
        self._skips_healthy = bool(healthy)
        self._layout = layout
        self._may_matter = may_matter
        self._patience = patience
        self._templates: dict[bytes, LineTemplate] = {}
        self._unhealthy_pieces = 0  # expected to follow
        self._candidates: dict[bytes, LineTemplate | None] = {}  # by lines with zeros; None: not one

    @cached_property
    def _words(self) -> list[bytes]:
        """Return pieces of the literals; a line with a literal contains at least one piece."""
        return _encoded(rare_pieces(self._literals).values())

    @cached_property
    def _words_with_digits(self) -> list[bytes]:
        return [word for word in self._words if _DIGIT.search(word)]

    @cached_property
    def _candidate_pattern(self) -> re.Pattern[bytes]:
        return _any_of(self._words)

    @cached_property
    def _without_digits(self) -> re.Pattern[bytes]:
        """Compile the pieces without digits."""
        return _any_of(set(self._words).difference(self._words_with_digits))

    def _is_certain(self, text: bytes, start: int) -> bool:
        """Return whether one of these pieces is in the text after `start`."""
        return self._without_digits.search(text, start) is not None

    @cached_property
    def _with_digits(self) -> re.Pattern[bytes]:
        return _any_of(self._words_with_digits)

    @cached_property
    def _with_zeros(self) -> re.Pattern[bytes]:
        return _any_of(word.translate(_ZEROS) for word in self._words_with_digits)

    def _has_number(self, line: bytes) -> bool:
        """Return whether a piece with digits is in a line."""
        return self._with_digits.search(line) is not None

    def _may_have_number(self, zeros: bytes, start: int = 0) -> bool:
        """Return whether a piece with digits may be in a line after `start`, given the line with zeros."""
        return self._with_zeros.search(zeros, start) is not None

    def healthy_at(self, block: bytes, at: int) -> bytes:
        """Return the line that begins at `at` if it is known to be healthy; else no bytes."""
        match = self._healthy.match(block, at)
        return match[0] if match else b""

    def unhealthy_lines(self, block: bytes, at: int, index: int, end: int) -> Iterator[Row]:
        """Yield the lines of `block[at:end]` that are not known to be healthy; `index` lines precede `at`.

        A line end precedes `at` and `end`.
        """
        for match in self._next.finditer(block, at, end):
            line = match[1]
            if line is None:
                break
            begin = match.start(1)
            index += line_ends(block[at:begin])
            yield index, begin, line, self.template_of(line)
            at, index = begin + len(line), index + 1
        yield index + line_ends(block[at:end]), end, b"", None

    def candidate_lines(self, block: bytes, at: int, index: int, end: int) -> Iterator[Row]:
        """Yield the lines of `block[at:end]` that may matter."""
        size = _LEAST
        while at < end:
            stop = block.index(b"\n", min(at + size, end - 1)) + 1
            if is_binary(block[at:at + _SAMPLE]):
                index = yield from self._search_noise(block, at, index, stop)
            elif self._skips_healthy and not self._unhealthy_pieces:
                index = yield from self._skip_healthy(block, at, index, stop)
            else:
                self._unhealthy_pieces = max(0, self._unhealthy_pieces - 1)
                index = yield from self._look_up(block, at, index, stop)
            at, size = stop, min(2 * size, _PART)
        yield index, end, b"", None

    # Each of these yields the candidate lines of a piece, and returns how many lines precede its end.

    def _search_noise(self, block: bytes, at: int, index: int, end: int) -> Generator[Row, None, int]:
        """Search a piece of noise: no two of its text lines have the same template."""
        search = self._candidate_pattern.search
        for lines, begin, stop in _text_lines(block, at, end):
            if search(block, begin, stop):
                line = block[begin:stop]
                template = self._classify(line)
                if template:
                    yield index + lines, begin, line, template
        return index + line_ends(block[at:end])

    def _skip_healthy(self, block: bytes, at: int, index: int, end: int) -> Generator[Row, None, int]:
        """Search a piece of mostly healthy lines, which one expression skips."""
        room = _FEW + (end - at) // _SPARSE
        while at < end:
            for row in self.unhealthy_lines(block, at, index, end):
                room -= 1
                index, at, line, template = row
                if template and self.is_candidate(template, line):
                    yield row
                    if template.opens_traceback and (found := traceback_at(block, at, end)):
                        at, index = at + len(found.lines), index + found.line_count
                        break  # its calls are read with its head, or not at all
        if room < 0:
            self._unhealthy_pieces = _AGAIN
        return index

    def _look_up(self, block: bytes, at: int, index: int, end: int) -> Generator[Row, None, int]:
        """Search a piece with few healthy lines: look up all lines together."""
        lines = block[at:end - 1].translate(_ZEROS).split(b"\n")
        found = list(map(self._candidates.get, lines, repeat(_UNKNOWN)))
        if not any(found):
            return index + len(lines)
        ends = list(accumulate(map(len, lines)))
        for place in compress(count(), found):
            zeros, template = lines[place], found[place]
            stop = at + ends[place] + place + 1
            begin = stop - len(zeros) - 1
            line = block[begin:stop]
            candidate = self._candidate_from(template, line)
            if candidate:
                yield index + place, begin, line, candidate
        return index + len(lines)

    def _candidate_from(self, known: LineTemplate | None, line: bytes) -> LineTemplate | None:
        """Return the template of a line if it may matter, given what its zeros have shown before; else None."""
        if known is _UNKNOWN:
            return self._classify(line)
        if known is _HEALTHY:
            return None if self._healthy.fullmatch(line) else self._classify(line)
        return known if known and self.is_candidate(known, line) else None

    def _classify(self, line: bytes) -> LineTemplate | None:
        """Return the template of a line that is not known yet if it may matter; else None."""
        if self._skips_healthy and self._healthy.fullmatch(line):
            if len(line) <= _LONG and not _ID.search(line):
                self._remember_healthy(line[:-1].translate(_ZEROS))
            return None
        zeros = line[:-1].translate(_ZEROS)
        template = self._template(zeros + b"\n")
        candidate = template if template.is_candidate else None
        if len(line) == len(template.text) <= _LONG:  # without an id
            self._remember(zeros, candidate)
        return candidate if candidate and self.is_candidate(candidate, line) else None

    def _remember_healthy(self, zeros: bytes) -> None:
        if not self._is_certain(zeros, wrapper_of(zeros).size):
            self._remember(zeros, _HEALTHY if self._may_have_number(zeros) else None)

    def _remember(self, zeros: bytes, candidate: LineTemplate | None) -> None:
        if len(self._candidates) >= _MOST:
            self._candidates.clear()
        self._candidates[zeros] = candidate

    def is_candidate(self, template: LineTemplate, line: bytes) -> bool:
        """Return whether a line that is not known to be healthy may matter."""
        return template.is_candidate and (template.certain or self._has_number(line))

    def template_of(self, line: bytes) -> LineTemplate:
        """Return the template of a line with its end."""
        zeros = line.translate(_ZEROS)
        return self._templates.get(zeros) or self._template(zeros)

    def _template(self, zeros: bytes) -> LineTemplate:
        text = _ID.sub(b"\0", zeros)
        template = self._templates.get(text)
        if template is None:
            before = wrapper_of(text)
            certain = self._is_certain(text, before.size)
            is_candidate = (certain or self._may_have_number(text, before.size)) and not is_binary(text)
            if is_candidate and self._patience:
                self._patience -= 1
                if not self._patience:  # the earlier ones are checked when they appear again
                    self._templates.clear()
                    self._candidates.clear()
            if is_candidate and not self._patience:
                is_candidate = self._may_matter(text[before.size:])
            layout = self._layout(text) if is_candidate else None
            opens_traceback = text[:len(text) - before.rest].rstrip().endswith(HEAD)
            template = LineTemplate(text, is_candidate, certain, layout, opens_traceback, before)
            if len(text) <= _LONG:
                if len(self._templates) >= _MOST:
                    self._templates.clear()
                self._templates[text] = template
        return template


class _Engine:
    """A search for many words at once with hyperscan (the extra `fast`); several threads may use it."""

    def __init__(self, words: Sequence[bytes]) -> None:
        import hyperscan  # noqa: PLC0415

        self._words = words
        self._database: Any = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
        self._database.compile(expressions=words, ids=list(range(len(words))), elements=len(words),
                               flags=[0] * len(words), literal=True)
        self._scratch = hyperscan.Scratch  # its working memory, one for each thread
        self._threads = threading.local()

    def search(self, data: bytes | memoryview, note: Callable[[int, int, int, int, Any], None]) -> None:
        """Call `note` for each word in the data: its index, 0, its end, and two arguments without use here."""
        scratch = getattr(self._threads, "scratch", None)
        if scratch is None:
            scratch = self._threads.scratch = self._scratch(self._database)
        self._database.scan(data, match_event_handler=note, scratch=scratch)

    def found_in(self, data: bytes) -> list[bytes]:
        """Return the words that are in the data."""
        found: list[bytes] = []
        self.search(data, lambda place, *_: found.append(self._words[place]))
        return found


class FastScanner(Scanner):
    """The same search with a multi-pattern engine (the extra `fast`)."""

    # A block, a part of it, and the ends of the literals in it; None if looking up lines is cheaper. Assigned at once,
    # because several threads may use a scanner.
    _scanned: tuple[bytes, range, Sequence[int] | None] = (b"", range(0), None)
    _dense_blocks = 0  # expected to follow

    @cached_property
    def _words(self) -> list[bytes]:
        """Return the literals in full: a call for each match of a short piece costs more than longer literals."""
        return _encoded(self._literals)

    @cached_property
    def _engine(self) -> _Engine:
        return _Engine(self._words)

    @cached_property
    def _engine_of_zeros(self) -> _Engine:
        return _Engine(list({word.translate(_ZEROS) for word in self._words_with_digits}))

    def _is_certain(self, text: bytes, start: int) -> bool:
        return not all(_DIGIT.search(word) for word in self._engine.found_in(text[start:]))

    def _has_number(self, line: bytes) -> bool:
        return any(_DIGIT.search(word) for word in self._engine.found_in(line))

    def _may_have_number(self, zeros: bytes, start: int = 0) -> bool:
        return bool(self._words_with_digits and self._engine_of_zeros.found_in(zeros[start:]))

    def candidate_lines(self, block: bytes, at: int, index: int, end: int) -> Iterator[Row]:
        """Yield the lines that may matter."""
        scanned, part, found = self._scanned
        if block is not scanned or at not in part or end > part.stop:
            found = self._scan(block, at, end)
        if found is None:
            yield from super().candidate_lines(block, at, index, end)
            return
        candidate_of = self._candidates.get
        behind = at  # the end of the line with the last literal
        for place in found[bisect_left(found, at):]:
            if place < behind:
                continue
            begin, behind = block.rfind(b"\n", 0, place) + 1, block.index(b"\n", place) + 1
            template = candidate_of(block[begin:behind - 1].translate(_ZEROS), _UNKNOWN)
            if template is None:
                continue
            line = block[begin:behind]
            if template.certain or (template := self._candidate_from(template, line)):
                index += line_ends(block[at:begin])
                yield index, begin, line, template
                at, index = behind, index + 1
                if template.opens_traceback and (traceback := traceback_at(block, begin, end)):
                    behind = begin + len(traceback.lines)  # its calls are read with its head, or not at all
        yield index + line_ends(block[at:end]), end, b"", None

    def _scan(self, block: bytes, at: int, end: int) -> Sequence[int] | None:
        """Find the literals of a part at once: a scan that stops at each literal would read the rest again."""
        self._dense_blocks = max(0, self._dense_blocks - 1)
        found: list[int] | None = None
        if not self._dense_blocks:
            found, before = [], at - 1
            note = found.append
            self._engine.search(memoryview(block)[at:end],
                                lambda _word, _begin, stop, _flags, _context: note(stop + before))
            if len(found) * _DENSE > end - at:
                self._dense_blocks, found = _AGAIN, None
        self._scanned = block, range(at, end), found
        return found


def _encoded(words: Iterable[str]) -> list[bytes]:
    return [word.encode("latin-1") for word in without_extensions(words)]


def _any_of(words: Iterable[bytes]) -> re.Pattern[bytes]:
    return re.compile(Trie(word.decode("latin-1") for word in words).pattern().encode("latin-1"))


def literal_forms(literals: Iterable[str]) -> set[str]:
    """Return the forms of the literals in plain lines, JSON strings and HTML, and odd characters; as Latin-1."""
    found = set(_ODD)
    for literal in literals:
        quoted = json.dumps(literal)[1:-1]
        safe = re.sub(r"[<>&]", lambda match: f"\\u{ord(match[0]):04x}", quoted)  # as Go writes JSON
        found.update(form.encode().decode("latin-1") for form in (literal, quoted, safe, html.escape(literal)))
    return found


def _text_lines(block: bytes, at: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield the lines that are not binary: the count of lines before each, its begin and its end."""
    part = block[at:end - 1]
    sizes, kept = (map(len, lines.split(b"\n")) for lines in (part, part.translate(None, NOISE)))
    for index, (size, left) in enumerate(zip(sizes, kept, strict=True)):
        stop = at + size + 1
        if not is_noise(size, left):
            yield index, at, stop
        at = stop
