"""Which attention kernel is fastest here depends on shapes, chip and versions: so they are timed."""

import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention
from torch.overrides import TorchFunctionMode

KERNELS: Final = {
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "math": SDPBackend.MATH,
}
_CUDA: Final[Any] = torch.cuda
_TIMED: Final = 5
_PLACES: Final = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")


class Seen(TorchFunctionMode):  # type: ignore[misc,unused-ignore]
    """Counts the calls of attention by their shapes."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: Counter[tuple[Any, ...]] = Counter()

    def __torch_function__(self, function: Any, types: Any, given: Any = (), named: Any = None) -> Any:
        if function is scaled_dot_product_attention:
            call = dict(zip(_PLACES, given, strict=False)) | (named or {})
            shapes = tuple((tuple(call[name].shape), call[name].stride()) for name in _PLACES[:3])
            if call.get("attn_mask") is None:  # with a mask there is little to choose from
                self.calls[shapes, call["query"].dtype, bool(call.get("is_causal", False))] += 1
        return function(*given, **(named or {}))

    def fastest(self, device: Any) -> tuple[str, str] | None:
        """The kernel for the most frequent call, and why; None where none could be timed."""
        if not self.calls:
            return "none", "The model calls none of torch's attention kernels."
        found = times(self.calls.most_common(1)[0][0], device)
        told = ", ".join(f"{name} {taken:.2f} ms" for name, taken in sorted(found.items(), key=lambda one: one[1]))
        why = f"Timed on the model's own shapes, forward and back: {told}."
        return (min(found, key=lambda name: found[name]), why) if found else None


def times(call: tuple[Any, ...], device: Any) -> Mapping[str, float]:
    """Milliseconds forward and back by each kernel that takes such a call."""
    shapes, dtype, causal = call
    tensors = [torch.empty_strided(shape, stride, dtype=dtype, device=device).normal_() for shape, stride in shapes]
    for tensor in tensors:
        tensor.requires_grad_()
    found = {}
    for name in ("cudnn", "flash", "efficient"):
        with contextlib.suppress(RuntimeError), sdpa_kernel(KERNELS[name]):
            found[name] = _milliseconds(tensors, causal)
    return found


def _milliseconds(tensors: list[Any], causal: bool) -> float:
    taken = []
    for _ in range(2 + _TIMED):
        begun, ended = _CUDA.Event(enable_timing=True), _CUDA.Event(enable_timing=True)
        begun.record()
        query, key, value = tensors
        out = scaled_dot_product_attention(query, key, value, is_causal=causal)
        torch.autograd.grad(out, tensors, out)
        ended.record()
        ended.synchronize()
        taken.append(begun.elapsed_time(ended))
    return float(sorted(taken[2:])[_TIMED // 2])


@contextlib.contextmanager
def preferring(kernel: str) -> Iterator[None]:
    """Attention inside by this kernel where it takes the call, else by another."""
    if kernel not in KERNELS:
        yield
        return
    order = [KERNELS[kernel], *(one for name, one in KERNELS.items() if name != kernel)]
    with sdpa_kernel(order, set_priority=True):
        yield
