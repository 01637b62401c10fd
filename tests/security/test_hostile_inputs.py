"""What a stranger, a full disk or a closed stream can do to a command: a table of shell lines, each with what must come of it.

Every one ends in time, with status 0, 1 or 2 as told, without a traceback; with 2 there is one line that says why.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

import pytest
from commands import Commands, Ended
from nightly import some

ROOT = Path(__file__).resolve().parents[2]
ENV = {**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1"}
CAUSE = "cpu-kv-cache-space-too-small"
DAMAGED = "cut or damaged"

_SETTING = r"""
import bz2, gzip, io, json, lzma, os, socket, sys, tarfile, zipfile
from pathlib import Path
log, short = Path(sys.argv[1]).read_bytes(), Path(sys.argv[2]).read_bytes()
Path("log").write_bytes(log)
Path("good").write_bytes(short)
Path("gpu").write_bytes(Path(sys.argv[4]).read_bytes())
packers = {"gz": gzip.compress, "xz": lzma.compress, "bz2": bz2.compress}
try:
    import zstandard
    packers["zst"] = zstandard.ZstdCompressor().compress
except ImportError:
    pass
# The log ends early, so that a cut comes after it; what follows does not shrink.
noise = b"".join(os.urandom(40).hex().encode() + b"\n" for _ in range(2000))
for kind, pack in packers.items():
    Path(f"whole.{kind}").write_bytes(pack(log))
    packed = pack(log + noise)
    Path(f"cut.{kind}").write_bytes(pack(log) + pack(noise)[:9] if kind != "gz" else pack(log) + pack(noise)[:9000])
    Path(f"half.{kind}").write_bytes(packed[:len(packed) - 2000])
    Path(f"tail.{kind}").write_bytes(pack(log) + b"garbage behind the archive\n" * 20)
    Path(f"members.{kind}").write_bytes(pack(log[:2000]) + pack(log[2000:]))
Path("head.gz").write_bytes(gzip.compress(log)[:10])
Path("crc.gz").write_bytes(gzip.compress(log)[:-8] + b"\0" * 8)
def tar(name, mode, members):
    with tarfile.open(name, mode) as file:
        for member, data in members:
            info = tarfile.TarInfo(member)
            info.size = len(data)
            file.addfile(info, io.BytesIO(data))
        link = tarfile.TarInfo("link.log"); link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"; file.addfile(link)
        fifo = tarfile.TarInfo("fifo.log"); fifo.type = tarfile.FIFOTYPE; file.addfile(fifo)
        folder = tarfile.TarInfo("folder"); folder.type = tarfile.DIRTYPE; file.addfile(folder)
two = [("a/bad.log", log), ("b/good.log", short)]
for name, mode in (("two.tar", "w"), ("two.tar.gz", "w:gz"), ("two.tgz", "w:gz"), ("two.tar.xz", "w:xz"), ("two.tar.bz2", "w:bz2")):
    tar(name, mode, two)
if "zst" in packers:
    Path("two.tar.zst").write_bytes(packers["zst"](Path("two.tar").read_bytes()))
tar("noise.tar.gz", "w:gz", [("a/bad.log", log), ("noise.log", noise)])
Path("cut.tar.gz").write_bytes(Path("noise.tar.gz").read_bytes()[:-9000])
Path("cut.tar").write_bytes(Path("two.tar").read_bytes()[:512 + len(log) + 2000])
tar("climb.tar", "w", [("../../climbed.log", log), ("/tmp/absolute.log", log)])
tar("many.tar.gz", "w:gz", [("a.log", log)] + [(f"{n}.log", b"x\n") for n in range(20000)])
tar("packed.tar", "w", [("server.log.gz", gzip.compress(log))])
with zipfile.ZipFile("two.zip", "w", zipfile.ZIP_DEFLATED) as file:
    for name, data in two:
        file.writestr(name, data)
with zipfile.ZipFile("climb.zip", "w") as file:
    file.writestr("../../climbed.log", log)
    file.writestr("C:\\x\x1b[2J.log", log)
