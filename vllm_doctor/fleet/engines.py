"""The engines that read many files: a pool of processes on this machine, and Ray.

Both get files in batches, send paths and never bytes, and yield the rows in the order of the files, so that the tables
do not depend on the engine, nor on the number of workers. Few batches wait at a time: memory does not grow with the
number of files.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from typing import Any, TypeVar

from vllm_doctor.errors import InputError
from vllm_doctor.fleet.model import LogFile, LogRows
from vllm_doctor.fleet.rows import Reading, read
from vllm_doctor.fleet.sources import is_remote

T = TypeVar("T")
Engine = Callable[[Sequence[LogFile], Reading], Iterator[LogRows]]
_BATCH = 16  # files of a task
_FEW = 4  # files that are read without a pool
_WAITING = 3  # tasks of each worker that are submitted
_DIED = "the process that read it died (out of memory?)"


def local(jobs: int | None = None) -> Engine:
    """Return the engine that reads with `jobs` processes of this machine, by default one for each CPU."""
    workers = jobs or _cpus()

    def run(files: Sequence[LogFile], reading: Reading) -> Iterator[LogRows]:
        if len(files) <= _FEW:
            yield from (read(file, reading) for file in files)
            return
        are_local = not any(is_remote(file.url) for file in files)
        batches = iter(_batches(files, _BATCH if len(files) > _BATCH * workers else 1))
        while True:  # once more for each process that died
            left = yield from _pool(batches, reading, min(workers, len(files)), are_local=are_local)
            if left is None:
                return
            for file in left:
                yield _alone(file, reading)

    return run


def _cpus() -> int:
    """Return how many CPUs this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _pool(batches: Iterator[Sequence[LogFile]], reading: Reading, workers: int, *, are_local: bool,
          ) -> Generator[LogRows, None, list[LogFile] | None]:
    """Yield the rows of the batches; return None, or the files that were being read when a process died."""
    with _processes(workers, are_local=are_local) as pool:
        waiting: deque[tuple[Sequence[LogFile], Future[list[LogRows]]]] = deque()
        taken: Sequence[LogFile] = ()  # a batch that is not submitted yet
        try:
            while True:
                for batch in islice(batches, workers * _WAITING - len(waiting)):
                    taken = batch
                    waiting.append((batch, pool.submit(_read_batch, batch, reading)))
                    taken = ()
                if not waiting:
                    return None
                yield from waiting[0][1].result()
                waiting.popleft()
        except BrokenProcessPool:
            return [file for batch in (*(batch for batch, _ in waiting), taken) for file in batch]
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _alone(file: LogFile, reading: Reading) -> LogRows:
    """Return the rows of a file read in a process of its own; the row of its problem if that dies too."""
    with _processes(1, are_local=not is_remote(file.url)) as pool:
        try:
            return pool.submit(_read_batch, [file], reading).result()[0]
        except BrokenProcessPool:
            return read(file._replace(problem=_DIED), reading)


def _processes(workers: int, *, are_local: bool) -> ProcessPoolExecutor:
    """Return a pool of processes: forks, except where a file system of fsspec has begun threads."""
    context = multiprocessing.get_context("fork" if are_local else "spawn")
    return ProcessPoolExecutor(workers, mp_context=context, initializer=_ignore_interrupts)


def _ignore_interrupts() -> None:
    """Leave Ctrl-C to the parent, which ends its workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def ray(address: str | None = None, jobs: int | None = None) -> Engine:
    """Return the engine that reads with Ray tasks: on the cluster at `address`, else on one started here.

    Raises InputError if Ray is not installed or cannot be reached.
    """
    try:
        module = importlib.import_module("ray")
    except ImportError as error:
        raise InputError("--engine ray needs the extra: pip install 'vllm-log-doctor[ray]'") from error

    def run(files: Sequence[LogFile], reading: Reading) -> Iterator[LogRows]:
        started = not module.is_initialized()
        if started:
            _connect(module, address, jobs)
        try:
            workers = jobs or max(1, int(module.cluster_resources().get("CPU", 1)))
            yield from _ray_tasks(module, files, reading, workers)
        finally:
            if started:
                module.shutdown()

    return run


def _connect(module: Any, address: str | None, jobs: int | None) -> None:
    try:
        module.init(address=address or "local", num_cpus=None if address else jobs, include_dashboard=False
                    if not address else None, log_to_driver=False, logging_level="ERROR", configure_logging=True)
    except Exception as error:
        raise InputError(f"Ray cannot be reached: {' '.join(str(error).split())[:300]}") from error


def _ray_tasks(module: Any, files: Sequence[LogFile], reading: Reading, workers: int) -> Iterator[LogRows]:
    task = module.remote(num_cpus=1, max_retries=1)(_read_batch)
    batches = iter(_batches(files, _BATCH if len(files) > _BATCH * workers else 1))
    waiting: deque[tuple[Sequence[LogFile], Any]] = deque()
    while True:
        for batch in islice(batches, workers * _WAITING - len(waiting)):
            waiting.append((batch, task.remote(batch, reading)))
        if not waiting:
            return
        files_of_task, result = waiting.popleft()
        try:
            yield from module.get(result)
        except module.exceptions.RayError:  # its process died: each file by itself
            yield from (_ray_alone(module, task, file, reading) for file in files_of_task)


def _ray_alone(module: Any, task: Any, file: LogFile, reading: Reading) -> LogRows:
    try:
        rows: list[LogRows] = module.get(task.remote([file], reading))
        return rows[0]
    except module.exceptions.RayError:
        return read(file._replace(problem=_DIED), reading)


def _read_batch(files: Sequence[LogFile], reading: Reading) -> list[LogRows]:
    return [read(file, reading) for file in files]


def _batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch
