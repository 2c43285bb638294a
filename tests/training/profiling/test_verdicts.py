"""What measurements mean, on cases as they are met."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from falaj.training.profiling.verdicts import BOUNDS, Measured, Setting, judge


def _measured(seconds=0.1, **more):
    shares = {"compute": 1.0} if not (given := more.pop("shares", None)) else given
    return Measured(steps=100, seconds=seconds, shares=shares, **more)


GPU = {"kind": "cuda", "threads": 8, "parameters": 124_000_000, "batch": 32, "precision": "bfloat16"}

CASES = {
    "two workers where six are needed, on a job of three CPUs": (
        _measured(shares={"data": 0.63, "compute": 0.37}, gpu_busy=0.35),
        Setting(**GPU, cpus=3, workers=2),
        "input-bound: 63 % of each step waits for data; 2 loader workers, 6 would hide it",
        {},
        {"cpus": 7},
    ),
    "the same with CPUs to spare": (
        _measured(shares={"data": 0.63, "compute": 0.37}),
        Setting(**GPU, cpus=16, workers=2),
        "input-bound: 63 % of each step waits for data; 2 loader workers, 6 would hide it",
        {"loader_workers": 6},
        {},
    ),
    "loading in the training's own process": (
        _measured(shares={"data": 0.5, "compute": 0.5}),
        Setting(**GPU, cpus=16, workers=0),
        "input-bound: 50 % of each step waits for data; no loader workers, 2 would hide it",
        {"loader_workers": 2},
        {},
    ),
    "loading that takes less than to hand a batch over": (
        _measured(seconds=0.001, shares={"data": 0.5, "compute": 0.5}),
        Setting(kind="cpu", cpus=2, threads=2, workers=0),
        (
            "input-bound: 50 % of each step waits for data; 0.5 ms a batch, which loader workers would not hand over sooner: "
            "larger batches would help"
        ),
        {},
        {},
    ),
    "workers that wait for a network need no CPU each": (
        _measured(shares={"data": 0.8, "compute": 0.2}, cpus_busy=0.4),
        Setting(kind="cpu", cpus=2, threads=2, workers=1),
        "input-bound: 80 % of each step waits for data; 1 loader worker, 6 would hide it",
        {"loader_workers": 6},
        {},
    ),
    "loading and computing that take turns on one CPU": (
        _measured(shares={"data": 0.66, "compute": 0.34}, cpus_busy=1.0),
        Setting(kind="cpu", cpus=1, threads=1, workers=1),
        "input-bound: 66 % of each step waits for data; 1 loader worker, 4 would hide it",
        {},
        {"cpus": 3},
    ),
    "two processes on each of two machines": (
        _measured(shares={"data": 0.5, "compute": 0.5}, cpus_busy=1.4),
        Setting(**GPU, cpus=2, workers=1, processes=4, together=2),
        "input-bound: 50 % of each step waits for data; 1 loader worker, 3 would hide it",
        {"loader_workers": 2},
        {"cpus": 6},
    ),
    "a stream": (
        _measured(shares={"data": 0.5, "compute": 0.5}),
        Setting(**GPU, cpus=16, workers=1, stream=True),
        (
            "input-bound: 50 % of each step waits for data; 1 loader worker, 3 would hide it. The dataset is a stream, which "
            "has to be dealt out to them: set num_workers yourself"
        ),
        {},
        {},
    ),
    "a generator": (
        _measured(shares={"data": 0.5, "compute": 0.5}),
        Setting(**GPU, cpus=16),
        (
            "input-bound: 50 % of each step waits for data; its loader has no processes to give it more of: torch's DataLoader "
            "with workers would load beside the training"
        ),
        {},
        {},
    ),
    "pageable memory": (
        _measured(shares={"transfer": 0.3, "compute": 0.7}),
        Setting(**GPU, cpus=8, workers=4),
        (
            "transfer-bound: 30 % of each step waits for its batch to reach the GPU; with pin_memory the loader lays it where "
            "the GPU can fetch it by itself"
        ),
        {"pin_memory": 1},
        {},
    ),
    "gradients over a slow network": (
        _measured(shares={"communication": 0.4, "compute": 0.6}),
        Setting(**GPU, cpus=8, processes=4),
        (
            "communication-bound: 40 % of each step averages gradients among 4 processes; 6 times the rows a step would make "
            "that 10 % (192 for 32 in each process)"
        ),
        {},
        {},
    ),
    "an evaluation at every step": (
        _measured(seconds=0.02, shares={"other": 0.5, "compute": 0.5}),
        Setting(**GPU, cpus=8),
        (
            "loop-bound: 50 % of the time, 10.0 ms a step, goes by outside of the steps: evaluations, printing, or a loader "
            "that is not read through session.batches"
        ),
        {},
        {},
    ),
    "small batches": (
        _measured(shares={"compute": 0.9, "optimiser": 0.1}, gpu_busy=0.3, gpu_memory=0.1, flops=1e13),
        Setting(**GPU, cpus=8),
        (
            "small batches: the GPU is busy for 30 % of the time, the program needs the rest to keep it so; batches of 104 "
            "rows for 32 would fill it"
        ),
        {},
        {},
    ),
    "a micro batch that was halved too often": (
        _measured(shares={"compute": 1.0}, gpu_busy=0.5, gpu_memory=0.4, flops=1e13),
        Setting(**(GPU | {"batch": 64}), cpus=8, micro=16),
        (
            "small batches: the GPU is busy for 50 % of the time, the program needs the rest to keep it so; 32 rows at a time "
            "for 16 would fill it"
        ),
        {"micro_batch": 32},
        {},
    ),
    "a small network on a GPU": (
        _measured(seconds=0.0035, shares={"compute": 0.9, "other": 0.1}, gpu_busy=0.05, flops=7_090_176.0),
        Setting(kind="cuda", cpus=16, threads=16, parameters=37_441, batch=32),
        (
            "GPU not needed: a step is 0.0071 GFLOP and takes 3.5 ms here; 16 CPUs would do it in about 0.1 ms: it would run "
            "as fast on CPUs"
        ),
        {},
        {"gpus": 0},
    ),
    "a GPU at work": (
        _measured(seconds=0.0567, shares={"compute": 0.84, "optimiser": 0.16}, gpu_busy=1.0, flops=2.64e13, of_peak=0.47),
        Setting(**GPU, cpus=16, workers=4),
        "compute-bound: 84 % of each step computes, at 47 % of the GPU's peak: well used",
        {},
        {},
    ),
    "a GPU that torch does not see": (
        _measured(cpus_busy=1.0),
        Setting(cpus=2, threads=2, idle_gpu=True),
        "GPU not used: the job has one, and torch computes on CPUs; without one it would run as fast",
        {},
        {"gpus": 0},
    ),
    "loader processes that wait for a CPU more than they have one": (
        _measured(shares={"data": 0.5, "compute": 0.5}, cpus_busy=0.3, cpus_awaited=1.2),
        Setting(kind="cpu", cpus=1, threads=1, workers=2),
        "input-bound: 50 % of each step waits for data; 2 loader workers, 5 would hide it",
        {},
        {"cpus": 3},
    ),
    "more threads than CPUs": (
        _measured(cpus_busy=2.0),
        Setting(cpus=2, threads=64),
        "too many threads: 64 on 2 CPUs wait for one another; 2 would not",
        {"threads": 2},
        {},
    ),
    "CPUs that nobody uses": (
        _measured(cpus_busy=1.1),
        Setting(cpus=8, threads=8, parameters=1000, batch=8),
        "compute-bound: 100 % of each step computes, on 1.1 of 8 CPUs; 2 CPUs would do",
        {},
        {"cpus": 2},
    ),
    "a large model on CPUs": (
        _measured(seconds=30.0, cpus_busy=7.9),
        Setting(cpus=8, threads=8, parameters=124_000_000, batch=8192),
        "compute-bound: 100 % of each step computes, on 7.9 of 8 CPUs; a GPU would be many times as fast",
        {},
        {"gpus": 1},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_verdict_has_its_numbers_and_what_to_change(case):
    measured, setting, says, changes, ask = CASES[case]
    first = judge(measured, setting)[0]
    assert (first.says, dict(first.changes), dict(first.ask)) == (says, changes, ask)


def test_what_costs_most_comes_first():
    measured = _measured(shares={"data": 0.2, "other": 0.3, "compute": 0.5})
    assert [one.kind for one in judge(measured, Setting(**GPU, cpus=8, workers=1))] == ["loop-bound", "input-bound"]


def test_a_full_memory_is_said_beside_what_the_training_is_bound_by():
    found = judge(_measured(gpu_busy=1.0, gpu_memory=0.95, flops=1e15), Setting(**GPU, cpus=8))
    assert [one.kind for one in found] == ["compute-bound", "memory-full"]
    assert "95 %" in found[1].says


@given(
    share=st.floats(0.1, 0.999),
    workers=st.integers(0, 60),
    cpus=st.integers(1, 128),
    threads=st.integers(1, 16),
    busy=st.none() | st.floats(0.0, 200.0),
    kind=st.sampled_from(["cpu", "cuda"]),
)
def test_workers_asked_for_are_more_than_there_are_and_within_bounds(share, workers, cpus, threads, busy, kind):
    measured = _measured(shares={"data": share, "compute": 1 - share}, cpus_busy=busy)
    found = next(
        one
        for one in judge(measured, Setting(kind=kind, cpus=cpus, threads=threads, workers=workers))
        if one.kind == "input-bound"
    )
    for name, number in found.changes.items():
        least, most = BOUNDS[name]
        assert max(least, workers + 1) <= number <= most


@given(work=st.floats(0.001, 1.0), computing=st.floats(0.01, 0.5), workers=st.integers(1, 8))
def test_as_many_workers_as_are_asked_for_do_hide_the_loading(work, computing, workers):
    """Of a loader that takes `work` seconds for a batch in one process, for steps that compute for `computing` seconds."""
    step = max(computing, work / workers)
    share = (step - computing) / step
    found = [
        one
        for one in judge(
            _measured(step, shares={"data": share, "compute": 1 - share}), Setting(**GPU, cpus=100, workers=workers)
        )
        if one.kind == "input-bound"
    ]
    if share < 0.1:
        assert not found
    elif found[0].changes["loader_workers"] < BOUNDS["loader_workers"][1]:
        assert work / found[0].changes["loader_workers"] <= computing * 1.0001
