"""Ray reads the same rows as the local pool: needs the extra [ray], starts a Ray of its own on this machine."""

from __future__ import annotations

import gzip
import importlib.util
import io
import tarfile
import zipfile

import pytest
from fleet.test_fleet import HEALTHY, NO_CACHE, UNKNOWN

from vllm_doctor import fleet
from vllm_doctor.errors import InputError
from vllm_doctor.fleet import engines

needs_ray = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="the extra [ray] is not installed")


def cut_tar() -> bytes:
    """Return an archive of two logs that ends within the second."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name, text in (("a.log", NO_CACHE), ("b.log", UNKNOWN.format(n=7) * 20)):
            member = tarfile.TarInfo(name)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    return gzip.compress(stream.getvalue()[:3000])


@needs_ray
@pytest.mark.filterwarnings("ignore")  # Ray's own
def test_ray_reads_the_rows_of_the_local_pool(tmp_path):
    logs = tmp_path / "logs"
    logs.mkdir()
    for number in range(6):
        (logs / f"{number}.log").write_text((NO_CACHE, HEALTHY, UNKNOWN.format(n=number))[number % 3])
    (logs / "cut.log.gz").write_bytes(gzip.compress(NO_CACHE.encode())[:-9])
    (logs / "cut.tar.gz").write_bytes(cut_tar())
    with zipfile.ZipFile(logs / "whole.zip", "w") as archive:
        archive.writestr("a.log", NO_CACHE)
        archive.writestr("b.log", HEALTHY)
    (logs / "cut.zip").write_bytes((logs / "whole.zip").read_bytes()[:-30])
    (logs / "bad.log.gz").write_bytes(b"\x1f\x8b\x08")
    fleet.fleet([str(logs)], out=tmp_path / "local", engine=engines.local(1))
    summary = fleet.fleet([str(logs)], out=tmp_path / "ray", engine=engines.ray(jobs=1))
    assert summary.last_line() == "13 logs (13 new), 15 starts, 11 failed, 2 causes, 2 unreadable"
    for name in ("starts.jsonl", "findings.jsonl"):
        assert (tmp_path / "ray" / name).read_bytes() == (tmp_path / "local" / name).read_bytes()


def test_without_ray_the_extra_is_named(monkeypatch):
    def import_module(name):
        raise ImportError(name)

    monkeypatch.setattr(engines.importlib, "import_module", import_module)
    with pytest.raises(InputError, match=r"pip install 'vllm-log-doctor\[ray\]'"):
        engines.ray()


@needs_ray
@pytest.mark.filterwarnings("ignore")  # Ray's own
def test_ray_reads_on_the_cluster_at_an_address(tmp_path):
    from ray.cluster_utils import Cluster

    (tmp_path / "a.log").write_text(NO_CACHE)
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        summary = fleet.fleet([str(tmp_path)], engine=engines.ray(cluster.address))
    finally:
        cluster.shutdown()
    assert summary.last_line() == "1 logs (1 new), 1 starts, 1 failed, 1 causes, 0 unreadable"
