"""What a recipe does to a model before its first step: of sessions and of trainers the same."""

from typing import Any

import torch

from falaj.training import layers
from falaj.training.recipes import Facts, Recipe


def apply(recipe: Recipe, facts: Facts, model: Any, kind: str) -> None:
    """On a device of this kind. Weights and their names stay as they are."""
    if kind == "cuda":
        torch.set_float32_matmul_precision("highest" if recipe.precision.value == "float32" else "high")
        torch.backends.cudnn.benchmark = torch.backends.cudnn.benchmark or facts.convolutions
    if recipe.channels_last.value:
        model.to(memory_format=torch.channels_last)
    if recipe.checkpointing.value:
        layers.compute_twice(model)
