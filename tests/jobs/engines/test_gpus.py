"""Cards as NVIDIA's programs describe them: here programs that say what real ones say."""

import os
import time
from pathlib import Path

import pytest

from falaj.jobs.engines.engine import CardUse, Environment, Launch, Limits, MeasuresCards
from falaj.jobs.engines.local import LocalEngine
from falaj.jobs.engines.local_orders import Site
from falaj.jobs.running import gpus, mps
from falaj.jobs.running.gpus import Card, State, Watched, model_of, read_cards, read_processes, read_states
from falaj.jobs.running.orders import Part
from falaj.jobs.scheduler.values import Seat, Shape
from falaj.runtimes.processes import tree
from tests.jobs.engines.local import ended, logged, wait_for

FIRST, SECOND = "GPU-11111111-aaaa-bbbb-cccc-000000000001", "GPU-22222222-aaaa-bbbb-cccc-000000000002"
SLICE = "MIG-33333333-aaaa-bbbb-cccc-000000000003"
LISTED = f"""GPU 0: NVIDIA H100 80GB HBM3 (UUID: {FIRST})
GPU 1: NVIDIA H100 80GB HBM3 (UUID: {SECOND})
  MIG 1g.10gb     Device  0: (UUID: {SLICE})
  MIG 3g.40gb     Device  1: (UUID: MIG-44444444-aaaa-bbbb-cccc-000000000004)
"""
ABOUT = f"{FIRST}, 81559, 0\n{SECOND}, 81559, 1\n"
OURS = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset")


def test_cards_and_their_slices_are_listed():
    assert read_cards(LISTED, ABOUT) == [
        Card(FIRST, "H100", 81559, ("/dev/nvidia0", *OURS)),
        Card(SLICE, "H100/1g.10gb", 10240, ("/dev/nvidia1", *OURS, "/dev/nvidia-caps")),
        Card("MIG-44444444-aaaa-bbbb-cccc-000000000004", "H100/3g.40gb", 40960, ("/dev/nvidia1", *OURS, "/dev/nvidia-caps")),
    ]


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA H200", "H200"),
        ("NVIDIA A100-SXM4-80GB", "A100"),
        ("Tesla V100-SXM2-16GB", "V100"),
        ("NVIDIA GeForce RTX 4090", "RTX 4090"),
        ("NVIDIA RTX 6000 Ada Generation", "RTX 6000 Ada"),
        ("NVIDIA L40S", "L40S"),
        ("Quadro RTX 8000", "RTX 8000"),
    ],
)
def test_models_are_called_as_people_call_them(name, model):
    assert model_of(name) == model


def test_what_a_card_does_not_tell_is_nothing():
    text = f"{FIRST}, 37, 312.45, 1024, 81559\n{SECOND}, [N/A], [Unknown Error], [N/A], [N/A]\n"
    assert read_states(text) == {FIRST: State(37, 312.45, 1024, 81559), SECOND: State(None, 0, 0, 0)}
    assert read_processes(f"{FIRST}, 4242, 40000\n{FIRST}, 7, [N/A]\n{SECOND}, [N/A], 1\n") == [
        (FIRST, 4242, 40000),
        (FIRST, 7, 0),
    ]


@pytest.fixture
def host(tmp_path, monkeypatch):
    """A host with the cards above: `nvidia-smi` reads what it says from files, and a daemon notes how it was started."""
    said = tmp_path / "said"
    said.mkdir()
    (said / "list").write_text(f"GPU 0: NVIDIA H100 80GB HBM3 (UUID: {FIRST})\n")
    (said / "gpu").write_text(f"{FIRST}, 81559, 0\n")
    (said / "states").write_text(f"{FIRST}, 50, 300.0, 40000, 81559\n")
    (said / "apps").write_text("")
    programs = tmp_path / "bin"
    programs.mkdir()
    smi = f"""#!/bin/sh
case "$*" in
  -L) cat {said}/list;;
  *utilization*) cat {said}/states;;
  *memory.total*) cat {said}/gpu;;
  *compute-apps*) cat {said}/apps;;
esac
"""
    daemon = f"""#!/bin/sh
env | grep CUDA > {said}/daemon
"""
    for name, script in {"nvidia-smi": smi, "nvidia-cuda-mps-control": daemon}.items():
        (programs / name).write_text(script)
        (programs / name).chmod(0o755)
    (said / "daemon").touch()
    (said / "daemon").chmod(0o666)
    for folder in (tmp_path, *tmp_path.parents):
        if not folder.stat().st_mode & 0o001:
            folder.chmod(folder.stat().st_mode | 0o011)  # the daemon is run as a user of its own
    monkeypatch.setattr(mps, "_runtime_folder", lambda: said)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    return said


def part(milli, **changes):
    return Part(
        **{
            "id": FIRST,
            "number": 0,
            "milli": milli,
            "memory_mib": 81559 * milli // 1000,
            "tasks": 1,
            "nodes": ("/dev/nvidia0",),
        }
        | changes
    )


