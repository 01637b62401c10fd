"""The command line: one command a file."""

from __future__ import annotations


def main() -> None:
    """Run `vllm-doctor`. A problem on the user's side is one line on stderr and status 2."""
    from vllm_doctor.cli.root import cli  # noqa: PLC0415 - click costs 40 ms; importing the package must not

    cli()
