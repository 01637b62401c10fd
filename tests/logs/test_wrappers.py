"""Every wrapper, alone and one inside another: the same messages come out as from the bare log."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vllm_doctor.logs.lines import Line, LineReader
from vllm_doctor.logs.wrappers import MAX_DEPTH, MAX_PARTIAL

HEAD = "INFO 10-08 20:33:48 [__init__.py:216] Automatically detected platform cuda."
MESSAGES = [
    HEAD,
    "(APIServer pid=1) INFO 10-08 20:33:52 [api_server.py:1839] vLLM API server version 0.11.0",
    "(APIServer pid=1) INFO 10-08 20:33:52 [api_utils.py:347]        █     █     █▄   ▄█",
    "(EngineCore_DP0 pid=12) INFO 10-08 20:34:01 [core.py:77] Initializing a V1 LLM engine (v0.11.0) with config: {'a': 'b | c'}",
    "(Worker_TP1 pid=301) ERROR 10-08 20:34:20 [multiproc_executor.py:597] WorkerProc failed to start.",
    "(VllmWorker rank=1 pid=5) INFO 05-20 12:46:12 [gpu_model_runner.py:1347] Model loading took 54.9 GiB",
    "(VllmWorkerProcess pid=1786) INFO 02-11 07:40:29 model_runner.py:1110] Starting to load model x...",
    "Loading safetensors checkpoint shards:  50% Completed | 2/4 [00:04<00:04,  2.14s/it]",
    "Traceback (most recent call last):",
    '  File "/usr/local/lib/python3.12/site-packages/vllm/v1/engine/core.py", line 390, in run_engine_core',
    "    engine_core = EngineCoreProc(*args, **kwargs)",
    "                  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^",
    "ValueError: To serve at least one request with the model's max seq len (131072), 24.00 GiB KV cache is needed",
    "",
    "  + Exception Group Traceback (most recent call last):",
    '  |   File "/usr/lib/python3.12/asyncio/runners.py", line 118, in run',
    "  +-+---------------- 1 ----------------",
    "    | RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}",
    "Triton is installed, but doesn't include CPU backend. Disabling Triton.",
    'INFO:     10.2.0.8:40122 - "GET /v1/models HTTP/1.1" 200 OK',
    "{'error': {'message': 'x', 'code': 400}}",
    '{"object":"error","message":"This model\'s maximum context length is 4096 tokens.","type":"BadRequestError","code":400}',
    "terminate called after throwing an instance of 'c10::DistBackendError'",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.02 GiB. GPU 0 has a total capacity of 23.65 GiB",
]


def read(data: str | bytes) -> list[Line]:
    reader = LineReader()
    raw = data if isinstance(data, bytes) else data.encode()
    return reader.feed(raw) + reader.finish()


def texts(lines: list[Line]) -> list[str]:
    return [line.text for line in lines]


def ids(name: str) -> str:
    return name


def docker_json(text: str) -> str:
    return json.dumps({"log": text + "\n", "stream": "stderr", "time": "2025-11-23T11:58:02.827767301Z"})


# By name: how to wrap a message, the name among LineReader.wrappers, the source.
WRAPPERS: dict[str, tuple[Callable[[str], str], str, str]] = {
    "compose": (lambda t: f"web-1  | {t}", "compose", "web-1"),
    "compose v1": (lambda t: f"web_1     | {t}", "compose", "web_1"),
    "compose container_name": (lambda t: f"vllm-server  | {t}", "compose", "vllm-server"),
    "compose colour": (lambda t: f"\x1b[36mvllm  |\x1b[0m {t}", "compose", "vllm"),
    "swarm": (lambda t: f"vllm_vllm.1.k3x0qa1b2@vps-4411    | {t}", "compose", "vllm_vllm.1.k3x0qa1b2@vps-4411"),
    "foreman": (lambda t: f"10:00:01 web.1  | {t}", "compose", "web.1"),
    "pm2": (lambda t: f"0|vllm     | {t}", "pm2", "vllm"),
    "pm2 --time": (lambda t: f"2024-05-06T10:00:01: {t}", "timestamp", ""),
    "docker -t": (lambda t: f"2025-11-20T09:14:12.828726178Z {t}", "timestamp", ""),
    "kubectl --timestamps": (lambda t: f"2026-02-14T02:04:00.037Z {t}", "timestamp", ""),
    "rfc 3339 with zone": (lambda t: f"2024-12-19T09:10:59+01:00 {t}", "timestamp", ""),
    "kubectl --prefix": (lambda t: f"[pod/vllm-6c9f7d8b5f-tq2xj/vllm] {t}", "kubectl", "vllm-6c9f7d8b5f-tq2xj/vllm"),
    "stern": (lambda t: f"vllm-6c9f7d8b5f-tq2xj vllm {t}", "stern", "vllm-6c9f7d8b5f-tq2xj/vllm"),
    "stern statefulset": (lambda t: f"vllm-0 server {t}", "stern", "vllm-0/server"),
    "pod with a bar": (lambda t: f"vllm-6c9f7d8b5f-tq2xj | {t}", "pod", "vllm-6c9f7d8b5f-tq2xj"),
    "pod": (lambda t: f"vllm-6c9f7d8b5f-tq2xj {t}", "pod", "vllm-6c9f7d8b5f-tq2xj"),
    "containerd": (lambda t: f"2024-01-01T00:00:00.000000000Z stderr F {t}", "containerd", ""),
    "docker json": (docker_json, "docker-json", ""),
    "fluent bit": (
        lambda t: json.dumps({"date": 1.5, "log": t, "kubernetes": {"pod_name": "vllm-0"}}), "json-lines", "vllm-0",
    ),
    "logfmt": (
        lambda t: f'time="2026-01-29T14:55:54Z" level=info msg={json.dumps(t, ensure_ascii=False)} component=vllm',
        "logfmt", "vllm",
    ),
    "localai": (
        lambda t: 'Jul 22 17:17:15 DEBUG GRPC stderr id="m-127.0.0.1:41633" '
                  f'line={json.dumps(t, ensure_ascii=False)} caller={{caller.file="/build/process.go"  caller.L=219 }} ',
        "logfmt", "",
    ),
    "google textPayload": (
        lambda t: json.dumps(
            {"textPayload": t, "severity": "ERROR", "resource": {"labels": {"container_name": "vllm"}}},
        ), "json-lines", "vllm",
    ),
    "opentelemetry": (lambda t: json.dumps({"timeUnixNano": "1", "body": {"stringValue": t}}), "json-lines", ""),
    "google viewer": (
        lambda t: f"ERROR 2025-11-19T20:15:27.533391304Z [resource.labels.containerName: vllm] {t}", "google-cloud", "vllm",
    ),
    "journald": (lambda t: f"Nov 20 11:30:13 node7 vllm[123]: {t}", "journald", "node7 vllm[123]"),
    "journald in French": (lambda t: f"déc. 19 11:30:13 node7 vllm[123]: {t}", "journald", "node7 vllm[123]"),
    "journald in Russian": (lambda t: f"дек 19 11:30:13 node7 vllm[123]: {t}", "journald", "node7 vllm[123]"),
    "journald in Korean": (lambda t: f" 3월  2 11:30:13 node7 vllm[123]: {t}", "journald", "node7 vllm[123]"),
    "journald in Japanese": (lambda t: f" 9月 19 11:30:13 node7 vllm[123]: {t}", "journald", "node7 vllm[123]"),
    "journald in Greek": (lambda t: f"Ιαν 19 11:30:13 node7 vllm[123]: {t}", "journald", "node7 vllm[123]"),
    "journald in Czech": (lambda t: f"úno 19 11:30:13 node7 vllm[123]: {t}", "journald", "node7 vllm[123]"),
    "journald in Finnish": (lambda t: f"maalis 19 11:30:13 node7 vllm[123]: {t}", "journald", "node7 vllm[123]"),
    "journald in Chinese": (lambda t: f"12月 19 11:30:13 node7 vllm[123]: {t}", "journald", "node7 vllm[123]"),
    "journald iso": (lambda t: f"2024-11-20T11:30:13+0000 node7 python3[123]: {t}", "journald", "node7 python3[123]"),
    "journald full": (lambda t: f"Wed 2024-11-20 11:30:13 UTC node7 vllm[123]: {t}", "journald", "node7 vllm[123]"),
    "syslog 3164": (lambda t: f"<13>Nov  2 11:30:13 node7 vllm[123]: {t}", "syslog", "node7 vllm[123]"),
    "syslog 5424": (lambda t: f"<13>1 2024-11-20T11:30:13.5Z node7 vllm 123 - - {t}", "syslog", "node7 vllm[123]"),
    "actions": (lambda t: f"2024-05-06T10:00:01.1234567Z {t}", "github-actions", ""),
    "gh run view": (lambda t: f"test (3.12)\tRun vllm\t2024-05-06T10:00:01.1234567Z {t}", "github-actions", "test (3.12)"),
    "gitlab": (lambda t: f"2024-05-06T10:00:01.123456Z 00O {t}", "gitlab", ""),
    "gitlab bare": (lambda t: f"01E {t}", "gitlab", ""),
    "buildkite": (lambda t: f"\x1b_bk;t=1715000000000\x07{t}", "buildkite", ""),
    "program that relays": (lambda t: f"2025-06-27 12:57:51,690 - __main__ - INFO - {t}", "logging", ""),
    "docker build": (lambda t: f"#12 25.71 {t}", "docker-build", ""),
    "docker build, failed step": (lambda t: f"25.71 {t}", "docker-build", ""),
    "buildkite page": (lambda t: f"  | [2024-05-06T10:00:01Z] {t}", "buildkite", ""),
    "jenkins": (lambda t: f"[2024-05-06T10:00:01.123Z] {t}", "jenkins", ""),
    "jenkins clock": (lambda t: f"10:00:01  {t}", "timestamp", ""),
    "clock": (lambda t: f"2024-10-27 22:58:11 {t}", "timestamp", ""),
    "clock in brackets": (lambda t: f"[10:00:01] {t}", "timestamp", ""),
    "cloudwatch": (lambda t: f"1756144013378,{t}", "cloudwatch", ""),
    "cloudwatch, quoted": (lambda t: '1756144013378,"' + t.replace('"', '""') + '"', "cloudwatch", ""),
    "hugging face endpoint": (lambda t: f"2024/10/27 22:58:11 ~ {t}", "timestamp", ""),
    "ray": (lambda t: f"(RayWorkerWrapper pid=123, ip=10.0.0.2) {t}", "ray", "RayWorkerWrapper pid=123 ip=10.0.0.2"),
    "ray local": (lambda t: f"\x1b[36m(RayWorkerVllm pid=44)\x1b[0m {t}", "ray", "RayWorkerVllm pid=44"),
    "ray repeated": (
        lambda t: f"(RayWorkerWrapper pid=123, ip=10.0.0.2) {t} [repeated 3x across cluster]",
        "ray", "RayWorkerWrapper pid=123 ip=10.0.0.2",
    ),
    "ray data": (
        lambda t: f"(MapWorker(MapBatches(Engine)) pid=9, ip=10.0.0.3) {t}", "ray",
        "MapWorker(MapBatches(Engine)) pid=9 ip=10.0.0.3",
    ),
    "ray data local": (lambda t: f"(MapWorker(MapBatches(Engine)) pid=9) {t}", "ray", "MapWorker(MapBatches(Engine)) pid=9"),
    "ray serve": (
        lambda t: f"(ServeReplica:llm:VLLMDeployment pid=9, ip=10.0.0.3) {t}", "ray", "ServeReplica:llm:VLLMDeployment pid=9 ip=10.0.0.3",
    ),
    "torch rank": (lambda t: f"[rank3]: {t}", "torchrun", "rank3"),
    "torchrun": (lambda t: f"[default0]:{t}", "torchrun", "default0"),
    "mpirun": (lambda t: f"[1,2]<stderr>:{t}", "mpirun", "rank2"),
    "mpirun 5": (lambda t: f"[prterun-node1-12@1,2]<stdout>: {t}", "mpirun", "rank2"),
    "srun": (lambda t: f"0: {t}", "srun", "rank0"),
    "srun padded": (lambda t: f" 3: {t}", "srun", "rank3"),
    "torchserve": (lambda t: f"[INFO ] W-9000-model_1.0-stdout MODEL_LOG - {t}", "torchserve", "W-9000-model_1.0-stdout"),
    "unsloth": (lambda t: f"vLLM STDOUT: {t}", "unsloth", ""),
    "loguru": (lambda t: f"2024-01-22 14:32:27 | ERROR | stderr | {t}", "timestamp", ""),
    "quote": (lambda t: f"> {t}", "quote", ""),
}  # fmt: skip

# What really stands inside what.
OUTER = ["compose", "docker json", "docker -t", "containerd", "actions", "gh run view", "gitlab", "buildkite", "jenkins",
         "kubectl --prefix", "journald", "fluent bit", "logfmt", "quote"]  # fmt: skip
INNER = ["ray", "ray local", "torch rank", "torchrun", "mpirun", "compose", "docker -t", "srun", "docker json"]


@pytest.mark.parametrize("name", WRAPPERS, ids=ids)
def test_each_wrapper_gives_the_bare_messages(name: str) -> None:
    wrap, kind, source = WRAPPERS[name]
    reader = LineReader()
    lines = reader.feed("\n".join(map(wrap, MESSAGES)).encode()) + reader.finish()
    assert texts(lines) == MESSAGES
    assert [line.number for line in lines] == list(range(1, len(MESSAGES) + 1))
    assert {line.source for line in lines} == {source}
    assert reader.wrappers == (kind,)


def test_the_lines_of_an_exception_that_pytest_shows() -> None:
    shown = ["        # a dummy", ">       config = LoRAConfig(max_lora_rank=48)",
             "E       pydantic_core.ValidationError: 1 validation error for LoRAConfig", "E       max_lora_rank",
             "E         Input should be 1, 8 or 16", "", "server.py:302: ValidationError"]
    said = ["pydantic_core.ValidationError: 1 validation error for LoRAConfig", "max_lora_rank", "  Input should be 1, 8 or 16"]
    assert read("\n".join(shown)) == [Line(i, text) for i, text in enumerate([*shown[:2], *said, *shown[5:]], 1)]


def test_a_letter_and_blanks_alone_are_no_line_of_pytest() -> None:
    assert read(f"E       mc2\n{HEAD}\n") == [Line(1, "E       mc2"), Line(2, HEAD)]


def test_the_raw_stream_of_dockers_api() -> None:
    """A frame's size may be any number, also one whose byte begins no character."""
    messages = [*MESSAGES, "x" * 199, "Killed"]
    frames = [b"%c\0\0\0%s%s\n" % (1 + place % 2, (len(text) + 1).to_bytes(4, "big"), text.encode())
              for place, text in enumerate(messages)]
    reader = LineReader()
    assert texts(reader.feed(b"".join(frames)) + reader.finish()) == messages
    assert (reader.encoding, reader.wrappers) == ("utf-8", ("docker-stream",))


