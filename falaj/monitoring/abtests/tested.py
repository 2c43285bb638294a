"""A test's row, read."""

from collections.abc import Mapping

import msgspec

from falaj.base.values import value
from falaj.monitoring.abtests import standing
from falaj.monitoring.abtests.deciding import Look
from falaj.monitoring.abtests.designing import shares_of
from falaj.monitoring.abtests.standing import Standing
from falaj.monitoring.operations.abtests import Design
from falaj.monitoring.store.tables import Found


@value
class Tested:
    design: Design
    incumbent: int
    shares: Mapping[int, int]
    standing: Standing

    def look(self, now: Standing) -> Look:
        return Look(self.design, self.incumbent, self.shares, now)


def tested(row: Found) -> Tested:
    design = msgspec.json.decode(row.plan, type=Design)
    return Tested(
        design=design,
        incumbent=row.incumbent,
        shares=shares_of(design, row.incumbent),
        standing=standing.decode(row.standing),
    )
