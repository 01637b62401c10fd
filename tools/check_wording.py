"""Check rules/facts against the sources of vLLM: does every line that shows a fact give the fact?

    python tools/check_wording.py SDISTS_DIR [--only 0.33.0 ...] [--since 0.2.0] [--table FILE.md]

SDISTS_DIR holds vllm-<version>/ (tools/sdists.py). Of each release every message template is read by `ast` (logger
calls, `raise`, assertions, strings that are joined or formatted first), filled with sample values, and given to the
patterns of rules/facts. CLUES says how a placeholder is known to be a fact: by the words around it, loosely, so that
a new wording shows up here as "not covered" instead of passing in silence. NO_FACT names the look-alikes, with the
reason. Nothing of vLLM is imported or run, and no text of vLLM is written: the table has ids, counts and releases.

Exit status 1 when a template is not covered, a pattern's `vllm` is shorter than the life of its wording, or a pattern
says an engine that its own source contradicts.
"""

from __future__ import annotations

import argparse
import ast
import functools
import hashlib
import itertools
import json
import re
import string
import sys
import warnings
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from packaging.specifiers import SpecifierSet
from packaging.version import Version

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from vllm_doctor.facts import FactName, FactStore
from vllm_doctor.rules import RuleBase, builtin

SKIPPED = re.compile(
    r"^(?:benchmarks|third_party|vllm_flash_attn|distributed/(?:kv|ec|weight)_transfer|models)/|/cutlass_|collect_env"
    r"|^entrypoints/cli/benchmark|^model_executor/models/(?!registry|config|utils|__init__)"
)
LOG = re.compile(r"^(?:debug|info|warning|warn|error|exception|critical|log)(?:_once)?$")
PRINTF = re.compile(r"%(?:\((\w+)\))?([-#0 +]*\d*(?:\.\d+)?)[hlL]?([diouxXeEfFgGcrsa%])")


@dataclass(frozen=True)
class Field:
    """A placeholder: the expression that fills it, and how it is formatted (`%.2f`, `.2f`, `!r`)."""

    expression: str
    spec: str = ""


Parts = tuple["str | Field", ...]


@dataclass(frozen=True)
class Template:
    """One message of vLLM: literal text and placeholders, and whether it is logged, raised or only put together."""

    parts: Parts
    kind: str
    path: str = ""

    def skeleton(self) -> str:
        """The literal text, `{}` for a placeholder."""
        return "".join(part if isinstance(part, str) else "{}" for part in self.parts)


# --- reading -------------------------------------------------------------------------------------------------------


