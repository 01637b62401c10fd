"""Parse the Python files of one vLLM release into syntax trees, and define the values of evaluating them.

Nothing here imports or runs vLLM; symbolic.py evaluates, release_flags.py knows what to look for.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@dataclass(frozen=True)
class Unknown:
    """A value that is only known when vLLM runs."""

    text: str


@dataclass(frozen=True)
class Type:
    """A built-in or standard-library name used as a value: `int`, `json.loads`, `argparse.SUPPRESS`."""

    name: str


@dataclass(frozen=True)
class Member:
    """A member of an enumeration."""

    name: str
    value: Any


@dataclass(frozen=True, eq=False)
class Class:
    """A class of vLLM."""

    module: Module
    node: ast.ClassDef

    @property
    def name(self) -> str:
        """Return the name in the source."""
        return self.node.name


@dataclass(frozen=True, eq=False)
class Function:
    """A function or lambda of vLLM, with the class it was looked up on."""

    module: Module
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    scope: dict[str, Any]
    owner: Class | None = None
    bound: Class | None = None

    @property
    def name(self) -> str:
        """Return the name in the source; `<lambda>` for a lambda."""
        return getattr(self.node, "name", "<lambda>")


@dataclass(frozen=True)
class Instance:
    """An object of a vLLM class, whose state is not tracked."""

    cls: Class


@dataclass
class Parser:
    """An argument parser (and its groups) with every `add_argument` call made on it."""

    name: str = ""
    arguments: list[tuple[list[Any], dict[str, Any]]] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class Hint:
    """One member of a type annotation's union. `kind` is a built-in name, "literal", "class" or "other"."""

    kind: str
    arguments: tuple[Any, ...] = ()


class Module:
    """The top-level names of a module, each with the syntax tree of its definition."""

    def __init__(self, source: Source, name: str, path: Path) -> None:
        self.source = source
        self.name = name
        self.path = path
        self.tree = ast.parse(path.read_text(encoding="utf-8"))
        self.names: dict[str, Any] = {}
        self._collect(self.tree.body)

    def _collect(self, body: list[ast.stmt]) -> None:
        for statement in body:
            match statement:
                case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                    self.names[statement.name] = statement
                case ast.Assign(targets=[ast.Name(id=name)]):
                    self.names[name] = statement.value
                case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr()):
                    self.names[name] = statement.value
                case ast.Import() | ast.ImportFrom():
                    self.names.update(self.imports(statement))
                case ast.If():  # `if TYPE_CHECKING:` states the types, its `else:` only stands in for them
                    self._collect(statement.orelse)
                    self._collect(statement.body)
                case ast.Try():
                    for handler in statement.handlers:
                        self._collect(handler.body)
                    self._collect(statement.body)

    def imports(self, statement: ast.Import | ast.ImportFrom) -> dict[str, tuple[str, str | None]]:
        """Return name -> (module, name in it) for an import statement."""
        if isinstance(statement, ast.Import):
            return {
                (a.asname or a.name.split(".")[0]): ((a.name if a.asname else a.name.split(".")[0]), None)
                for a in statement.names
            }
        base = statement.module or ""
        if statement.level:
            package = self.name.split(".")
            if self.path.name != "__init__.py":
                package = package[:-1]
            package = package[: len(package) - statement.level + 1]
            base = ".".join([*package, base] if base else package)
        return {(a.asname or a.name): (base, a.name) for a in statement.names}


class Source:
    """The Python files of one release."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._modules: dict[str, Module | None] = {}

    def module(self, name: str) -> Module | None:
        """Return a module by its dotted name; None if the release has no such file."""
        if name not in self._modules:
            base = self.root.joinpath(*name.split("."))
            found = next((p for p in (base.with_suffix(".py"), base / "__init__.py") if p.is_file()), None)
            self._modules[name] = Module(self, name, found) if found else None
        return self._modules[name]

    def files(self, *folders: str) -> Iterator[Path]:
        """Return the Python files under the first of the folders that exists."""
        for folder in folders:
            if (self.root / folder).is_dir():
                yield from sorted((self.root / folder).rglob("*.py"))
                return
