"""What is read by its types is prepared before there are threads: msgspec lets a second one see what it knows of a dataclass
while the first is still finding it out, and the process crashes."""

from typing import Any, Final

import msgspec

from falaj.jobs.cards import CardState
from falaj.jobs.documents import Document
from falaj.jobs.elsewhere import Report
from falaj.jobs.operations.words import Place, Usage
from falaj.jobs.scheduler.values import Node, Seat
from falaj.monitoring.abtests.standing import Standing as OfTests
from falaj.monitoring.deciding import Standing as OfColumns
from falaj.monitoring.joined import Joined
from falaj.monitoring.losing import Standing as OfLosses
from falaj.monitoring.operations.abtests import Design
from falaj.monitoring.operations.monitors import Wishes
from falaj.monitoring.operations.words import Act
from falaj.monitoring.pieces import Merged
from falaj.monitoring.references import Reference
from falaj.monitoring.together import Together
from falaj.monitoring.wishers import Wisher
from falaj.serving.operations.endpoints import Options
from falaj.serving.operations.loads import PlaneLoad
from falaj.serving.operations.planes import WatchReport
from falaj.serving.operations.words import Steps
from falaj.serving.rungs import Kept
from falaj.serving.splits import Arms
from falaj.serving.states import Column, State

_KINDS: Final[tuple[Any, ...]] = (
    *(CardState, Document, Node, Place, Report, Seat, Usage),
    *(Act, Design, Joined, Merged, OfColumns, OfLosses, OfTests, Reference, Together, WatchReport, Wisher, Wishes),
    *(Arms, Column, Kept, Options, PlaneLoad, State, Steps),
)


def prepare() -> None:
    for kind in _KINDS:
        msgspec.json.Decoder(kind, dec_hook=_made)


def _made(kind: type, one: Any) -> Any:
    return kind(one)
