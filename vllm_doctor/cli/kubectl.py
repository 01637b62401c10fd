"""`kubectl vllm-doctor POD`: a plug-in of kubectl, which finds it by the name of its script, `kubectl-vllm_doctor`."""

from __future__ import annotations

import sys

import click

from vllm_doctor.cli.diagnose import command as diagnose

_WITHOUT_TOGETHER = {"--against", "--run", "--why"}
"""Options of `diagnose` that do not go with --together."""


@click.command("kubectl", hidden=True, context_settings={"ignore_unknown_options": True})
@click.argument("name", metavar="POD|KIND/NAME")
@click.option("-n", "--namespace", default="", help="Namespace (default: kubectl's current one).")
@click.option("-c", "--container", default="", help="Read only this container.")
@click.option("-p", "--previous", is_flag=True, help="Read the log before the last restart.")
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def command(context: click.Context, *, name: str, namespace: str, container: str, previous: bool,
            options: tuple[str, ...]) -> None:
    """Diagnose vLLM in a pod, or in the pods of a StatefulSet, Deployment, Job or LeaderWorkerSet.

    All containers are read as one incident. OPTIONS, after the name, are those of `vllm-doctor diagnose`.
    """
    argv = [f"--pod={namespace}/{name}" if namespace else f"--pod={name}"]
    argv += [f"--container={container}"] if container else []
    argv += ["--previous"] if previous else []
    typed = {option.partition("=")[0] for option in options}
    argv += [] if _WITHOUT_TOGETHER & typed else ["--together"]
    with diagnose.make_context("diagnose", [*argv, *options], parent=context.parent) as inner:
        diagnose.invoke(inner)


def main() -> None:
    """Run the plug-in."""
    from vllm_doctor.cli.root import main as run  # noqa: PLC0415 - which imports the commands

    run(["kubectl", *sys.argv[1:]])
