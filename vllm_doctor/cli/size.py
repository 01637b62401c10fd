"""The `vllm-doctor size MODEL_DIR --gpu 24GiB` command: plan the memory of a launch before it is tried."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import click

from vllm_doctor.catalog import flags, gpus
from vllm_doctor.cli.exit_status import ExitStatus
from vllm_doctor.cli.options import Release, add_options, in_language
from vllm_doctor.cli.terminal import columns
from vllm_doctor.errors import InputError
from vllm_doctor.language import language
from vllm_doctor.memory.solver.rounding import GIB
from vllm_doctor.messages import joined, message
from vllm_doctor.options import Options
from vllm_doctor.sizing import size_report
from vllm_doctor.sizing.changes import changes
from vllm_doctor.sizing.from_log import LoggedLaunch, read_log
from vllm_doctor.sizing.launch import Launch, human_int, parse_release
from vllm_doctor.sizing.model_config import ModelConfig, read_model
from vllm_doctor.sizing.plan import LaunchTarget, plan
from vllm_doctor.sizing.request_lengths import Requests, read_requests


class HumanInt(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic only from click 8.4
    """A number as vLLM's flags accept it: 8192, 8k, 8K; optionally `auto` or -1."""

    name = "N"

    def __init__(self, *, auto: bool = False) -> None:
        self._auto = auto

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number; 0 for auto."""
        text = str(value)
        if self._auto and text in {"auto", "-1"}:
            return 0
        try:
            number = human_int(text)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if number < 1:
            self.fail(f"{text!r} is not a number from 1", param, ctx)
        return number


def _vllm_flags(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the vLLM flags that decide the memory, under vLLM's names."""
    options = (
        click.option("--tensor-parallel-size", "-tp", type=click.IntRange(1, 1024), metavar="N",
                     help="GPUs that share each layer."),
        click.option("--pipeline-parallel-size", "-pp", type=click.IntRange(1, 1024), metavar="N",
                     help="Pipeline stages."),
        click.option("--max-model-len", type=HumanInt(auto=True),
                     help="Longest request in tokens (default: the model's maximum); `auto`: the longest that fits."),
        click.option("--max-num-seqs", type=HumanInt(), help="Requests that run at once."),
        click.option("--max-num-batched-tokens", type=HumanInt(), help="Tokens per step."),
        click.option("--gpu-memory-utilization", type=float, metavar="SHARE",
                     help="Share of the GPU's memory that vLLM uses (default: that of the release)."),
        click.option("--kv-cache-dtype", metavar="DTYPE", help="Data type of the KV cache, such as fp8."),
        click.option("--kv-cache-memory-bytes", type=HumanInt(),
                     help="Size of the KV cache, instead of the rest of the budget."),
        click.option("--dtype", default="auto", show_default=True, metavar="DTYPE",
                     help="Data type of weights and activations."),
        click.option("--quantization", "-q", metavar="METHOD",
                     help="Quantization, also while loading: fp8, bitsandbytes."),
        click.option("--block-size", type=click.IntRange(1, 4096), metavar="N",
                     help="Tokens per block of the KV cache."),
        click.option("--mamba-ssm-cache-dtype", type=click.Choice(("auto", "float32", "float16", "bfloat16")),
                     help="Data type of the state of Mamba layers."),
        click.option("--cpu-offload-gb", type=click.FloatRange(min=0), metavar="GIB",
                     help="Weights kept in host memory, per GPU."),
        click.option("--enforce-eager", is_flag=True, help="Run without CUDA graphs."),
        click.option("--no-enable-prefix-caching", "no_prefix_caching", is_flag=True,
                     help="Run without prefix caching."),
    )
    return add_options(options, function)


@click.command("size", short_help="Plan the memory of a launch before it is tried.")
@click.argument("model_dir", required=False, metavar="[MODEL_DIR]")
@click.option("--from", "log", metavar="LOG",
              help="Log of an earlier start, whose flags and measurements are used.")
@click.option("--gpu", metavar="SIZE|NAME", help="Memory of the GPU (24GiB) or its name (h100-80gb, rtx-4090, l4).")
@click.option("--device", type=click.Choice(("cuda", "cpu")), default="cuda", show_default=True,
              help="Backend of the launch.")
@click.option("--kv-cache-space", type=click.FloatRange(min=0, min_open=True), metavar="GIB",
              help="Value of VLLM_CPU_KVCACHE_SPACE, for the CPU backend.")
@click.option("--vllm-version", type=Release(), default="",
              help="vLLM release (default: that of the log, else the newest known).")
@click.option("--requests", "requests_file", metavar="FILE",
              help="JSON Lines file of requests, with their lengths or their text.")
@click.option("--tokenizer", metavar="FILE",
              help="tokenizer.json that counts the tokens of --requests (default: 4 characters per token).")
@click.option("--format", "format_", type=click.Choice(("text", "json")), default="text", show_default=True,
              help="Format of the plan.")
