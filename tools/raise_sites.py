"""Report what the tool answers where a vLLM release raises, asserts or logs an error.

    python tools/raise_sites.py SDISTS_DIR/vllm-0.33.0 [--sample 40] [--area v1/worker] [--list wrong] [--table FILE.md]

The directory comes from tools/sdists.py. Each `raise`, `assert` and error log of the release is found with `ast`, its
message is filled in with sample values and printed as that release prints it: in a traceback with the calls that lead
there, in the log of a start or of a serving server. The log is diagnosed in this process, and the answers are counted
by area. Nothing of vLLM is imported or run.

| answer | what it means |
| --- | --- |
| rule | a rule that is no catch-all names the cause, on a line of the site |
| catch-all | a `fallback` rule or `settings-incompatible` does, on a line of the site |
| request | a rule for single requests does, on a line of the site |
| object | no rule, but the failure object has the exception and the message |
| misread | the failure object has another exception or message |
| cascade | only a consequence is named |
| nothing | no failure is reported |
| wrong | the evidence of the rule named is on a line that is not of the site |

Only sites of the same text are sampled out; `--sample 0` takes all. The choice depends on nothing but the text of the
site, so that two runs compare. Exit status 1 if an answer is wrong or misread.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import re
import sys
import warnings
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from message_templates import Field, Parts, Reader

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from vllm_doctor import diagnose
from vllm_doctor.rulebase.loader import builtin

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from vllm_doctor.reports.model import Report

ANSWERS = ("rule", "catch-all", "request", "object", "misread", "cascade", "nothing", "wrong")
CATCH_ALL = {"settings-incompatible", "model-class-refuses-config", "checkpoint-layout-mismatch"}
SKIPPED = re.compile(
    r"^(?:benchmarks|third_party|vllm_flash_attn|examples|grpc|triton_utils|cute_utils)/|collect_env|^entrypoints/cli/benchmark"
    r"|^profiler/|/cutlass_|^usage/|_test\.py$|^v1/worker/gpu/buffer_utils")
AREAS = (
    "entrypoints/openai", "entrypoints", "engine", "config", "lora", "multimodal", "distributed/kv_transfer",
    "distributed", "model_executor/layers/quantization", "model_executor/layers/fused_moe", "model_executor/layers",
    "model_executor/model_loader", "model_executor/models", "model_executor", "compilation", "platforms",
    "transformers_utils", "tokenizers", "tool_parsers", "reasoning", "renderers", "v1/core", "v1/worker", "v1/engine",
    "v1/attention", "v1/spec_decode", "v1/sample", "v1/structured_output", "v1/executor", "v1",
)
NUMBER = re.compile(
    r"len\(|num|size|max|count|tokens?\b|blocks?|rank|second|timeout|limit|heads|code|index|dim|length|port|version|_id\b"
    r"|bits|capability|world|step|total|shape|width|height|degree|layers?\b", re.IGNORECASE)
ENDINGS = frozenset({"SystemExit", "KeyboardInterrupt", "StopIteration", "StopAsyncIteration", "GeneratorExit"})
LOGS_ERRORS = frozenset({"error", "exception", "critical"})
AT_WORK = re.compile(
    r"execute|forward|propose|schedule|step|sample|add_request|abort|process_input|_preprocess|apply|render|parse|extract"
    r"|generate|validate_(?:request|params)|update_from|finish|transfer|send|recv|save_kv|start_load|wait_for|__call__|grammar"
    r"|encode|decode|create_(?:chat|completion|embedding|response|score|pooling|transcription)")
LIBRARY = "/opt/venv/lib/python3.12/site-packages"
START, STEP = "start", "step"
CALLS = {
    "api": [("vllm/entrypoints/openai/api_server.py", 1941, "run_server_worker", "async with build_async_engine_client("),
            ("vllm/engine/arg_utils.py", 1560, "create_engine_config", "config = VllmConfig(")],
    START: [("vllm/v1/engine/core.py", 699, "run_engine_core", "engine_core = EngineCoreProc(*args, **kwargs)"),
            ("vllm/v1/engine/core.py", 83, "__init__", "self.model_executor = executor_class(vllm_config)")],
    STEP: [("vllm/v1/engine/core.py", 711, "run_engine_core", "engine_core.run_busy_loop()"),
           ("vllm/v1/engine/core.py", 292, "step", "model_output = self.execute_model_with_error_logging(")],
    "request": [("starlette/routing.py", 75, "app", "response = await f(request)"),
                ("vllm/entrypoints/openai/api_server.py", 620, "create_chat_completion",
                 "generator = await handler.create_chat_completion(request, raw_request)")],
}
STAMP = "11-20 10:00:0"


@dataclass(frozen=True)
class Site:
    """A place that reports an error: `exception` is empty for a log record; `code` is the source line."""

    path: str
    line: int
    function: str
    exception: str
    message: str
    code: str

    @property
    def area(self) -> str:
        """Return the folder under which the site is counted."""
        return next((area for area in AREAS if self.path.startswith(f"{area}/") or self.path == f"{area}.py"), "other")


class SiteReader(Reader):
    """A visitor that collects the sites of one file, and the texts of their messages."""

    def __init__(self, path: str, lines: list[str]) -> None:
        super().__init__()
        self.sites: list[Site] = []
        self.texts: list[Parts] = []
        self._path, self._lines = path, lines
        self._functions: list[str] = []

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:  # noqa: N802 - ast's name
        """Visit a function, whose name a traceback shows."""
        self._functions.append(node.name)
        super().visit_FunctionDef(node)
        self._functions.pop()

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815

    def visit_Raise(self, node: ast.Raise) -> None:  # noqa: N802 - ast's name
        """Collect an exception that is raised with a class of its own."""
        raised = node.exc
        kind = raised.func if isinstance(raised, ast.Call) else raised
        name = kind.attr if isinstance(kind, ast.Attribute) else kind.id if isinstance(kind, ast.Name) else ""
        if re.match(r"_?[A-Z]\w+$", name) and name not in ENDINGS and not (
                name == "NotImplementedError" and raised is kind):
            texts = [self.parts(one) for one in raised.args[:1]] if isinstance(raised, ast.Call) else []
            if not texts or texts[0] is not None:
                self._take(node, name, (texts and texts[0]) or ())
        super().visit_Raise(node)

    def visit_Assert(self, node: ast.Assert) -> None:  # noqa: N802 - ast's name
        """Collect an assertion."""
        text = self.parts(node.msg) if node.msg is not None else ()
        if text is not None:
            self._take(node, "AssertionError", text)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:  # noqa: N802 - ast's name
        """Collect what is logged as an error."""
        func = node.func
        if isinstance(func, ast.Attribute) and func.attr in LOGS_ERRORS and node.args \
                and "log" in ast.unparse(func.value).lower():
            text = self.parts(node.args[0])
            if text is not None:
                self._take(node, "", text)
        super().visit_Call(node)

    def _take(self, node: ast.stmt | ast.expr, exception: str, text: Parts) -> None:
        self.texts.append(text)
        message = filled(text) if exception else re.sub(r"%[-+\d.]*[sdfrx]", "7", filled(text))
        code = self._lines[node.lineno - 1].strip() if node.lineno <= len(self._lines) else ""
        function = self._functions[-1] if self._functions else "<module>"
        self.sites.append(Site(self._path, node.lineno, function, exception, message, code))


def filled(parts: Parts) -> str:
    """Return a message with sample values in its placeholders."""
    return "".join(part if isinstance(part, str) else _value(part) for part in parts)


def _value(field: Field) -> str:
    """Return a sample value for a placeholder."""
    if "d" in field.spec or "f" in field.spec or NUMBER.search(field.expression):
        return "17"
    words = re.findall(r"[A-Za-z]\w+", field.expression)
    value = words[-1] if words else "value"
    return f"'{value}'" if "r" in field.spec else value


def sites(release: Path) -> Iterator[Site]:
    """Yield the sites of a release, each text of an area once."""
    seen = set()
    for path in sorted((release / "vllm").rglob("*.py")):
        name = path.relative_to(release / "vllm").as_posix()
        if SKIPPED.search(name):
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        reader = SiteReader(name, text.splitlines())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                reader.visit(ast.parse(text))
            except SyntaxError:
                continue
        for site in reader.sites:
            key = (site.exception, site.message, site.code if not site.message else "")
            if key not in seen:
                seen.add(key)
                yield site


def sampled(found: Iterable[Site], most: int) -> list[Site]:
    """Return at most `most` sites of each area (0: all), chosen by their text."""
    by_area: dict[str, list[Site]] = defaultdict(list)
    for site in found:
        by_area[site.area].append(site)
    chosen = []
    for area in sorted(by_area):
        ordered = sorted(by_area[area], key=_order)
        chosen += ordered[:most] if most else ordered
    return chosen


def _order(site: Site) -> str:
    return hashlib.sha256(f"{site.path}{site.function}{site.message}{site.code}".encode()).hexdigest()


def place_of(site: Site) -> str:
    """Return where a site is reached: api, start, step or request."""
    if site.path.startswith(("entrypoints/openai", "renderers/", "tool_parsers/", "reasoning/", "entrypoints/pooling")):
        return "request" if AT_WORK.search(site.function) else "api"
    if site.path.startswith("v1/structured_output/") and re.search(r"validate|convert_lark|check_", site.function):
        return "request"  # the front-end checks the grammar of a request
    if site.path.startswith(("config", "engine/arg_utils", "entrypoints", "transformers_utils", "platforms", "tokenizers")):
        return "api"
    return STEP if AT_WORK.search(site.function) else START


def log_of(site: Site, version: str) -> tuple[list[str], int]:
    """Return the log of a server that reaches the site, and the number of its first line that is the site's."""
    place = place_of(site)
    api, engine = "(APIServer pid=7) ", "(EngineCore_DP0 pid=21) "
    lines = [f"{api}INFO {STAMP}0 [api_server.py:1839] vLLM API server version {version}",
             f"{api}INFO {STAMP}0 [utils.py:233] non-default args: {{'model_tag': '/models/a', 'model': '/models/a'}}"]
    if place in {STEP, "request"}:
        lines += [f"{api}INFO:     Started server process [7]", f"{api}INFO:     Application startup complete."]
    file = f"{site.path.rpartition('/')[2]}:{site.line}"
    if not site.exception:
        process = engine if place in {START, STEP} else api
        begin = len(lines) + 1
        return [*lines, *(f"{process}ERROR {STAMP}1 [{file}] {row}" for row in site.message.split("\n"))], begin
    prefix = f"{engine}ERROR {STAMP}1 [core.py:708] " if place in {START, STEP} else api
    if place == START:
        lines.append(f"{prefix}EngineCore failed to start.")
    elif place == STEP:
        lines.append(f"{prefix}EngineCore encountered a fatal error.")
    elif place == "request":
        lines += [f'{api}INFO:     10.0.0.4:50000 - "POST /v1/chat/completions HTTP/1.1" 500 Internal Server Error',
                  f"{api}ERROR:    Exception in ASGI application"]
    begin = len(lines) + 1
    calls = [*CALLS[place], (f"vllm/{site.path}", site.line, site.function, site.code)]
    body = ["Traceback (most recent call last):"]
    for path, number, function, code in calls:
        body += [f'  File "{LIBRARY}/{path}", line {number}, in {function}', f"    {code}"]
    message = site.message.split("\n")
    body += [f"{site.exception}: {message[0]}" if site.message else site.exception, *message[1:]]
    lines += [prefix + row for row in body]
    if place == START:
        lines += [f"{api}Traceback (most recent call last):",
                  f'{api}  File "{LIBRARY}/vllm/v1/engine/utils.py", line 782, in wait_for_engine_startup',
                  f'{api}    raise RuntimeError("Engine core initialization failed. "',
                  f"{api}RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {{}}"]
    return lines, begin


