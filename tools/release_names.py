"""Extract the names of one vLLM release from its sources with `ast`: modules, names, classes, parameters.

Nothing is imported. `build_names.py` puts the releases together.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

PROJECT = "vllm"
LOCK_FILES = ("requirements/test/cuda.txt", "requirements/test.txt", "requirements-test.txt")
REQUIREMENT_FILES = (  # the first file that names a package wins
    *("requirements/common.txt", "requirements-common.txt", "requirements.txt"),
    *("requirements/cuda.txt", "requirements-cuda.txt"),
)
BUILT = {  # modules that the build writes or copies, in no source distribution
    "vllm._version": ("version", "version_tuple", "__version__", "__version_tuple__", "commit_id", "__commit_id__"),
}
FIELD_BASES = {"BaseModel", "Struct", "NamedTuple", "TypedDict", "OpenAIBaseModel"}


@dataclass
class ClassNames:
    """The names of a class: bases as written, members, instance attributes, parameters of methods."""

    bases: tuple[str, ...] = ()
    members: set[str] = field(default_factory=set)
    attributes: set[str] = field(default_factory=set)
    abstract: set[str] = field(default_factory=set)
    methods: dict[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass
class ModuleNames:
    """The names that importing one module binds. `imported` maps a name to its origin; `stars` has star imports."""

    defined: set[str] = field(default_factory=set)
    imported: dict[str, str] = field(default_factory=dict)
    stars: list[str] = field(default_factory=list)
    exported: set[str] = field(default_factory=set)
    conditions: dict[str, str] = field(default_factory=dict)
    classes: dict[str, ClassNames] = field(default_factory=dict)
    functions: dict[str, tuple[str, ...]] = field(default_factory=dict)


def parameters(arguments: ast.arguments, *, bound: bool) -> tuple[str, ...]:
    """Return the parameters of a function: `name`, `name=` with a default, `*` and `**` for variadic ones.

    With `bound`, the first one (`self`, `cls`) is left out.
    """
    positional = [*arguments.posonlyargs, *arguments.args]
    required = len(positional) - len(arguments.defaults)
    found = [argument.arg + ("=" if at >= required else "") for at, argument in enumerate(positional)][int(bound) :]
    if arguments.vararg:
        found.append("*")
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        found.append(argument.arg + ("=" if default is not None else ""))
    if arguments.kwarg:
        found.append("**")
    return tuple(found)


def dotted(node: ast.expr) -> str | None:
    """Return `a.b.c` for a name or an attribute, through subscripts (`Generic[T]`) and calls; None otherwise."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=attribute):
            left = dotted(value)
            return f"{left}.{attribute}" if left else None
        case ast.Subscript(value=value) | ast.Call(func=value):
            return dotted(value)
    return None


def targets(node: ast.expr) -> Iterator[ast.expr]:
    """Yield the single targets of an assignment."""
    if isinstance(node, ast.Tuple | ast.List):
        for element in node.elts:
            yield from targets(element)
    elif isinstance(node, ast.Starred):
        yield from targets(node.value)
    else:
        yield node


def is_type_checking(test: ast.expr) -> bool:
    """Return whether an `if` is only for type checkers."""
    return (dotted(test) or "").rpartition(".")[2] == "TYPE_CHECKING"


