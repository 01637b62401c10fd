"""`kubectl vllm-doctor POD`: a plug-in of kubectl, which finds it by the name of its script, `kubectl-vllm_doctor`."""

from __future__ import annotations

import click

from vllm_doctor.cli.root import main as run

_MORE_THAN_A_REPORT = {"--against", "--run", "--why"}
"""Options of `diagnose` that --together contradicts."""


@click.command("kubectl vllm-doctor", context_settings={"ignore_unknown_options": True,
                                                        "help_option_names": ["-h", "--help"]})
@click.argument("name", metavar="POD|KIND/NAME")
@click.option("-n", "--namespace", default="", help="The namespace (default: the current one).")
@click.option("-c", "--container", default="", help="Only this container.")
@click.option("-p", "--previous", is_flag=True, help="The log before the last restart.")
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
def command(name: str, namespace: str, container: str, previous: bool, options: tuple[str, ...]) -> None:
    """Say why vLLM failed in a pod, or in the pods of a StatefulSet, Deployment, Job or LeaderWorkerSet.

    All containers are read as one incident. OPTIONS are those of `vllm-doctor diagnose`.
    """
    place = f"{namespace}/{name}" if namespace else name
    argv = ["diagnose", f"--pod={place}", *([f"--container={container}"] if container else []),
            *(["--previous"] if previous else [])]
    run([*argv, *([] if _MORE_THAN_A_REPORT.intersection(options) else ["--together"]), *options])


def main() -> None:
    """Run the plug-in."""
    command(prog_name="kubectl vllm-doctor")
