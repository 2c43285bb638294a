"""Servers as processes: started on a core of their own, waited for, weighed, and stopped with all their children."""

import os
import resource
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psutil

SERVER_CORE, CLIENT_CORE = 0, 1
Family = Callable[[], list[psutil.Process]]


def family_of(process: psutil.Process) -> list[psutil.Process]:
    try:
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def marked(name: str, text: str) -> list[psutil.Process]:
    """Processes with this variable in their environment, which they were given or inherited."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(name) == text:
                found.append(process)
        except psutil.Error:
            continue
    return found


@contextmanager
def pinned(command: list[str], log: Path, environment: Mapping[str, str], folder: Path) -> Iterator[psutil.Process]:
    """Runs on the server's core, and ends with its children when the block does."""
    with log.open("wb") as output:
        started = subprocess.Popen(
            ["taskset", "-c", str(SERVER_CORE), *command],
            env=os.environ | environment,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        yield psutil.Process(started.pid)
    finally:
        if started.poll() is None:
            stop(family_of(psutil.Process(started.pid)))
        started.wait()


def stop(family: list[psutil.Process]) -> None:
    """Asked first, and killed where asking does not help."""
    for means, patience in ((signal.SIGTERM, 10), (signal.SIGKILL, 5)):
        for process in family:
            try:
                process.send_signal(means)
            except psutil.NoSuchProcess:
                continue
        _, family = psutil.wait_procs(family, timeout=patience)


def free_ports(count: int) -> int:
    """The first of so many free ports in a row."""
    for first in range(20_000 + os.getpid() % 10_000, 60_000, count):
        probes = [socket.socket() for _ in range(count)]
        try:
            for offset, probe in enumerate(probes):
                probe.bind(("127.0.0.1", first + offset))
        except OSError:
            continue
        else:
            return first
        finally:
            for probe in probes:
                probe.close()
    raise RuntimeError("no free ports")


def wait_until(answers: Callable[[], bool], process: psutil.Process, log: Path, patience: float = 90.0) -> None:
    deadline = time.monotonic() + patience
    while not answers():
        ended = not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
        if ended or time.monotonic() > deadline:
            said = log.read_text(errors="replace")[-1500:]
            raise RuntimeError(f"it {'ended while it started' if ended else 'did not start'}:\n{said}")
        time.sleep(0.05)


def cpu_seconds(family: Family) -> float:
    total = 0.0
    for process in family():
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
    return total


def busy_seconds() -> float:
    """What the whole machine spent, and what its host took from it."""
    times = psutil.cpu_times()
    return float(times.user + times.nice + times.system + times.irq + times.softirq + times.steal)


def children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def megabytes(family: Family) -> float:
    """Memory of all processes, each page shared between n of them counted as a part in n (PSS)."""
    total = 0
    for process in family():
        try:
            total += process.memory_full_info().pss
        except psutil.NoSuchProcess:
            continue
    return total / 1e6
