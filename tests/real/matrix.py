"""Every release by every launch, with resume: matrix.py [--release 0.20.2 …] [--launch ID …] [--logs FOLDER] [--no-cure] [--again]

What was run is kept in results.jsonl beside this file, and not run again unless the launch was rewritten (or --again). A release is
installed when its turn comes, and removed after it with --remove. `--logs FOLDER` writes each log with its label.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import captured
import environment as environments
import models
import table
from launches import Launch, Release, launches_of, release_of, releases
from trial import Outcome, Trial

RESULTS = Path(__file__).resolve().parent / "results.jsonl"


def rows() -> dict[tuple[str, str], dict[str, Any]]:
    """The last row of each release and launch."""
    lines = RESULTS.read_text(encoding="utf-8").splitlines() if RESULTS.exists() else []
    return {(row["release"], row["launch"]): row for row in map(json.loads, lines)}


def is_known(launch: Launch, row: dict[str, Any] | None, *, cure: bool) -> bool:
    """Whether a row says of the launch, as it stands now, all that a run would."""
    if row is None or row["digest"] != digest(launch):
        return False
    return not (cure and launch.causes) or row["served"] or row["cured"] is not None or bool(row["why_not"])


def digest(launch: Launch) -> str:
    """Changes when the launch is rewritten."""
    return hashlib.sha256(repr(launch).encode()).hexdigest()[:12]


def row_of(release: Release, outcome: Outcome) -> dict[str, Any]:
    """What is kept of an outcome."""
    return {"release": release.version, "launch": outcome.launch.id, "world": outcome.launch.world, "digest": digest(outcome.launch), "served": outcome.served,
            "cause": outcome.cause, "problems": outcome.problems, "fix": outcome.fix, "cured": outcome.cured,
            "why_not": outcome.why_not, "seconds": round(outcome.seconds)}


def main(arguments: list[str] | None = None) -> int:
    """Run what is missing, and return 0 when nothing that ran has a problem."""
    parser = argparse.ArgumentParser(description="Every release by every launch, with resume.")
    parser.add_argument("--release", nargs="+", default=[one.version for one in releases()])
    parser.add_argument("--launch", nargs="+", default=[])
    parser.add_argument("--logs", type=Path)
    parser.add_argument("--no-cure", action="store_true")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--remove", action="store_true")
    parser.add_argument("--write-proof", action="store_true", help="only rewrite docs/proof.md from what was run")
    options = parser.parse_args(arguments)
    if options.write_proof:
        RESULTS.write_text("".join(json.dumps(row) + "\n" for _, row in sorted(rows().items())), encoding="utf-8")
        table.write(rows().values())
        return 0
    problems = 0
    for version in options.release:
        release = release_of(version)
        known = {} if options.again else rows()
        wanted = [one for one in launches_of(release) if not options.launch or one.id in options.launch]
        missing = [one for one in wanted if not is_known(one, known.get((version, one.id)), cure=not options.no_cure)]
        if missing:
            problems += run(release, missing, options)
        if options.remove:
            shutil.rmtree(environments.home() / f"vllm-{version}", ignore_errors=True)
    return 1 if problems else 0


def run(release: Release, launches: list[Launch], options: argparse.Namespace) -> int:
    """Run launches of one release, each kept as soon as it ended. Returns how many have a problem."""
    environment = environments.find(release)
    sound = models.build(environment, environments.home() / f"models-{release.version}")
    bad = 0
    for launch in launches:
        with tempfile.TemporaryDirectory(prefix="vllm-real-", ignore_cleanup_errors=True) as folder:
            trial = Trial(release, environment, sound, launch, Path(folder) / "launch")
            trial.folder.mkdir()
            try:
                outcome = trial.run(cure=not options.no_cure)
            except (AssertionError, LookupError, TimeoutError, OSError, KeyError) as error:
                outcome = Outcome(launch, problems=[trial.neutral(f"{type(error).__name__}: {error}")[:2000]])
            row = row_of(release, outcome)
            with RESULTS.open("a", encoding="utf-8") as kept:
                kept.write(json.dumps(row) + "\n")
            if options.logs and (trial.folder / "start-1" / "server.log").exists():
                captured.write_labelled(release, trial, outcome, options.logs)
        bad += bool(outcome.problems)
        said = "; ".join(outcome.problems).partition("\n")[0] or ("serves" if outcome.served else "right")
        print(f"{release.version:8} {launch.id:32} {outcome.cause or '-':34} {said[:150]} {outcome.cured} {outcome.why_not[:120]} {row['seconds']} s", flush=True)
    return bad


if __name__ == "__main__":
    sys.exit(main())
