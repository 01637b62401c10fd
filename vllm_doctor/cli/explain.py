"""The `vllm-doctor explain NAME` command: explain a rule, a flag or a fact."""

from __future__ import annotations

import click

from vllm_doctor.authoring.explain import page
from vllm_doctor.cli.options import RuleId, in_language
from vllm_doctor.errors import InputError
from vllm_doctor.language import language as language_of
from vllm_doctor.messages import message


@click.command("explain", short_help="Explain a rule, a flag or a fact.",
               context_settings={"ignore_unknown_options": True})  # a flag is a NAME here
@click.argument("name", type=RuleId())
@click.option("--vllm-version", default="", metavar="V", help="vLLM release whose default of the flag is shown.")
@click.option("--rules", multiple=True, metavar="DIR", help="Directory with your own rules; repeatable.")
@in_language
def command(name: str, vllm_version: str, rules: tuple[str, ...], language: str) -> None:
    """Explain a rule, a flag (--max-num-seqs) or a fact (kv_cache_tokens)."""
    text = page(name, vllm_version.lstrip("vV"), rules, language_of(language))
    if not text:
        raise InputError(message("nothing is called `{name}`", name=name))
    click.echo(text)