@pytest.mark.parametrize("size", [10, 266, 2560, 2608, 2815, 3338])
@pytest.mark.parametrize("step", [1, 7, 100_000])
def test_a_line_feed_in_the_size_of_a_frame_is_none(size: int, step: int) -> None:
    frames = [b"\1\0\0\0" + len(text).to_bytes(4, "big") + text for text in ((b"x" * (size - 1)) + b"\n", b"Killed\n")]
    data, reader = b"".join(frames), LineReader()
    lines = [line for at in range(0, len(data), step) for line in reader.feed(data[at:at + step])] + reader.finish()
    assert [line.text for line in lines if line.text] == ["x" * (size - 1), "Killed"]


@given(
    st.sampled_from(sorted(WRAPPERS)),
    st.lists(st.sampled_from(MESSAGES), min_size=1, max_size=25),
    st.integers(0, 25),
    st.lists(st.integers(1, 400), max_size=8),
)
@settings(max_examples=300, deadline=None)
def test_any_messages_in_any_wrapper_in_any_chunks(name: str, picked: list[str], at: int, cuts: list[int]) -> None:
    wrap, _, source = WRAPPERS[name]
    messages = [*picked[:at], HEAD, *picked[at:]]  # a doubtful wrapper is only taken off a log
    data = "\n".join(map(wrap, messages)).encode()
    reader, lines = LineReader(), []
    for cut in cuts:
        lines += reader.feed(data[:cut])
        data = data[cut:]
    lines += reader.feed(data) + reader.finish()
    assert lines == [Line(i, text, source) for i, text in enumerate(messages, 1)]


