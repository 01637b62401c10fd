"""Programs that start other programs, by name: what may stand before vLLM in a command."""

from __future__ import annotations

from vllm_doctor.text.patterns import lazy_pattern

_PYTHON = lazy_pattern(r"python[\d.]*", cues=("python",))

CONTAINERS = frozenset({"docker", "podman", "nerdctl"})
SHELLS = frozenset({"bash", "sh", "zsh", "dash", "ash"})
"""Programs that run the word behind their option -c."""
PRIVILEGED = frozenset({"sudo", "doas", "su", "runuser"})
REMOTE = frozenset({"ssh", "kubectl", "oc"})
CLEARS_ENVIRONMENT = PRIVILEGED | REMOTE
"""Programs that do not pass their environment on: `env NAME=value` goes in front of vLLM's program."""
LAUNCHERS = CONTAINERS | {
    "srun", "torchrun", "mpirun", "mpiexec", "numactl", "nohup", "time", "env", "exec", "uv", "uvx", "poetry", "pdm",
    "conda", "mamba", "micromamba", "pipenv", "pixi", "taskset", "nice", "ionice", "stdbuf", "unbuffer", "timeout",
    "setsid", "chrt", "singularity", "apptainer", "enroot", "accelerate", "ray", "nsys", "ncu", "py-spy", "command",
}  # fmt: skip
"""Programs that start the rest of their arguments, and stay in a corrected command."""
BEGINS_COMMAND = LAUNCHERS | PRIVILEGED | REMOTE | SHELLS | {
    "vllm", "eval", "export", "source", "cd", "set", "screen", "tmux",
}
"""First words of a command where no prompt shows that it is one."""


def is_python(name: str) -> bool:
    """Return whether a program's name is that of a Python interpreter."""
    return _PYTHON.fullmatch(name) is not None
