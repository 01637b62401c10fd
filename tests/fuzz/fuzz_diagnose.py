#!/usr/bin/env python3
"""Coverage-guided fuzzing of the whole reader: any bytes give a report that fits the schema, in bounded time.

usage: fuzz_diagnose.py CORPUS_DIR -max_total_time=600 -timeout=10 -max_len=20000     (pip install atheris)
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["vllm_doctor"]):
    from vllm_doctor.diagnosis import diagnose
    from vllm_doctor.report import to_json, to_text

import jsonschema

ROOT = Path(__file__).resolve().parent.parent.parent
SCHEMA = jsonschema.Draft202012Validator(json.loads((ROOT / "schema" / "report.schema.json").read_text()))


def one(data: bytes) -> None:
    """One input: no exception, a valid report, printable text."""
    report = diagnose(data)
    SCHEMA.validate(to_json.document(report))
    text = to_text.render(report)
    assert "\x1b" not in text


if __name__ == "__main__":
    atheris.Setup(sys.argv, one)
    atheris.Fuzz()