with zipfile.ZipFile("bomb.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
    file.writestr("a.log", log)
    with file.open("bomb.log", "w", force_zip64=True) as member:
        for _ in range(700):
            member.write(bytes(1 << 20))
Path("cut.zip").write_bytes(Path("two.zip").read_bytes()[:-60])
Path("bomb.gz").write_bytes(gzip.compress(log) + gzip.compress(bytes(1 << 26), 1) * 4)
os.mkdir("fine"); Path("fine/rule.yaml").write_text(Path(sys.argv[3]).read_text().replace(
    "id: cpu-kv-cache-space-too-small", "id: my-own-rule"))
for kind in ("fifo", "socket", "loop", "zero", "nested", "wide", "dangling", "null"):
    os.mkdir(f"r-{kind}")
for name in ("r-fifo/x.yaml", "fifo", "fifo.toml"):
    os.mkfifo(name)
for name in ("r-socket/x.yaml", "socket"):
    socket.socket(socket.AF_UNIX).bind(name)
for name in ("r-loop/x.yaml", "loop"):
    os.symlink(os.path.basename(name), name)
os.symlink("..", "r-loop/up")
for name in ("r-zero/x.yaml", "zero", "zero.toml"):
    os.symlink("/dev/zero", name)
os.symlink("nowhere", "r-dangling/x.yaml")
Path("r-null/x.yaml").write_bytes(b"id: x\0\n")
deep = "[" * 100_000
Path("r-nested/x.yaml").write_text("id: x\nmatch: " + deep)
Path("r-wide/x.yaml").write_text("id: x\nmatch: " + "{a: " * 100_000)
Path("nested.toml").write_text("rules = " + deep)
Path("closed.toml").write_text("rules = " + deep + "]" * 100_000)
Path("dots.toml").write_text("a" + ".a" * 100_000 + " = 1\n")
Path("tables.toml").write_text("rules = " + "{a=" * 100_000)
Path("nested.yaml").write_text("model: m\nx: " + deep)
Path("closed.yaml").write_text("model: m\nx: " + deep + "]" * 100_000)
Path("list.yaml").write_text("model: m\nx:\n  " + "- " * 100_000 + "\n")
Path("laughs.yaml").write_text("a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{b}: &{b} [{','.join(['*' + a] * 9)}]\n" for a, b in zip("abcdefgh", "bcdefghi")) + "model: *i\nport: *i\n")
Path("call.txt").write_text("from vllm import LLM\nllm = LLM(model='m', x=" + deep + "]" * 100_000 + ")\n")
Path("json.txt").write_text("vllm serve m --override-generation-config '" + '{"a":' * 100_000 + "'\n")
Path("minus.txt").write_text("vllm serve m --x " + "-" * 100_000 + "1\n")
os.mkdir("model"); Path("model/config.json").write_text(deep)
os.mkdir("model-fifo"); os.mkfifo("model-fifo/config.json")
os.mkdir("model-zero"); os.symlink("/dev/zero", "model-zero/config.json")
Path("requests.jsonl").write_text(deep + "\n")
os.mkdir("here"); Path("here/vllm-doctor.toml").write_text('fail-on = "never"\n')
"""


class Case(NamedTuple):
    """A shell line; its exit status; what stdout, what stderr holds."""

    name: str
    line: str
    status: int
    out: str = ""
    err: str = ""
    not_out: str = "\0"


def _streams() -> list[Case]:
    formats = ("text", "json", "jsonl", "markdown", "html", "sarif", "junit", "github", "gitlab", "command", "agent")
    commands = {"size": "size --from gpu", "explain": "explain --max-num-seqs", "rules-list": "rules list",
                "rules-json": "rules list --format json", "rules-show": f"rules show {CAUSE}", "schema": "rules schema",
                "help": "--help", "version": "--version", "help-diagnose": "diagnose --help", "completion": "completion bash",
                "why": f"diagnose log --why {CAUSE}"}
    cases = [Case(f"full-stdout-{name}", f"v diagnose log --format {name} >/dev/full", 2, err="no space left") for name in formats]
    for name, line in commands.items():
        cases += [Case(f"full-stdout-{name}", f"v {line} >/dev/full", 2, err="no space left"),
                  Case(f"closed-stdout-{name}", f"v {line} >&-", 2, err="closed"),
                  Case(f"reader-gone-{name}", f"v {line} | true; true", 0)]
    return cases


CASES = [
    # Pipes as paths: read once, and from the first byte on.
    Case("pipe-substitution", "v diagnose <(cat log)", 1, CAUSE),
    Case("pipe-fifo", "mkfifo p; cat log >p & v diagnose p", 1, CAUSE),
    Case("pipe-dev-stdin", "cat log | v diagnose /dev/stdin", 1, CAUSE),
    Case("pipe-dev-stdin-file", "v diagnose /dev/stdin <log", 1, CAUSE),
    Case("pipe-dev-fd", "v diagnose /dev/fd/5 5< <(cat log)", 1, CAUSE),
    Case("pipe-gz", "v diagnose <(cat whole.gz)", 1, CAUSE),
    Case("pipe-slow-gz", "v diagnose <(head -c 1 whole.gz; sleep 0.3; tail -c +2 whole.gz)", 1, CAUSE),
    Case("pipe-two", "v diagnose <(cat log) <(cat log)", 1, "2 logs"),
    Case("pipe-run-all", "v diagnose --run all <(cat log)", 2, err="more than once"),
    Case("pipe-size", "cmp <(v size --from <(cat gpu) | sed s,/dev/fd/63,gpu,) <(v size --from gpu)", 0),
    Case("pipe-why", f"v diagnose --why {CAUSE} <(cat log)", 0, "fires"),
    Case("pipe-rules-new", "v rules new my-rule --from <(cat log) --line 3 --phase weights --into new", 0, "my-rule.yaml"),
    Case("pipe-lines", 'v diagnose --format json <(cat log) | grep -c "\\"lines\\": $(wc -l <log)"', 0, "1"),
    Case("stdin-gz", "v diagnose <whole.gz", 1, CAUSE),
    Case("stdin-xz", "cat whole.xz | v diagnose -", 1, CAUSE),
    Case("stdin-bz2", "cat whole.bz2 | v diagnose", 1, CAUSE),
    Case("stdin-zst", "cat whole.zst | v diagnose", 1, CAUSE),
    Case("stdin-zip", "cat two.zip | v diagnose", 1, "a/bad.log"),
    Case("stdin-tgz", "cat two.tgz | v diagnose", 1, "a/bad.log"),
    # Full disks and closed streams.
    *_streams(),
    Case("full-output", "v diagnose log --output /dev/full", 2, err="no space left"),
    Case("full-report", "v diagnose log --report json=/dev/full --report html=h.html; s=$?; test -s h.html || exit 9; exit $s", 2, CAUSE, "no space left"),
    Case("full-stderr-report", "v diagnose log 2>/dev/full", 1, CAUSE),
    Case("full-stderr-missing", "v diagnose missing.log 2>/dev/full", 2),
    Case("full-stderr-usage", "v diagnose --nope 2>/dev/full", 2),
    Case("full-stderr-part", "v diagnose log missing.log 2>/dev/full", 2, CAUSE),
    Case("full-both", "v diagnose log >/dev/full 2>/dev/full", 2),
    Case("full-scaffold", "mkdir -p d; ln -sf /dev/full d/my-rule.yaml; v rules new my-rule --into d", 2, err="exists"),
    Case("closed-stdin", "v diagnose <&-", 2, err="closed"),
    Case("closed-stdin-dash", "v diagnose - <&-", 2, err="closed"),
    Case("closed-stdin-file", "v diagnose log <&-", 1, CAUSE),
    Case("closed-stdout", "v diagnose log >&-", 2, err="closed"),
    Case("closed-stdout-output", "v diagnose log --output o.txt >&-; s=$?; cat o.txt; exit $s", 1, CAUSE),
    Case("closed-stderr", "v diagnose log 2>&-", 1, CAUSE),
    Case("closed-stderr-missing", "v diagnose missing.log 2>&-", 2),
    Case("closed-stderr-usage", "v diagnose --nope 2>&-", 2),
    Case("closed-all", "v diagnose log <&- >&- 2>&-", 2),
    Case("closed-out-err", "v diagnose log >&- 2>&-", 2),
    Case("head", "v diagnose log | head -1; exit ${PIPESTATUS[0]}", 1),
    Case("head-json", "v diagnose --format json $(yes log | head -20) | head -c 1 | wc -c", 0, "1"),
    Case("watch-full-stdout", "v watch <log >/dev/full", 2, err=CAUSE),
    Case("watch-full-stderr", "v watch <log 2>/dev/full | cmp - log; exit ${PIPESTATUS[0]}", 2),
    Case("watch-full-stderr-output", "v watch --output o <log 2>/dev/full >/dev/null; s=$?; cat o; exit $s", 2, CAUSE),
    Case("watch-full-output", "v watch --output /dev/full <log >/dev/null", 2, err="no space left"),
    Case("watch-closed-stdin", "v watch <&-", 2, err="closed"),
    Case("watch-closed-stdout", "v watch <log >&-", 2, err=CAUSE),
    Case("watch-closed-stderr", "v watch <log 2>&- | cmp - log; exit ${PIPESTATUS[0]}", 2),
    Case("watch-reader-gone", "v watch <log | true; exit 0", 0),
    Case("run-full-stdout", "v run -- cat log >/dev/full", 0, err=CAUSE),
    Case("run-full-stderr", "v run -- cat log 2>/dev/full | cmp - log; exit ${PIPESTATUS[0]}", 0),
    Case("run-closed-stdin", "v run -- sh -c 'exit 7' <&-", 7),
    Case("run-closed-stdout", "v run -- cat log >&-", 0, err=CAUSE),
    Case("run-closed-stderr", "v run -- sh -c 'cat log; exit 7' 2>&- | cmp - log; exit ${PIPESTATUS[0]}", 7),
    Case("web-full-stdout", "v web >/dev/full", 2, err="no space left"),
    Case("web-closed-stdout", "v web >&-", 2, err="closed"),
    # Rules, settings, configurations.
    *(Case(f"rules-{kind}", f"v diagnose log --rules r-{kind}", 2, err="x.yaml")
      for kind in ("fifo", "socket", "loop", "zero", "nested", "wide", "dangling", "null")),
    *(Case(f"lint-{kind}", f"v rules lint r-{kind}", status, out, err)
      for kind, status, out, err in (("fifo", 1, "x.yaml", ""), ("zero", 1, "x.yaml", ""), ("nested", 1, "x.yaml", ""))),
    Case("lint-fifo-file", "v rules lint fifo", 1, "fifo: is not a regular file"),
    Case("rules-test-nested", "v rules test r-nested", 2, err="x.yaml"),
    Case("rules-list-nested", "v rules list --rules r-nested", 2, err="x.yaml"),
    Case("explain-fifo", "v explain x --rules r-fifo", 2, err="x.yaml"),
    Case("rules-unreadable", "mkdir -p shut/sub; cp fine/rule.yaml shut/; chmod 0 shut/sub; unprivileged diagnose log --rules shut", 2, err="permission denied"),
    *(Case(f"settings-{name}", f"v diagnose log --settings {name}", 2, err=name)
      for name in ("fifo.toml", "zero.toml", "socket", "loop", "nested.toml", "closed.toml", "dots.toml", "tables.toml", "model")),
    Case("settings-here-fifo", "mkdir -p hf; mkfifo hf/vllm-doctor.toml; cd hf; v diagnose ../log", 2, err="vllm-doctor.toml"),
    Case("settings-here-zero", "mkdir -p hz; ln -s /dev/zero hz/vllm-doctor.toml; cd hz; v diagnose ../log", 2, err="vllm-doctor.toml"),
    Case("settings-here-loop", "mkdir -p hl; ln -s vllm-doctor.toml hl/vllm-doctor.toml; cd hl; v diagnose ../log", 2, err="vllm-doctor.toml"),
    Case("project-zero", "mkdir -p pz; ln -s /dev/zero pz/pyproject.toml; cd pz; v diagnose ../log", 1, CAUSE),
    *(Case(f"config-{name}", f"v diagnose log --config {name}", 2, err=name)
      for name in ("fifo", "zero", "socket", "loop", "nested.yaml", "closed.yaml", "call.txt")),
    Case("config-list", "v diagnose log --config list.yaml >/dev/null; test $? -le 2", 0),
    Case("config-laughs", "v diagnose log --config laughs.yaml >o; s=$?; test $(wc -c <o) -lt 99999 && test $s -le 2", 0),
    Case("command-nested", 'v diagnose log --command "$(head -c 100000 nested.yaml)"', 2, err="vllm-doctor: "),
    Case("command-json", 'v diagnose log --command "$(head -c 100000 json.txt)"', 2, err="nested too deeply"),
    Case("command-minus", 'v diagnose log --command "$(head -c 100000 minus.txt)" >/dev/null; test $? -le 2', 0),
    Case("model-nested", "v size model --gpu 24GiB", 2, err="config.json"),
    Case("model-fifo", "v size model-fifo --gpu 24GiB", 2, err="config.json"),
    Case("model-zero", "v size model-zero --gpu 24GiB", 2, err="config.json"),
    Case("requests-nested", "v size --from gpu --requests requests.jsonl", 2, err="requests.jsonl"),
    # Cut and damaged archives, and archives of many files.
    *(Case(f"{kind}-{packed}", f"v diagnose {kind}.{packed}", 1, out=CAUSE)
      for kind in ("whole", "members", "cut", "half", "tail") for packed in ("gz", "xz", "bz2", "zst") if (kind, packed) != ("half", "bz2")),
    Case("half-bz2", "v diagnose half.bz2", 2, err=DAMAGED),  # a block of bz2 is read whole or not at all
    *(Case(f"{kind}-{packed}-note", f"v diagnose --format json {kind}.{packed}", 1, out=DAMAGED)
      for kind in ("cut", "half", "tail") for packed in ("gz", "xz", "bz2", "zst") if (kind, packed) != ("half", "bz2")),
    Case("whole-gz-no-note", "v diagnose --format json whole.gz", 1, CAUSE, not_out=DAMAGED),
    Case("head-gz", "v diagnose head.gz", 2, err=DAMAGED),
    Case("crc-gz", "v diagnose crc.gz", 1, DAMAGED),
    *(Case(f"many-{name}", f"v diagnose {name}", 1, out=f"{name}!a/bad.log")
      for name in ("two.zip", "two.tar", "two.tar.gz", "two.tgz", "two.tar.xz", "two.tar.bz2", "two.tar.zst")),
    Case("tar-cause", "v diagnose two.tar", 1, CAUSE, not_out="link.log"),
    Case("tar-packed", "v diagnose packed.tar", 1, CAUSE),
    Case("cut-tar-gz", "v diagnose cut.tar.gz", 1, DAMAGED),
    Case("cut-tar", "v diagnose cut.tar", 1, DAMAGED),
    Case("cut-zip", "v diagnose cut.zip", 2, err="cut.zip"),
    Case("climb-tar", "v diagnose climb.tar; s=$?; test -e ../../climbed.log && exit 9; exit $s", 1, "climbed.log"),
    Case("climb-zip", "v diagnose climb.zip", 1, "climbed.log", not_out="\x1b[2J"),
    Case("many-members", "v diagnose many.tar.gz", 1, "were not read"),
    Case("bomb-zip", "v diagnose bomb.zip", 1, "were not read"),
    Case("bomb-gz", "v diagnose bomb.gz >/dev/null; test $? -le 1", 0),
    # A repository's settings are named.
    *(Case(f"here-{name}", f"cd here; v diagnose ../log --format {name}", 0, "vllm-doctor.toml")
      for name in ("text", "json", "markdown", "html", "sarif", "junit", "github")),
]


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="hostile-"))  # not below pytest's own folder, which other users may not enter
    subprocess.run([sys.executable, "-c", _SETTING, ROOT / "fixtures/logs/fatkv-cpu-space-1.log", ROOT / "fixtures/logs/healthy/offline-generate.log",
                    next((ROOT / "rules").rglob(f"{CAUSE}.yaml")), next((ROOT / "fixtures").rglob("v1-0.20-graph-estimate.log"))], cwd=path, check=True)
    path.chmod(0o755)
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="module")
def commands(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    found = Commands(folder, tmp_path_factory.mktemp("commands"), ENV)
    yield found
    found.close()


# One command with plain words, perhaps in another folder: its process need not be a fresh one.
_PLAIN = re.compile(r"(?:cd (\w+); )?v((?: [\w./-]+)+)")


def test_most_cases_need_a_shell_or_none() -> None:
    assert min([_PLAIN.fullmatch(case.line) is not None for case in CASES].count(value) for value in (True, False)) > 50


@pytest.mark.parametrize("case", some(CASES, 44, name=attrgetter("name")))
def test_hostile_input(case: Case, folder: Path, commands: Commands) -> None:
    plain = _PLAIN.fullmatch(case.line)
    done = commands.run(*plain[2].split(), folder=plain[1] or ".") if plain else in_a_shell(case.line, folder)
    out, err = done.out.decode("utf-8", "replace"), done.err.decode("utf-8", "replace")
    assert "Traceback" not in out + err
    assert "internal error" not in out + err
    assert "Exception ignored" not in err
    assert case.out in out
    assert case.err.lower() in err.lower()
    assert case.not_out not in out
    assert done.status == case.status, err
    if case.err and done.status == 2 and not case.line.startswith("v watch"):
        assert len(err.strip().splitlines()) == 1


def in_a_shell(line: str, folder: Path) -> Ended:
    shell = (f'ulimit -v 3000000\nv() {{ {sys.executable} -m vllm_doctor "$@"; }}\nexport -f v\n'
             f'unprivileged() {{ setpriv --reuid=65534 --regid=65534 --clear-groups {sys.executable} -m vllm_doctor "$@"; }}\n{line}')
    done = subprocess.run(["timeout", "-k", "2", "40", "bash", "-c", shell], cwd=folder, capture_output=True, check=False, stdin=subprocess.DEVNULL,
                          env=ENV)
    return Ended(done.returncode, done.stdout, done.stderr)
