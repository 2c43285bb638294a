"""Optimisers in their fused form, which also leave out a step whose loss is not finite without asking the device."""

import inspect
from typing import Any

import torch


def can_be_fused(optimiser: Any) -> bool:
    floats = all(torch.is_floating_point(one) for group in optimiser.param_groups for one in group["params"])
    return (
        floats
        and type(optimiser).__module__.startswith("torch.optim")
        and "fused" in inspect.signature(type(optimiser)).parameters
    )


def fuse(optimiser: Any) -> None:
    """As if it had been made with `fused=True`. What it already knows of past steps moves to the device."""
    for group in [optimiser.defaults, *optimiser.param_groups]:
        group["fused"], group["foreach"] = True, False
    optimiser._step_supports_amp_scaling = True
    optimiser._need_device_dtype_check_for_fused = True
    for parameter, state in optimiser.state.items():
        if "step" in state:
            state["step"] = torch.as_tensor(state["step"], dtype=torch.float32, device=parameter.device)


def leave_out_when(optimiser: Any, bad: Any) -> None:
    """`bad`: a tensor on the device, not zero when the next step is to change nothing."""
    optimiser.grad_scale, optimiser.found_inf = None, bad
