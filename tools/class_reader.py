"""Look up names, classes and type annotations in the syntax trees of one vLLM release."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from vllm_source import Class, Function, Hint, Member, Module, Source, Type, Unknown

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_DEPTH = 30
TYPE_NAMES = frozenset(
    [
        "str",
        "int",
        "float",
        "bool",
        "list",
        "tuple",
        "set",
        "dict",
        "type",
        "object",
        "complex",
        "bytes",
        "frozenset",
    ]
)
LIST_HINTS = frozenset(("list", "List", "Sequence", "Iterable"))
DICT_HINTS = frozenset(("dict", "Dict", "Mapping", "MutableMapping"))


class ClassReader:
    """The names, classes and annotations of one release; a subclass evaluates expressions."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._depth = 0

    def evaluate(self, node: ast.expr, module: Module, scope: dict[str, Any]) -> Any:
        """Return the value of an expression; `Unknown` if it is only known at run time."""
        raise NotImplementedError

    # -- names ---------------------------------------------------------------------------------------------------

    def lookup(self, module: Module, name: str, seen: frozenset[tuple[str, str]] = frozenset()) -> Any:
        """Return the value of a module's top-level name."""
        definition = module.names.get(name)
        key = (module.name, name)
        if definition is None or key in seen:
            submodule = self.source.module(f"{module.name}.{name}")
            return submodule or Unknown(f"{module.name}.{name}")
        match definition:
            case (str() as other, None):
                return self.source.module(other) or Type(other)
            case (str() as other, str() as wanted):
                target = self.source.module(other)
                if target is None:
                    return Type(wanted)
                return self.lookup(target, wanted, seen | {key})
            case ast.ClassDef():
                return Class(module, definition)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                return Function(module, definition, {})
            case _:
                if self._depth > MAX_DEPTH:
                    return Unknown(name)
                self._depth += 1
                try:
                    return self.evaluate(definition, module, {})
                finally:
                    self._depth -= 1

    def definition(self, module: Module, name: str) -> tuple[Module, Any]:
        """Return the module and syntax tree that define a name, following imports."""
        for _ in range(MAX_DEPTH):
            found = module.names.get(name)
            if not isinstance(found, tuple):
                return module, found
            other = self.source.module(found[0])
            if other is None or found[1] is None:
                return module, None
            module, name = other, found[1]
        return module, None

    # -- classes ---------------------------------------------------------------------------------------------------

    def bases(self, cls: Class) -> list[Class]:
        """Return the class and its bases in vLLM, nearest first."""
        found = [cls]
        for base in cls.node.bases:
            value = self.evaluate(base, cls.module, {})
            if isinstance(value, Class) and value.node is not cls.node:
                found.extend(self.bases(value))
        return found

    def is_enum(self, cls: Class) -> bool:
        """Return whether the class derives from an enumeration."""
        names = {ast.unparse(base) for c in self.bases(cls) for base in c.node.bases}
        return any(name.rsplit(".", 1)[-1] in ("Enum", "StrEnum", "IntEnum") for name in names)

    def is_dataclass(self, cls: Class) -> bool:
        """Return whether the class has a dataclass decorator, including vLLM's `@config`."""
        decorators = (ast.unparse(d).split("(")[0].rsplit(".", 1)[-1] for d in cls.node.decorator_list)
        return any(d in ("dataclass", "config") for d in decorators)

    def derives_from(self, cls: Class, name: str) -> bool:
        """Return whether a base of the class has this name."""
        return any(ast.unparse(b).split("[")[0] == name for c in self.bases(cls) for b in c.node.bases)

    def members(self, cls: Class) -> list[Member]:
        """Return the members of an enumeration, in order."""
        found = []
        for statement in cls.node.body:
            match statement:
                case ast.Assign(targets=[ast.Name(id=name)]) if not name.startswith("_"):
                    value = self.evaluate(statement.value, cls.module, {})
                    found.append(Member(name, name.lower() if isinstance(value, Unknown) else value))
        return found

    def fields(self, cls: Class) -> dict[str, tuple[Class, ast.AnnAssign]]:
        """Return the dataclass fields by name, base classes first."""
        found: dict[str, tuple[Class, ast.AnnAssign]] = {}
        for owner in reversed(self.bases(cls)):
            for statement in owner.node.body:
                match statement:
                    case ast.AnnAssign(target=ast.Name(id=name)):
                        if "ClassVar" not in ast.unparse(statement.annotation):
                            found[name] = (owner, statement)
        return found

    def attribute(self, cls: Class, name: str) -> Any:
        """Return a class attribute: a field's default, an enumeration's member or a method."""
        if name == "__doc__":
            return ""
        if name in ("__name__", "__qualname__"):
            return cls.name
        for owner in self.bases(cls):
            for statement in owner.node.body:
                match statement:
                    case ast.FunctionDef(name=found) if found == name:
                        return Function(owner.module, statement, {}, owner, cls)
                    case ast.Assign(targets=[ast.Name(id=found)]) if found == name:
                        if self.is_enum(owner):
                            return next(m for m in self.members(owner) if m.name == name)
                        return self.evaluate(statement.value, owner.module, self._class_scope(owner))
                    case ast.AnnAssign(target=ast.Name(id=found), value=ast.expr()) if found == name:
                        return self.field_default(owner, statement)
        return Unknown(f"{cls.name}.{name}")

    def field_default(self, owner: Class, statement: ast.AnnAssign) -> Any:
        """Return the default value of a dataclass field, with `field()` and pydantic's `Field()` resolved."""
        if statement.value is None:
            return Unknown("no default")
        return self.evaluate(statement.value, owner.module, self._class_scope(owner))

    def field_docstring(self, owner: Class, statement: ast.AnnAssign) -> str:
        """Return the string literal after a field, which documents it in vLLM."""
        after = owner.node.body[owner.node.body.index(statement) + 1 :]
        match after[:1]:
            case [ast.Expr(value=ast.Constant(value=str() as text))]:
                return text
        return ""

    def _class_scope(self, owner: Class) -> dict[str, Any]:
        scope: dict[str, Any] = {}
        for statement in owner.node.body:
            match statement:
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=value)):
                    scope[name] = value
        return scope

    # -- type annotations --------------------------------------------------------------------------------------------

    def hints(self, node: ast.expr, module: Module, depth: int = 0) -> list[Hint]:
        """Return the members of an annotation's union, with aliases and Optional/Annotated resolved."""
        if depth > MAX_DEPTH:
            return [Hint("other")]
        again = depth + 1
        match node:
            case ast.Constant(value=None):
                return [Hint("None")]
            case ast.Constant(value=str() as text):
                return self.hints(ast.parse(text.strip(), mode="eval").body, module, again)
            case ast.BinOp(left=left, op=ast.BitOr(), right=right):
                return self.hints(left, module, again) + self.hints(right, module, again)
            case ast.Subscript(value=base, slice=inner):
                name = ast.unparse(base).rsplit(".", 1)[-1]
                items = inner.elts if isinstance(inner, ast.Tuple) else [inner]
                if name == "Literal":
                    return [Hint("literal", tuple(self._literal(items, module)))]
                if name in ("Optional", "Union"):
                    joined = [hint for item in items for hint in self.hints(item, module, again)]
                    return joined + ([Hint("None")] if name == "Optional" else [])
                if name in ("Annotated", "SkipValidation", "InitVar", "Final", "Required"):
                    return self.hints(items[0], module, again)
                if name in LIST_HINTS | {"tuple", "Tuple", "set", "Set"}:
                    kind = "list" if name in LIST_HINTS else name.lower()
                    return [Hint(kind, tuple(self.hints(items[0], module, again)))]
                if name in DICT_HINTS:
                    return [Hint("dict")]
                return [Hint("other")]
            case ast.Name(id=name) if name in TYPE_NAMES and name not in module.names:
                return [Hint(name)]
            case ast.Name(id=name):
                where, found = self.definition(module, name)
                if name in LIST_HINTS or name in DICT_HINTS:
                    return [Hint("list" if name in LIST_HINTS else "dict")]
                if isinstance(found, ast.ClassDef):
                    return [Hint("class", (Class(where, found),))]
                if isinstance(found, ast.expr) and not isinstance(found, ast.Call):
                    return self.hints(found, where, again)
                return [Hint("other")]
            case _:
                return [Hint("other")]

    def _literal(self, items: list[ast.expr], module: Module) -> Iterator[Any]:
        for item in items:
            value = self.evaluate(item, module, {})
            if isinstance(value, tuple | list):
                yield from value
            elif isinstance(item, ast.Name | ast.Subscript):  # a Literal inside a Literal
                for hint in self.hints(item, module):
                    yield from hint.arguments
            else:
                yield value
