"""Looks at the machine and at a model; what it finds decides the recipe."""

import importlib.util
import os
import shutil
from typing import Any

import torch
from torch import nn

from falaj.training import layers
from falaj.training.classic.cores import available
from falaj.training.hardware import Hardware
from falaj.training.optimisers import can_be_fused
from falaj.training.recipes import Facts

_LANE = 64  # outputs; rows of another length are not aligned for the matrix units


def detect() -> Hardware:
    """The devices that torch sees, or the CPU."""
    cores = available({})  # OMP_NUM_THREADS is about computing: loaders are processes of their own
    if torch.cuda.is_available():
        seen = torch.cuda.get_device_properties(0)
        return Hardware(
            kind="cuda",
            name=seen.name,
            count=int(os.environ.get("WORLD_SIZE", "1")),  # of this training, which need not have all of the machine
            memory=seen.total_memory,
            cores=cores,
            capability=(seen.major, seen.minor),
            bfloat16=seen.major >= 8,
            compiler=seen.major >= 7 and importlib.util.find_spec("triton") is not None,
        )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    compiler = bool(shutil.which(os.environ.get("CXX", "g++")) or shutil.which("clang++"))
    count = int(os.environ.get("WORLD_SIZE", "1"))
    return Hardware(kind="cpu", count=count, memory=memory, cores=cores, bfloat16=_multiplies_bfloat16(), compiler=compiler)


def _multiplies_bfloat16() -> bool:
    """Tiles (AMX) alone: half precision in vector units gains too little for what it rounds away."""
    tiles = getattr(torch.cpu, "_is_amx_tile_supported", None)
    return bool(tiles and tiles())


def facts_of(model: Any, optimiser: Any = None) -> Facts:
    """Of a module, and of what trains it."""
    modules = list(model.modules())
    dropouts = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.RNNBase, nn.MultiheadAttention)
    widths = {module.out_features for module in modules if type(module) is nn.Linear}
    norms = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
    return Facts(
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        convolutions=any(isinstance(module, nn.Conv2d) for module in modules),
        batch_norms=any(isinstance(module, norms) for module in modules),
        embeddings=any(isinstance(module, nn.Embedding) for module in modules),
        random=any(isinstance(module, dropouts) and _share_dropped(module) > 0 for module in modules),
        largest_block=max((sum(one.numel() for one in block.parameters()) for block in layers.blocks(model)), default=0),
        widest_output=max(widths, default=0),
        odd_outputs=tuple(sorted(width for width in widths if width % _LANE)),
        fusible=optimiser is not None and can_be_fused(optimiser),
    )


def _share_dropped(module: Any) -> float:
    return float(getattr(module, "p", 0) or getattr(module, "dropout", 0) or 0)
