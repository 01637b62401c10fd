"""Extract the message templates of vLLM's sources, literal text and placeholders, with `ast`. Nothing is imported.

A template is the text of a logger call, of an exception, or of a string that is put together first (f-strings, `%`,
`str.format`, `+`, parts collected in a list and joined, a name that holds the text).
"""

from __future__ import annotations

import ast
import functools
import hashlib
import itertools
import re
import string
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

SKIPPED = re.compile(
    r"^(?:benchmarks|third_party|vllm_flash_attn|distributed/(?:kv|ec|weight)_transfer|models)/|/cutlass_|collect_env"
    r"|^entrypoints/cli/benchmark|^model_executor/models/(?!registry|config|utils|__init__)"
)
LOG = re.compile(r"^(?:debug|info|warning|warn|error|exception|critical|log)(?:_once)?$")
PRINTF = re.compile(r"%(?:\((\w+)\))?([-#0 +]*\d*(?:\.\d+)?)[hlL]?([diouxXeEfFgGcrsa%])")


@dataclass(frozen=True)
class Field:
    """A placeholder: the expression that fills it, and its format (`%.2f`, `.2f`, `!r`)."""

    expression: str
    spec: str = ""


Parts = tuple["str | Field", ...]


@dataclass(frozen=True)
class Template:
    """One message of vLLM: literal text and placeholders, and whether it is logged, raised or only assembled."""

    parts: Parts
    kind: str
    path: str = ""

    def skeleton(self) -> str:
        """Return the literal text with `{}` for each placeholder."""
        return "".join(part if isinstance(part, str) else "{}" for part in self.parts)


class Reader(ast.NodeVisitor):
    """A visitor that collects the templates of one file."""

    def __init__(self) -> None:
        self.found: list[tuple[Parts, str]] = []
        self._read: set[int] = set()
        self._names: list[dict[str, Parts]] = [{}]
        self._lists: list[dict[str, list[Parts]]] = [{}]

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """Visit a function, which has its own scope of named strings."""
        self._names.append({})
        self._lists.append({})
        joined = {
            call.args[0].id for call in ast.walk(node)
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "join"
            and call.args and isinstance(call.args[0], ast.Name)
        }
        for statement in sorted(ast.walk(node), key=lambda inner: getattr(inner, "lineno", 0)):  # in the order of writing
            self._remember(statement, joined)
        self.generic_visit(node)
        self._names.pop()
        self._lists.pop()

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815

    def visit_Module(self, node: ast.Module) -> None:
        """Visit the module; its string constants are visible in all functions."""
        for statement in node.body:
            self._remember(statement)
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        """Skip a string literal on its own, such as a docstring."""
        if not isinstance(node.value, (ast.Constant, ast.JoinedStr)):
            self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        """Collect the message of a call that is, or may be, a logger call."""
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if node.args:
            logs = bool(LOG.match(name)) or name in {"log_fn", "print"}
            at = 1 if name == "log" and len(node.args) > 1 else 0
            parts = self.parts(node.args[at])
            if parts is not None and (logs or isinstance(node.args[at], ast.BinOp)):
                self._add(node.args[at], _printf(parts, node.args[at + 1 :]), "log" if logs else "text")
        self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        """Collect an exception's message. Several arguments are printed as a tuple."""
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
        """Collect any other string of more than one word."""
        if id(node) not in self._read and isinstance(node, (ast.Constant, ast.JoinedStr, ast.BinOp, ast.Call)):
            parts = self.parts(node)
            if parts is not None:
                self._add(node, _printf(parts, []), "text")
        super().generic_visit(node)

    def parts(self, node: ast.expr) -> Parts | None:
        """Return the literal text and placeholders of a string expression; None for other expressions."""
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

    def _remember(self, node: ast.AST, joined: Iterable[str] = ()) -> None:
        """Store a string, or a list of strings that are `joined`, under its name; the longest one is kept."""
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                if isinstance(value, (ast.Constant, ast.JoinedStr, ast.BinOp)):
                    parts = self.parts(value)
                    if parts is not None and len(str(parts)) > len(str(self._names[-1].get(name, ()))):
                        self._names[-1][name] = parts
                elif isinstance(value, ast.List) and name in joined:
                    self._lists[-1][name] = self._items(value.elts)
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append" | "extend"), args=[value]) if name in self._lists[-1]:
                items = value.elts if isinstance(value, (ast.List, ast.Tuple)) else [value]
                self._lists[-1][name] += self._items(items)

    def _items(self, items: list[ast.expr]) -> list[Parts]:
        """Return the parts of a list's strings, which are then not templates of their own."""
        self._read.update(id(inner) for item in items for inner in ast.walk(item))
        return [parts for item in items if (parts := self.parts(item)) is not None]

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
    """Return the parts of a printf-style string, with placeholders such as `%s` filled from `values` in order."""
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
    """Return the parts of a str.format string, with `{}` placeholders."""
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
    """Return all message templates of one release."""
    found = set()
    for path in sorted((release / "vllm").rglob("*.py")):
        name = path.relative_to(release / "vllm").as_posix()
        if not SKIPPED.search(name):
            content = path.read_bytes()
            found |= {Template(parts, kind, name) for parts, kind in _read(hashlib.sha1(content).hexdigest(), content)}  # noqa: S324
    return found
