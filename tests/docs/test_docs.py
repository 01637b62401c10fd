"""What the README says is run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from vllm_doctor.cli.root import cli
from vllm_doctor.rulebase.loader import builtin

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def block(mark: str) -> str:
    return re.search(rf"<!-- {mark} -->\n```\w+\n(.*?)```", README, re.DOTALL)[1]


def test_what_is_made_from_data_is_current() -> None:
    done = subprocess.run([sys.executable, str(ROOT / "tools" / "build_docs.py"), "--check"], capture_output=True,
                          text=True, check=False)
    assert done.stdout.split() == [], "run: python tools/build_docs.py"


@pytest.mark.parametrize("page", ["README.md", "README.zh.md"])
def test_the_python_example_runs(page: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(ROOT)
    code = re.search(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)[1]
    exec(compile(code, "README.md", "exec"), {})  # noqa: S102 - our own example
    out = capsys.readouterr().out.splitlines()
    assert out[:2] == ["cpu-kv-cache-space-too-small", "131072"]
    assert "vllm serve" in out[2]


def test_the_chinese_readme_has_the_same_commands() -> None:
    chinese = (ROOT / "README.zh.md").read_text(encoding="utf-8")
    used = {text: re.search(r"<!-- demo-command -->\n```sh\n(.*?)```", text, re.DOTALL)[1] for text in (README, chinese)}
    assert used[chinese].replace(" --lang zh", "") == used[README]
    assert set(re.findall(r"^\| `([^`]+)` \|", chinese, re.MULTILINE)) <= set(re.findall(r"^\| `([^`]+)` \|", README, re.MULTILINE))


def test_every_command_and_option_has_help() -> None:
    for name in cli.list_commands(None):
        command = cli.get_command(None, name)
        assert command.help, name
        for sub in getattr(command, "commands", {}).values():
            assert sub.help, sub.name


def test_the_links_lead_somewhere() -> None:
    for page in ("README.md", "README.zh.md", "CONTRIBUTING.md", "rules/README.md", "docs/zh/index.md"):
        for target in re.findall(r"\]\((?!http)([^)#]+)\)", (ROOT / page).read_text(encoding="utf-8")):
            is_generated = target.removeprefix("../") == "failures/index.md"
            assert (ROOT / page).parent.joinpath(target).exists() or is_generated, (page, target)


def test_rules_stand_under_their_phase() -> None:
    for rule in builtin().rules.values():
        assert Path(rule.path).parent.name in {rule.phase, "environment"}


def test_nothing_names_the_machine_it_was_made_on() -> None:
    private = re.compile(r"/work/|/opt/(?:dev|lab|sdists)|/root/\.pyenv")
    for folder in ("vllm_doctor", "rules", "fixtures", "tests", "tools", "docs", "schema"):
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and path.suffix in {".py", ".yaml", ".md", ".json", ".log", ".txt"} and path.name != "test_docs.py":
                assert not private.search(path.read_text(encoding="utf-8", errors="replace")), path


def test_contributing_shows_the_tree_as_it_is() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    shown = re.findall(r"^  (\w+)/ ", page.partition("vllm_doctor/\n")[2].partition("\nrules/")[0], re.MULTILINE)
    packages = {path.parent.name for path in (ROOT / "vllm_doctor").glob("*/__init__.py")}
    assert sorted(shown) == sorted(packages)
    layers = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"][0]["layers"]
    ordered = [name.strip() for layer in layers for name in layer.split(":") if name.strip() in packages]
    assert shown == ordered


def test_the_build_has_what_the_package_imports() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert set(project["project"]["dependencies"]) <= set(project["build-system"]["requires"])


def test_the_files_that_contributing_names_exist() -> None:
    pages = [(ROOT / name).read_text(encoding="utf-8") for name in ("CONTRIBUTING.md", "SECURITY.md", "rules/README.md")]
    named = re.findall(r"`((?:vllm_doctor|rules)/[\w./-]+)`", "\n".join(pages))
    assert len(named) > 15
    assert [name for name in named if not (ROOT / name).exists()] == []
