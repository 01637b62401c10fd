from __future__ import annotations

import base64
import gzip
import hashlib
import importlib
import json
import os
import re
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import cmarkgfm
import jsonschema
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree
from report_sample import ADVICE, CASCADE, CAUSE, FAILED, HEALTHY, UNEXPLAINED

from vllm_doctor import diagnose
from vllm_doctor.cli.root import cli
from vllm_doctor.phases import PHASES
from vllm_doctor.reports import (
    escape,
    texts,
    to_github,
    to_html,
    to_json,
    to_junit,
    to_markdown,
    to_sarif,
    to_text,
)
from vllm_doctor.reports.fingerprint import fingerprint, shape
from vllm_doctor.reports.model import Evidence, Finding, Fix, Report, Source

ROOT = Path(__file__).resolve().parents[2]
SNAPSHOTS = ROOT / "tests" / "snapshots"
LOG = ROOT / "fixtures" / "logs" / "fatkv-cpu-space-1.log"
REPORTS = {"failed": FAILED, "healthy": HEALTHY, "unexplained": UNEXPLAINED}
FORMATS = {"markdown": "md", "github": "txt", "sarif": "sarif", "junit": "xml", "html": "html"}
SARIF_SCHEMA = json.loads((ROOT / "tests" / "data" / "sarif-2.1.0.json").read_text(encoding="utf-8"))
JUNIT_SCHEMA = etree.XMLSchema(etree.parse(str(ROOT / "tests" / "data" / "junit-10.xsd")))


def render(format_: str, *reports: Report) -> str:
    writer = importlib.import_module(f"vllm_doctor.reports.to_{format_}")
    return writer.render(reports[0]) if len(reports) == 1 else writer.render_many(list(reports))


def with_finding(**changes: object) -> Report:
    return FAILED._replace(findings=(CAUSE._replace(**changes),))


def at(path: str) -> Report:
    return FAILED._replace(source=Source(path, 812, 91234, 1, 1))


