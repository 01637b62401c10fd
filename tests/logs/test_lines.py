"""Bytes to lines: encodings, progress bars, escapes, long lines, broken lines; any chunks, any bytes."""

from __future__ import annotations

import gzip
import random
import time
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vllm_doctor.logs.lines import MAX_LINE, Line, LineReader
from vllm_doctor.logs.terminal_escapes import clean

HEAD = "INFO 10-08 20:33:48 [__init__.py:216] Automatically detected platform cuda."
BAR = "Loading safetensors checkpoint shards: {:>3}% Completed | {}/4 [00:0{}<00:06,  2.07s/it]"
LOG = f"""{HEAD}
(APIServer pid=1) INFO 10-08 20:33:52 [utils.py:233] non-default args: {{'model': 'm'}}

Traceback (most recent call last):
  File "/usr/lib/python3.12/runpy.py", line 196, in _run_module_as_main
ValueError: 内存不足 – déjà vu █
"""


def read(data: str | bytes, **options: bool) -> list[Line]:
    reader = LineReader(**options)
    return reader.feed(data if isinstance(data, bytes) else data.encode()) + reader.finish()


def texts(lines: list[Line]) -> list[str]:
    return [line.text for line in lines]


def in_chunks(data: bytes, cuts: list[int]) -> tuple[list[Line], LineReader]:
    reader, lines = LineReader(), []
    for cut in cuts:
        lines += reader.feed(data[:cut])
        data = data[cut:]
    return lines + reader.feed(data) + reader.finish(), reader


# --- encodings -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r\r\n"])
@pytest.mark.parametrize(
    ("codec", "mark", "name"),
    [
        ("utf-8", b"", "utf-8"),
        ("utf-8", b"\xef\xbb\xbf", "utf-8-sig"),
        ("utf-16-le", b"\xff\xfe", "utf-16-le"),
        ("utf-16-be", b"\xfe\xff", "utf-16-be"),
        ("utf-16-le", b"", "utf-16-le"),
        ("utf-16-be", b"", "utf-16-be"),
    ],
)
def test_encodings(codec: str, mark: bytes, name: str, ending: str) -> None:
    data = mark + LOG.replace("\n", ending).encode(codec)
    for size in (1, 7, len(data)):
        reader, lines = LineReader(), []
        for start in range(0, len(data), size):
            lines += reader.feed(data[start : start + size])
        lines += reader.finish()
        assert lines == [Line(i, text) for i, text in enumerate(LOG.splitlines(), 1)]
        assert (reader.encoding, reader.line_count, reader.byte_count) == (name, 6, len(data))


def test_a_utf16_line_with_the_newline_byte_in_a_character() -> None:
    log = f"{HEAD}\n上下文长度 \u010a \u0a0a ok\n"
    assert texts(read(log.encode("utf-16"))) == log.splitlines()


def test_powershell_appends_utf16_to_a_utf8_file() -> None:
    data = f"{HEAD}\n".encode() + "ERROR 10-08 20:33:49 [core.py:1] é\r\nlast\r\n".encode("utf-16-le")
    reader = LineReader()
    lines = reader.feed(data) + reader.finish()
    assert texts(lines)[:3] == [HEAD, "ERROR 10-08 20:33:49 [core.py:1] é", "last"]
    assert reader.encoding == "utf-8+utf-16"


def test_single_lines_in_another_encoding() -> None:
    data = b"\n".join(
        ["错误：显存不足，请降低".encode("gb18030"), "mémoire épuisée".encode("latin-1"), "内存".encode(), "it’s".encode("cp1252")],
    )
    reader = LineReader()
    assert texts(reader.feed(data) + reader.finish()) == ["错误：显存不足，请降低", "mémoire épuisée", "内存", "it’s"]
    assert reader.encoding == "utf-8+gb18030+latin-1"


def test_one_bad_byte_does_not_turn_a_line_of_utf8_into_something_else() -> None:
    assert texts(read("显存不足 ███".encode() + b"\xff end")) == ["显存不足 ███\ufffd end"]


def test_bom_of_a_second_file_is_dropped() -> None:
    assert texts(read(f"{HEAD}\n\ufeff{HEAD}\n")) == [HEAD, HEAD]


def test_control_characters_are_made_visible() -> None:
    assert texts(read("a\x00b\x07c\x7fd\te\x85f\u2028g\x0ch")) == ["a␀b␇c␡d\te␤f␤g␌h"]