class Reader(ast.NodeVisitor):
    """Collects the templates of one file."""

    def __init__(self) -> None:
        self.found: list[tuple[Parts, str]] = []
        self._read: set[int] = set()
        self._names: list[dict[str, Parts]] = [{}]
        self._lists: list[dict[str, list[Parts]]] = [{}]

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:  # noqa: N802
        """A function has its own strings under its own names."""
        self._names.append({})
        self._lists.append({})
        for statement in ast.walk(node):
            self._remember(statement)
        self.generic_visit(node)
        self._names.pop()
        self._lists.pop()

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815

    def visit_Module(self, node: ast.Module) -> None:  # noqa: N802
        """Constants of the module serve all its functions."""
        for statement in node.body:
            self._remember(statement)
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:  # noqa: N802
        """A string that stands alone is documentation."""
        if not isinstance(node.value, ast.Constant):
            self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:  # noqa: N802
        """A call of a logger, or of something that may be one."""
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if node.args:
            logs = bool(LOG.match(name)) or name in {"log_fn", "print"}
            at = 1 if name == "log" and len(node.args) > 1 else 0
            parts = self.parts(node.args[at])
            if parts is not None and (logs or isinstance(node.args[at], ast.BinOp)):
                self._add(node.args[at], _printf(parts, node.args[at + 1 :]), "log" if logs else "text")
        self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> None:  # noqa: N802
        """An exception's text. Several arguments are printed as a tuple."""
        if isinstance(node.exc, ast.Call):
            texts = [self.parts(argument) for argument in node.exc.args]
            if len(texts) > 1 and all(text is not None for text in texts):
                joined: list[str | Field] = ["("]
                for number, text in enumerate(texts):
                    joined += [", '" if number else "'", *(text or ()), "'"]
                self._add(node.exc, (*joined, ")"), "raise")
            for argument, text in zip(node.exc.args, texts, strict=True):
                if text is not None:
                    self._add(argument, text, "raise")
        self.generic_visit(node)

    def generic_visit(self, node: ast.AST) -> None:
        """Any other string with more than a word in it."""
        if id(node) not in self._read and isinstance(node, (ast.Constant, ast.JoinedStr, ast.BinOp, ast.Call)):
            parts = self.parts(node)
            if parts is not None:
                self._add(node, _printf(parts, []), "text")
        super().generic_visit(node)

    def parts(self, node: ast.expr) -> Parts | None:
        """The literal text and placeholders of a string expression; None for anything else."""
        match node:
            case ast.Constant(value=str(text)):
                return (text,)
            case ast.JoinedStr():
                return tuple(itertools.chain.from_iterable(self._formatted(value) for value in node.values))
            case ast.BinOp(op=ast.Add()):
                left, right = self.parts(node.left), self.parts(node.right)
                if left is None and right is None:
                    return None
                return (*_or_field(left, node.left), *_or_field(right, node.right))
            case ast.BinOp(op=ast.Mod()):
                left = self.parts(node.left)
                values = node.right.elts if isinstance(node.right, ast.Tuple) else [node.right]
                return None if left is None else _printf(left, values)
            case ast.Call(func=ast.Attribute(value=text, attr="format")):
                left = self.parts(text)
                return None if left is None else _brace(left, node)
            case ast.Call(func=ast.Attribute(value=ast.Constant(value=str(separator)), attr="join"), args=[ast.Name(id=name)]):
                items = self._lists[-1].get(name)
                return _join(separator, items) if items else None
            case ast.Name(id=name) if name in self._names[-1] or name in self._names[0]:
                return self._names[-1].get(name) or self._names[0][name]
        return None

    def _formatted(self, value: ast.expr) -> Parts:
        if isinstance(value, ast.FormattedValue):
            inner = value.value
            if isinstance(inner, (ast.Name, ast.Constant)) and value.format_spec is None:
                known = self.parts(inner)
                if known is not None:
                    return known
            spec = "!r" if value.conversion == ord("r") else ""
            if isinstance(value.format_spec, ast.JoinedStr):
                spec = "".join(str(part.value) for part in value.format_spec.values if isinstance(part, ast.Constant))
            return (Field(ast.unparse(inner), spec),)
        return self.parts(value) or ()

    def _remember(self, node: ast.AST) -> None:
        """A string, or a list of strings, kept under a name: the longest of several."""
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                if isinstance(value, (ast.Constant, ast.JoinedStr, ast.BinOp)):
                    parts = self.parts(value)
                    if parts is not None and len(str(parts)) > len(str(self._names[-1].get(name, ()))):
                        self._names[-1][name] = parts
                elif isinstance(value, ast.List):
                    self._lists[-1][name] = [parts for item in value.elts if (parts := self.parts(item)) is not None]
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append" | "extend"), args=[value]) if name in self._lists[-1]:
                items = value.elts if isinstance(value, (ast.List, ast.Tuple)) else [value]
                self._lists[-1][name] += [parts for item in items if (parts := self.parts(item)) is not None]

    def _add(self, node: ast.AST, parts: Parts, kind: str) -> None:
        if id(node) in self._read:
            return
        self._read.update(id(inner) for inner in ast.walk(node))
        parts = _merge(parts)
        if any(isinstance(part, Field) for part in parts) or kind != "text":
            self.found.append((parts, kind))


def _or_field(parts: Parts | None, node: ast.expr) -> Parts:
    return (Field(ast.unparse(node)),) if parts is None else parts


def _join(separator: str, items: list[Parts]) -> Parts:
    joined: list[str | Field] = []
    for number, item in enumerate(items):
        joined += [separator, *item] if number else [*item]
    return tuple(joined)


def _merge(parts: Parts) -> Parts:
    merged: list[str | Field] = []
    for part in parts:
        if isinstance(part, str) and merged and isinstance(merged[-1], str):
            merged[-1] += part
        elif part != "":
            merged.append(part)
    return tuple(merged)


def _printf(parts: Parts, values: list[ast.expr]) -> Parts:
    """`%s` and its like as placeholders, filled from `values` in turn."""
    rest = iter(values)
    found: list[str | Field] = []
    for part in parts:
        if isinstance(part, Field):
            found.append(part)
            continue
        at = 0
        for match in PRINTF.finditer(part):
            found.append(part[at : match.start()])
            at = match.end()
            value = None if match[3] == "%" else next(rest, None)
            if match[3] == "%":
                found.append("%")
            else:
                name = ast.unparse(value) if value is not None and not isinstance(value, ast.Starred) else "?"
                found.append(Field(name, f"%{match[2]}{match[3]}"))
        found.append(part[at:])
    return tuple(found)


def _brace(parts: Parts, call: ast.Call) -> Parts:
    """`{}` of str.format as placeholders."""
    found: list[str | Field] = []
    count = itertools.count()
    for part in parts:
        if isinstance(part, Field):
            found.append(part)
            continue
        try:
            pieces = list(string.Formatter().parse(part))
        except ValueError:
            return parts
        for text, name, spec, _ in pieces:
            found.append(text)
            if name is None:
                continue
            if name == "" or name.isdigit():
                number = int(name) if name else next(count)
                name = ast.unparse(call.args[number]) if number < len(call.args) else "?"  # noqa: PLW2901
            found.append(Field(name, spec or ""))
    return tuple(found)