# ---- snapshots: `VLLM_DOCTOR_BLESS=1 pytest tests/test_formats.py` writes them anew, to be read before they are committed


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("name", REPORTS)
def test_snapshot(name: str, format_: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for writer in (to_html, to_json, to_sarif):
        monkeypatch.setattr(writer, "__version__", "0.0.0")
    rendered = render(format_, REPORTS[name])
    if format_ == "html":  # the style and the script are files of their own
        rendered = re.sub(r"(?s)<style>.*</style>|<script>.*</script>|'sha256-[^']+'", "…", rendered)
    path = SNAPSHOTS / f"{name}.{FORMATS[format_]}"
    if os.environ.get("VLLM_DOCTOR_BLESS"):
        path.write_text(rendered, encoding="utf-8")
    assert rendered == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("format_", FORMATS)
def test_the_same_report_gives_the_same_bytes(format_: str) -> None:
    assert render(format_, FAILED) == render(format_, FAILED)
    assert render(format_, FAILED, HEALTHY) == render(format_, FAILED, HEALTHY)


@pytest.mark.parametrize("format_", [*FORMATS, "json", "jsonl", "text", "agent"])
def test_each_format_from_the_command_line(format_: str, tmp_path: Path) -> None:
    out = tmp_path / "report"
    result = CliRunner().invoke(cli, ["diagnose", str(LOG), "--format", format_, "--output", str(out)])
    assert result.exit_code == 1, result.output
    assert "--max-model-len 8064" in out.read_text(encoding="utf-8").replace("&#39;", "'")
    assert "131,072" in unquote(out.read_text(encoding="utf-8")) or format_ == "json"


def test_a_path_below_the_working_directory_is_made_relative(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    out = CliRunner().invoke(cli, ["diagnose", str(LOG), "--format", "github"]).stdout
    assert out.startswith("::error file=fixtures/logs/fatkv-cpu-space-1.log,line=")
    monkeypatch.chdir(ROOT / "tests")
    out = CliRunner().invoke(cli, ["diagnose", str(LOG), "--format", "github"]).stdout
    assert "file=" not in out


# ---- paths


@pytest.mark.parametrize(("path", "expected"), [
    ("server.log", "server.log"), ("./logs/a b.log", "logs/a b.log"), ("logs\\x.log", "logs/x.log"), (".//x.log", "x.log"),
    ("-", None), ("/var/log/x.log", None), ("../x.log", None), ("a/../../x.log", None), ("C:\\x.log", None), ("~/x.log", None),
    ("\\\\host\\x.log", None), ("https://host/x.log", None), ("x.log.gz", None), ("a\nb.log", None), ("a\u202eb.log", None),
    ("", None),
])
def test_relative_path(path: str, expected: str | None) -> None:
    assert escape.relative_path(path) == expected


# ---- markdown


class Tags(HTMLParser):
    """Every element and attribute, and the text outside of code."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.prose = ""
        self.blocks: list[str] = []
        self._code = self._pre = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))
        self._code += tag in {"pre", "code"}
        self._pre += tag == "pre"
        if tag == "pre":
            self.blocks.append("")

    def handle_endtag(self, tag: str) -> None:
        self._code -= tag in {"pre", "code"}
        self._pre -= tag == "pre"

    def handle_data(self, data: str) -> None:
        if not self._code:
            self.prose += data
        elif self._pre:
            self.blocks[-1] += data

    def names(self) -> list[str]:
        return [name for name, _ in self.tags]


def as_github_reads(markdown: str) -> Tags:
    """With GitHub's own parser, raw HTML let through so that it is seen."""
    return Tags(cmarkgfm.github_flavored_markdown_to_html(markdown, options=cmarkgfm.cmark.Options.CMARK_OPT_UNSAFE))


def test_markdown_structure() -> None:
    read = as_github_reads(render("markdown", FAILED))
    assert read.names().count("h2") == 1
    assert read.names().count("details") == 1
    assert read.names().count("table") == 1
    assert [attributes["href"] for name, attributes in read.tags if name == "a"] == list(CAUSE.links)
    assert f"{CAUSE.fixes[0].command}\n" in read.blocks
    assert "KV cache" in read.prose
    assert "gpu_memory" not in read.prose  # nothing was lost to emphasis, and facts are not told here
    assert "remove --swap-space" in "".join(read.blocks)


HOSTILE = [
    "*bold* _it_ `code` ~~gone~~ <b>html</b> <!-- c -->", "[link](https://evil.example)", "![image](https://evil.example/x.png)",
    "<https://evil.example>", "https://evil.example and www.evil.example and me@evil.example", "@everyone see #12 and !3 $4 ~5 %6",
    "# heading", "- item", "+ item", "12. item", "7) item", "> quote", "| a | b |", "---", "===", "```\nfence", "~~~", "    indented",
    "\\[x](y)", "&lt;b&gt; &#64;everyone", "[ref]: https://evil.example", "[^1]", "- [ ] task", "<details><summary>", "$x^2$", ":tada:",
    "a\n\n# b", "javascript:alert(1)", "\\", "[[wiki]]", "http://evil.example:80/", "HTTPS://EVIL.EXAMPLE", "x*y*z", "__x__", "a_b_ _c_d",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_text_is_no_markdown(text: str) -> None:
    # A paragraph, an item, a heading and a cell; the characters stand there as they were, but for spacing.
    for before, after, outside in (("", "", ["p"]), ("- ", "", ["ul", "li"]), ("## ", "", ["h2"]),
                                   ("| a |\n| --- |\n| ", " |", ["table", "thead", "tr", "th", "tbody", "tr", "td"])):
        read = as_github_reads(before + escape.markdown(text) + after)
        assert read.names() == outside, (before, text)
        said = read.prose.replace("\u200b", "").strip()
        assert said.removeprefix("a").strip() if before.startswith("|") else said == " ".join(text.split())


@given(st.text(alphabet=st.sampled_from('`*_[]()<>!#@&;:/\\-+=~|$ \n\t1a.wWhtps\u202e\x1b"'), max_size=60))
def test_no_text_is_markdown(text: str) -> None:
    read = as_github_reads(escape.markdown(text))
    assert set(read.names()) <= {"p"}
    assert read.prose.replace("\u200b", "").strip() == escape.one_line(text)
    assert not re.search(r"[@#]\w|https?://|www\.", read.prose, re.IGNORECASE)


@given(st.text(alphabet=st.sampled_from("`~ \nab>#-<\t"), max_size=60))
def test_no_text_leaves_its_fence(text: str) -> None:
    read = as_github_reads("before\n\n" + escape.code_block(text, "text") + "\n\nafter\n")
    assert read.names() == ["p", "pre", "code", "p"] or not text.strip("\n")
    assert "".join(read.blocks).rstrip("\n") == text.rstrip("\n")


def test_markdown_stays_within_the_limit() -> None:
    fixes = tuple(Fix(id=f"f{n}", title="`@x`" * 4000, command="vllm serve " + "x" * 300_000, steps=("<" * 9000,) * 9) for n in range(12))
    huge = with_finding(title="@a" * 90_000, explanation="&" * 400_000, fixes=fixes, evidence=(Evidence(1, "`" * 600),) * 3)
    rendered = render("markdown", huge)
    assert len(rendered.encode()) <= 1 << 20
    assert "too long for a summary" in rendered
    assert "Shortened to fit" in rendered
    assert "vllm serve" not in rendered  # a command is whole or not there
    many = render("markdown", *[FAILED] * 900)
    assert len(many.encode()) <= 1 << 20
    assert "more logs are left out here" in many
    assert "400 more logs are not in this table" in many


# ---- github


def as_a_runner_reads(text: str) -> list[tuple[str, dict[str, str], str]]:
    """(command, properties, message) as actions/runner parses standard output, its old syntax included."""
    found = []
    for line in text.splitlines():
        assert not re.search(r"##\w*\[", line)
        match = re.fullmatch(r"\s*::(\w+)(?: ([^:]*?))?::(.*)", line)
        if match is None:
            assert not line.lstrip().startswith("::")
            continue
        properties = dict(pair.split("=", 1) for pair in (match[2] or "").split(",") if pair)
        for code, plain in (("%3A", ":"), ("%2C", ","), ("%0D", "\r"), ("%0A", "\n"), ("%25", "%")):
            properties = {key: value.replace(code, plain) for key, value in properties.items()}
        message = match[3].replace("%0D", "\r").replace("%0A", "\n").replace("%25", "%")
        found.append((match[1], properties, message))
    return found


def test_github_annotations() -> None:
    read = as_a_runner_reads(render("github", FAILED))
    assert [(level, properties["line"]) for level, properties, _ in read] == [("error", "105"), ("warning", "12")]
    _, properties, message = read[0]
    assert properties == {"file": "logs/server.log", "line": "105", "title": f"{CAUSE.title} (on 2 of 2 ranks)"}
    assert CAUSE.fixes[0].command in message
    assert CAUSE.evidence[0].text in message
    assert render("github", HEALTHY) == ""


def test_github_escapes() -> None:
    title = "100%: a, b::error::x\r\n::set-output name=a::b"
    read = as_a_runner_reads(render("github", with_finding(title=title, explanation="x\n::error::y ##[add-mask]z %0A", fixes=())))
    assert len(read) == 1
    assert read[0][1]["title"].startswith("100%: a, b::error::x<U+000D> ::set-output name=a::b")
    assert "x\n::error::y # #[add-mask]z %0A" in read[0][2]


def test_github_writes_at_most_ten_of_each_the_most_important_first() -> None:
    noise = tuple(CASCADE._replace(id=f"c{n}", role="cause", evidence=(Evidence(n, f"c{chr(97 + n)}"),)) for n in range(14))
    warnings = tuple(ADVICE._replace(id=f"w{n}") for n in range(14))
    read = as_a_runner_reads(render("github", FAILED._replace(findings=(*noise, *warnings, CAUSE))))
    assert [level for level, _, _ in read] == ["error"] * 10 + ["warning"] * 10
    assert read[0][1]["line"] == "105"


def test_github_says_what_many_logs_say_once() -> None:
    read = as_a_runner_reads(render("github", FAILED, FAILED, UNEXPLAINED))
    assert [properties["title"].endswith("(2 times)") for _, properties, _ in read] == [True, False, True]
    assert "KeyError: 'layers.31'" in read[1][1]["title"]


@pytest.mark.parametrize("path", ["-", "/var/log/x.log", "../x.log", "x.log.gz"])
def test_github_names_no_file_outside_the_repository(path: str) -> None:
    assert all("file" not in properties and "line" not in properties for _, properties, _ in as_a_runner_reads(render("github", at(path))))


def test_a_command_too_long_for_an_annotation_is_left_out_whole() -> None:
    fix = CAUSE.fixes[0]._replace(command="vllm serve " + "x" * 9000)
    message = as_a_runner_reads(render("github", with_finding(fixes=(fix,))))[0][2]
    assert "vllm serve" not in message
    assert f"Fix: {fix.title}" in message


# ---- gitlab


def test_gitlab_code_quality() -> None:
    read = json.loads(render("gitlab", FAILED, at("/var/log/x.log"), UNEXPLAINED, HEALTHY))
    assert read[0] == {
        "description": f"{CAUSE.title} (on 2 of 2 ranks). Fix: Serve a context of 33,712 tokens.",
        "check_name": CAUSE.id, "severity": "critical", "fingerprint": read[0]["fingerprint"],
        "location": {"path": "logs/server.log", "lines": {"begin": 105}}}
    assert [(item["check_name"], item["severity"], item["location"]["path"]) for item in read[1:]] == [
        (ADVICE.id, "minor", "logs/server.log"), (CAUSE.id, "critical", "x.log"), (ADVICE.id, "minor", "x.log"),
        ("unexplained-failure", "critical", read[4]["location"]["path"])]
    assert len({item["fingerprint"] for item in read}) == 5
    assert all(re.fullmatch(r"[0-9a-f]{32}", item["fingerprint"]) for item in read)
    assert render("gitlab", HEALTHY) == "[]\n"
    assert len(json.loads(render("gitlab", FAILED, FAILED))) == 2  # two starts that fail alike


# ---- sarif


def sarif(*reports: Report) -> dict:
    document = json.loads(render("sarif", *reports))
    jsonschema.Draft202012Validator(SARIF_SCHEMA).validate(document)
    return document["runs"][0]


def uris(value: object) -> list[str]:
    if isinstance(value, dict):
        return [item for key, inner in value.items() for item in ([inner] if key.lower().endswith("uri") else uris(inner))]
    return [item for inner in value for item in uris(inner)] if isinstance(value, list) else []


def test_sarif_results() -> None:
    run = sarif(FAILED)
    first = run["results"][0]
    assert [result["level"] for result in run["results"]] == ["error", "warning"]
    assert first["ruleId"] == run["tool"]["driver"]["rules"][first["ruleIndex"]]["id"] == CAUSE.id
    place = first["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "logs/server.log", "uriBaseId": "SRCROOT"}
    assert place["region"] == {"startLine": 105, "snippet": {"text": CAUSE.evidence[0].text}}
    assert first["relatedLocations"][0]["physicalLocation"]["region"]["startLine"] == 131
    assert first["properties"]["fixes"][0]["change"] == CAUSE.fixes[0].command
    rule = run["tool"]["driver"]["rules"][0]
    assert "Serve a context of 33,712 tokens" in rule["help"]["text"]
    assert rule["helpUri"] == CAUSE.links[0]
    assert {"logs/server.log", *CAUSE.links} == set(uris(run))


def test_sarif_of_many_logs_is_one_run_with_each_rule_once() -> None:
    run = sarif(FAILED, at("b.log"), UNEXPLAINED, HEALTHY)
    ids = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert len(ids) == len(set(ids)) == 3
    assert [artifact["location"]["uri"] for artifact in run["artifacts"]] == ["logs/server.log", "b.log", "server.log", "stdin"]
    assert run["results"][-1]["ruleId"] == "unexplained-failure"
    assert all(ids[result["ruleIndex"]] == result["ruleId"] for result in run["results"])


@pytest.mark.parametrize(("path", "uri"), [("-", "stdin"), ("/home/me/secret-project/x.log", "x.log"), ("../x.log", "x.log"),
                                           ("logs/x.log.zst", "x.log.zst"), ("C:\\logs\\x.log", "x.log"), ("/a/x\x1b b", "x%3CU%2B001B%3E%20b"), ("/", "log")])
def test_sarif_of_a_log_outside_the_repository_is_placed_by_its_name(path: str, uri: str) -> None:
    assert "secret-project" not in render("sarif", at(path))
    run = sarif(at(path))
    place = run["results"][0]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": uri}
    assert place["region"]["startLine"] == 105
    assert set(uris(run)) == {uri, *CAUSE.links}


def test_sarif_keeps_to_what_code_scanning_takes() -> None:
    many = tuple(Evidence(n, f"ERROR {n}") for n in range(1, 2000))
    unplaced = with_finding(evidence=())
    reports = [FAILED._replace(findings=(CAUSE._replace(evidence=many),)), unplaced, FAILED._replace(findings=(), primary=None, failure=None),
               *(at(f"logs/{n}.log") for n in range(2600))]
    text = render("sarif", *reports)
    run = json.loads(text)["runs"][0]
    assert len(run["results"]) == to_sarif.MOST_RESULTS == 5000
    assert [result["level"] for result in run["results"]].count("error") == 2602
    for result in run["results"]:
        assert 1 <= len(result["locations"]) + len(result.get("relatedLocations", ())) <= 100
        assert result["locations"][0]["physicalLocation"]["region"]["startLine"] >= 1
        assert result["message"]["text"]
    assert all(len(rule["properties"]["tags"]) <= 10 for rule in run["tool"]["driver"]["rules"])
    assert run["invocations"][0]["toolExecutionNotifications"][0]["message"]["text"] == (
        "203 further results are left out: code scanning shows 5000.")
    assert len(gzip.compress(text.encode())) < 10 << 20


def test_sarif_uri_is_encoded() -> None:
    assert sarif(at("a b#c%?d:e.log"))["artifacts"][0]["location"]["uri"] == "a%20b%23c%25%3Fd%3Ae.log"


def test_sarif_fingerprint_is_of_the_rule_and_the_shape_of_the_line() -> None:
    def of(line: str, **changes: object) -> str:
        report = with_finding(evidence=(Evidence(7, line),), **changes)
        return sarif(report)["results"][0]["partialFingerprints"]["vllmDoctorFinding/v1"]

    line = "ERROR 05-06 10:00:01 pid=312 0x7f3a needs 16.00 GiB, 4.12 GiB is free (id 1f2e3d4c-aa11)"
    assert of(line) == of("ERROR 11-20 23:59:59 pid=9 0x1b2c needs 8.5 GiB, 1 GiB is free  (id 9a8b7c6d-bb22)")
    assert of(line) != of("ERROR 05-06 10:00:01 pid=312 0x7f3a wants 16.00 GiB, 4.12 GiB is free (id 1f2e3d4c-aa11)")
    assert of(line) != of(line, id="other")
    assert of(line) == of(line, title="other words", explanation="", fixes=())
    assert fingerprint(CAUSE) == "f984182d31136e284db6cee65a9f89aa"  # a new value makes every open alert a new one
    assert shape("a 1,024 b 10:00:01 c deadbeef1 d") == "a # b # c # d"


def test_sarif_messages_hold_no_links_and_no_placeholders() -> None:
    message = sarif(with_finding(title="[a](https://evil.example) {0}", explanation="x"))["results"][0]["message"]["text"]
    assert message.startswith("\\[a\\](https://evil.example) {{0}} (on 2 of 2 ranks).")


# ---- junit


def junit(*reports: Report) -> etree._Element:
    text = render("junit", *reports)
    document = etree.fromstring(text.encode())
    JUNIT_SCHEMA.assertValid(document)
    return document


def test_junit_cases() -> None:
    root = junit(FAILED, HEALTHY, UNEXPLAINED)
    assert (root.get("tests"), root.get("failures")) == ("4", "2")
    suites = root.findall("testsuite")
    assert [suite.get("name") for suite in suites] == ["logs/server.log, run 2 of 2", "standard input", "/var/log/vllm/server.log"]
    assert [(case.get("name"), case[0].tag) for case in suites[0]] == [
        (CAUSE.id, "failure"), (ADVICE.id, "skipped")]
    assert suites[0].get("skipped") == "1"
    assert suites[0][0][0].get("message") == f"{CAUSE.title} (on 2 of 2 ranks)"
    assert CAUSE.fixes[0].command in suites[0][0][0].text
    assert suites[1][0][0].tag == "system-out"
    assert suites[2][0].get("name") == "unexplained-failure"
    assert "KeyError: 'layers.31'" in suites[2][0][0].text


@given(st.text(max_size=40))
def test_junit_holds_any_text(text: str) -> None:
    root = junit(with_finding(title=text, explanation=text, evidence=(Evidence(1, text),)))
    assert root[0][0].get("name") == CAUSE.id
    assert len(root[0]) == 1


def test_junit_shows_what_xml_forbids() -> None:
    told = junit(with_finding(explanation="a\x00b\x0bc\ufffed\ud800e\x1b[31m ]]> <x/>"))[0][0][0].text
    assert "a<U+0000>b<U+000B>c<U+FFFE>d<U+D800>e<U+001B>[31m ]]> <x/>" in told


# ---- html

URL_ATTRIBUTES = {"src", "href", "action", "formaction", "data", "poster", "srcset", "background", "xlink:href", "ping"}


def html(*reports: Report) -> tuple[str, Tags]:
    text = render("html", *reports)
    return text, Tags(re.sub(r"(?s)<(style|script)>.*?</\1>", r"<\1></\1>", text))


def test_html_is_self_contained_and_its_policy_fits_it() -> None:
    text, read = html(FAILED)
    policy = next(attributes["content"] for name, attributes in read.tags if attributes.get("http-equiv"))
    for tag, directive in (("style", "style-src"), ("script", "script-src")):
        body = re.search(rf"(?s)<{tag}>(.*?)</{tag}>", text)[1]
        digest = base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()
        assert f"{directive} 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    for name, attributes in read.tags:
        assert name not in {"link", "img", "iframe", "object", "embed", "base", "form", "image", "use", "video", "audio"}
        assert "style" not in attributes
        assert not [key for key in attributes if key.startswith("on")]
        for key in URL_ATTRIBUTES & set(attributes):
            assert (name, key, attributes[key]) == ("a", "href", CAUSE.links[0])
    assert "url(" not in re.search(r"(?s)<style>(.*?)</style>", text)[1]
    assert "@import" not in text


def test_html_shows_what_the_report_holds() -> None:
    text, read = html(FAILED)
    assert f"{CAUSE.fixes[0].command}" in read.blocks
    assert CAUSE.evidence[0].text in read.blocks
    assert read.names().count("button") == 3  # the command, the patch and the Markdown; not the loose settings
    controlled = {attributes["aria-controls"] for name, attributes in read.tags if name == "button"}
    assert controlled <= {attributes.get("id") for name, attributes in read.tags if name == "pre"}
    assert "10 facts of the log" in text


def test_html_grades_a_failure_of_a_server_that_still_serves_as_its_headline_does() -> None:
    call = '  File "/opt/venv/lib/python3.12/site-packages/vllm/widgets.py", line 3, in bend\n    return bolts[0]\n'
    log = f"INFO:     Application startup complete.\nTraceback (most recent call last):\n{call}IndexError: list index out of range\n"
    report = diagnose(log.encode())
    assert (report.status, texts.headline(report)) == ("serving", "IndexError: list index out of range")
    text, _ = html(report)
    assert '<span class="badge error">error</span>' in text
    assert "badge good" not in text


def test_html_puts_the_number_of_the_exceptions_line_beside_it() -> None:
    call = '  File "/opt/venv/lib/python3.12/site-packages/vllm/widgets.py", line 3, in bend\n    raise BoltError(\n'
    message = "".join(f"  row {number}\n" for number in range(20))
    failure = diagnose(f"Traceback (most recent call last):\n{call}BoltError: bent\n{message}".encode()).failure
    assert failure is not None
    assert [line for number, line in texts.numbered(failure) if number] == ["BoltError: bent"]


def test_html_ids_are_unique_with_many_logs() -> None:
    _, read = html(FAILED, FAILED, HEALTHY)
    ids = [attributes["id"] for _, attributes in read.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert [attributes["href"] for name, attributes in read.tags if name == "a"][:3] == ["#log-1", "#log-2", "#log-3"]


def test_html_links_only_to_web_addresses() -> None:
    _, read = html(with_finding(links=("javascript:alert(1)", "data:text/html,x", 'https://ok.example/"><script>')))
    assert [attributes["href"] for name, attributes in read.tags if name == "a"] == ['https://ok.example/"><script>']
    assert read.names().count("script") == 1


def test_timeline() -> None:
    assert {step.name: step.state for step in to_html.timeline(FAILED)} == (
        dict.fromkeys(PHASES[:6], "done") | {"kv-cache": "failed"} | dict.fromkeys(PHASES[7:], "ahead"))
    assert [step.state for step in to_html.timeline(HEALTHY)] == ["done"] * 8 + ["reached", "ahead"]
    assert [step.words for step in to_html.timeline(UNEXPLAINED) if step.state == "failed"] == ["failed here"]


def test_picture() -> None:
    picture = to_html.picture(FAILED)
    assert picture is not None
    assert picture.budget_x == pytest.approx(900)
    assert [segment.kind for segment in picture.segments][:4] == ["weights", "activations", "non_torch", "kv_cache"]
    assert picture.segments[0].width == pytest.approx(15.27 / 24 * 1000, abs=0.01)
    assert picture.segments[-1].x + picture.segments[-1].width == pytest.approx(1000, abs=0.1)
    assert to_html.picture(HEALTHY) is None


def test_a_lacking_kv_cache_takes_no_room() -> None:
    memory = FAILED.memory
    short = memory._replace(parts=(memory.parts[0]._replace(gib=22.0), memory.parts[3]._replace(gib=-1.4)))
    picture = to_html.picture(FAILED._replace(memory=short))
    assert [(segment.width, segment.gib) for segment in picture.segments][1] == (0.0, -1.4)
    text, _ = html(FAILED._replace(memory=short))
    assert "-1.40" in text


# ---- headline


@pytest.mark.parametrize(("report", "expected"), [
    (FAILED, f"{CAUSE.title} (on 2 of 2 ranks)"),
    (UNEXPLAINED, "KeyError: 'layers.31'"),
    (UNEXPLAINED._replace(failure=None), "The server failed, and the log does not show the error"),
    (HEALTHY, "Healthy: serving"),
    (HEALTHY._replace(batch="done"), "Healthy: the last batch of prompts is complete"),
    (HEALTHY._replace(batch="running"), "Healthy: a batch of prompts is running"),
    (HEALTHY._replace(status="starting"), "Starting (phase api): no failure so far"),
    (HEALTHY._replace(status="unknown", phase=None), "No output of a vLLM server in this log"),
    (HEALTHY._replace(status="unknown", phase=None, release="0.2.0 to 0.7.3"),
     "These lines do not tell the state of the server"),
])
def test_headline(report: Report, expected: str) -> None:
    assert texts.headline(report) == expected
    for format_ in ("markdown", "html", "junit"):
        assert expected in unescape(render(format_, report)).replace("\\", "")


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (("1 validation error for VllmConfig\n  Value error, X is not compatible with Y. [type=value_error, input_value=ArgsKwargs((), {'a': 1}), "
         "input_type=ArgsKwargs]\n    For further information visit https://errors.pydantic.dev/2.12/v/value_error"),
         "ValidationError: 1 validation error for VllmConfig: X is not compatible with Y."),
        (("2 validation errors for A\nb\n  Field required [type=missing, input_value={}, input_type=dict]\n    For further information visit "
         "https://errors.pydantic.dev/2.12/v/missing\nc\n  Input should be 1 [type=literal_error, input_value=2, input_type=int]"),
         "ValidationError: 2 validation errors for A: b Field required c Input should be 1"),
        ("a list [type=1]", "ValidationError: a list [type=1]"),
    ],
)
def test_a_title_leaves_out_what_pydantic_writes_behind_an_error(message: str, expected: str) -> None:
    failure = UNEXPLAINED.unexplained
    assert failure is not None
    assert texts.failure_title(failure._replace(exception="ValidationError", message=message)) == expected


def test_a_failure_without_a_known_line_is_told_in_every_format() -> None:
    report = UNEXPLAINED._replace(failure=None)
    assert [level for level, _, _ in as_a_runner_reads(to_github.render(report))] == ["warning"]
    assert sarif(report)["results"][0]["level"] == "warning"
    assert "consequences" in to_markdown.render(report)
    assert "consequences" in to_junit.render(report)
    assert "consequences" in to_sarif.render(report)


# ---- a stalled start


STALL_NOTE = "No log line for 600 s in phase weights. The most common cause is reading the weights from slow storage."


@pytest.mark.parametrize("findings", [(), (CAUSE,)], ids=["nothing", "cause"])
def test_a_stalled_start_says_first_for_how_long(findings: tuple[Finding, ...]) -> None:
    primary = CAUSE.id if findings else None
    report = HEALTHY._replace(status="stalled", phase="weights", notes=(STALL_NOTE, "Another note."), findings=findings, primary=primary)
    sign = "✗" if findings else "!"
    for brief in (False, True):
        lines = to_text.render(report, width=200, brief=brief).split("\n")
        assert lines[:3] == [f"{sign} The start is stalled", f"  {STALL_NOTE}", ""]
        assert (f"✗ {CAUSE.title} (on 2 of 2 ranks)" in lines) is bool(findings)
    for format_ in ("markdown", "html"):
        text = unescape(render(format_, report)).replace("\\", "")
        text = text.partition('<pre id="markdown-1"')[0]  # the same once more, to be copied
        assert text.count(STALL_NOTE) == 1
        assert text.count("Another note.") == 1
        after = text.partition(STALL_NOTE)[2]
        assert "The start is stalled" in text.partition(STALL_NOTE)[0]
        assert (f"{CAUSE.title} (on 2 of 2 ranks)" in after) is bool(findings)