def test_noise_is_read_as_empty_lines() -> None:
    """But some control characters around a short line of text do not make it noise."""
    noise = random.Random(3).randbytes(900).replace(b"\n", b"\r") + b"ValueError: no\n"
    spinner = b"-\b\\\b|\b/\b" * 9 + b"\b\a Killed\n"
    lines = read(HEAD.encode() + b"\n" + noise + b"\x02\x03Killed\x02\x07\n" + spinner)
    assert [(line.number, bool(line.text)) for line in lines] == [(1, True), (2, False), (3, True), (4, True)]
    assert all("Killed" in line.text for line in lines[2:])


def test_cut_anywhere_the_head_stays() -> None:
    data = LOG.encode()
    whole = texts(read(data))
    for end in range(len(data) + 1):
        lines = texts(read(data[:end]))
        if lines:
            assert lines[:-1] == whole[: len(lines) - 1]
            assert whole[len(lines) - 1].startswith(lines[-1])


# --- escapes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("\x1b[0;36m(APIServer pid=1)\x1b[0;0m INFO", "(APIServer pid=1) INFO"),
        ("\x1b[38;5;208mWARN\x1b[m \x1b[1;38:2::1:2:3mx\x1b[22m", "WARN x"),
        ("\x1b]0;title\x07INFO \x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\ end", "INFO link end"),
        ("\x1b(B\x1b)0INFO\x1b7\x1b8\x1b=\x1b>\x1b[?25l\x1b[2K end\x1b[K", "INFO end"),
        ("a\x1b[5Cb", "a     b"),
        ("\x1b[999999999999999999999999Cb", " b"),
        ("\x1b]0;never ended", "never ended"),
        ("cut \x1b[3", "cut "),
        ("cut \x1b", "cut "),
        ("[0;36m(APIServer pid=1)[0;0m INFO", "(APIServer pid=1) INFO"),
        ("^[[36m(RayWorkerVllm pid=1)^[[0m x", "(RayWorkerVllm pid=1) x"),
        ("INFO 09-21 done^M", "INFO 09-21 done"),
        ("caret ^M amid a line", "caret ^M amid a line"),
        (r"\x1b[31mred\x1b[0m \u001b[32mgreen\u001b[0m", "red green"),
        ("rate(x[5m]) torch.Size([0, 4])", "rate(x[5m]) torch.Size([0, 4])"),
        ("File &quot;x&quot;, line 1, in &lt;module&gt; a &amp;&amp; b", 'File "x", line 1, in <module> a && b'),
        ("it&#39;s", "it's"),
        ('message with "&quot;" and <b>&lt;</b>', 'message with "&quot;" and <b>&lt;</b>'),
        ("GET /v1?a=1&b=2 &lt;", "GET /v1?a=1&b=2 &lt;"),
        ("a\u00a0\u00a0b", "a  b"),
    ],
)
def test_clean(raw: str, text: str) -> None:
    assert clean(raw) == text


# --- carriage returns ------------------------------------------------------------------------------------------


