"""Generate vllm_doctor/catalog/names.jsonl.xz: names, parameters and requirements of each vLLM release.

    python tools/build_names.py SDISTS_DIR [-o vllm_doctor/catalog/names.jsonl.xz]

SDISTS_DIR is what tools/sdists.py wrote. Everything is read from the sources (see release_names.py); nothing is
imported. The same sources give the same rows. `xz -dc names.jsonl.xz` prints them; two tables can be compared so.

The first row has the releases. A life is a list of spans of their indices as text: "3-7,9" is the releases 3 to 7
and 9, "12-" is from 12 to the newest. Names of one life are joined by spaces; "" is the life of the row itself.
Parameters are only those that come or go while their callable lives; `name=` is one with a default, `*` and `**`
take any number. A condition "built" with an empty name is that of a module which the build makes. An instance attribute
`name?` is set in some branch only.

    ["vllm.x.y", life, {"n": {life: names}, "r": {life: re-exported names}, "f": {function: {life: parameters}},
                        "c": {name: condition}}]
    ["vllm.x.y:Class", life, {"b": {life: bases}, "m": {life: members}, "i": {life: instance attributes},
                              "a": {life: abstract methods}, "p": {method: {life: parameters}}}]
    ["=package", {"r": [[release, specifier], ...], "t": [[release, version its tests ran with], ...]}]
"""

from __future__ import annotations

import argparse
import json
import lzma
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

from release_names import BUILT, PROJECT, ModuleNames, ReleaseNames
from sdists import unpacked

SCHEMA = 1
LONGEST_CONDITION = 60
INNER = (  # models and kernels, which other software names but hardly calls: no parameters, no instance attributes
    *("vllm.model_executor.models.", "vllm.models.", "vllm.model_executor.kernels.", "vllm.kernels."),
    *("vllm.lora.ops.", "vllm.attention.ops.", "vllm.v1.attention.ops.", "vllm.model_executor.layers.fla."),
    *("vllm.transformers_utils.configs.", "vllm.transformers_utils.processors.", "vllm.compilation.passes."),
    *("vllm.third_party.", "vllm.benchmarks.", "vllm.vllm_flash_attn.", "vllm._custom_ops", "vllm._aiter_ops"),
)
DRIVEN = (  # what trainers and servers reach into, private names included
    *("vllm.engine.", "vllm.entrypoints.llm", "vllm.v1.engine.", "vllm.worker.", "vllm.v1.worker."),
    *("vllm.executor.", "vllm.v1.executor.", "vllm.config", "vllm.distributed.parallel_state"),
)
FACADES = (  # modules, beside packages, whose imports other software takes for theirs
    *("vllm.engine.", "vllm.entrypoints.llm", "vllm.entrypoints.openai.", "vllm.utils", "vllm.outputs"),
    *("vllm.sequence", "vllm.inputs", "vllm.config", "vllm.platforms."),
)

Presence = dict[str, set[int]]  # name -> indices of the releases that have it


def life(present: set[int], newest: int) -> str:
    """Return the spans of consecutive indices as text; the last span is open if it includes the newest release."""
    spans: list[list[int]] = []
    for index in sorted(present):
        if spans and spans[-1][1] == index - 1:
            spans[-1][1] = index
        else:
            spans.append([index, index])
    return ",".join(
        f"{first}-" if last == newest else str(first) if first == last else f"{first}-{last}" for first, last in spans
    )


