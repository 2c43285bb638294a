"""What a machine can do, as recipes need to know it. Pure: `detection` looks at the machine.

Peaks are what vendors state for dense products with float32 accumulation, in FLOP/s.
"""

from collections.abc import Mapping
from typing import Final, Literal

from falaj.base.values import value

Kind = Literal["cpu", "cuda"]
GIB: Final = 1 << 30
_TERA: Final = 1e12

# By a part of the name that the driver gives, the more special ones first. PCIe cards have fewer units and lower clocks.
_PEAKS: Final[tuple[tuple[str, Mapping[str, float]], ...]] = (
    ("B200", {"float32": 75, "tf32": 1100, "bfloat16": 2250, "float16": 2250, "float8": 4500}),
    ("GH200", {"float32": 67, "tf32": 494, "bfloat16": 989, "float16": 989, "float8": 1979}),
    ("H200", {"float32": 67, "tf32": 494, "bfloat16": 989, "float16": 989, "float8": 1979}),
    ("H100 PCIe", {"float32": 51, "tf32": 378, "bfloat16": 756, "float16": 756, "float8": 1513}),
    ("H100", {"float32": 67, "tf32": 494, "bfloat16": 989, "float16": 989, "float8": 1979}),
    ("L40S", {"float32": 91.6, "tf32": 183, "bfloat16": 362, "float16": 362, "float8": 733}),
    ("L4", {"float32": 30.3, "tf32": 60, "bfloat16": 121, "float16": 121, "float8": 242}),
    ("A100", {"float32": 19.5, "tf32": 156, "bfloat16": 312, "float16": 312}),
    ("A10", {"float32": 31.2, "tf32": 62.5, "bfloat16": 125, "float16": 125}),
    ("V100", {"float32": 15.7, "float16": 125}),
    ("T4", {"float32": 8.1, "float16": 65}),
)


@value
class Hardware:
    """The devices of one training: `count` of one kind, on one machine or on several."""

    kind: Kind = "cpu"
    name: str = ""
    count: int = 1
    memory: int = 0  # bytes of one device
    cores: int = 1  # of the machine, for loaders
    capability: tuple[int, int] = (0, 0)  # of a CUDA device
    bfloat16: bool = False  # in the matrix units, not emulated
    compiler: bool = False  # a working code generator for this kind of device

    @property
    def peaks(self) -> Mapping[str, float]:
        """FLOP/s by precision; empty where nobody stated them."""
        return peaks_of(self.name) if self.kind == "cuda" else {}

    @property
    def tf32(self) -> bool:
        return self.kind == "cuda" and self.capability >= (8, 0)


def peaks_of(name: str) -> Mapping[str, float]:
    for part, peaks in _PEAKS:
        if part in name:
            return {precision: peak * _TERA for precision, peak in peaks.items()}
    return {}
