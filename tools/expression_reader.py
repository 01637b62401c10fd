"""Evaluate vLLM's expressions from their syntax trees without running them."""

from __future__ import annotations

import ast
from typing import Any

from class_reader import ClassReader
from vllm_source import Class, Function, Hint, Instance, Member, Module, Type, Unknown


class ExpressionReader(ClassReader):
    """An evaluator of expressions; a subclass evaluates calls and binds targets."""

    def _call(self, node: ast.Call, module: Module, scope: dict[str, Any]) -> Any:
        raise NotImplementedError

    def assign(self, target: ast.expr, value: Any, module: Module, scope: dict[str, Any]) -> None:
        """Bind an assignment target."""
        raise NotImplementedError

    def environment_default(self, name: str) -> Any:
        """Return the value of `envs.NAME` if the variable is not set."""
        raise NotImplementedError

    def evaluate(self, node: ast.expr, module: Module, scope: dict[str, Any]) -> Any:
        """Return the value of an expression; `Unknown` if it is only known at run time."""
        method = getattr(self, f"_{type(node).__name__.lower()}", None)
        if method is None:
            return Unknown(ast.unparse(node))
        value = method(node, module, scope)
        return Unknown(ast.unparse(node)) if isinstance(value, Unknown) else value

    def _constant(self, node: ast.Constant, _module: Module, _scope: dict[str, Any]) -> Any:
        return node.value

    def _name(self, node: ast.Name, module: Module, scope: dict[str, Any]) -> Any:
        if node.id in scope:
            return scope[node.id]
        if node.id in module.names:
            return self.lookup(module, node.id)
        return Type(node.id)

    def _sequence(self, items: list[ast.expr], module: Module, scope: dict[str, Any]) -> Any:
        found: list[Any] = []
        for item in items:
            if isinstance(item, ast.Starred):
                inner = self.iterate(self.evaluate(item.value, module, scope))
                if inner is None:
                    return Unknown(ast.unparse(item))
                found.extend(inner)
            else:
                found.append(self.evaluate(item, module, scope))
        return found

    def _list(self, node: ast.List, module: Module, scope: dict[str, Any]) -> Any:
        return self._sequence(node.elts, module, scope)

    def _set(self, node: ast.Set, module: Module, scope: dict[str, Any]) -> Any:
        return self._sequence(node.elts, module, scope)

    def _tuple(self, node: ast.Tuple, module: Module, scope: dict[str, Any]) -> Any:
        found = self._sequence(node.elts, module, scope)
        return found if isinstance(found, Unknown) else tuple(found)

    def _dict(self, node: ast.Dict, module: Module, scope: dict[str, Any]) -> Any:
        found: dict[Any, Any] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            evaluated = self.evaluate(value, module, scope)
            if key is None:
                if not isinstance(evaluated, dict):
                    return Unknown(ast.unparse(node))
                found.update(evaluated)
                continue
            name = self.evaluate(key, module, scope)
            if not isinstance(name, str | int | float | bool):
                return Unknown(ast.unparse(node))
            found[name] = evaluated
        return found

    def _joinedstr(self, node: ast.JoinedStr, module: Module, scope: dict[str, Any]) -> Any:
        parts = []
        for value in node.values:
            part = self.evaluate(
                value.value if isinstance(value, ast.FormattedValue) else value, module, scope
            )
            if isinstance(part, Unknown | Class | Function):
                return Unknown(ast.unparse(node))
            parts.append(str(part))
        return "".join(parts)

    def _ifexp(self, node: ast.IfExp, module: Module, scope: dict[str, Any]) -> Any:
        test = self.truth(self.evaluate(node.test, module, scope))
        if test is None:
            return Unknown(ast.unparse(node))
        return self.evaluate(node.body if test else node.orelse, module, scope)

    def _boolop(self, node: ast.BoolOp, module: Module, scope: dict[str, Any]) -> Any:
        value: Any = Unknown("")
        for operand in node.values:
            value = self.evaluate(operand, module, scope)
            truth = self.truth(value)
            if truth is None or truth is isinstance(node.op, ast.Or):
                return value
        return value

    def _unaryop(self, node: ast.UnaryOp, module: Module, scope: dict[str, Any]) -> Any:
        value = self.evaluate(node.operand, module, scope)
        if isinstance(node.op, ast.Not):
            truth = self.truth(value)
            return Unknown("") if truth is None else not truth
        if isinstance(node.op, ast.USub) and isinstance(value, int | float):
            return -value
        return Unknown("")

    def _binop(self, node: ast.BinOp, module: Module, scope: dict[str, Any]) -> Any:
        left, right = (self.evaluate(side, module, scope) for side in (node.left, node.right))
        numbers = isinstance(left, int | float) and isinstance(right, int | float)
        match node.op:
            case ast.Add() if numbers or (type(left) is type(right) and isinstance(left, str | list | tuple)):
                return left + right
            case ast.Mult() if numbers:
                return left * right
            case ast.Sub() if numbers:
                return left - right
            case ast.LShift() if isinstance(left, int) and isinstance(right, int) and right < 64:
                return left << right
            case ast.Pow() if isinstance(left, int) and isinstance(right, int) and 0 <= right < 64:
                return left**right
        return Unknown("")

    def _compare(self, node: ast.Compare, module: Module, scope: dict[str, Any]) -> Any:
        if len(node.ops) != 1:
            return Unknown("")
        left = self.evaluate(node.left, module, scope)
        right = self.evaluate(node.comparators[0], module, scope)
        if any(isinstance(side, Unknown | Instance | Function) for side in (left, right)):
            return Unknown("")
        match node.ops[0]:
            case ast.Eq():
                return left == right
            case ast.NotEq():
                return left != right
            case ast.Is():
                return left is right or left == right
            case ast.IsNot():
                return not (left is right or left == right)
            case ast.In() | ast.NotIn():
                if right == Type("os.environ"):
                    return isinstance(node.ops[0], ast.NotIn)
                if isinstance(right, str | list | tuple | dict | set):
                    return (left in right) is isinstance(node.ops[0], ast.In)
        return Unknown("")

    def _lambda(self, node: ast.Lambda, module: Module, scope: dict[str, Any]) -> Any:
        return Function(module, node, scope)

    def _listcomp(
        self, node: ast.ListComp | ast.GeneratorExp | ast.SetComp, module: Module, scope: dict[str, Any]
    ) -> Any:
        if len(node.generators) != 1:
            return Unknown("")
        generator = node.generators[0]
        items = self.iterate(self.evaluate(generator.iter, module, scope))
        if items is None:
            return Unknown("")
        found = []
        for item in items:
            local = dict(scope)
            self.assign(generator.target, item, module, local)
            tests = [self.truth(self.evaluate(test, module, local)) for test in generator.ifs]
            if None in tests:
                return Unknown("")
            if all(tests):
                found.append(self.evaluate(node.elt, module, local))
        return found

    _generatorexp = _listcomp
    _setcomp = _listcomp

    def _subscript(self, node: ast.Subscript, module: Module, scope: dict[str, Any]) -> Any:
        base = self.evaluate(node.value, module, scope)
        if isinstance(base, Type) and not isinstance(node.slice, ast.Slice):
            if base.name == "Literal":
                return Hint("literal", tuple(self.hints(node, module)[0].arguments))
            return base  # list[str] as a callable is list
        if isinstance(node.slice, ast.Slice):
            return Unknown("")
        key = self.evaluate(node.slice, module, scope)
        if isinstance(base, dict | list | tuple | str) and isinstance(key, str | int):
            try:
                return base[key]  # type: ignore[index]
            except (KeyError, IndexError, TypeError):
                return Unknown("")
        return Unknown("")

    def _attribute(self, node: ast.Attribute, module: Module, scope: dict[str, Any]) -> Any:
        if isinstance(node.value, ast.Call) and ast.unparse(node.value) == "super()":
            owner, bound = scope.get("__owner__"), scope.get("__bound__")
            for base in self.bases(owner)[1:] if isinstance(owner, Class) else ():
                value = self.attribute(base, node.attr)
                if isinstance(value, Function):
                    return Function(value.module, value.node, {}, value.owner, bound)
            return Unknown("")
        base = self.evaluate(node.value, module, scope)
        match base:
            case Class():
                return self.attribute(base, node.attr)
            case Instance():
                return self.attribute(base.cls, node.attr)
            case Member():
                return (
                    base.value if node.attr == "value" else base.name if node.attr == "name" else Unknown("")
                )
            case Module():
                if base.name == "vllm.envs":
                    return self.environment_default(node.attr)
                return self.lookup(base, node.attr)
            case Type():
                return Type(f"{base.name}.{node.attr}")
            case Unknown():
                if ast.unparse(node) == "current_platform.device_type":
                    return "cuda"
        return Unknown("")

    def iterate(self, value: Any) -> list[Any] | None:
        """Return the items of a value; None if unknown."""
        if isinstance(value, Class) and self.is_enum(value):
            return list(self.members(value))
        if isinstance(value, list | tuple | dict | str | set):
            return list(value)
        return None

    def truth(self, value: Any) -> bool | None:
        """Return the truth value of a value; None if unknown."""
        if isinstance(value, Unknown | Type | Instance):
            return None
        return bool(value)