class Table:
    """The table under construction; releases are added oldest first."""

    def __init__(self) -> None:
        self.releases: list[str] = []
        self.extensions: set[str] = set(BUILT)
        self.modules: Presence = defaultdict(set)
        self.names: dict[str, Presence] = defaultdict(lambda: defaultdict(set))
        self.defined: dict[str, set[str]] = defaultdict(set)
        self.reexported: dict[str, set[str]] = defaultdict(set)
        self.functions: dict[str, dict[str, Presence]] = defaultdict(lambda: defaultdict(lambda: defaultdict(set)))
        self.conditions: dict[str, dict[str, str]] = defaultdict(dict)
        self.classes: Presence = defaultdict(set)
        self.parts: dict[str, dict[str, Presence]] = defaultdict(lambda: defaultdict(lambda: defaultdict(set)))
        self.methods: dict[str, dict[str, Presence]] = defaultdict(lambda: defaultdict(lambda: defaultdict(set)))
        self.requirements: dict[str, dict[str, str]] = defaultdict(dict)
        self.tested: dict[str, dict[str, str]] = defaultdict(dict)

    def add(self, release: ReleaseNames) -> None:
        """Add the next release."""
        at = len(self.releases)
        self.releases.append(release.version)
        for name, module in release.modules.items():
            self._add_module(release, name, module, at)
        if release.has_metadata:
            self.extensions = release.extensions | set(BUILT)
        for name in self.extensions:  # of a release that has only a wheel: those of the release before
            self._add_built(name, at)
        for package, specifier in release.requirements.items():
            self.requirements[package][release.version] = specifier
            if package in release.tested and not specifier.startswith("["):
                self.tested[package][release.version] = release.tested[package]

    def _add_module(self, release: ReleaseNames, name: str, module: ModuleNames, at: int) -> None:
        self.modules[name].add(at)
        bound = release.bindings(name)
        self.defined[name] |= module.defined
        if name in release.packages or name.startswith(FACADES):
            self.reexported[name] |= bound
        for one in bound:
            self.names[name][one].add(at)
        self.conditions[name] = {  # those of the newest release that has the module
            one: condition for one, condition in sorted(module.conditions.items()) if one in bound
        }
        for function, taken in module.functions.items():
            for parameter in taken:
                self.functions[name][function][parameter].add(at)
        for local, cls in module.classes.items():
            key = f"{name}:{local}"
            self.classes[key].add(at)
            parts = self.parts[key]
            for base in cls.bases:
                head, _, rest = base.partition(".")
                origin = module.imported.get(head, f"{name}.{head}" if head in module.classes else head)
                parts["b"][release.source(origin + (f".{rest}" if rest else ""))].add(at)
            for kind, found in (
                ("m", cls.members),
                ("i", cls.attributes - cls.members - {f"{one}?" for one in cls.members}),
                ("a", cls.abstract),
            ):
                for one in found:
                    parts[kind][one].add(at)
            for method, taken in cls.methods.items():
                for parameter in taken:
                    self.methods[key][method][parameter].add(at)

    def _add_built(self, name: str, at: int) -> None:
        parent, _, last = name.rpartition(".")
        self.modules[name].add(at)
        self.conditions[name] = {"": "built"}
        for one in BUILT.get(name, ()):
            self.names[name][one].add(at)
            self.defined[name].add(one)
        self.defined[parent].add(last)
        if parent != PROJECT:
            self.modules[parent].add(at)
        self.names[parent][last].add(at)

    # -- rows ----------------------------------------------------------------------------------------------------------

    def _grouped(self, found: Presence, own: str) -> dict[str, str]:
        groups: dict[str, list[str]] = defaultdict(list)
        for name in sorted(found):
            span = life(found[name], len(self.releases) - 1)
            groups["" if span == own else span].append(name)
        return {span: " ".join(names) for span, names in sorted(groups.items())}

    @staticmethod
    def _kept(name: str, kind: str, part: Presence) -> Presence:
        """Return the parts of a class that are stored in the table."""
        if kind in "ma" and not name.startswith(DRIVEN):  # with __getattr__, a class can have any attribute
            return {one: at for one, at in part.items() if not one.startswith("_") or one == "__getattr__"}
        if kind == "i" and not name.startswith(DRIVEN):
            inner = name.startswith((*INNER, "vllm.model_executor.layers."))
            return {} if inner else {one: at for one, at in part.items() if not one.startswith("_")}
        return part

    def _changed(self, found: dict[str, Presence], owners: Presence, own: set[int]) -> dict[str, dict[str, str]]:
        """Return, by callable, the parameters that it does not have throughout its lifetime."""
        rows: dict[str, dict[str, str]] = {}
        for name, taken in sorted(found.items()):
            changed = {one: present for one, present in taken.items() if present != owners.get(name, own)}
            if changed:
                rows[name] = self._grouped(changed, "")
        return rows

    def rows(self) -> list[Any]:
        """Return all rows, the releases first."""
        newest = len(self.releases) - 1
        found: list[Any] = [{"schema": SCHEMA, "releases": self.releases}]
        for name in sorted(self.modules):
            own = life(self.modules[name], newest)
            entry: dict[str, Any] = {}
            for key, kept in (("n", self.defined[name]), ("r", self.reexported[name] - self.defined[name])):
                names = self.names[name]
                entry[key] = self._grouped({one: names[one] for one in names if one in kept and one != "logger"}, own)
            if not name.startswith(INNER):
                entry["f"] = self._changed(self.functions[name], self.names[name], self.modules[name])
            if conditions := self.conditions.get(name):
                entry["c"] = {one: text[:LONGEST_CONDITION] for one, text in conditions.items()}
            found.append([name, own, {key: value for key, value in entry.items() if value}])
        for name in sorted(self.classes):
            own = life(self.classes[name], newest)
            entry = {
                kind: self._grouped(self._kept(name, kind, part), own)
                for kind, part in sorted(self.parts[name].items())
            }
            if not name.startswith(INNER):
                entry["p"] = self._changed(self.methods[name], self.parts[name]["m"], self.classes[name])
            found.append([name, own, {key: value for key, value in entry.items() if value}])
        for package, specifiers in sorted(self.requirements.items()):
            entry = {"r": self._changes(specifiers)}
            if package in self.tested:
                entry["t"] = self._changes(self.tested[package])
            found.append([f"={package}", entry])
        return found

    def _changes(self, values: dict[str, str]) -> list[list[str | None]]:
        """Return the change points [[release, value], ...]; the value is None from a release without one."""
        points: list[list[str | None]] = []
        for release in self.releases:
            value = values.get(release)
            if (points or value is not None) and (not points or points[-1][1] != value):
                points.append([release, value])
        return points


def main(arguments: list[str] | None = None) -> int:
    """Write the table and return the exit status: 0, or 1 if a release cannot be read."""
    here = Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description="Make the table of vLLM's names by release.")
    parser.add_argument("sdists", type=Path, metavar="SDISTS_DIR")
    parser.add_argument("-o", "--output", type=Path, default=here.parent / "vllm_doctor" / "catalog" / "names.jsonl.xz")
    options = parser.parse_args(arguments)
    table = Table()
    cache: dict[tuple[str, bytes], ModuleNames] = {}
    for root in unpacked(options.sdists).values():
        try:
            release = ReleaseNames(root, cache)
            table.add(release)
        except (SyntaxError, ValueError, OSError) as problem:
            print(f"build_names: {root.name}: {problem}", file=sys.stderr)
            return 1
        print(f"{release.version}: {len(release.modules)} modules", file=sys.stderr)
    text = "".join(json.dumps(row, separators=(",", ":"), ensure_ascii=False) + "\n" for row in table.rows())
    options.output.parent.mkdir(parents=True, exist_ok=True)
    packed = (
        lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME)
        if options.output.suffix == ".xz"
        else text.encode()
    )
    options.output.write_bytes(packed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