class ModuleReader:
    """A visitor that reads one module into ModuleNames."""

    def __init__(self, name: str, path: Path, text: str) -> None:
        self.name = name
        self.is_package = path.name == "__init__.py"
        self.names = ModuleNames()
        tree = ast.parse(text)
        self.is_lazy = any(
            isinstance(node, ast.FunctionDef) and node.name == "__getattr__" for node in self._top_level(tree.body)
        )
        self._body(tree.body, "")
        if self.is_lazy:
            self._lazy(tree)

    @staticmethod
    def _top_level(body: list[ast.stmt]) -> Iterator[ast.stmt]:
        for statement in body:
            yield statement
            if isinstance(statement, ast.If):
                yield from ModuleReader._top_level([*statement.body, *statement.orelse])

    def _bind(self, name: str, condition: str) -> None:
        if condition and name not in self.names.defined and name not in self.names.imported:
            self.names.conditions[name] = condition
        elif not condition:
            self.names.conditions.pop(name, None)

    def _define(self, name: str, condition: str) -> None:
        self._bind(name, condition)
        self.names.defined.add(name)

    def _body(self, body: list[ast.stmt], condition: str) -> None:
        for statement in body:
            match statement:
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    self._define(statement.name, condition)
                    self.names.functions[statement.name] = parameters(statement.args, bound=False)
                case ast.ClassDef():
                    self._define(statement.name, condition)
                    self.names.classes[statement.name] = read_class(statement)
                case ast.Assign():
                    self._assignment(statement, condition)
                case ast.AnnAssign(target=ast.Name(id=name), value=value) if value is not None or self.is_lazy:
                    self._define(name, condition)
                case ast.AugAssign(target=ast.Name(id="__all__"), value=value):
                    self.names.exported.update(strings(value))
                case ast.Import() | ast.ImportFrom():
                    self._import(statement, condition)
                case ast.If():
                    self._if(statement, condition)
                case ast.Try():
                    # Either the body or a handler binds the name: only what the body alone binds is uncertain.
                    self._body(statement.body, condition or "its imports succeed")
                    for handler in statement.handlers:
                        self._body(handler.body, condition)
                    self._body(statement.orelse, condition)
                    self._body(statement.finalbody, condition)
                case ast.With() | ast.For() | ast.While():
                    self._body(statement.body, condition)

    def _if(self, statement: ast.If, condition: str) -> None:
        if is_type_checking(statement.test):
            if self.is_lazy:
                self._body(statement.body, condition)
            self._body(statement.orelse, condition)
            return
        test = ast.unparse(statement.test)
        before = set(self.names.defined) | set(self.names.imported)
        self._body(statement.body, condition or test)
        body = (set(self.names.defined) | set(self.names.imported)) - before
        self._body(statement.orelse, condition or f"not ({test})")
        if not condition and statement.orelse:
            for name in body & bound_names(statement.orelse):
                self.names.conditions.pop(name, None)

    def _assignment(self, statement: ast.Assign, condition: str) -> None:
        for target in statement.targets:
            for single in targets(target):
                if isinstance(single, ast.Name):
                    if single.id == "__all__":
                        self.names.exported.update(strings(statement.value))
                    source = dotted(statement.value) if isinstance(statement.value, ast.Name | ast.Attribute) else None
                    if source and source.split(".")[0] in self.names.imported:
                        head, _, rest = source.partition(".")
                        self._bind(single.id, condition)
                        self.names.imported[single.id] = self.names.imported[head] + (f".{rest}" if rest else "")
                    elif source in self.names.classes:
                        self._bind(single.id, condition)
                        self.names.imported[single.id] = f"{self.name}.{source}"
                    else:
                        self._define(single.id, condition)

    def _import(self, statement: ast.Import | ast.ImportFrom, condition: str) -> None:
        if isinstance(statement, ast.Import):
            for alias in statement.names:
                top = alias.name.split(".")[0]
                self._bind(alias.asname or top, condition)
                self.names.imported[alias.asname or top] = alias.name if alias.asname else top
            return
        base = self._base(statement)
        for alias in statement.names:
            if alias.name == "*":
                self.names.stars.append(base)
            else:
                self._bind(alias.asname or alias.name, condition)
                self.names.imported[alias.asname or alias.name] = f"{base}.{alias.name}"

    def _base(self, statement: ast.ImportFrom) -> str:
        base = statement.module or ""
        if statement.level:
            package = self.name.split(".")
            package = package if self.is_package else package[:-1]
            package = package[: len(package) - statement.level + 1]
            base = ".".join([*package, base] if base else package)
        return base

    def _lazy(self, tree: ast.Module) -> None:
        """Return the names that a module's `__getattr__` handles: keys of its tables and strings it compares with."""
        for node in self._top_level(tree.body):
            match node:
                case ast.Assign(value=ast.Dict(keys=keys)) | ast.AnnAssign(value=ast.Dict(keys=keys)):
                    for key in keys:
                        if isinstance(key, ast.Constant) and isinstance(key.value, str) and key.value.isidentifier():
                            self.names.defined.add(key.value)
                case ast.FunctionDef(name="__getattr__"):
                    for compare in ast.walk(node):
                        if isinstance(compare, ast.Compare):
                            self.names.defined.update(
                                value for part in (compare.left, *compare.comparators) for value in strings(part)
                            )


def bound_names(body: list[ast.stmt]) -> set[str]:
    """Return the names that statements bind, including one level of `if` and `try`."""
    found: set[str] = set()
    for statement in body:
        match statement:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
            case ast.Assign(targets=several):
                found.update(one.id for target in several for one in targets(target) if isinstance(one, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name)):
                found.add(name)
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                found.update(alias.asname or alias.name.split(".")[0] for alias in names)
            case ast.If(body=first, orelse=second):
                found |= bound_names(first) & bound_names(second)
    return found


def strings(node: ast.expr | None) -> Iterator[str]:
    """Yield the string constants of an expression that are identifiers."""
    for inner in ast.walk(node) if node is not None else ():
        if isinstance(inner, ast.Constant) and isinstance(inner.value, str) and inner.value.isidentifier():
            yield inner.value