@click.option("--width", type=click.IntRange(min=40), metavar="N", help="Width of the text in columns.")
@in_language
@_vllm_flags
def command(model_dir: str | None, log: str | None, **values: Any) -> None:
    """Plan the memory of a launch: whether a model fits on a GPU, and if not, what makes it fit.

    MODEL_DIR is a directory with config.json and weights, or a Hugging Face id in the local cache; nothing is
    downloaded. The options after --width are vLLM's. Exit status: 0 it fits, 1 it does not fit, 2 wrong use.
    """
    if not model_dir and not log:
        raise InputError(message("nothing to plan: pass a model folder, or a log with --from LOG"))
    total = _total(values["gpu"])
    logged = None
    if log:  # if the log does not show its GPU, it is assumed to be the given one
        logged = read_log(log, Options(vllm_version=values["vllm_version"], gpu_memory_gib=total))
    model = read_model(model_dir) if model_dir else None
    requests = read_requests(values["requests_file"], values["tokenizer"]) if values["requests_file"] else None
    launch = _launch(values, logged)
    if requests is not None and values["max_model_len"] is None:
        launch = replace(launch, max_model_len=_within(requests, model, launch))
    planned = plan(_target(values["gpu"], total, logged, model, launch), launch)
    alternatives = changes(planned)

    spoken = language(values["language"])
    text = size_report.as_json(planned, alternatives, requests, spoken) if values["format_"] == "json" \
        else size_report.as_text(planned, alternatives, requests, columns(values["width"]), spoken)
    click.echo(text, nl=False)
    sys.exit(ExitStatus.FOUND if planned.verdict == "does-not-fit" else ExitStatus.OK)


def _within(requests: Requests, model: ModelConfig | None, launch: Launch) -> int:
    """Return the length that the requests need, at most the longest of the model."""
    return min(requests.needed, model.lengths(launch.version)[1]) if model is not None else requests.needed


def _launch(values: dict[str, Any], logged: LoggedLaunch | None) -> Launch:
    """Return the launch with the flags as typed, else as the log shows them. Raises InputError."""
    named = values["vllm_version"]
    if named:
        version = parse_release(named)
    elif logged is not None and logged.version is not None:
        version = logged.version
    else:
        version = parse_release(flags.resolve(None))
    fields: dict[str, Any] = dict(logged.launch) if logged is not None else {}
    for name in ("tensor_parallel_size", "pipeline_parallel_size", "max_model_len", "max_num_seqs",
                 "max_num_batched_tokens", "gpu_memory_utilization", "kv_cache_dtype", "kv_cache_memory_bytes",
                 "quantization", "block_size", "cpu_offload_gb", "mamba_ssm_cache_dtype"):
        if values[name] is not None:
            fields[name] = values[name]
    fields |= {"version": version, "dtype": values["dtype"], "device": values["device"],
               "prefix_caching": not values["no_prefix_caching"]}
    fields["enforce_eager"] = values["enforce_eager"] or fields.get("enforce_eager", False)
    if values["kv_cache_space"] is not None:
        if values["device"] != "cpu":
            raise InputError(message("--kv-cache-space applies only to the CPU backend: add --device cpu"))
        fields["kv_cache_memory_bytes"] = int(values["kv_cache_space"] * GIB)
    release = ".".join(map(str, version))
    for name in ("kv_cache_memory_bytes", "cpu_offload_gb", "kv_cache_dtype", "mamba_ssm_cache_dtype"):
        flag = flags.lookup("--" + name.replace("_", "-"))
        if values[name] is not None and flag is not None and not flag.exists(release):
            raise InputError(message("{flag} does not exist in vLLM {release} (from {first})", flag=flag.name,
                                     release=release, first=flag.first))
    return Launch(**fields)


def _total(gpu: str | None) -> float | None:
    """Return the GiB of the GPU as typed. Raises InputError if it is neither a size nor a known name."""
    total = gpus.gib_of(gpu) if gpu else None
    if gpu and total is None:
        raise InputError(message("--gpu {gpu}: neither a size (24GiB) nor a known name; known are {names}", gpu=gpu,
                                 names=joined(", ", gpus.NAMES)))
    return total


def _target(gpu: str | None, total: float | None, logged: LoggedLaunch | None, model: ModelConfig | None,
             launch: Launch) -> LaunchTarget:
    if total is None and logged is not None:
        total = logged.device_gib
    if launch.device == "cpu":
        if launch.kv_cache_memory_bytes is None:
            raise InputError(message("with --device cpu, pass the size of the KV cache: --kv-cache-space GIB"))
        total = total or launch.kv_cache_memory_bytes / GIB
    if total is None:
        raise InputError(message("the GPU is unknown: pass --gpu 24GiB, or a name such as h100-80gb"))
    return LaunchTarget(
        device_gib=total, model=model, measured=logged.measured if logged is not None else None,
        derived_length=logged.derived_length if logged is not None else 0,
        gpu_name=gpu or (logged.gpu_name if logged is not None else ""),
        free_gib=logged.free_gib if logged is not None and not gpu else None)
