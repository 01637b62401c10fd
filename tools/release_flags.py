"""Extract the flags and environment variables of one vLLM release from its sources."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from packaging.version import Version
from symbolic import Evaluator
from vllm_source import Class, Function, Hint, Instance, Member, Parser, Source, Type, Unknown

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SERVER_PARSERS = ("vllm.entrypoints.common.cli_args", "vllm.entrypoints.openai.cli_args")
NAMED_TYPES = {  # functions used as argparse's `type`
    "nullable_str": "str",
    "nullable_kvs": "key_values",
    "human_readable_int": "human_int",
    "human_readable_int_or_auto": "human_int_or_auto",
    "union_dict_and_str": "str_or_json",
    "str_to_bool": "bool_value",
    "check_port": "int",
    "json.loads": "json",
    "loads": "json",
    "from_cli": "json",
    "from_json": "json",
}
ENVIRONMENT_READ = re.compile(
    r"""(?:os\.environ\.get\(|os\.getenv\(|os\.environ\[|(?=["']\w+["']\s+(?:not\s+)?in\s+os\.environ))\s*"""
    r"""["'](VLLM_\w+)["']"""
)
ENVIRONMENT_CONSTANT = re.compile(r"""^(\w+)(?::\s*str)?\s*=\s*["'](VLLM_\w+)["']""", re.MULTILINE)
DEPRECATED = re.compile(r"\W*(?:--[\w-]+ is |this (?:argument|flag|option) is )?deprecated", re.IGNORECASE)


def _strings(*nodes: ast.AST | None) -> Iterator[str]:
    """Yield every string constant in the syntax trees."""
    for node in nodes:
        for found in ast.walk(node) if node else ():
            if isinstance(found, ast.Constant) and isinstance(found.value, str):
                yield found.value


def _reads(constant: str, text: str) -> bool:
    """Return whether the text reads the environment variable that a constant names."""
    return re.search(rf"os\.(?:environ\.get\(|getenv\(|environ\[)\s*{constant}\b", text) is not None


@dataclass(frozen=True)
class Argument:
    """One flag of one release."""

    names: tuple[str, ...]
    kind: str
    items: str | None
    default: Any
    choices: tuple[Any, ...] | None
    open_choices: bool
    negatable: bool
    inverse: str | None
    keyword: str | None
    deprecated: bool

    @property
    def name(self) -> str:
        """Return the first long form."""
        return next(n for n in self.names if n.startswith("--"))


class Release:
    """The flags and environment variables of one unpacked release."""

    def __init__(self, root: Path) -> None:
        self.version = Version(root.name.removeprefix("vllm-"))
        self.source = Source(root)
        self.evaluator = Evaluator(self.source)
        self.evaluator.natives = {
            "get_kwargs": self.kwargs_of,
            "get_field": self._get_field,
            "field": self._field,
            "Field": self._field,
            "PydanticField": self._field,
            "optional_type": self._wrapped_type,
            "parse_type": self._wrapped_type,
            "is_set": self._is_set,
        }
        engine = self.source.module("vllm.engine.arg_utils")
        if engine is None:
            raise ValueError(f"vLLM {self.version}: no engine/arg_utils.py")
        self.engine = engine
        self.human_ints = self._human_int_fields()
        # to 0.9.2 a JSON flag also took `image=4,video=1`
        self.json = Type("json_or_key_values" if "nullable_kvs" in engine.names else "json.loads")
        self.inverses = self._has_inverses()

    def to_json(self, value: Any) -> Any:
        """Return a symbolic value as JSON; {"?": text} for an unknown one."""
        match value:
            case Unknown(text=text):
                return {"?": text}
            case Member(value=inner):
                return self.to_json(inner)
            case Type(name=name) | Class(name=name) | Function(name=name):
                return {"?": name}
            case Instance(cls=cls):  # a configuration made of defaults, or an object we know nothing of
                known = self.evaluator.is_dataclass(cls) or self.evaluator.derives_from(cls, "dict")
                return {} if known else {"?": cls.name}
            case list() | tuple():
                return [self.to_json(v) for v in value]
            case dict():
                return {str(k): self.to_json(v) for k, v in value.items()}
            case str() | int() | float() | bool() | None:
                return value
        return {"?": str(value)}

    # -- dataclass fields as argparse keywords (vllm/engine/arg_utils.py, get_kwargs and _compute_kwargs) -------------

    def _is_set(self, *_name: Any) -> bool:
        """Return False: no environment variable is set."""
        return False

    def _field(self, *arguments: Any, **keywords: Any) -> Any:
        if "default" in keywords:
            return keywords["default"]
        if "default_factory" in keywords:
            factory = keywords["default_factory"]
            if isinstance(factory, Type) and factory.name in ("list", "tuple", "set", "dict"):
                return {} if factory.name == "dict" else []
            return self.evaluator.call(factory, [], {})
        return arguments[0] if arguments and arguments[0] is not ... else Unknown("no default")

    def _wrapped_type(self, inner: Any) -> Any:
        """Return the type T of optional_type(T) and parse_type(T)."""
        return self.json if inner == Type("json.loads") else inner

    def _has_inverses(self) -> bool:
        """Return whether --enable-x can also be negated as --disable-x, and vice versa."""
        module = self.source.module("vllm.utils.argparse_utils")
        return module is not None and "EnableDisableAction" in module.names

    def _get_field(self, cls: Any, name: str) -> Any:
        return self.evaluator.attribute(cls, name) if isinstance(cls, Class) else Unknown(str(name))

    def _human_int_fields(self) -> dict[str, str]:
        """Return field name -> kind for the token counts that this release parses as 8k or auto."""
        found: dict[str, str] = {}
        for name in ("get_kwargs", "_compute_kwargs"):
            function = self.engine.names.get(name)
            if not isinstance(function, ast.FunctionDef):
                continue
            named = {
                t.id: n.value
                for n in ast.walk(function)
                if isinstance(n, ast.Assign)
                for t in n.targets
                if isinstance(t, ast.Name)
            }
            for node in ast.walk(function):
                if not isinstance(node, ast.If) or "name" not in {
                    n.id for n in ast.walk(node.test) if isinstance(n, ast.Name)
                }:
                    continue
                used = {n.id for s in node.body for n in ast.walk(s) if isinstance(n, ast.Name)}
                kinds = [NAMED_TYPES[u] for u in sorted(used) if u.startswith("human_readable_int")]
                tests = [
                    node.test,
                    *(named[n.id] for n in ast.walk(node.test) if isinstance(n, ast.Name) if n.id in named),
                ]
                for test in tests if kinds else ():
                    found.update(dict.fromkeys(_strings(test), kinds[-1]))
        return found

    def kwargs_of(self, cls: Any) -> Any:
        """Return the argparse keywords by field name for a config dataclass."""
        if not isinstance(cls, Class):
            return Unknown("get_kwargs")
        return {
            name: self._keywords(name, owner, statement)
            for name, (owner, statement) in self.evaluator.fields(cls).items()
        }

    def _keywords(self, name: str, owner: Class, statement: ast.AnnAssign) -> dict[str, Any]:
        text = self.evaluator.field_docstring(owner, statement)
        keywords: dict[str, Any] = {"default": self.evaluator.field_default(owner, statement), "help": text}
        hints = [self._dict_hint(h) for h in self.evaluator.hints(statement.annotation, owner.module)]
        kinds = {h.kind: h for h in hints}
        classes = [h.arguments[0] for h in hints if h.kind == "class"]
        if any(self.evaluator.is_dataclass(c) for c in classes):
            keywords["type"] = Type("json.loads")
        elif {"bool", "str"} <= set(kinds):
            keywords.update(type=Type("str"), nargs="?", const=True)
        elif "bool" in kinds:
            keywords["action"] = Type("argparse.BooleanOptionalAction")
        elif "literal" in kinds:
            values = self._sorted(kinds["literal"].arguments)
            kind = Type(type(values[0]).__name__) if values else Type("str")
            keywords.update(type=kind, **{"metavar" if "str" in kinds else "choices": values})
        elif sequence := next((kinds[k] for k in ("tuple", "list", "set") if k in kinds), None):
            keywords.update(self._items(sequence), nargs="+")
        elif "int" in kinds:
            keywords["type"] = Type(self.human_ints.get(name, "int"))
        elif "float" in kinds:
            keywords["type"] = Type("float")
        elif "dict" in kinds:
            other = {"str", "class", "other"} & set(kinds)
            keywords["type"] = Type("str_or_json") if other else self.json
        else:
            keywords["type"] = Type("str")
            for enum in (c for c in classes if self.evaluator.is_enum(c)):
                keywords["metavar"] = self._members(enum)
                if all(isinstance(value, int) for value in keywords["metavar"]):
                    keywords["type"] = Type("int")
        return keywords

    def _members(self, enum: Class) -> list[Any]:
        """Return an enumeration's choices as typed: its values, or its names if the values are import paths."""
        members = self.evaluator.members(enum)
        plain = all(
            isinstance(m.value, int) or (isinstance(m.value, str) and "." not in m.value) for m in members
        )
        return [m.value if plain else m.name for m in members]

    def _sorted(self, values: tuple[Any, ...]) -> list[Any]:
        plain = [self.to_json(value) for value in values]
        return sorted(
            plain, key=lambda value: (str(type(value)), value if isinstance(value, int | str) else str(value))
        )

    def _dict_hint(self, hint: Hint) -> Hint:
        """Return the hint of a dict; subclasses of dict (but not TypedDict) count as dict."""
        if hint.kind == "class" and self.evaluator.derives_from(hint.arguments[0], "dict"):
            return Hint("dict")
        return hint

    def _items(self, sequence: Hint) -> dict[str, Any]:
        kinds = {h.kind: h for h in sequence.arguments if isinstance(h, Hint)}
        if "literal" in kinds:
            values = self._sorted(kinds["literal"].arguments)
            return {"type": Type("str"), "choices": values}
        for kind in ("str", "int", "float"):
            if kind in kinds:
                return {"type": Type(kind)}
        return {"type": Type("str")}

    # -- the server's parser -----------------------------------------------------------------------------------------------

    def parser(self) -> Parser:
        """Return the parser of `vllm serve`, or of the api_server module in releases without it."""
        evaluator, source = self.evaluator, self.source
        serve = source.module("vllm.entrypoints.cli.serve")
        if serve and "ServeSubcommand" in serve.names:
            command = evaluator.lookup(serve, "ServeSubcommand")
            result = evaluator.call(evaluator.attribute(command, "subparser_init"), [Parser()], {})
            if isinstance(result, Parser):
                return result
        scripts = source.module("vllm.scripts")
        if scripts and "main" in scripts.names:
            evaluator.call(evaluator.lookup(scripts, "main"), [], {})
            for parser in evaluator.parsers:
                if parser.name == "serve":
                    return parser
        for name in SERVER_PARSERS:
            module = source.module(name)
            if module and "make_arg_parser" in module.names:
                result = evaluator.call(evaluator.lookup(module, "make_arg_parser"), [], {})
                if isinstance(result, Parser):
                    return result
        server = source.module("vllm.entrypoints.openai.api_server")
        if server is None:
            raise ValueError(f"vLLM {self.version}: no server parser found")
        body = server.names.get("parse_args")
        statements = body.body if isinstance(body, ast.FunctionDef) else server.tree.body[-1].body  # type: ignore[attr-defined]
        scope: dict[str, Any] = {}
        evaluator.execute([s for s in statements if not isinstance(s, ast.Return)], server, scope)
        return next(v for v in scope.values() if isinstance(v, Parser))

    def arguments(self) -> list[Argument]:
        """Return all flags of the server, without positional arguments."""
        engine_args = self.evaluator.lookup(self.engine, "EngineArgs")
        asynchronous = self.evaluator.lookup(self.engine, "AsyncEngineArgs")
        keywords = set(self.evaluator.fields(engine_args))
        found = []
        for names, options in self.parser().arguments:
            if any(isinstance(n, Unknown) for n in names):
                raise ValueError(f"vLLM {self.version}: a flag whose name is not known: {names} {options}")
            if names and names[0].startswith("-"):
                found.append(self._argument(tuple(names), options, keywords, asynchronous))
        return self._with_short_forms(found)

    def _argument(
        self, names: tuple[str, ...], options: dict[str, Any], keywords: set[str], cls: Any
    ) -> Argument:
        long = next(n for n in names if n.startswith("--"))
        destination = options.get("dest") or long.removeprefix("--").replace("-", "_")
        action = options.get("action")
        action_name = action if isinstance(action, str) else getattr(action, "name", "").rsplit(".", 1)[-1]
        kind, items = self._kind(options, action_name)
        default = options.get("default", {"store_true": False, "store_false": True}.get(action_name))
        if isinstance(default, Type) and default.name.endswith("SUPPRESS"):
            default = self.evaluator.attribute(cls, destination)
        choices, open_choices = self._choices(long, options)
        negatable = action_name == "BooleanOptionalAction"
        extra = [n for n in names if n.startswith("--no-")] if negatable else []
        return Argument(
            names=tuple(n.replace("_", "-") if n.startswith("--") else n for n in names if n not in extra),
            kind=kind,
            items=items,
            default=self.to_json(default),
            choices=choices,
            open_choices=open_choices,
            negatable=negatable,
            inverse=self._inverse(long) if negatable and self.inverses else None,
            keyword=destination if destination in keywords else None,
            deprecated=options.get("deprecated") is True
            or bool(DEPRECATED.match(str(options.get("help", "")))),
        )

    def _inverse(self, name: str) -> str | None:
        for prefix, other in (("--enable-", "--disable-"), ("--disable-", "--enable-")):
            if name.startswith(prefix):
                return other + name.removeprefix(prefix)
        return None

    def _kind(self, options: dict[str, Any], action: str) -> tuple[str, str | None]:
        if action in ("store_true", "store_false", "BooleanOptionalAction"):
            return "bool", None
        if action == "StoreBoolean" or options.get("type") == Type("bool"):
            return "bool_value", None
        given = options.get("type", Type("str"))
        if isinstance(given, Unknown):
            kind = "str"
        elif isinstance(given, Class):
            kind = "str" if self.evaluator.is_enum(given) else "json"
        elif isinstance(given, Function) and given.bound is not None:
            kind = "json"
        else:
            name = given.name if isinstance(given, Type | Function) else "str"
            kind = NAMED_TYPES.get(name, NAMED_TYPES.get(name.rsplit(".", 1)[-1], name))
            kind = {
                "<lambda>": "str",
                "dict": "json",
                "str.lower": "str",
                "parse_reasoning_parser": "str",
            }.get(kind, kind)
        if options.get("nargs") in ("+", "*") or action in ("append", "extend"):
            return "list", kind
        return kind, None

    def _choices(self, name: str, options: dict[str, Any]) -> tuple[tuple[Any, ...] | None, bool]:
        registry = {
            "--tool-call-parser": self.tool_parsers,
            "--reasoning-parser": self.reasoning_parsers,
            "--load-format": self.load_formats,
        }
        given = options.get("choices")
        if name in registry and not given and options.get("metavar", "").__class__ is not list:
            return (tuple(registry[name]()) or None), given is None
        open_choices = given is None
        if given is None:
            given = options.get("metavar")
        if isinstance(given, dict):
            given = list(given)
        if not isinstance(given, list | tuple):
            return None, True
        values = [self.to_json(v) for v in given]
        if any(isinstance(v, dict) for v in values):
            return None, True
        return tuple(v for v in dict.fromkeys(values) if v not in (None, "None")), open_choices

    def _with_short_forms(self, found: list[Argument]) -> list[Argument]:
        """Add short forms such as `-O3`, which the parser rewrites to --optimization-level without declaring them."""
        parser = self.source.module("vllm.utils.argparse_utils") or self.source.module("vllm.utils")
        rewritten = parser is not None and '"--optimization-level"' in parser.path.read_text(encoding="utf-8")
        return [
            replace(a, names=(*a.names, "-O"))
            if rewritten and a.name == "--optimization-level" and "-O" not in a.names
            else a
            for a in found
        ]

    # -- names that are registered, not declared ---------------------------------------------------------------------------

    def tool_parsers(self) -> list[str]:
        """Return the names for --tool-call-parser."""
        return self._registered("vllm/tool_parsers", "vllm/entrypoints/openai/tool_parsers")

    def reasoning_parsers(self) -> list[str]:
        """Return the names for --reasoning-parser."""
        return self._registered("vllm/reasoning", "vllm/entrypoints/openai/reasoning_parsers")

    def load_formats(self) -> list[str]:
        """Return the names for --load-format, for the releases that do not declare them."""
        module = self.source.module("vllm.model_executor.model_loader")
        formats = self.evaluator.lookup(module, "LoadFormats") if module else None
        return sorted(formats.arguments) if isinstance(formats, Hint) else []

    def _registered(self, *folders: str) -> list[str]:
        found: set[str] = set()
        for path in self.source.files(*folders):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                match node:
                    case ast.Call(func=ast.Attribute(attr="register_module" | "register_lazy_module")):
                        found.update(_strings(*node.args[:1]))
                        found.update(_strings(*(k.value for k in node.keywords if k.arg == "name")))
                    case (
                        ast.Assign(targets=[ast.Name(id=name)], value=ast.Dict(keys=keys))
                        | ast.AnnAssign(target=ast.Name(id=name), value=ast.Dict(keys=keys))
                    ) if name.endswith("_TO_REGISTER"):
                        found.update(_strings(*keys))
        return sorted(found)

    # -- environment variables -------------------------------------------------------------------------------------------

    def environment(self) -> dict[str, Any]:
        """Return name -> default of all variables in envs.py and all VLLM_ variables that are read elsewhere."""
        found: dict[str, Any] = {}
        for path in self.source.files("vllm"):
            text = path.read_text(encoding="utf-8")
            names = ENVIRONMENT_READ.findall(text)
            names += [value for name, value in ENVIRONMENT_CONSTANT.findall(text) if _reads(name, text)]
            for name in names:
                found.setdefault(name, {"?": "read where it is used"})
        module = self.source.module("vllm.envs")
        table = module.names.get("environment_variables") if module else None
        for name in _strings(*table.keys) if isinstance(table, ast.Dict) else ():
            found[name] = self.to_json(self.evaluator.environment_default(name))
        return found