def test_an_exception_group_s_bar_behind_gitlab_s_letters_is_no_column_of_compose() -> None:
    bars = ["    | RuntimeError: boom", "    +------", HEAD, *MESSAGES[:4]]
    assert read("\n".join(f"01E {text}" for text in bars)) == [Line(i, text) for i, text in enumerate(bars, 1)]


@pytest.mark.parametrize("outer", OUTER, ids=ids)
@pytest.mark.parametrize("inner", INNER, ids=ids)
def test_one_wrapper_in_another(outer: str, inner: str) -> None:
    if outer == inner:
        pytest.skip("no file is wrapped twice in the same")
    wrap_outer, _, source_outer = WRAPPERS[outer]
    wrap_inner, _, source_inner = WRAPPERS[inner]
    lines = read("\n".join(wrap_outer(wrap_inner(text)) for text in MESSAGES))
    source = " / ".join(filter(None, (source_inner, source_outer)))
    assert lines == [Line(i, text, source) for i, text in enumerate(MESSAGES, 1)]


def test_actions_over_compose_over_ray() -> None:
    stamp, service = "2024-05-06T10:00:01.1234567Z ", "vllm-head-1  | "
    ray = "\x1b[36m(RayWorkerWrapper pid=9, ip=10.0.0.2)\x1b[0m "
    reader = LineReader()
    lines = reader.feed("".join(f"{stamp}{service}{ray}{t}\n" for t in MESSAGES).encode()) + reader.finish()
    assert texts(lines) == MESSAGES
    assert lines[0].source == "RayWorkerWrapper pid=9 ip=10.0.0.2 / vllm-head-1"
    assert set(reader.wrappers) == {"github-actions", "compose", "ray"}


