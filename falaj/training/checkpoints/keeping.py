"""Which checkpoints stay: the last ones, and the best ones by their metric. Pure; `store` does what is decided here."""

import math
from collections.abc import Sequence
from typing import Literal, Protocol

from falaj.base.errors import Invalid
from falaj.base.values import value

Better = Literal["smaller", "larger"]


class Kept(Protocol):
    """What the policy looks at. Checkpoints come oldest first."""

    @property
    def metric(self) -> float | None: ...


@value
class Keep:
    """`last`: so many of the newest. `best`: so many more with the best metric, where saving gave one."""

    last: int = 2
    best: int = 1
    better: Better = "smaller"

    def __post_init__(self) -> None:
        if self.last < 1 or self.best < 0:
            raise Invalid(
                f"At least one of the last checkpoints is kept; {self.last} were asked for, and {self.best} of the best."
            )

    def best_of(self, there: Sequence[Kept]) -> list[int]:
        """Places of the best, best first; of equals the newest. What has no metric, or one that is no number, is left out."""
        sign = 1.0 if self.better == "smaller" else -1.0
        rated = [
            (sign * one.metric, -at) for at, one in enumerate(there) if one.metric is not None and not math.isnan(one.metric)
        ]
        return [-at for _, at in sorted(rated)]

    def superfluous(self, there: Sequence[Kept]) -> list[int]:
        """Places of those that may go, oldest first."""
        stay = set(range(max(0, len(there) - self.last), len(there))) | set(self.best_of(there)[: self.best])
        return [at for at in range(len(there)) if at not in stay]