@functools.cache
def _read(digest: str, text: bytes) -> tuple[tuple[Parts, str], ...]:  # noqa: ARG001 - the digest is the key
    reader = Reader()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            reader.visit(ast.parse(text))
        except SyntaxError:
            return ()
    return tuple(dict.fromkeys(reader.found))


def templates(release: Path) -> set[Template]:
    """All message templates of one release."""
    found = set()
    for path in sorted((release / "vllm").rglob("*.py")):
        name = path.relative_to(release / "vllm").as_posix()
        if not SKIPPED.search(name):
            content = path.read_bytes()
            found |= {Template(parts, kind, name) for parts, kind in _read(hashlib.sha1(content).hexdigest(), content)}  # noqa: S324
    return found


# --- what is a fact ------------------------------------------------------------------------------------------------

# fact: words before the placeholder, and after it (regular expressions; the first must reach up to it).
CLUES: dict[str, list[tuple[str, str]]] = {
    "vllm_version": [(r"(?:server|vLLM) version $", ""), (r"LLM engine \(v$", ""), (r"  version (?:\$\{\w+\})?$", "")],
    "model": [(r"serving model $", ""), (r"  model   (?:\$\{\w+\})?$", ""), (r"any model weights with `$", "")],
    "device": [(r"detected platform $", "")],
    "architecture": [(r"[Aa]rchitecture:? '?$", r"'?(?:$| was supported| is not supported by| is partially)"), (r"^Model architectures $", r" (?:are not supported for now|failed)")],
    "attention_heads": [(r"number of attention heads \($", ""), (r"total_num_heads $", " is not divisible")],
    "tensor_parallel_size": [(r"by tensor parallel size \($", ""), (r"set tensor_parallel_size \($", "")],
    "model_weights_gib": [(r"(?:[Mm]odel loading|model weights) (?:took|takes?) (?:in total )?$", ""), (r"[Mm]odel load takes $", ""), (r"", r"^ GiB for weight"), (r"weights memory: $", "")],
    "model_load_seconds": [(r"Model loading took \{\}.{0,15} and $", "")],
    "weights_load_seconds": [(r"^Loading weights took $", "")],
    "kv_cache_available_gib": [
        (r"(?:[Aa]vailable KV cache memory|KV cache memory reduced to|reserved for KV Cache is)(?: \(|: | )$", ""), (r" kv_cache_size=$", ""),
        (r"KVCACHE_SPACE not set\. Using $", ""), (r"Auto set \($", ""), (r"Current kv cache memory in use is $", ""), (r"", r"^ GiB (?:is )?available for (?:the )?KV cache"),
        (r"requested memory for kv \($", r"^/"),
    ],
    "kv_cache_needed_gib": [(r"", r"^ Gi?B KV cache is needed")],
    "kv_cache_explicit_gib": [(r"Explicitly set \($", ""), (r"reserved $", r"^ ?GiB memory for KV"), (r"requested memory for kv \($", r"^ GiB"), (r"kv_cache_memory_bytes=\{\} \($", "")],
    "kv_cache_tokens": [(r"KV cache size: $", " tokens"), (r"stored in KV cache \($", "")],
    "kv_cache_gpu_blocks": [(r"# (?!CPU|swap)[\w{} ]+ blocks: $", ""), (r"after num_gpu_blocks is: $", "")],
    "kv_cache_cpu_blocks": [(r"# (?:CPU|swap) blocks: $", "")],
    "max_concurrency": [(r"tokens per request: $", "x")],
    "estimated_max_model_len": [(r"estimated maximum model length is $", "")],
    "derived_max_model_len": [(r"derived max_model_len \(\{\}=$", ""), (r"derived max_model_len=$", "")],
    "max_model_len": [
        (r"(?<!derived )max[ _](?:model|seq)[ _]len(?:gth)?\)? ?\($", r"^\)(?! of the draft)"), (r"Using max model len $", ""), (r"Maximum concurrency for $", ""), (r"a long context length \($", ""),
        (r"maximum context length is $", " tokens"), (r"context length is only $", ""), (r"maximum model length of $", ""), (r"the model \(context length $", ""), (r"model's default length $", ""),
        (r"maximum context length \($", ""), (r"max_model_len: (?:reduced from \{\} to|full model context length) $", ""), (r"reducing max_model_len to $", ""),
    ],
    "max_num_seqs": [(r"max_num_seqs \($", r"^\)")],
    "max_num_batched_tokens": [(r"max_num_batched_tokens \($", r"^\)"), (r"enabled with max_num_batched_tokens=$", "")],
    "gpu_memory_utilization": [(r"memory utilization (?:is )?\($", ""), (r" gpu_memory_utilization[ =]\(?$", ""), (r"current --gpu-memory-utilization=$", ""), (r"utilization from $", "")],
    "suggested_gpu_memory_utilization": [(r"utilization (?:from \{\} )?to $", "")],
    "gpu_total_gib": [(r"device (?:\{\} )?\(\{\}/$", ""), (r"total_gpu_memory[ =]\(?$", ""), (r"total GPU memory: $", "")],
    "gpu_free_gib": [(r"Free memory on device (?:\{\} )?\($", ""), (r"Initial free memory:? $", r"^ GiB[;,] (?:Req|free|res)"), (r"free gpu memory is $", "")],
    "gpu_requested_gib": [(r"utilization (?:is )?\(\{\}, $", ""), (r"gpu_memory_utilization \(\{\}\) = $", ""), (r"(?:\(util\), |requested memory: |requested GPU memory: |more than the )$", "GiB"), (r"with $", r"^ GiB requested memory")],
    "peak_activation_gib": [(r"activation peak memory takes $", ""), (r"", r"^ GiB for peak activation"), (r"torch peak memory increase: $", "")],
    "non_torch_gib": [(r"non_torch_memory takes $", ""), (r"", r"^ GiB for non-torch memory"), (r"non_torch_memory=$", "GiB kv"), (r"non-torch forward increase memory: $", "")],
    "initial_gpu_used_gib": [(r"initial_memory_usage=$", "")],
    "gpu_initial_free_gib": [(r"Initial free memory $", r"^ GiB, current")],
    "gpu_current_free_gib": [(r"current free memory $", " GiB")],
    "cuda_graph_gib": [(r"^Graph capturing finished in .*took $", ""), (r"", r"^ GiB for CUDAGraph"), (r"graph pool memory: $", "")],
    "cuda_graph_estimate_gib": [(r"Estimated CUDA graph memory: $", ""), (r"\(actual\), $", "")],
    "graph_capture_seconds": [(r"^Graph capturing finished in $", "")],
    "torch_compile_seconds": [(r"torch\.compile (?:takes|took) $", ""), (r"\(compilation: $", "")],
    "init_engine_seconds": [(r"^init engine .* took $", "")],
    "encoder_cache_budget_tokens": [(r"with a budget of $", " tokens")],
    "mamba_cache_blocks": [(r"Mamba cache blocks \($", "")],
    "sampler_dummy_requests": [(r"warming up .* with $", " dummy")],
    "host_total_gib": [(r"out of the $", " GiB total CPU memory")],
    "cpu_node_total_gib": [(r"on node \{\} \(\{\}/$", ""), (r"(?:Explicitly|Auto) set \(\{\}/$", "")],
    "cpu_node_available_gib": [(r"memory on node \{\} \($", "")],
    "block_size": [(r"(?:attention|kv cache) block size to $", "")],
    "running_requests": [(r"(?:Running|RUNNING): $", "")],
    "waiting_requests": [(r"(?:Waiting|WAITING|Pending): $", "")],
    "swapped_requests": [(r"Swapped: $", " reqs")],
    "deferred_requests": [(r"Deferred: $", " reqs")],
    "kv_cache_usage_percent": [(r"(?<!CPU )(?:GPU|\{\}) KV cache usage: $", "%")],
    "prompt_tokens_per_s": [(r"prompt throughput: $", "")],
    "generation_tokens_per_s": [(r"generation throughput: $", "")],
    "preemptions": [(r"cumulative_preemption=$", ""), (r"Preemptions: $", "")],
    "prefix_cache_hit_percent": [(r"(?<!External )[Pp]refix cache hit rate: (?:GPU: )?$", "%")],
    "spec_acceptance_percent": [(r"[Dd]raft acceptance rate: $", "%")],
    "port": [(r"API server on http\{?\}?s?://\{\}:$", "")],
    "lora_rank": [(r"LoRA rank $", " is greater")],
    "max_lora_rank": [(r"greater than max_lora_rank $", "")],
    "num_gpus_visible": [(r"number of (?:available GPUs|visible devices) \($", ""), (r"max local gpu count \($", "")],
    "world_size": [(r"(?:^World size|ensure that world_size|local_world_size) \($", ""), (r"in world size $", " is assigned"), (r"threads of $", "CPUWorkers")],
    "compute_capability": [(r"GPU has compute capability $", ""), (r"Current capability: $", ""), (r"\(with compute capability $", r"^\) doesn't")],
    "min_capability": [(r"(?:Minimum|Min|Required) capability:[', ]{1,6}$", "")],
    "gpu_name": [(r"at least 8\.0\. Your $", r"^ GPU"), (r"supported (?:\w+ )*on $", r"^ \(compute capability")],
    "quantization": [(r"The quantization method $", " is not supported for the current"), (r"quantization method $", r"^\. Supported dtypes"), (r"`quantization` argument \($", "")],
    "dtype": [(r"(?:[Cc]asting \{\} to|Falling back to) $", r"^(?:\.$| for compat)")],
    "kv_cache_dtype": [(r"^Using $", " data type to store kv cache")],
    "nccl_version": [(r"using nccl==$", "")],
    "engine_ready_timeout_s": [(r"Waited $", r"^s \(conf")],
    "worker_exit_code": [(r"exit code: $", "")],
    "mm_limit": [(r"^At most $", r"may be provided"), (r"only supports at most $", "")],
    "target_vocab_size": [(r"Target model vocab_size=$", "")],
    "draft_vocab_size": [(r"Draft model vocab_size=$", "")],
    "distributed_executor_backend": [(r"^Defaulting to use $", "for distributed")],
    "requested_model": [(r"^The model `$", r"^` does not exist")],
}
# Anything that looks like memory or a length and was given to no fact is shown, so that a new line is seen.
LOOKALIKE = (r"", r"^ ?Gi?B\b(?!/s)")
NO_FACT: dict[str, str] = {
    r"CuMemAllocator|XpuMemAllocator|Sleep mode freed|sleep mode": "what sleeping gave back",
    r"KV offload|[Oo]ffload(?:er|ing)|DiskBackend|mmap|pinned|pin_mmap|HiSparse|host_register|cudaHostRegister": "KV cache outside the GPU",
    r"Calculated size of|ProcessingCache|MM cache|IPC memory pool|GPU IPC|multimodal GPU decoding reserves": "multimodal processor's own buffers",
    r"Reserving \{\} GiB of GPU memory|raw-frame": "multimodal decoder; what is left for the cache is taken",
    r"RoutedExperts|workspace|[Ww]eight cache|page cache|checkpoint|Checkpoint|Filesystem|Prefetch": "files and buffers",
    r"Peak GPU memory after loading|^Allocated: |^Reserved: |Released \{\}|cached device memory|Using \{\} GiB": "debugging",
    r"Free memory after profiling|^Memory profiling takes|torch_peak=|is externally held|Sizing the KV cache": "derived from figures that are taken",
    r"Startup plan not applied|recorded free-memory baseline": "the other figure of the line is taken",
    r"KV cache is \{\} GiB per layer|Encoder graph capturing|past the 2 GiB|exceeds \{\}% of": "not the whole",
    r"additional 1~3|^CPU swap space|GiB to offload|NFS detected|send_sync|Send Tensor|tensor\.element_size": "no figure of this server's budget",
    r"memory_usage_post_profile|Warmup finished|Total \{\} memory|GiB for consumed memory|^Pre-loading": "another device's or another era's detail",
    r"Auto-fit max_model_len: reduced|Desired GPU memory|fully utilize gpu memory|total consumed": "the other figures of the line are taken",
    r"KVCR|TF/s|MooncakeStore|EC mmap": "other subsystems",
    r"Supported world sizes|speculative_draft": "no size of this server",
    r"encoder prompt": "the encoder's own length",
}