def answer(site: Site, version: str) -> tuple[str, str]:
    """Return what the tool answers for a site, and the id of the rule or the exception it names."""
    lines, begin = log_of(site, version)
    report = diagnose("\n".join([*lines, ""]).encode())
    return judged(site, report, begin, len(lines))


def judged(site: Site, report: Report, begin: int, end: int) -> tuple[str, str]:
    """Return the kind of a report's answer on a site whose lines are `begin` to `end`, and what it names."""
    cause = next((one for one in report.findings if one.role == "cause" and one.id == report.primary), None)
    failure = report.failure
    if cause is not None:
        rule = builtin().rules[cause.id]
        at_site = any(begin <= proof.line <= end for proof in cause.evidence)
        if not at_site:
            return "wrong", cause.id
        if rule.survives and rule.phase == "api":
            return "request", cause.id
        return ("catch-all" if rule.fallback or cause.id in CATCH_ALL else "rule"), cause.id
    if failure is None:
        return ("cascade" if any(one.role == "cascade" for one in report.findings) else "nothing"), ""
    if failure.is_consequence:
        return "cascade", failure.exception or failure.message[:60]
    expected = " ".join(site.message.split())[:200]
    is_right = (failure.exception or "") == site.exception and " ".join(failure.message.split())[:200] == expected
    return ("object" if is_right or not site.exception else "misread"), failure.exception or failure.message[:60]