# --- what is no wrapper ----------------------------------------------------------------------------------------

UNTOUCHED = [
    "Key                 | Status     |",
    "--------------------+------------+-",
    "lm_head.weight      | UNEXPECTED |",
    "a | b",
    "| NVIDIA-SMI 550.54   Driver Version: 550.54 |",
    "gpt-4 | 0.5 | 0.7",
    "  | Traceback (most recent call last):",
    "  +-+---------------- 1 ----------------",
    "(Worker_TP0_EP0 pid=12) some text",
    "(ApiServer_3 pid=12) some text",
    "(DPEngineCoreActor_DP0 pid=12) some text",
    "(VLLM_DP_Coordinator pid=12) some text",
    "(MainProcess pid=1) some text",
    "(NewKindOfProcess pid=3) some text",
    "[my-prefix] INFO 10-08 20:33:48 [core.py:1] text",
    "prod-llm INFO 10-08 20:33:48 [core.py:1] text",
    "2025-06-18T14:05:30+00:00 - gpustack.worker.serve_manager - INFO - Preparing the files...",
    "2024-05-06 10:00:01,123 - vllm - INFO - text",
    "2024-05-06 10:00:01,123 INFO worker.py:1832 -- Connecting to existing Ray cluster at address: 10.0.0.1",
    "2025-09-05T10:00:01.123456Z  INFO dynamo_runtime::worker: text",
    "[2024-05-06 10:00:01 TP0] Load weight begin.",
    "12:30:00 noon is no log",
    "[INFO ] main MODEL_LOG - text",
    "INFO W-9000-model_1.0 is up, see MODEL_LOG - text",
    "0: first of a list",
    "1: second of a list",
    '{"object":"error","message":"no","type":"NotFoundError","param":null,"code":404}',
    '{"model": "x", "messages": [{"role": "user", "content": "hi"}]}',
    '{"message": "Hello"}',
    '{"architectures": ["LlamaForCausalLM"], "model_type": "llama"}',
    "{'log': 'INFO', 'stream': 'stdout'}",
    "raise ValueError: not a pod",
    "<frozen runpy> line 88",
    ">>> import vllm",
    "$ vllm serve /models/x",
    "ray.exceptions.RayTaskError(E): ray::LLMRayActor.__init__() (pid=44, ip=10.1.4.12, actor_id=5)",
]