def test_whoever_holds_more_memory_than_its_part_is_told(host, monkeypatch):
    monkeypatch.setattr(gpus, "_PAUSE", 0.01)
    (host / "apps").write_text(f"{FIRST}, 11, 30000\n{FIRST}, 12, 9000\n{FIRST}, 99, 42000\n")
    watched = Watched((part(500),))
    wait_for(lambda: watched._asking.processes)
    assert watched.look([11, 12], 1.0) == ""
    assert "42000 MiB of card 0, of which it has 40779 MiB" in watched.look([99], 1.0)
    watched.close()
    assert watched.held_seconds == 1.0
    assert watched.busy_seconds == 1.0
    assert watched.joules == 300.0
    assert watched.memory_mib == 42000
    assert watched.is_measured


def test_a_whole_card_may_be_filled(host, monkeypatch):
    monkeypatch.setattr(gpus, "_PAUSE", 0.01)
    (host / "apps").write_text(f"{FIRST}, 11, 81000\n")
    watched = Watched((part(1000),))
    wait_for(lambda: watched._asking.processes)
    assert watched.look([11], 2.0) == ""
    watched.close()
    assert (watched.held_seconds, watched.busy_seconds) == (2.0, 1.0)


def test_without_cards_nothing_is_asked():
    watched = Watched(())
    assert (watched.look([1], 1.0), watched.devices, watched.variables(()), watched.is_measured) == ("", (), {}, True)


def test_a_host_says_what_its_cards_do(host, tmp_path):
    engine = LocalEngine(tmp_path / "jobs", Site(zone="here"))
    (node,) = engine.nodes()
    assert isinstance(engine, MeasuresCards)
    assert list(engine.cards()) == [node.name]
    told = wait_for(lambda: engine.cards()[node.name][0])
    assert told == CardUse(busy=0.5, memory_mib=81559, memory_used_mib=40000)
    (host / "states").write_text(f"{FIRST}, [N/A], 300.0, 40000, 81559\n")
    engine.close()
    other = LocalEngine(tmp_path / "jobs", Site(zone="here"))
    assert wait_for(lambda: other.cards() and other._asking.states)
    assert other.cards() == {node.name: [None]}
    other.close()


def half(engine, script):
    launch = Launch(
        attempt=os.urandom(8).hex(),
        job="job",
        project="project",
        name="half a card",
        command=("sh", "-c", script),
        shape=Shape(cpu_milli=500, memory_mib=128, gpus=1, gpu_milli=500),
        seats=(Seat(node="here", cards=(0,)),),
        environment=Environment(),
        limits=Limits(seconds=60),
        variables={},
    )
    engine.start(launch)
    return launch.attempt


def test_a_part_of_a_card_is_given_through_mps(host, tmp_path):
    engine = LocalEngine(tmp_path / "jobs", Site(zone="here"))
    (node,) = engine.nodes()
    assert (node.cards, node.sharing) == (("H100",), ("whole", "mps", "time"))
    attempt = half(engine, "env | grep CUDA | sort; ls -d /falaj/mps/0")
    end = ended(engine, attempt)
    assert end.cause == "done", (end, logged(engine, attempt))
    assert logged(engine, attempt).split() == [
        "CUDA_DEVICE_ORDER=PCI_BUS_ID",
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=50",
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=40779M",
        "CUDA_MPS_PIPE_DIRECTORY=/falaj/mps/0",
        f"CUDA_VISIBLE_DEVICES={FIRST}",
        "/falaj/mps/0",
    ]
    assert f"CUDA_VISIBLE_DEVICES={FIRST}" in (host / "daemon").read_text()
    assert end.used.gpu_seconds >= 0


def test_a_job_that_takes_more_of_a_card_than_its_part_is_ended_and_the_other_goes_on(host, tmp_path):
    engine = LocalEngine(tmp_path / "jobs", Site(zone="here"))
    greedy, modest = (half(engine, "echo ready; sleep 60") for _ in range(2))
    for attempt in (greedy, modest):
        wait_for(lambda attempt=attempt: "ready" in logged(engine, attempt))
    pids = {}
    for process in Path("/proc").iterdir():
        if process.name.isdigit() and (cmdline := _cmdline(process)) and str(tmp_path) in cmdline and "keeper" in cmdline:
            pids[cmdline.split("\0")[-2].rpartition("/")[2]] = gpus_pid(int(process.name))
    (host / "apps").write_text(f"{FIRST}, {pids[greedy]}, 73000\n{FIRST}, {pids[modest]}, 8000\n")
    end = ended(engine, greedy)
    assert end.cause == "memory"
    assert "card 0" in end.words
    time.sleep(0.1)
    assert [one.state for one in engine.look() if one.attempt == modest] == ["running"]
    engine.stop(modest, 0)
    used = ended(engine, modest).used
    assert used.gpu_seconds > 0


def _cmdline(process):
    try:
        return (process / "cmdline").read_text()
    except OSError:
        return ""


def gpus_pid(keeper):
    """The process of a job that would hold its memory: the last of its keeper's."""
    return tree(keeper)[-1]