def facts_of(template: Template) -> dict[int, str]:
    """Which placeholder (by its place in `parts`) is which fact."""
    found: dict[int, str] = {}
    for at, part in enumerate(template.parts):
        if isinstance(part, str):
            continue
        before = "".join(p if isinstance(p, str) else "{}" for p in template.parts[:at])
        after = "".join(p if isinstance(p, str) else "{}" for p in template.parts[at + 1 :])
        for fact, clues in CLUES.items():
            if any((not b or re.search(b, before)) and re.search(a, after[:60]) for b, a in clues):
                found[at] = fact
                break
        else:
            if re.search(LOOKALIKE[1], after) and template.kind != "text":
                found[at] = ""
    return found


# --- filling in ----------------------------------------------------------------------------------------------------

# What stands in a placeholder, by its expression; numbers are made different from each other.
SAMPLES: list[tuple[str, list[str]]] = [
    (r"version|VERSION", ["0.8.5"]), (r"log_prefix", ["Engine 000: "]), (r"kv_cache_device|^pools$|'GPU' if", ["GPU"]),
    (r"architectures$|architectures\b", ["['LlamaForCausalLM']"]), (r"\barch\b|model_arch", ["LlamaForCausalLM"]),
    (r"dtype", ["torch.float16"]), (r"[Cc]apability\[0\]", ["7"]), (r"[Cc]apability\[1\]", ["5"]), (r"compute_str", ["has compute capability 7.5"]),
    (r"device_str", ["'Tesla T4' (with compute capability 7.5)"]), (r"version_str|cap_str", ["7.5"]), (r"capability", ["75", "7.5"]),
    (r"gpu_name|device_name|^dev$|get_name\(\)", ["cuda", "Tesla T4", "FLASHMLA"]), (r"dispatch_key", ["CUDA"]), (r"builtin_plugins", ["cuda"]), (r"quantization", ["awq"]),
    (r"_listen_addr|listen_address", ["http://0.0.0.0:8000", "0.0.0.0"]), (r"'s' if", [""]), (r"get_summary_string", ["14.99 GiB of device memory (14.99 GiB/94.62 GiB used)"]),
    (r"kv_cache_memory$", ["4.52 GiB"]), (r"suggestion|estimated_msg|qualifier|encoder_msg", [""]), (r"possible_|supported|\bnames\b|_set$", ["[8, 16]"]), (r"modality", ["image"]),
    (r"placement_group_specs", ["[{'GPU': 1.0}]"]), (r"device_str|^device\b|device_$", ["cuda:0"]), (r"backend|model|name|path|url|addr|reason|mode|operation|^e$|error", ["alpha"]),
]