@pytest.mark.parametrize("text", UNTOUCHED)
def test_look_alikes_stay(text: str) -> None:
    assert texts(read(f"{HEAD}\n{text}\n{HEAD}\n")) == [HEAD, text, HEAD]
    assert texts(read(text)) == [text]


def test_a_list_of_look_alikes_stays() -> None:
    log = [text for text in UNTOUCHED if not text.startswith("[my-")]
    assert texts(read("\n".join(log * 4))) == log * 4


def test_a_table_inside_a_compose_log_stays() -> None:
    table = [HEAD, "name        | status", "lm_head     | MISSING", "embed       | MISSING", "norm        | MISSING"]
    assert texts(read("\n".join(f"vllm-1  | {row}" for row in table))) == table


def test_vllm_prefix_that_forwards_ray_is_kept() -> None:
    (line,) = read("(EngineCore_DP0 pid=12) \x1b[36m(RayWorkerWrapper pid=345, ip=10.0.0.2)\x1b[0m ERROR 10-08 20:33:48 [x.py:1] no")
    assert line.text == "(EngineCore_DP0 pid=12) ERROR 10-08 20:33:48 [x.py:1] no"
    assert line.source == "RayWorkerWrapper pid=345 ip=10.0.0.2"


# --- JSON ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("record", "text"),
    [
        ({"asctime": "t", "levelname": "ERROR", "name": "vllm", "message": "Engine died"}, ["ERROR [vllm.py:N] Engine died"]),
        ({"level": "warn", "msg": "low", "ts": 1}, ["WARNING [record.py:N] low"]),
        ({"level": 50, "msg": "dead", "time": 1}, ["CRITICAL [record.py:N] dead"]),
        ({"event": "started", "level": "info", "timestamp": "t"}, ["INFO [record.py:N] started"]),
        ({"jsonPayload": {"message": "boom", "level": "error"}, "resource": {}}, ["ERROR [record.py:N] boom"]),
        ({"Body": "text", "SeverityText": "ERROR", "Timestamp": 1}, ["ERROR [record.py:N] text"]),
        ({"level": "error", "message": HEAD, "time": 1}, [HEAD]),
        ({"level": "error", "pathname": "/x/serving_chat.py", "message": f"no\r\n{HEAD}", "time": 1},
         ["ERROR [serving_chat.py:N] no", f"ERROR [serving_chat.py:N] {HEAD}"]),
        ({"levelname": "INFO", "name": "vllm.entrypoints.openai.serving_chat", "message": "x"}, ["INFO [serving_chat.py:N] x"]),
        ({"text": "x", "record": {"level": {"name": "ERROR"}, "file": {"name": "core.py"}, "message": "dead"}}, ["ERROR [core.py:N] dead"]),
        ({"level": "error", "message": '  File "x"', "stream": "stderr"}, ['  File "x"']),
        ({"MESSAGE": [104, 105], "PRIORITY": "3", "__REALTIME_TIMESTAMP": "1"}, ["hi"]),
        (
            {"levelname": "ERROR", "message": "failed", "asctime": "t", "exc_info": 'Traceback (most recent call last):\n  File "x"\nE: 1'},
            [f"ERROR [record.py:N] {line}" for line in ("failed", "Traceback (most recent call last):", '  File "x"', "E: 1")],
        ),
        ({"message": "half \ud800 pair", "time": 1}, ["half \ufffd pair"]),
        ({"log": "\x1b[0;36m(APIServer pid=1)\x1b[0;0m x\n", "stream": "stdout", "time": "t"}, ["(APIServer pid=1) x"]),
    ],
)
def test_json_records(record: dict[str, object], text: list[str]) -> None:
    lines = read(json.dumps(record))
    shown = [re.sub(r"^(\w+ \[\w+\.py:)\d{1,6}\]", r"\1N]", line.text) for line in lines]
    assert shown == text
    assert len({line.text.partition("]")[0] for line in lines if " [" in line.text} or {""}) == 1
    assert {line.number for line in lines} == {1}
    for line in lines:
        line.text.encode()


