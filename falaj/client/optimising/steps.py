"""All steps there are here: those that need no torch, and those that learn, where torch is."""

import importlib
import importlib.util
from typing import Final

from falaj.optimisation.making.steps import STEPS
from falaj.optimisation.making.values import Made, Material, Step

LEARNING: Final = ("prune", "sparsify", "distil", "torch-program")


def names_there(*, student: bool) -> frozenset[str]:
    """Without importing torch, which takes seconds."""
    learning = LEARNING if importlib.util.find_spec("torch") is not None else ()
    return frozenset([*STEPS, *learning, *(["distil:given"] if student and learning else [])])


def steps_there(student: bytes) -> dict[str, Step]:
    """`student` is a model that is to be taught, as ONNX; empty where nobody gave one. torch is imported by the first step that
    learns."""
    learning = LEARNING if importlib.util.find_spec("torch") is not None else ()
    return dict(STEPS) | {name: _learnt(name, student) for name in learning}


def _learnt(name: str, student: bytes) -> Step:
    def take(made: Made, argument: str, material: Material) -> Made:
        steps: dict[str, Step] = importlib.import_module("falaj.client.optimising.learning").steps_with(student)
        return steps[name](made, argument, material)

    return take