def _sample(part: Field, fact: str, number: int, choice: int) -> str:
    """The text of one placeholder. `choice` picks among several that are possible."""
    kind = part.spec.rstrip()[-1:] if part.spec else ""
    numeric = kind in "diouxXeEfFgG" and kind != ""
    if not numeric or "__version__" in part.expression:
        for expression, texts in SAMPLES:
            if re.search(expression, part.expression) and not (fact in _NUMERIC and texts == ["alpha"]):
                text = texts[choice % len(texts)]
                return repr(text) if part.spec == "!r" else text
    if kind in "dioux" and numeric:
        return f"{101 + number:03d}"
    if numeric:
        places = re.search(r"\.(\d+)", part.spec)
        return f"{11.5 + number:.{places[1] if places else 6}f}"
    if "," in part.spec or ":," in part.expression:
        return f"{41001 + number:,}"
    if fact in _NUMERIC or re.search(r"GiB\(|gib|num_|len|size|max|count|tokens|blocks|rank|memory|util|seconds|timeout|TIMEOUT|int\(|limit|bytes|dim|heads|ports?\b|code", part.expression):
        whole = re.search(r"len|num_|size|max_|count|tokens|blocks|rank|seconds|timeout|TIMEOUT|limit|heads|code|vocab", part.expression)
        return str(101 + number) if whole and not re.search(r"GiB|gib", part.expression) else f"{11.5 + number}"
    return ["alpha", str(201 + number)][choice % 2]