def otlp(text: str, **fields: object) -> dict[str, object]:
    return {"timeUnixNano": "1763632800000000000", "severityText": "", "body": {"stringValue": text}, **fields}


def batch(*records: dict[str, object], pod: str = "vllm-0") -> str:
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "vllm"}}, {"key": "k8s.pod.name", "value": {"stringValue": pod}}]}
    return json.dumps({"resourceLogs": [{"resource": resource, "scopeLogs": [{"scope": {}, "logRecords": list(records)}]}]})


def test_a_batch_of_opentelemetry_records() -> None:
    lines = read("\n".join([batch(*map(otlp, MESSAGES[:3])), batch(*map(otlp, MESSAGES[8:13]), pod="vllm-1")]) + "\n")
    assert texts(lines) == [text.rstrip() for text in (*MESSAGES[:3], *MESSAGES[8:13])]
    assert [line.number for line in lines] == [1] * 3 + [2] * 5
    assert {line.source for line in lines} == {"vllm-0", "vllm-1"}


def test_an_opentelemetry_record_has_its_level_and_traceback() -> None:
    trace = {"key": "exception.stacktrace", "value": {"stringValue": "Traceback (most recent call last):\nValueError: x\n"}}
    assert texts(read(batch(otlp("it failed", severityText="Error", attributes=[trace])) + "\n")) == [
        "ERROR it failed", "Traceback (most recent call last):", "ValueError: x"]
    flat = {"body": "it failed", "severity_text": "ERROR", "timestamp": "2025-11-20T10:00:00Z",
            "attributes": {"exception.stacktrace": "Traceback (most recent call last):\nValueError: x\n"}}
    assert [re.sub(r"py:\d{1,6}\]", "py:N]", text) for text in texts(read(json.dumps(flat) + "\n"))] == [
        f"ERROR [record.py:N] {text}" for text in ("it failed", "Traceback (most recent call last):", "ValueError: x")]


