"""The random states of a process: Python's, numpy's, torch's and its GPU's."""

import hashlib
import random
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch


def captured() -> dict[str, Any]:
    """As plain values and tensors. Numpy's is there if anything has imported numpy."""
    state: dict[str, Any] = {"python": random.getstate(), "torch": torch.get_rng_state()}
    if (numpy := sys.modules.get("numpy")) is not None:
        own = numpy.random.get_state(legacy=False)
        state["numpy"] = own | {"state": {"key": own["state"]["key"].tolist(), "pos": own["state"]["pos"]}}
    cuda: Any = torch.cuda
    if cuda.is_available() and cuda.is_initialized():
        state["cuda"] = torch.cuda.get_rng_state()
    return state


def restore(state: Mapping[str, Any]) -> None:
    random.setstate(state["python"])
    torch.set_rng_state(state["torch"])
    if "numpy" in state:
        numpy: Any = sys.modules.get("numpy") or __import__("numpy")
        key = numpy.array(state["numpy"]["state"]["key"], dtype=numpy.uint32)
        numpy.random.set_state(state["numpy"] | {"state": state["numpy"]["state"] | {"key": key}})
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state(state["cuda"])


def seed(*numbers: int) -> None:
    """The host's, by numbers that mean something: the same numbers, the same randomness. `torch.manual_seed` takes ten times
    as long, for it sees to devices, and this is called for every sample."""
    mixed = _mixed(numbers)
    random.seed(mixed)
    torch.default_generator.manual_seed(mixed)
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed(mixed % 2**32)


def seed_all(*numbers: int) -> None:
    """The host's and the device's."""
    seed(*numbers)
    torch.manual_seed(_mixed(numbers))


def _mixed(numbers: tuple[int, ...]) -> int:
    return int.from_bytes(hashlib.sha256(repr(numbers).encode()).digest()[:8])


@contextmanager
def seeded(*numbers: int) -> Iterator[None]:
    """Seeded by these numbers within, as before afterwards."""
    before = captured()
    seed(*numbers)
    try:
        yield
    finally:
        restore(before)


@contextmanager
def kept() -> Iterator[None]:
    """Whatever draws within, the host's random numbers go on afterwards as if nothing had."""
    numpy = sys.modules.get("numpy")
    own, torchs, numpys = random.getstate(), torch.get_rng_state(), numpy and numpy.random.get_state(legacy=False)
    try:
        yield
    finally:
        random.setstate(own)
        torch.set_rng_state(torchs)
        if numpy is not None:
            numpy.random.set_state(numpys)
