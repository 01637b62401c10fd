"""The labels of a log (host, service, job), read from its path.

Paths of the form `host=…/service=…`, of Kubernetes (`/var/log/pods/NAMESPACE_POD_UID/CONTAINER/0.log`) and of Slurm
(`slurm-4711.out`) are known; a part such as `node3`, `gpu-12` or `ip-10-0-0-7` is taken for the host.
"""

from __future__ import annotations

import re

from vllm_doctor.errors import InputError

LABELS = ("host", "service", "job")
_NAMED = {label: re.compile(rf"(?:^|[/_,&?]){label}=(?P<{label}>[^/,&?]+?)(?=\.\w{{2,5}}(?:\.\w{{2,4}})?$|[/,&?]|$)")
          for label in LABELS}
_KNOWN = (
    re.compile(r"/pods/[^/_]+_(?P<job>[^/_]+)_[^/]+/(?P<service>[^/]+)/"),
    re.compile(r"/containers/(?P<job>[^/_]+)_[^/_]+_(?P<service>[^/]+)-[0-9a-f]{12,64}\.log"),
    re.compile(r"(?:^|[/_.-])slurm[-_](?P<job>\d+(?:_\d+)?)"),
    re.compile(r"(?:^|[/_.-])(?P<job>(?:job|run|task|build|attempt)[-_]?\d[\w-]*)", re.IGNORECASE),
    re.compile(r"(?:^|[/_.-])(?P<host>(?:host|node|worker|gpu|server|machine|srv|rack)(?:[-_]?[a-z]{0,8})?[-_]?"
               r"(?!(?:19|20)\d\d-\d\d(?!\d)|\d+gi?b\b)\d[\w-]*?"
               r"|ip-\d+-\d+-\d+-\d+)(?=[/_]|\.(?!\d{1,2}\.\d)|$)", re.IGNORECASE),
    re.compile(r"(?:^|/)(?P<service>(?:svc|service|deploy|deployment|app|endpoint)[-_][\w-]+)/"),
)


def compile_label(pattern: str) -> re.Pattern[str]:
    """Return the expression of `--label`. Raises InputError if it is none, or names no label."""
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise InputError(f"--label {pattern}: {error}") from error
    if not set(compiled.groupindex) & set(LABELS):
        raise InputError(f"--label {pattern}: name a group host, service or job, as in (?P<host>[^/]+)")
    return compiled


def labels_of(url: str, pattern: re.Pattern[str] | None = None) -> dict[str, str | None]:
    """Return host, service and job of a log; `pattern` goes before the known forms."""
    found: dict[str, str | None] = dict.fromkeys(LABELS)
    for one in (*([pattern] if pattern else ()), *_NAMED.values(), *_KNOWN):
        match = one.search(url)
        for label, value in (match.groupdict() if match else {}).items():
            if label in found and found[label] is None and value:
                found[label] = value
    return found