@pytest.mark.parametrize("text", [
    '{"resourceLogs": []}', '{"resourceLogs": 7}', '{"resourceLogs": [7, {"scopeLogs": [7, {"logRecords": [7, {"body": 7, "timeUnixNano": 1}]}]}]}',
    '{"resourceLogs": [{"scopeLogs": [{"logRecords": [{"body": {"stringValue": "of a client, without a time"}}]}]}]}',
    '{"resourceLogs": [{"resource": {"attributes": {"k": 1}}, "scopeLogs": {"a": 1}}]}',
])
def test_what_is_no_batch_of_opentelemetry_is_kept(text: str) -> None:
    assert texts(read(text + "\n")) == [text]


def test_carriage_returns_in_docker_json() -> None:
    bars = "".join(f"Loading shards:  {p}% Completed | {p}/100 [00:01<00:11,  1.16s/it]\r" for p in (10, 20, 30))
    lines = read(docker_json(bars + HEAD))
    assert texts(lines) == ["Loading shards:  30% Completed | 30/100 [00:01<00:11,  1.16s/it]", HEAD]


def test_docker_json_cut_off() -> None:
    whole = docker_json("ERROR 10-08 20:33:48 [core.py:1] déjà vu")
    start = len('{"log": "')
    for end in range(start + 5, len(whole)):
        (line,) = read(whole[:end])
        assert "ERROR 10-08 20:33:48 [core.py:1] déjà vu".startswith(line.text), whole[:end]


def test_docker_json_parts_are_joined() -> None:
    long = "x" * 16384
    parts = [long, "end\n"]
    log = "\n".join(json.dumps({"log": p, "stream": "stderr", "time": "t"}) for p in parts)
    assert read(f"{log}\n{docker_json('next')}") == [Line(1, long + "end"), Line(3, "next")]


# --- containerd's parts ----------------------------------------------------------------------------------------


def cri(tag: str, text: str, stream: str = "stderr") -> str:
    return f"2024-01-01T00:00:00.000000000Z {stream} {tag} {text}\n"


def test_containerd_parts_are_joined_by_stream() -> None:
    log = cri("P", "INFO 10-08 20:33:48 ") + cri("F", "other", "stdout") + cri("P", "[x.py:1] ") + cri("F", "end")
    assert read(log) == [Line(2, "other"), Line(1, "INFO 10-08 20:33:48 [x.py:1] end")]


def test_containerd_part_without_end() -> None:
    assert read(cri("P", "ValueError: no")) == [Line(1, "ValueError: no")]


def test_bars_in_containerd_parts_lose_no_message() -> None:
    bar = "Loading: {}%|#| {}/9 [00:01<00:09,  1.00s/it]"
    log = cri("P", "\r".join(bar.format(i, i) for i in range(3)) + "\rERROR 10-08 20:3") + cri("F", "3:48 [x.py:1] lost?")
    assert texts(read(log)) == [bar.format(2, 2), "ERROR 10-08 20:33:48 [x.py:1] lost?"]


