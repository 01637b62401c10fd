"""The options of `diagnose` that name logs which a host keeps."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import click

from vllm_doctor import hosts
from vllm_doctor.cli.diagnose_logs import HostLogs
from vllm_doctor.errors import InputError

F = TypeVar("F", bound=Callable[..., Any])
_OPTIONS = (
    click.option("--pod", "pods", multiple=True, metavar="[NAMESPACE/]POD",
                 help="The logs of a pod's containers, by kubectl; also [NAMESPACE/]statefulset/NAME; repeatable."),
    click.option("--container", default="", metavar="NAME", help="Only this container of --pod."),
    click.option("--previous", is_flag=True, help="With --pod, the log before the last restart."),
    click.option("--docker", "containers", multiple=True, metavar="NAME",
                 help="The log of a container, by docker or podman; repeatable."),
    click.option("--journal", "units", multiple=True, metavar="UNIT",
                 help="The log of a systemd unit since the last boot, by journalctl; repeatable."),
    click.option("--slurm", "jobs", multiple=True, metavar="JOBID",
                 help="The output files of a Slurm job, by scontrol; repeatable."),
)


def from_hosts(function: F) -> F:
    """Add the options."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def host_logs(values: dict[str, Any]) -> tuple[HostLogs, ...]:
    """Take the options out of `values`; return the logs they name, not read yet. Raises InputError."""
    pods, container, previous = values.pop("pods"), values.pop("container"), values.pop("previous")
    if (container or previous) and not pods:
        raise InputError("--container and --previous belong to --pod [NAMESPACE/]POD")
    made = [HostLogs(f"--pod {pod}", partial(hosts.pod_logs, pod, container, previous=previous)) for pod in pods]
    for option, key, read in (("--docker", "containers", hosts.container_logs), ("--journal", "units", hosts.unit_logs),
                              ("--slurm", "jobs", hosts.job_logs)):
        made += [HostLogs(f"{option} {name}", partial(read, name)) for name in values.pop(key)]
    return tuple(made)