_NUMERIC: set[str] = set()


def fill(template: Template, carriers: dict[int, str], choice: int) -> tuple[str, dict[int, str]]:
    """The template with samples in its placeholders, and the text each placeholder got."""
    texts: dict[int, str] = {}
    for at, part in enumerate(template.parts):
        if isinstance(part, Field):
            texts[at] = _sample(part, carriers.get(at, ""), len(texts), choice)
    return "".join(part if isinstance(part, str) else texts[at] for at, part in enumerate(template.parts)), texts


# --- asking the rules ----------------------------------------------------------------------------------------------


@dataclass
class Verdict:
    """What the patterns make of one template."""

    facts: dict[str, bool] = field(default_factory=dict)  # fact: found, with the right value
    unknown: bool = False  # it looks like memory, and no pattern takes the figure
    patterns: set[str] = field(default_factory=set)


class Rules:
    """The patterns of rules/facts, and how they read a line."""

    def __init__(self, base: RuleBase) -> None:
        self.base = base
        self.regexes = [(pattern, re.compile(pattern.regex)) for pattern in base.facts]
        _NUMERIC.update(name for name, fact in base.names.items() if fact.type in {"gib", "int", "float"})

    def values(self, line: str) -> tuple[dict[str, list[Any]], set[str]]:
        """Every value of every fact in `line`, and the patterns that matched."""
        found: dict[str, list[Any]] = defaultdict(list)
        matched = set()
        for pattern, regex in self.regexes:
            if pattern.anchor in line and (match := regex.search(line)):
                matched.add(pattern.id)
                for name, raw in match.groupdict().items():
                    if raw is not None:
                        found[name].append(self.convert(name, raw))
        return found, matched

    def convert(self, name: str, raw: str) -> Any:
        """A captured text as the engine would read it."""
        store = FactStore({name: self.base.names[name]})
        store.add(name, raw, 1)
        return store.get(name)

    def judge(self, template: Template) -> Verdict:
        """Try several fillings: some placeholders are optional or of several kinds."""
        carriers = facts_of(template)
        verdict = Verdict(dict.fromkeys(filter(None, carriers.values()), False))
        looks = any(not fact for fact in carriers.values())
        for choice in range(3):
            line, texts = fill(template, carriers, choice)
            found, matched = self.values(line)
            verdict.patterns |= matched
            for at, fact in carriers.items():
                if fact and not verdict.facts[fact]:
                    verdict.facts[fact] = self._right(fact, texts[at], template.parts[at + 1 :][:1], found.get(fact, []))
        verdict.unknown = looks and not verdict.patterns and not self._exempt(template)
        for fact, right in list(verdict.facts.items()):
            if not right and self._exempt(template):
                del verdict.facts[fact]
        return verdict

    def _right(self, fact: str, text: str, after: Parts, got: list[Any]) -> bool:
        """Whether one of the values is what stood in the placeholder (with the unit behind it)."""
        if not got:
            return False
        definition: FactName = self.base.names[fact]
        if definition.type not in {"gib", "int", "float"}:
            return any(str(value) in text for value in got)
        unit = re.match(r" ?(?:[KMGT]i?B|bytes)", str(after[0]) if after else "")
        wanted = self.convert(fact, text + (unit[0] if unit and definition.type == "gib" else ""))
        capability = {float(text)} if fact.endswith("capability") and re.fullmatch(r"\d+(\.\d+)?", text) else set()
        return any(value in {wanted, *capability, *(number / 10 for number in capability)} for value in got) or (
            wanted is None and any(str(value) in text for value in got)
        )

    @staticmethod
    def _exempt(template: Template) -> bool:
        skeleton = template.skeleton()
        return any(re.search(words, skeleton) for words in NO_FACT)