def test_parts_are_bounded() -> None:
    reader = LineReader()
    lines: list[Line] = []
    for _ in range(60):
        lines += reader.feed(cri("P", "y" * 16000).encode())
    lines += reader.feed(cri("F", "z").encode()) + reader.finish()
    assert [len(line.text) for line in lines] == [MAX_PARTIAL]
    assert reader.long_lines == 1


def test_many_open_parts_are_bounded() -> None:
    reader = LineReader()
    for i in range(5000):
        reader.feed(f"[pod/p-{i}/c] {cri('P', 'a')}".encode())
    assert len(reader._unwrapper._partial) <= 64
    reader.finish()


# --- CI markers ------------------------------------------------------------------------------------------------


def test_ci_markers() -> None:
    stamp = "2024-05-06T10:00:01.1234567Z "
    assert texts(read(f"{stamp}##[group]Run vllm serve x\n{stamp}##[endgroup]\n{stamp}{HEAD}\n")) == ["Run vllm serve x", HEAD]
    assert texts(read(f"section_start:1560896352:script\r\x1b[0KRunning\n{HEAD}\nsection_end:1560896353:script\r\x1b[0K\n")) == ["Running", HEAD]
    assert texts(read("\x1b[8mha:////4x==\x1b[0m[Pipeline] sh")) == ["ha:////4x==[Pipeline] sh"]
    assert texts(read("[Pipeline] sh")) == ["sh"]


def test_kernel_line_in_the_journal() -> None:
    (line,) = read("Nov 20 11:30:13 node7 kernel: Out of memory: Killed process 4242 (python3)")
    assert line == Line(1, "Out of memory: Killed process 4242 (python3)", "node7 kernel")


def test_google_viewer_gives_the_level_back() -> None:
    (line,) = read("ERROR 2025-11-19T20:14:02.1Z [resource.labels.containerName: vllm] (EngineCore pid=1) [core.py:842] failed")
    assert line == Line(1, "(EngineCore pid=1) ERROR [core.py:842] failed", "vllm")


# --- waiting for evidence --------------------------------------------------------------------------------------


def test_doubtful_lines_wait_for_evidence() -> None:
    reader = LineReader(join_wrapped=False)
    assert reader.feed(b"0: first words\n0: more words\n") == []
    assert texts(reader.feed(f"0: {HEAD}\n".encode())) == ["first words", "more words", HEAD]


def test_doubtful_lines_do_not_wait_for_ever() -> None:
    reader = LineReader()
    given = [len(reader.feed(f"{i}: item\n".encode())) for i in range(2000)]
    assert sum(given) >= 2000 - 32
    assert len(reader._held) <= 32
    assert sum(given) + len(reader.finish()) == 2000


def test_three_lines_of_one_service_are_evidence() -> None:
    assert texts(read("vllm  | one\nvllm  | two\nvllm  | three\n")) == ["one", "two", "three"]
    assert texts(read("vllm  | one\nvllm  | two\n")) == ["vllm  | one", "vllm  | two"]


def test_depth_is_bounded() -> None:
    assert len(read("[rank0]: " * (MAX_DEPTH + 3) + "x")) == 1


def test_names_are_bounded() -> None:
    reader = LineReader()
    for i in range(6000):
        reader.feed(f"service{i}-1  | {HEAD}\n".encode())
    assert len(reader._unwrapper._known) <= 5000


def test_the_labels_of_a_script_are_sources() -> None:
    message = "(EngineCore pid=9) ERROR 10-08 20:33:48 [core.py:1] no"
    lines = read("\n".join([f"[prefill] {message}", "[prefill] Traceback (most recent call last):", "[decode-1] Killed", f"[decode-1] {message}", "[prefill]"]))
    assert [(line.source, line.text) for line in lines] == [
        ("prefill", message), ("prefill", "Traceback (most recent call last):"), ("decode-1", "Killed"), ("decode-1", message), ("prefill", "")]


def test_a_level_in_brackets_is_no_label() -> None:
    lines = [f"[{level}] {HEAD}" for level in ("INFO", "WARNING", "ERROR")]
    assert texts(read("\n".join(lines))) == lines