def read_class(node: ast.ClassDef) -> ClassNames:
    """Read a class body into ClassNames."""
    found = ClassNames(bases=tuple(base for base in map(dotted, node.bases) if base))
    decorators = {(dotted(decorator) or "").rpartition(".")[2] for decorator in node.decorator_list}
    takes_fields = bool(decorators & {"dataclass", "config", "pydantic_dataclass", "define"}) or any(
        base.rpartition(".")[2] in FIELD_BASES for base in found.bases
    )
    fields: list[str] = []
    _class_body(node.body, found, fields)
    found.attributes -= {f"{name}?" for name in found.attributes}  # what another method always sets
    if takes_fields and "__init__" not in found.methods:
        found.methods["__init__"] = tuple(fields)
    return found


def _class_body(body: list[ast.stmt], found: ClassNames, fields: list[str]) -> None:
    for statement in body:
        match statement:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                decorators = {(dotted(decorator) or "").rpartition(".")[2] for decorator in statement.decorator_list}
                found.members.add(statement.name)
                if decorators & {"abstractmethod", "abstractproperty"}:
                    found.abstract.add(statement.name)
                if not decorators & {"property", "cached_property", "setter", "overload"}:
                    found.methods[statement.name] = parameters(statement.args, bound="staticmethod" not in decorators)
                found.attributes.update(instance_attributes(statement))
            case ast.ClassDef():
                found.members.add(statement.name)
            case ast.Assign(targets=several):
                found.members.update(
                    one.id for target in several for one in targets(target) if isinstance(one, ast.Name)
                )
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation, value=value):
                (found.attributes if value is None else found.members).add(name)
                if (dotted(annotation) or "").rpartition(".")[2] != "ClassVar" and not _is_no_init(value):
                    fields.append(name + ("=" if value is not None else ""))
            case ast.If(body=first, orelse=second):
                _class_body([*first, *second], found, fields)


def _is_no_init(value: ast.expr | None) -> bool:
    """Return whether a dataclass field has init=False."""
    return isinstance(value, ast.Call) and any(
        keyword.arg == "init" and isinstance(keyword.value, ast.Constant) and keyword.value.value is False
        for keyword in value.keywords
    )


