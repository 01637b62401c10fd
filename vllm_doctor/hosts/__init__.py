"""Logs that another program keeps: pods, containers, systemd units, Slurm jobs.

Each reader calls the client that the user already has (kubectl, docker or podman, journalctl, scontrol) with their own
rights, and adds what the host knows of the process's end as lines behind the log. Nothing goes through a shell.
"""

from vllm_doctor.hosts.containers import container_logs
from vllm_doctor.hosts.journal import unit_logs
from vllm_doctor.hosts.kubernetes import pod_logs
from vllm_doctor.hosts.slurm import job_logs

__all__ = ["container_logs", "job_logs", "pod_logs", "unit_logs"]
