"""How a release shortens each phase of the start."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from vllm_doctor.catalog import flags
from vllm_doctor.catalog.releases import Releases
from vllm_doctor.messages import message


class _Way(NamedTuple):
    """One way to shorten a phase: `flag` must exist, with `value` among its choices where the table lists them."""

    text: str
    flag: str = ""
    value: str = ""
    applies: Callable[[Mapping[str, Any]], bool] = lambda _: True


def _is_eager(facts: Mapping[str, Any]) -> bool:
    return facts.get("enforce_eager") is True


def _is_compiled(facts: Mapping[str, Any]) -> bool:
    return "torch_compile_seconds" in facts or (facts.get("engine") == "V1" and not _is_eager(facts))


def _loads_eagerly(facts: Mapping[str, Any]) -> bool:
    return facts.get("load_format") in {None, "auto", "safetensors"}


def _has_graphs(facts: Mapping[str, Any]) -> bool:
    return facts.get("device") in {None, "cuda"}


_MOST = 2
_KEEP_COMPILED = _Way("Keep the torch.compile cache between starts: mount the directory of VLLM_CACHE_ROOT (default "
                      "~/.cache/vllm).", applies=_is_compiled)
_WAYS: Mapping[str, tuple[_Way, ...]] = {
    "args": (
        _Way("Python imports its modules in this phase: keep the environment on a local disk."),),
    "config": (
        _Way("The engine process starts in this phase and imports its modules: keep the Python environment and the "
             "model's config.json on a local disk.", applies=lambda facts: facts.get("engine") == "V1"),),
    "download": (
        _Way("Keep the download between starts: mount the directory of HF_HOME, or pass a model directory."),),
    "distributed-init": (
        _Way("Check that all ranks start at the same time: the first one waits for the last."),),
    "weights": (
        _Way("Stream the weights with concurrent reads: --load-format runai_streamer (needs the package "
             "vllm[runai]).", "--load-format", "runai_streamer", _loads_eagerly),
        _Way("Read whole files from a network file system: --safetensors-load-strategy eager.",
             "--safetensors-load-strategy", "eager", _loads_eagerly),
        _Way("Keep the checkpoint on a local NVMe disk."),
    ),
    "profiling": (
        _KEEP_COMPILED,
        _Way("Skip the multimodal part of the memory profiling run: --skip-mm-profiling. Its memory is then not "
             "reserved.", "--skip-mm-profiling", applies=lambda facts: "mm_item_tokens" in facts
             or "encoder_cache_budget_tokens" in facts),
        _Way("Lower --max-num-batched-tokens: the memory profiling run computes one batch of this size.",
             "--max-num-batched-tokens"),
    ),
    "graph-capture": (
        _KEEP_COMPILED._replace(applies=lambda facts: facts.get("device") == "cpu" and _is_compiled(facts)),
        _Way("Capture fewer CUDA graphs: lower --max-cudagraph-capture-size. Larger batches then run without graphs.",
             "--max-cudagraph-capture-size", applies=_has_graphs),
        _Way("Capture fewer CUDA graphs: pass a shorter list to --cuda-graph-sizes. Other batch sizes are padded or "
             "run without graphs.", "--cuda-graph-sizes", applies=_has_graphs),
        _Way("Capture fewer CUDA graphs: set cudagraph_capture_sizes in --compilation-config.", "--compilation-config",
             applies=_has_graphs),
        _Way("Lower --max-num-seqs: the largest batch size with a CUDA graph follows it.", "--max-num-seqs",
             applies=_has_graphs),
    ),
    "api": (
        _Way("The engine is ready in this phase: look for slow requests to the model hub and for plug-ins."),),
}


def advice(phase: str, facts: Mapping[str, Any], releases: Releases) -> tuple[str, ...]:
    """Return up to two sentences on how to shorten a phase in a release; one of unknown release gets what all have."""
    ways = [message(way.text) for way in _WAYS.get(phase, ()) if _exists(way, releases) and way.applies(facts)]
    return tuple(ways[:_MOST])


def _exists(way: _Way, releases: Releases) -> bool:
    """Return whether every release that may have written the log has the flag, and its value."""
    if not way.flag:
        return True
    known = flags.lookup(way.flag)
    if known is None:
        return False
    return all(known.exists(release) and (not way.value or known.accepts(way.value, release))
               for release in releases.candidates)