def table(counts: dict[str, Counter[str]], version: str, total: int) -> str:
    """Return the answers by area as Markdown."""
    whole = sum(counts.values(), Counter())
    rows = [f"| {area} | {sum(counts[area].values())} | {' | '.join(str(counts[area][one] or '') for one in ANSWERS)} |"
            for area in sorted(counts)]
    shares = " | ".join(f"{whole[one] / max(1, whole.total()):.0%}" for one in ANSWERS)
    return "\n".join([
        f"## vLLM {version}", "", f"{whole.total()} of {total} sites, chosen by their text.", "",
        f"| area | sites | {' | '.join(ANSWERS)} |", f"| --- | ---: |{' ---: |' * len(ANSWERS)}",
        *rows, f"| all | {whole.total()} | {shares} |", ""])


def main(arguments: list[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("releases", nargs="+", type=Path, metavar="RELEASE", help="directory of an unpacked release")
    parser.add_argument("--sample", type=int, default=40, help="sites of each area (default: 40; 0: all)")
    parser.add_argument("--area", help="only this area")
    parser.add_argument("--list", dest="listed", choices=ANSWERS, action="append", default=[],
                        help="print the sites with this answer; repeatable")
    parser.add_argument("--table", type=Path, help="write the tables to this file")
    options = parser.parse_args(arguments)
    tables, is_bad = [], False
    for release in options.releases:
        version = release.name.removeprefix("vllm-")
        found = [site for site in sites(release) if options.area in {None, site.area}]
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        for site in sampled(found, options.sample):
            kind, named = answer(site, version)
            counts[site.area][kind] += 1
            is_bad = is_bad or kind in {"wrong", "misread"}
            if kind in options.listed:
                text = " ".join(site.message.split())[:160] or site.code
                print(f"{kind}: {named}: {site.path}:{site.line} ({site.function}) {site.exception}: {text}")
        tables.append(table(counts, version, len(found)))
    print("\n".join(tables))
    if options.table:
        about = ("What the tool answers where vLLM raises, asserts or logs an error, by area of its source "
                 "(`python tools/raise_sites.py`, which explains the columns).")
        options.table.write_text(f"---\nsearch: {{exclude: true}}\n---\n\n# Answers by raise site\n\n{about}\n\n" + "\n".join(tables), encoding="utf-8")
    return int(is_bad)


if __name__ == "__main__":
    sys.exit(main())
