"""Evaluate vLLM's parser-building code over its syntax trees, without importing or running it.

A release's parser is built by ordinary Python (`add_argument` calls, keyword dictionaries derived from dataclasses,
loops over them), and differently in each era. So literals, dictionaries, classes and calls between vLLM's own
functions are followed, everything else becomes `Unknown`, and an `if` whose test is unknown takes both branches.
Environment variables are taken as unset and the platform as CUDA.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from class_reader import MAX_DEPTH
from expression_reader import ExpressionReader
from vllm_source import (
    Class,
    Function,
    Hint,
    Instance,
    Member,
    Module,
    Parser,
    Source,
    Type,
    Unknown,
)

if TYPE_CHECKING:
    from collections.abc import Callable

PURE_METHODS = frozenset(
    [
        "append",
        "capitalize",
        "copy",
        "endswith",
        "extend",
        "format",
        "get",
        "insert",
        "items",
        "join",
        "keys",
        "lower",
        "lstrip",
        "pop",
        "remove",
        "removeprefix",
        "replace",
        "rstrip",
        "setdefault",
        "split",
        "startswith",
        "strip",
        "title",
        "update",
        "upper",
        "values",
    ]
)
PARSERS = frozenset(("FlexibleArgumentParser", "ArgumentParser"))


class Return(Exception):  # noqa: N818 - not an error
    """The signal that a `return` statement was reached."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


