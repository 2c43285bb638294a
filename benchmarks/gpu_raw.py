"""What torch does by itself: a network at each batch size, eager and compiled, with and without copies to the device."""

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from gpu_networks import Network

from falaj.base.values import value


@value
class Raw:
    """Rows per second of one way to run the network; `copied` is 0.0 where it was not measured."""

    way: str
    size: int
    rows_s: float
    copied_rows_s: float = 0.0


def per_second(step: Callable[[], object], size: int, seconds: float, wait: Callable[[], object]) -> float:
    """Rows; as many steps as fit, one after the other, waited for at the end."""

    def timed(steps: int) -> float:
        started = time.perf_counter()
        for _ in range(steps):
            step()
        wait()
        return time.perf_counter() - started

    timed(2)
    steps = max(3, int(seconds / (timed(3) / 3)))
    return steps * size / timed(steps)


class Replayed:
    """A captured run of the module, with two sets of memory, so that one can be filled while the other is computed with."""

    def __init__(self, module: Callable[..., Any], rows: Callable[[], list[torch.Tensor]], *, open_rows: bool) -> None:
        self._host = [[one.pin_memory() for one in rows()] for _ in range(2)]
        self._given = [[one.cuda() for one in host] for host in self._host]
        self._graphs, self._made, self._answers = [], [], []
        for given in self._given:
            for one in given if open_rows else ():
                torch._dynamo.mark_dynamic(one, 0)
            graph, made = self._captured(module, given)
            self._graphs.append(graph)
            self._made.append(made)
            self._answers.append(torch.empty(made.shape, dtype=made.dtype, pin_memory=True))
        self._copies = torch.cuda.Stream()
        self._filled, self._used = [torch.cuda.Event() for _ in range(2)], [torch.cuda.Event() for _ in range(2)]
        self._turn = 0

    @staticmethod
    def _captured(module: Callable[..., Any], given: list[torch.Tensor]) -> tuple[torch.cuda.CUDAGraph, torch.Tensor]:
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(3):
                module(*given)
        torch.cuda.current_stream().wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            made = module(*given)["scores"]
        return graph, made

    def on_device(self) -> None:
        self._graphs[0].replay()

    def with_copies(self) -> None:
        """Inputs go in and answers come out on a second stream, while the other set is computed with."""
        turn = self._turn = 1 - self._turn
        with torch.cuda.stream(self._copies):
            self._copies.wait_event(self._used[turn])
            self._answers[turn].copy_(self._made[turn], non_blocking=True)  # of its last run
            for given, host in zip(self._given[turn], self._host[turn], strict=True):
                given.copy_(host, non_blocking=True)
            self._filled[turn].record()
        torch.cuda.current_stream().wait_event(self._filled[turn])
        self._graphs[turn].replay()
        self._used[turn].record()


def raw_on_gpu(network: Network, sizes: Sequence[int], seconds: float) -> list[Raw]:
    """Every size eager and compiled for any size; the two best also compiled for that size alone."""
    module, found = network.module().cuda(), list[Raw]()

    def measure(way: str, run: Callable[..., Any], size: int, *, open_rows: bool = False) -> None:
        with torch.no_grad():
            replayed = Replayed(run, lambda: network.rows(size), open_rows=open_rows)
            rate = per_second(replayed.on_device, size, seconds, torch.cuda.synchronize)
            copied = per_second(replayed.with_copies, size, seconds, torch.cuda.synchronize)
        found.append(Raw(way=way, size=size, rows_s=rate, copied_rows_s=copied))

    for size in sizes:
        measure("eager", module, size)
    compiled = torch.compile(module)
    for size in [one for one in sizes if one > 1][::-1]:
        measure("compiled", compiled, size, open_rows=True)
    for size in [one.size for one in sorted(found, key=lambda one: -one.rows_s) if one.way == "compiled"][:2]:
        torch._dynamo.reset()
        measure("compiled for it", torch.compile(module, dynamic=False), size)
    return found


def raw_on_cpu(network: Network, sizes: Sequence[int], seconds: float) -> list[Raw]:
    module, found = network.module(), list[Raw]()
    with torch.inference_mode():
        for size in sizes:
            rate = per_second(partial(module, *network.rows(size)), size, seconds, lambda: None)
            found.append(Raw(way="eager", size=size, rows_s=rate))
    return found