def instance_attributes(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """Return the attributes that a method sets on `self`; `name?` for one that only one branch sets."""
    arguments = [*function.args.posonlyargs, *function.args.args]
    if not arguments:
        return set()
    always, sometimes = _attributes_set(function.body, arguments[0].arg)
    return always | {f"{name}?" for name in sometimes - always}


def _attributes_set(body: list[ast.stmt], owner: str) -> tuple[set[str], set[str]]:
    """Return the attributes that statements always set, and those that only some branch sets."""
    always: set[str] = set()
    sometimes: set[str] = set()
    for statement in body:
        match statement:
            case ast.If(body=first, orelse=second):
                left, right = _attributes_set(first, owner), _attributes_set(second, owner)
                always |= left[0] & right[0]
                sometimes |= left[0] | left[1] | right[0] | right[1]
            case ast.With(body=inner) | ast.AsyncWith(body=inner) | ast.Try(body=inner) | ast.For(body=inner):
                found = _attributes_set(inner, owner)
                always |= found[0]
                sometimes |= found[1]
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                pass
            case _:
                always.update(_attributes_of(statement, owner))
    return always, sometimes


def _attributes_of(statement: ast.stmt, owner: str) -> Iterator[str]:
    match statement:
        case ast.Assign(targets=several):
            places: Iterable[ast.expr] = several
        case ast.AnnAssign(target=place) | ast.AugAssign(target=place):
            places = (place,)
        case ast.Expr(
            value=ast.Call(
                func=ast.Name(id="setattr") | ast.Attribute(attr="__setattr__"),
                args=[ast.Name(id=first), ast.Constant(value=str(name)), *_],
            )
        ) if first == owner:
            yield name
            return
        case _:
            return
    for target in places:
        for single in targets(target):
            match single:
                case ast.Attribute(value=ast.Name(id=first), attr=name) if first == owner:
                    yield name


class ReleaseNames:
    """The names of one release. `cache` shares the results for identical files between releases."""

    def __init__(self, root: Path, cache: dict[tuple[str, bytes], ModuleNames]) -> None:
        self.root = root
        self.version = root.name.removeprefix(f"{PROJECT}-")
        self.modules: dict[str, ModuleNames] = {}
        self.packages: set[str] = set()
        for path in sorted((root / PROJECT).rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            if not all(part.isidentifier() for part in parts):
                continue
            if path.name == "__init__.py":
                self.packages.add(name)
            content = path.read_bytes()
            key = (f"{name}{path.name == '__init__.py'}", hashlib.sha256(content).digest())
            if key not in cache:
                cache[key] = ModuleReader(name, path, content.decode("utf-8")).names
            self.modules[name] = cache[key]
        for name in list(self.modules):  # a folder without __init__.py is importable too
            while "." in name:
                name = name.rpartition(".")[0]  # noqa: PLW2901 - climbs
                self.modules.setdefault(name, ModuleNames())

    def source(self, name: str) -> str:
        """Return the module or definition of a dotted name, followed through re-exports."""
        for _ in range(8):
            if name in self.modules:
                return name
            module, _, attribute = name.rpartition(".")
            found = self.modules.get(module)
            if found is None:
                return name
            if attribute in found.classes or attribute in found.functions or attribute not in found.imported:
                return name
            name = found.imported[attribute]
        return name

    def bindings(self, name: str, seen: frozenset[str] = frozenset()) -> set[str]:
        """Return vLLM's names that importing the module binds, without star imports and submodules."""
        module = self.modules[name]
        found = set(module.defined)
        found |= {local for local, origin in module.imported.items() if origin.split(".")[0] == PROJECT}
        for star in module.stars:
            if star in self.modules and star not in seen:
                other = self.bindings(star, seen | {name})
                exported = self.modules[star].exported
                found |= other & exported if exported else {one for one in other if not one.startswith("_")}
        return found

    @property
    def has_metadata(self) -> bool:
        """Return whether the release is a source distribution; a wheel has no setup.py."""
        return (self.root / "setup.py").is_file()

    @cached_property
    def extensions(self) -> set[str]:
        """Return the compiled modules that setup.py builds."""
        found: set[str] = set()
        for node in ast.walk(ast.parse((self.root / "setup.py").read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and (dotted(node.func) or "").endswith("Extension"):
                for keyword in node.keywords:
                    if keyword.arg == "name" and isinstance(keyword.value, ast.Constant):
                        found.add(str(keyword.value.value))
                    elif keyword.arg == "name":
                        found.update(
                            f"{PROJECT}._C" for part in ast.walk(keyword.value) if part.__class__ is ast.Constant
                        )
        return {name for name in found if name.startswith(f"{PROJECT}.")}

    @cached_property
    def requirements(self) -> dict[str, str]:
        """Return package -> requirement of the release: a specifier ("" for any), or `[extra]` if optional."""
        lines: list[str] = []
        for file in REQUIREMENT_FILES:
            path = self.root / file
            if path.is_file():
                lines += path.read_text(encoding="utf-8").splitlines()
        metadata = self.root / "PKG-INFO"
        if metadata.is_file():
            head = metadata.read_text(encoding="utf-8").partition("\n\n")[0]
            lines += [
                row.removeprefix("Requires-Dist: ") for row in head.splitlines() if row.startswith("Requires-Dist:")
            ]
        found: dict[str, str] = {}
        for line in lines:
            requirement = parse_requirement(line)
            if requirement is None:
                continue
            extra = extra_of(requirement)
            value = f"[{extra}]" if extra else str(requirement.specifier)
            if applies(requirement):
                found.setdefault(canonicalize_name(requirement.name), value)
        return found

    @cached_property
    def tested(self) -> dict[str, str]:
        """Return package -> version in the lock file of the release's test environment."""
        for file in LOCK_FILES:
            path = self.root / file
            if path.is_file():
                found = (parse_requirement(line) for line in path.read_text(encoding="utf-8").splitlines())
                pins = {
                    canonicalize_name(one.name): str(one.specifier).removeprefix("==").partition("+")[0]
                    for one in found
                    if one is not None and str(one.specifier).startswith("==")
                }
                if len(pins) > 20:  # older files are not locked
                    return pins
        return {}


def parse_requirement(line: str) -> Requirement | None:
    """Return the package and specifier of a requirements line; None for comments, options and URLs."""
    text = line.partition(" #")[0].partition("\t#")[0].strip().rstrip("\\").strip()
    if not text or text.startswith(("#", "-")):
        return None
    try:
        found = Requirement(text)
    except InvalidRequirement:
        return None
    return None if found.url else found


def extra_of(requirement: Requirement) -> str:
    """Return the extra of a requirement in the metadata; "" for none."""
    marker = str(requirement.marker or "")
    return marker.partition('extra == "')[2].partition('"')[0]


def applies(requirement: Requirement) -> bool:
    """Return whether a requirement applies to the usual platform: Linux, x86_64, Python 3.12."""
    if requirement.marker is None:
        return True
    environment = {
        "platform_machine": "x86_64",
        "platform_system": "Linux",
        "sys_platform": "linux",
        "python_version": "3.12",
        "python_full_version": "3.12.3",
        "extra": extra_of(requirement),
    }
    return bool(requirement.marker.evaluate(environment))
