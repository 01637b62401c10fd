"""Build a command from the arguments vLLM prints: `args: Namespace(…)`, `non-default args: {…}`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from packaging.version import Version

from vllm_doctor.catalog.config_defaults import config_defaults
from vllm_doctor.command.flags import FlagInfo, known_flag, takes_several_values
from vllm_doctor.command.model import Command, Entry, Option, Word, compact_json
from vllm_doctor.command.python import parse_call
from vllm_doctor.facts.python_literals import Repr, read_value
from vllm_doctor.text.patterns import lazy_pattern

_FIRST_TAGGED = "0.2.0"
_FIRST_SERVE = "0.5.3.post1"
_FIRST_COUNTED_SERVERS = "0.16.0"  # one for each data-parallel rank
# Releases whose defaults are tried when the log does not name the release.
_SAMPLED = ("0.2.0", "0.4.2", "0.5.4", "0.6.4", "0.8.5", "0.10.0", None)
# Attributes that argparse adds, or that have another place in the command.
_NOT_FLAGS = frozenset({"model", "model_tag", "subparser", "dispatch_function", "command", "func", "args"})
_UUID = lazy_pattern(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")
_MODULE = ("python", "-m", "vllm.entrypoints.openai.api_server")


def from_arguments(
    arguments: Mapping[str, object],
    version: str | None,
    *,
    non_default_only: bool,
) -> Command:
    """Return the command that gives these arguments: `vllm serve MODEL --flag value …`.

    `arguments` come from a Namespace (values that are None, False, empty or the release's default were not typed)
    or, with `non_default_only`, from "non-default args". Releases before 0.5.3.post1 get the form `python -m …`, and so
    does a Namespace of an unknown release, because that form works in every release. Flags missing from the flag table
    are kept only when they come from non-default arguments.
    """
    release = _version(version)
    if non_default_only:
        arguments = typed_arguments(arguments, version)
    model = arguments.get("model_tag") or arguments.get("model")
    model = model if isinstance(model, str) else None
    options: list[Option] = []
    for name, value in arguments.items():
        if name in _NOT_FLAGS or (name == "served_model_name" and value in (model, [model])):
            continue
        flag = known_flag("--" + name.replace("_", "-"))
        if non_default_only or (flag is not None and not _is_default(value, flag, version)):
            options += _options(name, value, flag, version)
    unknown = release is None and not version and not non_default_only and "model_tag" not in arguments
    if unknown or (release is not None and not _is_at_least(release, _FIRST_SERVE)):
        if model is not None:
            options.insert(0, Option(Word("--model", "--model"), (Word.quoted(model),)))
        return _command(_MODULE, "module", options)
    if model is not None:
        options.insert(0, Option(None, (Word.quoted(model),)))
    return _command(("vllm", "serve"), "serve", options)


def call_from_arguments(callee: str, arguments: Mapping[str, object], version: str | None) -> Command | None:
    """Return the Python call of `callee` (LLM, AsyncEngineArgs) that gives these "non-default args"; None without any.

    `LLM` sets `disable_log_stats` itself (vllm/entrypoints/llm.py, 0.2.0 to 0.33.0), so it is omitted.
    """
    given = {name: _plain(value) for name, value in typed_arguments(arguments, version).items() if name.isidentifier()}
    if callee == "LLM" and given.get("disable_log_stats") is True:
        del given["disable_log_stats"]
    model = {"model": given.pop("model")} if "model" in given else {}
    written = (f"{name}={value!r}" for name, value in {**model, **given}.items())
    return parse_call(f"{callee}({', '.join(written)})")


def typed_arguments(arguments: Mapping[str, object], version: str | None) -> dict[str, object]:
    """Return non-default arguments without those that vLLM itself filled in before it printed them."""
    usual = _usual_api_servers(arguments, _version(version))
    return {name: value for name, value in arguments.items() if name != "api_server_count" or value != usual}


def _usual_api_servers(arguments: Mapping[str, object], release: Version | None) -> object:
    """Return how many API servers vLLM starts when nobody says how many."""
    if release is not None and not _is_at_least(release, _FIRST_COUNTED_SERVERS):
        return 1
    if arguments.get("headless"):
        return 0
    if arguments.get("data_parallel_external_lb") or arguments.get("data_parallel_rank") is not None:
        return 1
    if arguments.get("data_parallel_hybrid_lb"):
        return arguments.get("data_parallel_size_local") or 1
    return arguments.get("data_parallel_size") or 1


def _command(program: tuple[str, ...], entry: Entry, options: Iterable[Option]) -> Command:
    return Command("shell", entry, before=tuple(map(Word.quoted, program)), options=tuple(options))


def _version(version: str | None) -> Version | None:
    if not version:
        return None
    try:
        release = Version(version)
    except ValueError:  # no version, or one with thousands of digits
        return None
    if release.is_devrelease and not _is_at_least(release, _FIRST_TAGGED):
        return None  # 0.1.dev1+g…: built from a checkout without tags, of any age
    return release


def _is_at_least(release: Version, first: str) -> bool:
    """Return whether `release` is `first` or newer."""
    return release >= type(release)(first)


def _is_default(value: object, flag: FlagInfo, version: str | None) -> bool:
    """Return whether a Namespace may hold this value without the user having typed it."""
    if value is None or value in ("", [], {}, ()):
        return True
    for release in (version,) if version else _SAMPLED:
        default = flag.default(release)
        if str(default) == "COMPUTED":  # computed by vLLM when it starts
            return True
        if _is_equal(value, default) if default is not None else value is False:
            return True
    return False


def _is_equal(value: object, default: object) -> bool:
    """Return whether two values are equal; the table may hold text where vLLM holds a number, list or boolean."""
    if value == default or _typed(value) == str(default):
        return True
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            return float(value) == float(str(default))
        except (ValueError, OverflowError):
            return False
    if isinstance(value, (list, tuple)) and isinstance(default, (list, tuple)):
        return list(value) == list(default)
    if isinstance(value, Mapping) and isinstance(default, Mapping):
        return dict(value) == dict(default)
    return str(value).lower() == str(default).lower()


def _options(name: str, value: object, flag: FlagInfo | None, version: str | None) -> list[Option]:
    if isinstance(value, str) and value.startswith("[") and "(" in value:  # the repr of a list, quoted
        read = read_value(value)
        value = read.value if read.complete else value
    typed = flag.name if flag is not None else "--" + name.replace("_", "-")
    word = Word(typed, typed)
    if value is True and (flag is None or flag.kind.startswith("bool")):
        return [Option(word)]
    if value is False:
        return _switched_off(typed, flag, version)
    if value is None:
        return []
    if isinstance(value, Repr) or not isinstance(value, (list, tuple, set)):
        text = _typed(value)
        if isinstance(value, Mapping) and flag is not None and flag.kind_in(version) == "key_values":
            text = ",".join(f"{key}={item}" for key, item in value.items())
        return [Option(word, (Word.quoted(text),))] if text else []
    if flag is None or takes_several_values(flag.name) or _has_objects(value):
        values = tuple(Word.quoted(_typed(item)) for item in value)
        return [Option(word, values)] if values else []
    text = _typed(value)
    return [Option(word, (Word.quoted(text),))] if text else []


def _has_objects(value: Iterable[object]) -> bool:
    return any(isinstance(item, Repr) for item in value)


def _switched_off(name: str, flag: FlagInfo | None, version: str | None) -> list[Option]:
    """Return the option that switches a flag off; none where the release has no way to."""
    negation = "--no-" + name[2:] if flag is None else flag.negation(version)
    if negation is not None:
        return [Option(Word(negation, negation))]
    if flag is not None and flag.kind_in(version) == "bool_value":
        return [Option(Word(name, name), (Word("False", "False"),), "=")]
    return []


def _typed(value: object) -> str:
    """Return a printed value as it is typed on a command line."""
    if isinstance(value, str):
        return value
    if isinstance(value, Repr):
        return _typed_object(value)
    if isinstance(value, (dict, list, tuple, set)):
        return compact_json(_plain(value))
    if isinstance(value, bytes):
        return value.decode("latin-1")
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _typed_object(value: Repr) -> str:
    """Return an adapter as `name=path`, a path as itself, a configuration object as JSON of the fields it sets."""
    fields = value.as_dict()
    if {"name", "path"} <= set(fields) and not fields.get("base_model_name"):
        return f"{fields['name']}={fields['path']}"
    if not fields and len(value.arguments) == 1:
        return _typed(value.arguments[0])
    plain = _plain(value)
    return plain if isinstance(plain, str) else compact_json(plain)


def _typed_fields(class_name: str, fields: Mapping[str, object]) -> dict[str, object]:
    """Return the fields of an object without those that are None, empty, at their default, or made up by vLLM."""
    defaults = config_defaults().get(class_name, {})
    return {
        name: value for name, value in fields.items()
        if value not in (None, [], {}, ()) and not (name in defaults and value == defaults[name])
        and not _is_generated(name, value)
    }


def _is_generated(name: str, value: object) -> bool:
    """Return whether a field of an object is an id that vLLM makes up at each start."""
    return name == "engine_id" and isinstance(value, str) and _UUID.match(value) is not None


def _plain(value: object, depth: int = 0) -> object:
    """Convert a printed value to JSON types, without the fields of objects that nobody typed."""
    if depth > 40:
        return None
    if isinstance(value, Repr):
        fields = value.as_dict()
        if set(fields) == {"value"} and "." in value.name:  # an enum, which is set by its value or its name
            known = fields["value"]
            return known if isinstance(known, (str, int)) else value.name.rpartition(".")[2]
        if not fields:
            return _typed(value.arguments[0]) if len(value.arguments) == 1 else value.name
        value = _typed_fields(value.name.rpartition(".")[2], fields)
    if isinstance(value, Mapping):
        return {str(key): _plain(item, depth + 1) for key, item in value.items() if item is not None}
    if isinstance(value, (list, tuple, set)):
        return [_plain(item, depth + 1) for item in value]
    return value.decode("latin-1") if isinstance(value, bytes) else value