def engine_of(path: str) -> str | None:
    """The engine a file belongs to, where only one uses it."""
    if path.startswith("v1/"):
        return "V1"
    if re.match(r"(?:worker|core|spec_decode)/|engine/(?:llm_engine|async_llm_engine|metrics|multiprocessing)", path):
        return "V0"
    return None


# --- the report ----------------------------------------------------------------------------------------------------


@dataclass
class Coverage:
    """What was found in all releases."""

    releases: list[str] = field(default_factory=list)
    cells: dict[str, dict[str, list[int]]] = field(default_factory=lambda: defaultdict(dict))  # fact: release: [covered, all]
    config: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))  # release: keys of the engine's config line
    missing: dict[tuple[str, str], list[str]] = field(default_factory=lambda: defaultdict(list))
    lives: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    contradictions: set[str] = field(default_factory=set)


def survey(folder: Path, rules: Rules, since: Version, only: list[str]) -> Coverage:
    """Read the releases one by one, oldest first."""
    verdicts: dict[tuple[Parts, str], Verdict] = {}
    coverage = Coverage()
    engines = {pattern.id: pattern.set.get("engine") for pattern in rules.base.facts}
    paths = [path for path in folder.glob("vllm-*") if path.is_dir() and not path.name.endswith(".partial")]
    for path in sorted(paths, key=lambda path: Version(path.name[5:])):
        release = path.name[5:]
        if Version(release) < since or (only and release not in only):
            continue
        coverage.releases.append(release)
        for template in templates(path):
            key = (template.parts, template.kind)
            if key not in verdicts:
                verdicts[key] = rules.judge(template)
            verdict = verdicts[key]
            _note(coverage, release, template, verdict, engines)
        print(f"{release}: {len(verdicts)} templates so far", file=sys.stderr, flush=True)
    return coverage


def _note(coverage: Coverage, release: str, template: Template, verdict: Verdict, engines: dict[str, Any]) -> None:
    if "tensor_parallel_size=" in template.skeleton() and "max_seq_len=" in template.skeleton():
        coverage.config[release] |= set(re.findall(r"(\w+)=(?:\{\}|$)", template.skeleton()))
    for fact, right in verdict.facts.items():
        cell = coverage.cells[fact].setdefault(release, [0, 0])
        cell[0] += right
        cell[1] += 1
        if not right:
            coverage.missing[(fact, template.skeleton())].append(release)
    if verdict.unknown:
        coverage.missing[("?", template.skeleton())].append(release)
    for pattern in verdict.patterns:
        coverage.lives[pattern].add(release)
        said, known = engines.get(pattern), engine_of(template.path)
        if said and known and said != known:
            coverage.contradictions.add(f"{pattern} says {said}, {template.path} of {release} is {known}")