def bars(*percents: int) -> str:
    return "\r".join(BAR.format(p, p // 25, p // 25) for p in percents)


def test_a_bar_keeps_its_last_state() -> None:
    assert read(f"{bars(0, 25, 50)}\n{HEAD}\n") == [Line(1, BAR.format(50, 2, 2)), Line(2, HEAD)]
    assert read(f"\r{bars(0, 25)}\r\r\n{HEAD}\n") == [Line(1, BAR.format(25, 1, 1)), Line(2, HEAD)]


def test_a_message_behind_a_bar_is_never_lost() -> None:
    error = "ERROR 10-08 20:33:49 [core.py:708] EngineCore failed to start."
    engine = f"(EngineCore pid=1) {error}"
    last = BAR.format(25, 1, 1)
    for glued, behind in (("\r", error), ("", engine), ("", error), (" ", error), ("\r", "terminate called"), ("", "Killed")):
        assert read(f"{bars(0, 25)}{glued}{behind}\n") == [Line(1, last), Line(1, behind)], (glued, behind)
    assert texts(read(f"{bars(0)}\r{error}\r{bars(25, 50)}\n")) == [BAR.format(0, 0, 0), error, BAR.format(50, 2, 2)]


def test_a_message_glued_to_a_single_bar() -> None:
    log = f"{HEAD}\n" * 3 + f"{BAR.format(25, 1, 1)}(EngineCore pid=1) INFO 01-02 03:04:05 [x.py:1] msg\n"
    for options in ({}, {"join_wrapped": False}):
        assert read(log, **options)[3:] == [
            Line(4, BAR.format(25, 1, 1)), Line(4, "(EngineCore pid=1) INFO 01-02 03:04:05 [x.py:1] msg"),
        ]  # fmt: skip


def test_messages_between_carriage_returns_all_stay() -> None:
    first, second = f"{HEAD} 10% done", f"{HEAD} 20% done"
    assert read(f"{first}\r{second}\n") == [Line(1, first), Line(1, second)]
    assert texts(read("10%\rone\r20%\r")) == ["10%", "one", "20%"]


def test_two_bars_keep_their_own_last_states() -> None:
    shard = "model-0000{}.safetensors:  {}%|██▌       | {}.2G/4.98G [00:21<00:25, 107MB/s]"
    states = [shard.format(n, p, p % 5) for p in (10, 20, 30) for n in (1, 2)]
    assert texts(read("\r".join(states))) == [shard.format(1, 30, 0), shard.format(2, 30, 0)]


@pytest.mark.parametrize("prefix", ["(Worker_TP0 pid=162) ", "vllm-1  | ", "2024-05-06T10:00:01.123456789Z ", "vllm-1  | (Worker pid=1) "])
@pytest.mark.parametrize("gap", ["", "\r"])
def test_the_prefix_of_a_bar_is_kept(prefix: str, gap: str) -> None:
    (line,) = read(f"{prefix}{gap}{bars(0, 25, 50)}\n")
    process = "(Worker" + prefix.split("(Worker")[1] if "(Worker" in prefix else ""
    assert line.text == process + BAR.format(50, 2, 2)


def test_source_of_what_follows_a_wrapped_bar() -> None:
    assert [line.source for line in read(f"web-1  | {bars(0, 25)}\r{HEAD}\n{HEAD}\n")] == ["web-1", "web-1", ""]


def test_other_meters() -> None:
    pip = "   ━━━━━━━━ {}/3.4 MB {} MB/s eta 0:00:0{}"
    assert texts(read("\r".join(pip.format(i, i, i) for i in range(3)))) == [pip.format(2, 2, 2).rstrip()]
    assert texts(read("Processed prompts: 12it [00:01, 10.0it/s]\rProcessed prompts: 24it [00:02, 11.0it/s]")) == [
        "Processed prompts: 24it [00:02, 11.0it/s]",
    ]


def test_bars_on_lines_of_their_own_stay() -> None:
    assert len(read("\n".join(BAR.format(p, p // 25, 1) for p in (0, 25, 50)))) == 3


def test_bars_without_any_newline_stay_small() -> None:
    reader = LineReader()
    tracemalloc.start()
    for i in range(3000):
        reader.feed((bars(0, 25, 50, 75) + "\r").encode())
        assert len(reader._pending) <= MAX_LINE + 1000
        if i == 100:
            tracemalloc.reset_peak()
    assert tracemalloc.get_traced_memory()[1] < 8_000_000
    tracemalloc.stop()
    assert texts(reader.feed(b"ERROR 10-08 20:33:49 [core.py:1] no\n") + reader.finish()) == [BAR.format(75, 3, 3), "ERROR 10-08 20:33:49 [core.py:1] no"]


# --- long lines ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chunk", [1 << 12, 1 << 16, 1 << 20, 1 << 23])
def test_a_long_line_is_cut(chunk: int) -> None:
    data = f"{HEAD}\n".encode() + b"x" * 3_000_000 + f"\n{HEAD}\n".encode()
    reader, lines = LineReader(), []
    for start in range(0, len(data), chunk):
        lines += reader.feed(data[start : start + chunk])
    lines += reader.finish()
    assert lines == [Line(1, HEAD), Line(2, "x" * MAX_LINE), Line(3, HEAD)]
    assert (reader.long_lines, reader.line_count, reader.byte_count) == (1, 3, len(data))


@pytest.mark.parametrize("extra", [-1, 0, 1, 2])
def test_a_line_of_about_the_limit(extra: int) -> None:
    data = b"y" * (MAX_LINE + extra) + b"\r\nend\n"
    for cuts in ([], [1], [MAX_LINE - 1], [MAX_LINE, 1], [MAX_LINE + 1, 1], [100000, 200000]):
        lines, reader = in_chunks(data, cuts)
        assert [len(line.text) for line in lines] == [min(MAX_LINE, MAX_LINE + extra), 3], cuts
        assert reader.long_lines == (1 if extra > 0 else 0), cuts


def test_a_long_line_is_cut_between_characters() -> None:
    lines = read("a" + "█" * MAX_LINE + "\nend")
    assert lines[0].text == "a" + "█" * ((MAX_LINE - 1) // 3)
    assert lines[1] == Line(2, "end")


@pytest.mark.parametrize(
    "unit",
    [b"x", b"\x00", b"\xff", b" ", b"\x1b]", b"\x1b[", b"[1:11<", b"1%| ", b"a | ", b"&lt;", b"[rank0]: ", b"((", b'{"a":', b"> ", b"\t", b"0:"],
)
def test_hostile_lines_take_little_time_and_memory(unit: bytes) -> None:
    data = unit * (4_000_000 // len(unit))
    reader = LineReader()
    tracemalloc.start()
    start = time.process_time()
    for i in range(0, len(data), 1 << 16):
        reader.feed(data[i : i + (1 << 16)])
    reader.finish()
    assert time.process_time() - start < 5
    assert tracemalloc.get_traced_memory()[1] < 20_000_000
    tracemalloc.stop()


def test_random_bytes_pass_in_small_memory() -> None:
    data = random.Random(7).randbytes(3_000_000)
    reader = LineReader()
    tracemalloc.start()
    for i in range(0, len(data), 1 << 16):
        for line in reader.feed(data[i : i + (1 << 16)]):
            line.text.encode()
    reader.finish()
    assert tracemalloc.get_traced_memory()[1] < 8_000_000
    tracemalloc.stop()
    assert reader.line_count == data.count(b"\n") + (not data.endswith(b"\n"))


# --- lines that a terminal broke -------------------------------------------------------------------------------


def broken(log: str, width: int) -> str:
    return "\n".join(
        line[i : i + width] for line in log.splitlines() for i in range(0, max(len(line), 1), width)
    )


ARGS = "INFO 10-08 20:33:52 [api_server.py:1035] args: Namespace(" + ", ".join(f"option_{i}='value{i}'" for i in range(30)) + ")"
ERROR = "ValueError: The model's max seq len (8192) is larger than the maximum number of tokens that can be stored in KV cache (4512)."


@pytest.mark.parametrize("width", [80, 100, 120])
def test_a_log_broken_at_the_width_of_a_terminal(width: int) -> None:
    log = f"{HEAD[:66]}\n{ARGS}\nINFO 10-08 20:34:00 [x.py:1] short\n{ERROR}\nend of it"
    data = broken(log, width)
    lines = read(data)
    assert texts(lines) == log.splitlines()
    numbers = [1 + len(broken("\n".join(log.splitlines()[:i]), width).splitlines()) for i in range(5)]
    assert [line.number for line in lines] == numbers
    assert texts(read(data, join_wrapped=False)) == [row.rstrip() for row in data.splitlines()]


def test_lines_that_are_broken_once() -> None:
    log = [f"(EngineCore pid=31) ERROR 10-08 20:33:52 [core.py:{number}] {word * 9}" for number, word in
           ((101, "layers_of"), (102, "blocks_and"), (103, "a_tensor"), (104, "the_cache"))]
    assert all(100 < len(line) < 160 for line in log)
    rows = texts(read(broken("\n".join(log), 100)))
    assert rows == [*(row for line in log[:2] for row in (line[:100], line[100:])), *log[2:]]
    # The same line again and again, or breaks between words, are no evidence.
    assert len(texts(read(broken("\n".join(log[:1] * 4), 100)))) == 8
    said = [f"{line[:99]}. {line[101:]}" for line in log]
    assert len(texts(read(broken("\n".join(said), 100)))) == 8


def test_one_broken_line_of_statistics_proves_the_width() -> None:
    lines = [f"(APIServer pid=1) INFO 10-14 17:04:4{number} [loggers.py:123] Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg generation "
             f"throughput: 756.{number} tokens/s, Running: 34 reqs, Waiting: 18 reqs, GPU KV cache usage: 99.2%" for number in range(2)]
    assert texts(read(broken("\n".join(lines), 130))) == lines


def test_a_call_that_is_broken_within_its_path() -> None:
    prefix = "(Worker_TP3 pid=406) ERROR 10-08 20:33:52 [multiproc_executor.py:815] "
    call = f'{prefix}  File "/usr/local/lib/python3.12/dist-packages/vllm/model_executor/warmup/kernel_warmup.py", line 43, in warm'
    log = [f"{prefix}Traceback (most recent call last):", call, f"{prefix}    warm(self)", call, f"{prefix}    again(self)"]
    assert texts(read(broken("\n".join(log), 120))) == log
    # A quotation that goes on without being a call's path is no evidence.
    said = call.replace("line 43", "row 43")
    assert len(texts(read(broken(f"{log[0]}\n{said}\n{log[2]}", 120)))) == 4


def framed(log: str, width: int) -> str:
    return "".join(f"│ {row.ljust(width)} │\n" for row in broken(log, width).splitlines())


@pytest.mark.parametrize("width", [120, 300])
def test_a_log_in_the_frame_that_a_viewer_of_pods_draws(width: int) -> None:
    log = "\n".join([
        "(APIServer pid=1) INFO 05-08 11:19:29 [utils.py:299] vLLM server version 0.20.0, serving model s3://models/a",
        f"(APIServer pid=1) INFO 05-08 11:19:29 [utils.py:233] non-default args: {{'model': '{'m' * 300}', 'port': 9}}",
        "Traceback (most recent call last):",
        '  File "/app/serve.py", line 3, in main',
        "ValueError: no",
    ])
    box = f"┌{'─' * (width + 2)}┐\n"
    reader = LineReader()
    lines = reader.feed((box + framed(log, width)).encode()) + reader.finish()
    assert [line.text for line in lines[1:]] == log.splitlines()
    assert reader.wrappers == ("frame",)


def test_a_line_broken_at_a_blank_in_a_frame() -> None:
    row = "INFO 05-11 08:17:48 [server.py:473] " + "x" * 63 + ","
    assert texts(read(framed(f"{row} swap_space=4\nINFO 05-11 08:17:49 [b.py:1] b", 101)))[0] == f"{row} swap_space=4"


def test_the_panel_of_a_traceback_keeps_its_frame() -> None:
    panel = ["╭───── Traceback (most recent call last) ─────╮", "│ /app/serve.py:3 in main                     │",
             "│   3 │   raise ValueError('no')              │", "╰─────────────────────────────────────────────╯",
             "ValueError: no"]
    assert texts(read("\n".join(panel))) == panel


def test_a_compose_log_broken_at_the_width_of_a_terminal() -> None:
    log = "\n".join(f"vllm-1  | {line}" for line in (HEAD[:60], ARGS, ERROR, HEAD[:50]))
    assert texts(read(broken(log, 100))) == [HEAD[:60], ARGS, ERROR, HEAD[:50]]


@pytest.mark.parametrize(
    "log",
    [
        [HEAD, "+" + "-" * 74, "|" + " " * 73 + "|", "|" + "x" * 74],
        [HEAD.ljust(75, "x"), "y" * 75],
        [HEAD, f"(APIServer pid=1) {HEAD}"[:75], f"(APIServer pid=1) {HEAD}"[:75]],
        ["/models/model-00001-of-00010.safetensors-and-a-name-that-is-quite-long-for-a-file"] * 5,
        [HEAD, "  File " + "x" * 68, "    return " + "x" * 64],
        [HEAD, "z" * 75, "z" * 75, "z" * 76],
        [row.ljust(160) for row in (HEAD, "Failed to turn the bolt", "Turning the bolt failed", "The end")],  # filled up
        ["x" * 300, ARGS[:100], ARGS[100:200], ARGS[200:300], "y"],
    ],
)
def test_other_logs_are_not_joined(log: list[str]) -> None:
    assert texts(read("\n".join(log))) == [line.rstrip() for line in log]


# --- pastes ----------------------------------------------------------------------------------------------------


def test_markdown_and_mail() -> None:
    paste = f'Here is my log:\n\n```text\n{HEAD}  \n  File "x"\n```\nbye\n'
    lines = read(paste)
    assert lines == [Line(1, "Here is my log:"), Line(2, ""), Line(4, HEAD), Line(5, '  File "x"'), Line(7, "bye")]
    quoted = "\n".join(f"> {line}".rstrip() for line in paste.splitlines())
    assert [line.text for line in read(quoted)] == [line.text for line in lines]
    assert texts(read(f"```{HEAD}```")) == [HEAD]


# --- properties ------------------------------------------------------------------------------------------------

FRAGMENTS = [
    b"INFO 10-08 20:33:48 [core.py:1] message ", b"\n", b"\n", b"\r\n", b"\r", b"\r\r\n", b"(EngineCore pid=1) ", bars(0, 25).encode(),
    b"web-1  | ", b"vllm  | ", b"2024-05-06T10:00:01.1234567Z ", b"2024-01-01T00:00:00.000000000Z stderr P ", b"stderr F x",
    b'{"log": "a\\rb\\n", "stream": "stdout", "time": "t"}', b"\x1b[0;36m", b"\x1b[0m", b"\x1b[G", b"\x1b]0;t\x07", b"0: ", b"> ", b"```\n",
    b"(RayWorkerWrapper pid=1, ip=10.0.0.2) ", b"[rank0]: ", b"Traceback (most recent call last):", b'  File "x"', b"&lt;", b"\xe2\x96\x88",
    b"\xe2\x96", b"\xff\xfe", b"\x00", b"\xef\xbb\xbf", b"\xc4\xda\xb4\xe6", b"x" * 75, b"{", b"}", b"10:00:01 ", b"vllm-0 server ", b" | ", b"\t",
]  # fmt: skip
NOISE = st.one_of(
    st.binary(max_size=300),
    st.lists(st.sampled_from(FRAGMENTS), max_size=60).map(b"".join),
    st.lists(st.one_of(st.sampled_from(FRAGMENTS), st.binary(max_size=6)), max_size=60).map(b"".join),
)


@given(NOISE, st.lists(st.integers(0, 60), max_size=30))
@settings(max_examples=600, deadline=None)
def test_any_bytes_in_any_chunks(data: bytes, cuts: list[int]) -> None:
    whole, once = in_chunks(data, [])
    cut, reader = in_chunks(data, cuts)
    assert cut == whole
    assert in_chunks(data, [1] * len(data))[0] == whole
    assert (reader.encoding, reader.wrappers, reader.line_count, reader.byte_count, reader.long_lines) == (
        once.encoding, once.wrappers, once.line_count, once.byte_count, once.long_lines,
    )  # fmt: skip
    for line in whole:
        line.text.encode()
        line.source.encode()
        assert 1 <= line.number <= reader.line_count
        assert "\n" not in line.text
        assert "\r" not in line.text
        assert "\x1b" not in line.text
        assert line.text == line.text.rstrip()


@given(NOISE)
@settings(max_examples=200, deadline=None)
def test_the_quick_way_through_gives_the_same(data: bytes) -> None:
    quick = LineReader(join_wrapped=False)
    lines = quick.feed(b"head\n" + data) + quick.finish()
    slow, careful = LineReader(join_wrapped=False), []
    for byte in b"head\n" + data:
        careful += slow.feed(bytes([byte]))
    assert careful + slow.finish() == lines


def test_empty_input() -> None:
    assert read(b"") == []
    assert texts(read(b"\n")) == [""]
    assert texts(read(b"\n\n")) == ["", ""]
    assert texts(read(b"x")) == ["x"]
    reader = LineReader()
    assert (reader.finish(), reader.encoding, reader.wrappers, reader.line_count) == ([], "utf-8", (), 0)


def test_ordinary_logs_are_read_fast() -> None:
    line = "(APIServer pid=1) INFO 08-15 23:56:12 [loggers.py:273] Engine 000: Avg prompt throughput: 412.3 tokens/s, Running: 2 reqs\n"
    data = (f"{ARGS * 3}\n" + line * 40_000).encode()
    start = time.process_time()
    assert len(read(data)) == 40_001
    speed = len(data) / (time.process_time() - start)
    assert speed > 5_000_000  # bytes a second, on any machine; 40 to 60 MB/s on an idle one


def test_compressed_bytes_do_no_harm() -> None:
    assert len(read(gzip.compress(LOG.encode() * 100))) >= 1