class Evaluator(ExpressionReader):
    """An evaluator of expressions and function bodies of one release."""

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self.parsers: list[Parser] = []
        self.natives: dict[str, Callable[..., Any]] = {}

    # -- calls -----------------------------------------------------------------------------------------------------------

    def _call(self, node: ast.Call, module: Module, scope: dict[str, Any]) -> Any:
        arguments = self._sequence(node.args, module, scope)
        keywords: dict[str, Any] = {}
        for keyword in node.keywords:
            value = self.evaluate(keyword.value, module, scope)
            if keyword.arg is None:
                if not isinstance(value, dict):
                    return Unknown(ast.unparse(node))
                keywords.update(value)
            else:
                keywords[keyword.arg] = value
        if isinstance(arguments, Unknown):
            return arguments
        if isinstance(node.func, ast.Attribute):
            target = self.evaluate(node.func.value, module, scope)
            result = self.method(target, node.func.attr, arguments, keywords)
            if result is not NotImplemented:
                return result
            if ast.unparse(node.func.value) == "current_platform" and node.func.attr.startswith("is_"):
                return node.func.attr in ("is_cuda", "is_cuda_alike")
        return self.call(self.evaluate(node.func, module, scope), arguments, keywords)

    def method(self, target: Any, name: str, arguments: list[Any], keywords: dict[str, Any]) -> Any:
        """Return the result of a method call on a parser or a plain value; NotImplemented for anything else."""
        if isinstance(target, Parser):
            if name == "add_argument":
                target.arguments.append((arguments, keywords))
                return Unknown("action")
            if name == "add_parser":
                parser = Parser(str(arguments[0]) if arguments else "")
                self.parsers.append(parser)
                return parser
            return target if name.startswith("add_") else Unknown(name)
        if isinstance(target, str | dict | list) and name in PURE_METHODS:
            if any(isinstance(a, Unknown) for a in arguments) and name not in ("append", "get", "pop"):
                return Unknown(name)
            try:
                result = getattr(target, name)(*arguments, **keywords)
            except (KeyError, ValueError, TypeError, AttributeError, IndexError):
                return Unknown(name)
            return list(result) if name in ("items", "keys", "values") else result
        return NotImplemented

    def call(self, function: Any, arguments: list[Any], keywords: dict[str, Any]) -> Any:
        """Return the result of calling a value."""
        match function:
            case Function(name=name) | Class(name=name) | Type(name=name) if (
                name.rsplit(".", 1)[-1] in self.natives
            ):
                return self.natives[name.rsplit(".", 1)[-1]](*arguments, **keywords)
            case Class(name=name) if name in PARSERS:
                return Parser()
            case Class():
                return Instance(function)
            case Function():
                return self.run(function, arguments, keywords)
            case Type(name=name):
                return self.builtin(name, arguments, keywords)
        return Unknown("call")

    def builtin(self, name: str, arguments: list[Any], keywords: dict[str, Any]) -> Any:
        """Return the result of a call of a built-in or standard-library function."""
        short = name.rsplit(".", 1)[-1]
        if short in PARSERS:
            return Parser()
        if name in ("os.getenv", "os.environ.get", "getenv"):
            return arguments[1] if len(arguments) > 1 else keywords.get("default")
        if name in ("dict", "list", "tuple", "set") and not arguments:
            return keywords if name == "dict" else () if name == "tuple" else []
        if any(isinstance(a, Unknown) for a in arguments) or not arguments:
            return Unknown(name)
        first = arguments[0]
        items = self.iterate(first)
        if short in ("deepcopy", "copy", "cast") or name == "str.lower":
            return arguments[-1]
        if short == "get_args" and isinstance(first, Hint):
            return list(first.arguments)
        if name in ("list", "tuple", "sorted", "set", "frozenset") and items is not None:
            plain = (
                [m.value if isinstance(m, Member) else m for m in items] if name == "sorted" else list(items)
            )
            try:
                return tuple(plain) if name == "tuple" else sorted(plain) if name == "sorted" else plain
            except TypeError:
                return Unknown(name)
        if name in ("int", "float", "str", "bool") and isinstance(first, str | int | float | bool | None):
            try:
                return {"int": int, "float": float, "str": str, "bool": bool}[name](first)
            except (ValueError, TypeError):
                return Unknown(name)
        if name == "int" and first == Type("ssl.CERT_NONE"):
            return 0
        if name == "len" and items is not None:
            return len(items)
        return Unknown(name)

    def run(self, function: Function, arguments: list[Any], keywords: dict[str, Any]) -> Any:
        """Return the result of a vLLM function's body."""
        if self._depth > MAX_DEPTH:
            return Unknown(function.name)
        scope = dict(function.scope)
        parameters = function.node.args
        names = [a.arg for a in [*parameters.posonlyargs, *parameters.args]]
        decorators = [ast.unparse(d) for d in getattr(function.node, "decorator_list", [])]
        if function.bound is not None and "staticmethod" not in decorators:
            first = function.bound if "classmethod" in decorators else Instance(function.bound)
            arguments = [first, *arguments]
            scope.update(__owner__=function.owner, __bound__=function.bound)
        for name, default in zip(reversed(names), reversed(parameters.defaults), strict=False):
            scope[name] = self.evaluate(default, function.module, {})
        for parameter, given in zip(parameters.kwonlyargs, parameters.kw_defaults, strict=True):
            if given is not None:
                scope[parameter.arg] = self.evaluate(given, function.module, {})
        scope.update(zip(names, arguments, strict=False))
        scope.update(keywords)
        for name in names:
            scope.setdefault(name, Unknown(name))
        self._depth += 1
        try:
            if isinstance(function.node, ast.Lambda):
                return self.evaluate(function.node.body, function.module, scope)
            self.execute(function.node.body, function.module, scope)
        except Return as result:
            return result.value
        finally:
            self._depth -= 1
        return None

    # -- statements --------------------------------------------------------------------------------------------------------

    def execute(self, body: list[ast.stmt], module: Module, scope: dict[str, Any]) -> None:
        """Run statements for their effect on `scope` and on parsers. Raises Return at a `return`."""
        for statement in body:
            match statement:
                case ast.Return():
                    raise Return(self.evaluate(statement.value, module, scope) if statement.value else None)
                case ast.Expr():
                    self.evaluate(statement.value, module, scope)
                case ast.Assign():
                    value = self.evaluate(statement.value, module, scope)
                    for target in statement.targets:
                        self.assign(target, value, module, scope)
                case ast.AnnAssign(value=ast.expr() as expression):
                    self.assign(statement.target, self.evaluate(expression, module, scope), module, scope)
                case ast.AugAssign(op=ast.Add()):
                    self._augment(statement, module, scope)
                case ast.If():
                    self._branch(statement, module, scope)
                case ast.For():
                    for item in self.iterate(self.evaluate(statement.iter, module, scope)) or ():
                        self.assign(statement.target, item, module, scope)
                        self.execute(statement.body, module, scope)
                case ast.With() | ast.Try():
                    self.execute(statement.body, module, scope)
                case ast.FunctionDef():
                    scope[statement.name] = Function(module, statement, scope)
                case ast.Import() | ast.ImportFrom():
                    for name, (other, wanted) in module.imports(statement).items():
                        target_module = self.source.module(other)
                        scope[name] = Type(wanted or other)
                        if target_module is not None:
                            scope[name] = self.lookup(target_module, wanted) if wanted else target_module
                case ast.Delete():
                    self._delete(statement, module, scope)

    def _branch(self, statement: ast.If, module: Module, scope: dict[str, Any]) -> None:
        test = self.truth(self.evaluate(statement.test, module, scope))
        if test is not None:
            self.execute(statement.body if test else statement.orelse, module, scope)
            return
        for body in (statement.body, statement.orelse):
            try:
                self.execute(body, module, scope)
            except Return:  # noqa: PERF203 - perhaps; what follows the `if` may run as well
                continue

    def _augment(self, statement: ast.AugAssign, module: Module, scope: dict[str, Any]) -> None:
        old = self.evaluate(statement.target, module, scope)
        new = self.evaluate(statement.value, module, scope)
        joined: Any = Unknown("")
        if type(old) is type(new) and isinstance(old, str | list | tuple | int | float):
            joined = old + new
        self.assign(statement.target, joined, module, scope)

    def _delete(self, statement: ast.Delete, module: Module, scope: dict[str, Any]) -> None:
        for target in statement.targets:
            if isinstance(target, ast.Subscript):
                base = self.evaluate(target.value, module, scope)
                key = self.evaluate(target.slice, module, scope)
                if isinstance(base, dict):
                    base.pop(key, None)

    def assign(self, target: ast.expr, value: Any, module: Module, scope: dict[str, Any]) -> None:
        """Bind an assignment target."""
        match target:
            case ast.Name():
                scope[target.id] = value
            case ast.Tuple() | ast.List():
                items = self.iterate(value)
                for index, part in enumerate(target.elts):
                    known = items is not None and index < len(items)
                    self.assign(part, items[index] if known and items else Unknown(""), module, scope)
            case ast.Subscript():
                base = self.evaluate(target.value, module, scope)
                key = self.evaluate(target.slice, module, scope)
                if isinstance(base, dict) and isinstance(key, str | int):
                    base[key] = value

    def environment_default(self, name: str) -> Any:
        """Return the value of `envs.NAME` if the variable is not set."""
        module = self.source.module("vllm.envs")
        table = module.names.get("environment_variables") if module else None
        if module is None or not isinstance(table, ast.Dict):
            return Unknown(name)
        for key, value in zip(table.keys, table.values, strict=True):
            if isinstance(key, ast.Constant) and key.value == name:
                result = self.call(self.evaluate(value, module, {}), [], {})
                return Unknown(name) if isinstance(result, Function | Type | Instance) else result
        return Unknown(name)
