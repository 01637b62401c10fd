"""Write the archive and the manifest with which krew installs `kubectl vllm-doctor` from a release.

    python tools/krew_plugin.py FOLDER --repository OWNER/NAME --tag v0.1.0

The archive holds a script that starts vllm-doctor where pip put it: krew installs single files, and no Python packages.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import sys
import tarfile
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
PLUGIN = "vllm-doctor"  # the manifest's name; krew makes the link kubectl-vllm_doctor of it
SCRIPT_NAME = "kubectl-vllm_doctor"
ARCHIVE = f"{SCRIPT_NAME}.tar.gz"
SCRIPT = b"""#!/bin/sh
command -v vllm-doctor > /dev/null || {
  echo "kubectl vllm-doctor: the command vllm-doctor is not in PATH (kubectl krew info vllm-doctor)" >&2
  exit 127
}
exec vllm-doctor kubectl "$@"
"""


def main() -> int:
    """Write both files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--repository", required=True, metavar="OWNER/NAME")
    parser.add_argument("--tag", required=True)
    values = parser.parse_args()
    values.folder.mkdir(parents=True, exist_ok=True)
    data = archive()
    (values.folder / ARCHIVE).write_bytes(data)
    text = yaml.safe_dump(manifest(data, values.repository, values.tag), sort_keys=False, width=120)
    (values.folder / f"{PLUGIN}.yaml").write_text(text, encoding="utf-8")
    return 0


def archive() -> bytes:
    """Return the archive; the same files give the same bytes."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for name, mode, data in ((SCRIPT_NAME, 0o755, SCRIPT), ("LICENSE", 0o644, (ROOT / "LICENSE").read_bytes())):
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(data), mode
            tar.addfile(info, io.BytesIO(data))
    return gzip.compress(made.getvalue(), mtime=0)


def manifest(data: bytes, repository: str, tag: str) -> dict[str, Any]:
    """Return krew's manifest for the archive."""
    home = f"https://github.com/{repository}"
    return {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": PLUGIN},
        "spec": {
            "version": tag,
            "homepage": home,
            "shortDescription": "Says why a vLLM server failed",
            "description": "Reads the logs of a pod's containers, or of all pods of a StatefulSet, and how they ended,\n"
                           "and says why vLLM failed, what to change and by how much.\n",
            "caveats": f"Needs Python 3.10 or newer and the command vllm-doctor:\n\n    pipx install git+{home}@{tag}\n",
            "platforms": [{
                "selector": {"matchExpressions": [{"key": "os", "operator": "In", "values": ["linux", "darwin"]}]},
                "uri": f"{home}/releases/download/{tag}/{ARCHIVE}",
                "sha256": hashlib.sha256(data).hexdigest(),
                "bin": SCRIPT_NAME,
            }],
        },
    }


if __name__ == "__main__":
    sys.exit(main())
