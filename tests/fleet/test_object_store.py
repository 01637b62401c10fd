"""Logs in an object store, read over S3: moto's server on 127.0.0.1 (`pip install s3fs 'moto[server]'`)."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec

import pytest
from fleet.test_fleet import HEALTHY, NO_CACHE

from vllm_doctor import fleet
from vllm_doctor.fleet.tables import start_rows

MISSING = [package for package in ("s3fs", "moto", "flask") if find_spec(package) is None]  # importing them takes seconds
pytestmark = [
    pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}"),
    pytest.mark.filterwarnings("ignore"),  # of the clients
]

SERVER = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
"""


@pytest.fixture
def bucket(monkeypatch):
    import fsspec

    with subprocess.Popen([sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True) as server:
        port = server.stdout.readline().strip()
        for name, value in {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}", "AWS_ACCESS_KEY_ID": "test",
                            "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1"}.items():
            monkeypatch.setenv(name, value)
        fsspec.get_filesystem_class("s3").clear_instance_cache()
        store = fsspec.filesystem("s3")
        store.mkdir("bucket")
        yield store
        server.stdin.close()


def test_logs_of_an_object_store_are_read_once(bucket, tmp_path):
    bucket.pipe("bucket/logs/host=n1/a.log", NO_CACHE.encode())
    bucket.pipe("bucket/logs/host=n2/b.log", HEALTHY.encode())
    bucket.pipe("bucket/logs/notes.yaml", b"no: log")
    out = tmp_path / "out"
    assert fleet.fleet(["s3://bucket/logs"], out=out).last_line() == (
        "2 logs (2 new), 2 starts, 1 failed, 1 causes, 0 unreadable")
    assert [(row["url"], row["host"], row["status"]) for row in start_rows(out)] == [
        ("s3://bucket/logs/host=n1/a.log", "n1", "failed"), ("s3://bucket/logs/host=n2/b.log", "n2", "serving")]
    assert fleet.fleet(["s3://bucket/logs"], out=out).new == 0
    bucket.pipe("bucket/logs/host=n2/b.log", HEALTHY.encode() + b"\n")
    bucket.pipe("bucket/logs/host=n3/c.log", NO_CACHE.encode())
    assert fleet.fleet(["s3://bucket/logs/**/*.log"], out=out).new == 2
    rows = fleet.rows("s3://bucket/logs/host=n1/a.log")
    assert (rows[0]["cause"], rows[0]["size"]) == ("budget-too-small-for-weights-and-activations", len(NO_CACHE))


def test_many_logs_of_an_object_store_are_read_by_a_pool(bucket):
    for number in range(6):
        bucket.pipe(f"bucket/{number}.log", NO_CACHE.encode())
    assert os.environ["AWS_ENDPOINT_URL"].startswith("http://127.0.0.1:")
    assert fleet.fleet(["s3://bucket"], engine=fleet.engines.local(2)).last_line() == (
        "6 logs (6 new), 6 starts, 6 failed, 1 causes, 0 unreadable")


def test_what_the_store_does_not_have_is_a_row(bucket):
    row, = fleet.rows("s3://bucket/none.log")
    assert row["problem"] == "no such file or directory"
