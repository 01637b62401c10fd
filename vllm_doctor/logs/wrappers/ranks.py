"""Labels of ranks and workers: Ray, torchrun, mpirun, srun, DJL serving, TorchServe, Unsloth, launch scripts.

The labelled rank or worker becomes the line's source. vLLM's own process prefix before a Ray label stays with the
message.
"""

from __future__ import annotations

from vllm_doctor.logs.line_prefix import VLLM_PROCESS
from vllm_doctor.logs.wrappers.wrapper_match import WrapperMatch
from vllm_doctor.text.patterns import lazy_pattern

_RAY = lazy_pattern(
    rf"(?P<keep>(?:{VLLM_PROCESS} )?)\("
    r"(?P<who>(?:(?P<name>[A-Za-z_][\w.:<>-]{0,120}(?:\([\w.:<>(), -]{1,120}\))?) )?(?:rank=\d+ )?pid=[\w-]+"
    r"|raylet|autoscaler [+\dhms]+|gcs_server)(?P<ip>, ip=[\w.:-]+)?\)(?: |$)"
)
_VLLM_ONLY = lazy_pattern(VLLM_PROCESS)
_RAY_NAME = lazy_pattern(
    r"[a-z_]|.*(?:Ray|Actor|Replica|Controller|Proxy|Runner|Trainer|WorkerDict|HttpServer|Map\w{0,40}\()")
_REPEATED = lazy_pattern(r" ?\[repeated \d+x across (?:the )?(?:all nodes|cluster)\](?: \(Ray deduplicates.*)?$")
_TORCH_RANK = lazy_pattern(
    r"\[(?P<rank>rank\d{1,5})\]:(?: |(?=\S)|$)|\[(?P<role>(?!rank)[A-Za-z][\w-]{0,40}\d{1,5})\]:")
_MPI = lazy_pattern(r"\[(?:[\w.@-]{1,200}@)?\d+,(?P<rank>\d+)\]<std(?P<stream>out|err)>:(?P<v5> ?)")
_SRUN = lazy_pattern(r" {0,5}(?P<rank>\d{1,5}): ")
_SRUN_EMPTY = lazy_pattern(r" {0,5}(?P<rank>\d{1,5}):$")
_JAVA_LEVEL = r"\[?(?:INFO|WARN|ERROR|DEBUG) *\]? "
_DJL = lazy_pattern(_JAVA_LEVEL + r"PyProcess(?: -)? (?P<name>W-[\w.-]{1,120}): ")
_TORCHSERVE = lazy_pattern(_JAVA_LEVEL + r"(?P<name>W-[\w.-]{1,120}-std(?:out|err)) MODEL_LOG - ")
_UNSLOTH = ("vLLM STDOUT:", "vLLM STDERR:")
_LABEL = lazy_pattern(
    r"\[(?P<name>(?!(?:TRACE|DEBUG|INFO|WARN|WARNING|ERROR|CRITICAL|FATAL)\])[A-Za-z][\w.-]{0,40})\]"
    r"(?: (?!(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) \d)|$)")
"""Not in front of a record without a process: that may be a VLLM_LOGGING_PREFIX, which the reader of records knows."""


def ray(text: str) -> WrapperMatch | None:
    """Match `(RayWorkerWrapper pid=123, ip=10.0.0.2) msg`, also after the prefix of the process that forwards it.

    Ray Data names the operator: `(MapWorker(MapBatches(Engine)) pid=123) msg`.
    """
    m = _RAY.match(text)
    if m is None:
        return None
    if not m["ip"] and m["name"]:
        own = _VLLM_ONLY.match(text, m.end("keep"))
        if own or not _RAY_NAME.match(m["name"]):
            return None
    rest = _REPEATED.sub("", text[m.end() :])
    return WrapperMatch("ray", m["keep"] + rest, m["who"] + (m["ip"] or "").replace(",", ""))


def torchrun(text: str) -> WrapperMatch | None:
    """Match torch's `[rank0]: msg` (with one space) and `[default0]:msg` of torchrun --tee (without)."""
    m = _TORCH_RANK.match(text) if "]:" in text else None
    if m is None:
        return None
    if m["rank"]:
        return WrapperMatch("torchrun", text[m.end() :], m["rank"])
    sure = m["role"].startswith(("default", "trainer", "worker"))
    return WrapperMatch("torchrun", text[m.end() :], m["role"], f"torchrun:{m['role']}", sure)


def mpirun(text: str) -> WrapperMatch | None:
    """Match `[1,0]<stderr>:msg` of mpirun --tag-output; Open MPI 5 adds the job's name and a space."""
    m = _MPI.match(text) if "]<std" in text else None
    if m is None:
        return None
    end = m.end() if "@" in m[0] else m.start("v5")
    return WrapperMatch("mpirun", text[end:], f"rank{m['rank']}")


def srun(text: str) -> WrapperMatch | None:
    """Match `0: msg` of srun --label."""
    m = _SRUN.match(text) or _SRUN_EMPTY.match(text)
    return WrapperMatch("srun", text[m.end() :], f"rank{m['rank']}", "srun", False) if m else None


def djl(text: str) -> WrapperMatch | None:
    """Match DJL serving (SageMaker LMI): `INFO  PyProcess W-93-model-stdout: msg`."""
    m = _DJL.match(text) if "PyProcess" in text else None
    return WrapperMatch("djl", text[m.end() :], m["name"]) if m else None


def torchserve(text: str) -> WrapperMatch | None:
    """Match TorchServe: `[INFO ] W-9000-model_1.0-stdout MODEL_LOG - msg`."""
    m = _TORCHSERVE.match(text) if " MODEL_LOG - " in text else None
    return WrapperMatch("torchserve", text[m.end() :], m["name"]) if m else None


def unsloth(text: str) -> WrapperMatch | None:
    """Match Unsloth's `vLLM STDOUT: msg`, before the lines of the server that it starts for synthetic data."""
    return WrapperMatch("unsloth", text[len(_UNSLOTH[0]) :].removeprefix(" ")) if text.startswith(_UNSLOTH) else None


def labelled(text: str) -> WrapperMatch | None:
    """Match what scripts put before each line of a server, as by `| sed 's/^/[prefill] /'`."""
    m = _LABEL.match(text)
    return WrapperMatch("label", text[m.end() :], m["name"], f"label:{m['name']}", sure=False) if m else None
