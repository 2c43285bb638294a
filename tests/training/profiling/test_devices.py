"""What the machine says of itself: a real process tree, and NVIDIA's library as a driver would answer."""

import os
import subprocess
import sys
from types import SimpleNamespace

from falaj.training.profiling.devices import Devices, Gpu, Processes, Sample, cpus_here


def _filling(code=0, **fields):
    def answer(card, asked):
        for name, number in fields.items():
            setattr(asked._obj, name, number)
        return code

    return answer


def _nvml(*, partition=False):
    """Answers as the driver's library does, by filling what it is pointed to."""
    library = SimpleNamespace(
        nvmlInit_v2=lambda: 0,
        nvmlDeviceGetHandleByUUID=lambda identity, card: 0 if identity.startswith(b"GPU-") else 6,
        nvmlDeviceGetUtilizationRates=_filling(3 if partition else 0, gpu=93),
        nvmlDeviceGetMemoryInfo=_filling(total=80 << 30, used=20 << 30),
        nvmlDeviceGetPowerUsage=_filling(value=694_035),
    )
    return {"libnvidia-ml.so.1": library}.__getitem__


def _no_library(name):
    raise OSError(name)


def test_a_gpu_tells_how_busy_full_and_hungry_it_is():
    gpu = Gpu("GPU-cd3b9582", _nvml())
    assert (gpu.busy(), gpu.memory(), gpu.watts()) == (0.93, 0.25, 694.035)


def test_what_a_partition_or_an_unknown_card_does_not_tell_is_not_known():
    assert (Gpu("GPU-1", _nvml(partition=True)).busy(), Gpu("GPU-1", _nvml(partition=True)).memory()) == (None, 0.25)
    assert Gpu("MIG-1", _nvml()).memory() is None


def test_without_a_driver_nothing_is_known_of_a_gpu():
    sample = Devices(Gpu("GPU-1", _no_library), Processes()).sample()
    assert (sample.gpu_busy, sample.gpu_memory, sample.gpu_watts) == (None, None, None)
    assert (sample.memory or 0) > 1 << 20


def test_the_cpu_time_of_loader_processes_counts_as_the_training_s_own():
    times = iter([0.0, 1.0])
    processes = Processes(root=os.getpid(), now=lambda: next(times))
    burn = "import time\nwhile time.process_time() < 0.3: pass\nprint(flush=True)\ninput()"
    with subprocess.Popen([sys.executable, "-c", burn], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        child.stdout.readline()
        sample = processes.sample()
        child.communicate("\n")
    assert sample.cpus_busy >= 0.25
    assert sample.memory > 1 << 20


def test_two_that_share_a_cpu_wait_for_it_half_of_the_time():
    processes = Processes(root=os.getpid())
    burn = "import os, time\nos.sched_setaffinity(0, [min(os.sched_getaffinity(0))])\n"
    burn += "print(flush=True)\nend = time.monotonic() + 0.6\nwhile time.monotonic() < end: pass\nprint(flush=True)\ninput()"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with (
        subprocess.Popen([sys.executable, "-c", burn], **pipes) as one,
        subprocess.Popen([sys.executable, "-c", burn], **pipes) as other,
    ):
        for child in (one, other, one, other):
            child.stdout.readline()
        sample = processes.sample()
        one.communicate("\n")
        other.communicate("\n")
    assert sample.cpus_awaited > 0.1


def test_where_there_is_no_proc_nothing_is_known(tmp_path):
    assert Devices(None, Processes(tmp_path)).sample() == Sample()


def test_the_cpus_of_a_job_are_those_it_was_given(tmp_path):
    quota = tmp_path / "cpu.max"
    cores = len(os.sched_getaffinity(0))
    assert cpus_here({}, quota) == cores
    quota.write_text("max 100000")
    assert cpus_here({"OMP_NUM_THREADS": "1"}, quota) == cores  # what somebody set for another reason
    assert cpus_here({"OMP_NUM_THREADS": "1", "FALAJ_JOB": "a"}, quota) == 1
    quota.write_text("150000 100000")
    assert cpus_here({}, quota) == 1
