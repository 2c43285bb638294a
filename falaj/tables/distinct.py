"""How many different values there are: exactly while they are few, then by HyperLogLog, to within some two in a hundred."""

import base64
import zlib
from typing import Final, Self

import numpy as np
import numpy.typing as npt

from falaj.tables.hashing import Hashes

_FEW: Final = 1024
_BITS: Final = 13
_REGISTERS: Final = 1 << _BITS
_REST: Final = np.uint64((1 << (64 - _BITS)) - 1)
_SLOT: Final = np.uint64(64 - _BITS)
_EXACT, _COUNTED = "exact", "hll"


class Distinct:
    """Mergeable: that of two is the same as if all had been added to one."""

    def __init__(self) -> None:
        self._few: Hashes | None = np.empty(0, np.uint64)
        self._registers: npt.NDArray[np.uint8] = np.zeros(0, np.uint8)
        self._least = 0
        # Most of those that were seen, by their first bits, to pass them by quickly; a slot that is free holds none of its own.
        self._seen = np.full(_REGISTERS, np.uint64(2**64 - 1))
        self._seen[-1] = 0

    @property
    def is_exact(self) -> bool:
        return self._few is not None

    def add(self, hashes: Hashes) -> None:
        if self._few is not None:
            hashes = hashes[self._seen[hashes >> _SLOT] != hashes]
            if not len(hashes):
                return
            hashes = np.concatenate([self._few, hashes])
            if len(np.unique(hashes[: 2 * _FEW])) <= _FEW:  # else there are many, which the first of them tell
                hashes = np.unique(hashes)
                if len(hashes) <= _FEW:
                    self._few = hashes
                    self._seen[hashes >> _SLOT] = hashes
                    return
            self._few = None
            self._registers = np.zeros(_REGISTERS, np.uint8)
        self._count(hashes)

    def merge(self, other: "Distinct") -> None:
        if other._few is not None:
            self.add(other._few)
            return
        if self._few is not None:
            few, self._few = self._few, None
            self._registers = other._registers.copy()
            self._count(few)
            return
        np.maximum(self._registers, other._registers, out=self._registers)

    def estimate(self) -> int:
        if self._few is not None:
            return len(self._few)
        empty = int(np.count_nonzero(self._registers == 0))
        if empty > _REGISTERS // 20:
            return round(_REGISTERS * float(np.log(_REGISTERS / empty)))
        bias = 0.7213 / (1 + 1.079 / _REGISTERS)
        return round(bias * _REGISTERS**2 / float(np.sum(np.exp2(-self._registers.astype(np.float64)))))

    def told(self) -> list[str]:
        kind, content = (_EXACT, self._few.tobytes()) if self._few is not None else (_COUNTED, self._registers.tobytes())
        return [kind, base64.b64encode(zlib.compress(content, 6)).decode()]

    @classmethod
    def heard(cls, told: list[str]) -> Self:
        made, content = cls(), zlib.decompress(base64.b64decode(told[1]))
        if told[0] == _EXACT:
            made._few = np.frombuffer(content, np.uint64)
        else:
            made._few, made._registers = None, np.frombuffer(content, np.uint8).copy()
        return made

    def _count(self, hashes: Hashes) -> None:
        # How many zeros a hash begins with, from the exponent of what follows the register's number.
        rest = (hashes & _REST) | np.uint64(1)
        if self._least:  # most are too common to change anything
            hashes = hashes[rest < np.uint64(1 << (64 - _BITS - self._least))]
            rest = (hashes & _REST) | np.uint64(1)
        ranks = (64 - _BITS) - np.frexp(rest.astype(np.float64))[1].astype(np.int64) + 1
        places = (hashes >> _SLOT).astype(np.intp)
        np.maximum.at(self._registers, places, ranks.astype(np.uint8))
        self._least = max(0, int(self._registers.min()) - 1)