def lives(coverage: Coverage, rules: Rules) -> tuple[list[str], list[str]]:
    """Patterns whose `vllm` is shorter than their wording's life (wrong), and longer (less exact than it could be)."""
    short, long = [], []
    for pattern in rules.base.facts:
        seen = coverage.lives.get(pattern.id, set())
        if not seen:
            continue
        allowed = {r for r in coverage.releases if not pattern.vllm or SpecifierSet(pattern.vllm).contains(r, prereleases=True)}
        if seen - allowed:
            short.append(f"{pattern.id}: {pattern.vllm}, but also in {', '.join(sorted(seen - allowed, key=Version))}")
        if allowed - seen and pattern.vllm:
            long.append(f"{pattern.id}: {pattern.vllm}, not found in {', '.join(sorted(allowed - seen, key=Version))}")
    return short, long


def table(coverage: Coverage, rules: Rules, title: str = "Wordings of vLLM that rules/facts covers") -> str:
    """A Markdown table: a row a fact, with the releases that print it and how many of its lines are read."""
    first, last = coverage.releases[0], coverage.releases[-1]
    lines = [
        f"# {title}", "",
        f"Made by `tools/check_wording.py` from the sources of {len(coverage.releases)} releases, {first} to {last}. A line is one message template",
        "of one release; it counts as read when the patterns give the very value that stood in it. The engine's configuration line and the",
        "lines of arguments are read key by key (rules/facts/names.yaml); PyTorch's own text (out of memory) is not in vLLM's sources.", "",
        "| fact | printed by | lines read | engine config key |", "| --- | --- | --- | --- |",
    ]
    for name, definition in rules.base.names.items():
        cells = coverage.cells.get(name, {})
        releases = sorted(cells, key=Version)
        keyed = [r for r in coverage.releases if definition.config and definition.config in coverage.config.get(r, ())]
        if not cells and not keyed:
            continue
        read, every = (sum(cell[i] for cell in cells.values()) for i in (0, 1))
        lines.append(
            f"| `{name}` | {_span(releases, coverage.releases)} | {f'{read} of {every}' if every else '-'} | "
            f"{f'`{definition.config}` {_span(keyed, coverage.releases)}' if keyed else '-'} |"
        )
    lines += ["", "| release | lines with facts | read |", "| --- | --- | --- |"]
    for release in coverage.releases:
        cells_of = [cell[release] for cell in coverage.cells.values() if release in cell]
        lines.append(f"| {release} | {sum(c[1] for c in cells_of)} | {sum(c[0] for c in cells_of)} |")
    return "\n".join(lines) + "\n"


def _span(releases: list[str], every: list[str]) -> str:
    """`0.8.0-0.33.0`, with the gaps named by their number."""
    if not releases:
        return "-"
    within = every[every.index(releases[0]) : every.index(releases[-1]) + 1]
    gap = len(within) - len(releases)
    span = releases[0] if len(releases) == 1 else f"{releases[0]}-{releases[-1]}"
    return f"{span} (not in {gap} between)" if gap else span


def main(arguments: list[str] | None = None) -> int:
    """Exit status 0 when everything is covered."""
    parser = argparse.ArgumentParser(description="Check rules/facts against the sources of vLLM.")
    parser.add_argument("sdists", type=Path, metavar="SDISTS_DIR")
    parser.add_argument("--since", type=Version, default=Version("0.2.0"), metavar="VERSION")
    parser.add_argument("--only", nargs="+", default=[], metavar="VERSION")
    parser.add_argument("--table", type=Path, default=None, metavar="FILE.md", help="write the coverage (and FILE.json beside it)")
    options = parser.parse_args(arguments)
    rules = Rules(builtin())
    coverage = survey(options.sdists, rules, options.since, options.only)
    if not coverage.releases:
        parser.error(f"no vllm-<version> in {options.sdists}")
    short, long = lives(coverage, rules)
    for (fact, skeleton), releases in sorted(coverage.missing.items()):
        print(f"not covered: {fact} ({_span(releases, coverage.releases)}): {skeleton[:300]!r}")
    for line in (*(f"life too short: {text}" for text in short), *(f"engine: {text}" for text in sorted(coverage.contradictions))):
        print(line)
    if not options.only:
        for text in long:
            print(f"life longer than seen: {text}")
    if options.table:
        options.table.write_text(table(coverage, rules), encoding="utf-8")
        cells = {fact: {r: f"{c[0]}/{c[1]}" for r, c in sorted(cells.items(), key=lambda item: Version(item[0]))} for fact, cells in sorted(coverage.cells.items())}
        options.table.with_suffix(".json").write_text(json.dumps(cells, indent=1) + "\n", encoding="utf-8")
    every = sum(cell[1] for cells in coverage.cells.values() for cell in cells.values())
    read = sum(cell[0] for cells in coverage.cells.values() for cell in cells.values())
    print(f"{read} of {every} lines read; {len(coverage.cells)} facts, {len(coverage.releases)} releases; {len(coverage.missing)} templates not covered")
    return 1 if coverage.missing or short or coverage.contradictions else 0


if __name__ == "__main__":
    sys.exit(main())
