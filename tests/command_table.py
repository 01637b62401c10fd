"""A small flag table, so that the tests of commands do not move with the real one."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Entry:
    name: str
    kind: str = "str"
    keyword: str | None = None
    defaults: dict[str, object] = field(default_factory=dict)

    def default(self, version: str | None = None) -> object:
        return self.defaults.get(version or "", self.defaults.get("*"))


def _entry(name: str, kind: str = "str", default: object = None, **more: object) -> Entry:
    keyword = name[2:].replace("-", "_")
    return Entry(name, kind, keyword, {"*": default, **{k.replace("_", "."): v for k, v in more.items()}})


TABLE = {
    entry.name: entry
    for entry in (
        _entry("--model"),
        _entry("--host"),
        _entry("--port", "int", 8000),
        _entry("--max-model-len", "human_int_or_auto"),
        _entry("--max-num-seqs", "int", 256),
        _entry("--gpu-memory-utilization", "float", 0.9),
        _entry("--tensor-parallel-size", "int", 1),
        _entry("--pipeline-parallel-size", "int", 1),
        _entry("--enforce-eager", "bool", False),
        _entry("--trust-remote-code", "bool", False),
        _entry("--enable-prefix-caching", "bool", None),
        _entry("--enable-chunked-prefill", "bool", None),
        _entry("--use-v2-block-manager", "bool", True),
        _entry("--served-model-name", "list"),
        _entry("--lora-modules", "list"),
        _entry("--allowed-origins", "json", ("*",)),
        _entry("--compilation-config", "json", None),
        _entry("--speculative-config", "json", None),
        _entry("--limit-mm-per-prompt", "json", None),
        _entry("--dtype", "str", "auto"),
        _entry("--config-format", "str", "auto"),
        _entry("--swap-space", "float", 4),
        _entry("--api-key"),
    )
}


def lookup(name: str) -> Entry | None:
    return TABLE.get(name)
