"""The `vllm-doctor explain NAME` command: explain a rule, a flag or a fact."""

from __future__ import annotations

import click

from vllm_doctor.authoring.explain import page
from vllm_doctor.cli import project_settings
from vllm_doctor.cli.options import Release, RuleId, in_language
from vllm_doctor.errors import DoctorError
from vllm_doctor.language import language as language_of


@click.command("explain", short_help="Explain a rule, a flag or a fact.",
               context_settings={"ignore_unknown_options": True})  # a flag is a NAME here
@click.argument("name", type=RuleId())
@click.option("--vllm-version", type=Release(), default="", help="vLLM release whose default of the flag is shown.")
@click.option("--rules", multiple=True, metavar="DIR", help="Directory with your own rules; repeatable.")
@in_language
def command(name: str, vllm_version: str, rules: tuple[str, ...], language: str) -> None:
    """Explain a rule, a flag (--max-num-seqs) or a fact (kv_cache_tokens)."""
    try:
        settings = project_settings.find()
    except DoctorError:  # a page is no place to complain of a file that it does not need
        settings = None
    folders = (*(settings.rules if settings else ()), *rules)
    click.echo(page(name, vllm_version, folders, language_of(language)))
