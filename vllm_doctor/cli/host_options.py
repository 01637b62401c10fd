"""The options of `diagnose` that name logs which a host keeps."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import click

from vllm_doctor import hosts
from vllm_doctor.cli.diagnose_logs import HostLogs
from vllm_doctor.cli.options import add_options
from vllm_doctor.errors import InputError

F = TypeVar("F", bound=Callable[..., Any])
_OPTIONS = (
    click.option("--pod", "pods", multiple=True, metavar="[NAMESPACE/]POD",
                 help="Read the logs of a pod, or of statefulset/NAME and the like, with kubectl; repeatable."),
    click.option("--container", default="", metavar="NAME", help="With --pod, read only this container."),
    click.option("--previous", is_flag=True, help="With --pod, read the log before the last restart."),
    click.option("--docker", "containers", multiple=True, metavar="NAME",
                 help="Read the log of a container with docker or podman; repeatable."),
    click.option("--journal", "units", multiple=True, metavar="UNIT",
                 help="Read the log of a systemd unit since the last boot with journalctl; repeatable."),
    click.option("--slurm", "jobs", multiple=True, metavar="JOBID",
                 help="Read the output files of a Slurm job, found with scontrol; repeatable."),
)


def from_hosts(function: F) -> F:
    """Add the options."""
    return add_options(_OPTIONS, function)


def host_logs(values: dict[str, Any]) -> tuple[HostLogs, ...]:
    """Take the options out of `values`; return the logs they name, not read yet. Raises InputError."""
    pods, container, previous = values.pop("pods"), values.pop("container"), values.pop("previous")
    if (container or previous) and not pods:
        raise InputError("--container and --previous belong to --pod [NAMESPACE/]POD")
    logs = [HostLogs(f"--pod {pod}", partial(hosts.pod_logs, pod, container, previous=previous)) for pod in pods]
    for option, key, read in (("--docker", "containers", hosts.container_logs), ("--journal", "units", hosts.unit_logs),
                              ("--slurm", "jobs", hosts.job_logs)):
        logs += [HostLogs(f"{option} {name}", partial(read, name)) for name in values.pop(key)]
    return tuple(logs)
