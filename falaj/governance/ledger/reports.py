"""What a verification found, as values that people and programs can read."""

from enum import StrEnum

from falaj.base.clock import Moment
from falaj.base.values import Message, value
from falaj.governance.ledger.heads import Head


class Found(StrEnum):
    """The names of what can be wrong with a ledger."""

    LEAF_CHANGED = "leaf-changed"
    LEAF_REMOVED = "leaf-removed"
    LEAVES_REORDERED = "leaves-reordered"
    LEAF_UNSIGNED = "leaf-unsigned"
    COLUMNS_CHANGED = "columns-changed"
    LOG_TRUNCATED = "log-truncated"
    HISTORY_REWRITTEN = "history-rewritten"
    NODE_CHANGED = "node-changed"
    HEAD_FORGED = "head-forged"
    HEAD_MISSING = "head-missing"
    HEAD_ROLLED_BACK = "head-rolled-back"
    HEAD_CONTRADICTED = "head-contradicted"
    KEY_UNENDORSED = "key-unendorsed"
    COPY_ALTERED = "copy-altered"
    COPY_INCOMPLETE = "copy-incomplete"
    EXPORT_DAMAGED = "export-damaged"


@value
class Finding(Message):
    """One thing that is wrong. `first` to `last` are leaf indexes where it concerns leaves."""

    name: Found
    message: str
    first: int | None = None
    last: int | None = None
    at: Moment | None = None


@value
class Report(Message):
    """The outcome of a verification. The ledger is whole when there are no findings.

    `unsequenced` leaves are recorded but not yet under a head: within that window only the database vouches for them.
    `omitted` findings were left out of a list that grew too long.
    """

    ok: bool
    leaves: int
    heads: int
    copies: int
    head: Head | None
    unsequenced: int
    oldest_unsequenced: Moment | None
    notes: tuple[str, ...]
    findings: tuple[Finding, ...]
    omitted: int


class Findings:
    """Collects findings in bounded memory."""

    LARGEST = 1000

    def __init__(self) -> None:
        self.listed: list[Finding] = []
        self.omitted = 0

    def add(
        self, name: Found, message: str, *, first: int | None = None, last: int | None = None, at: Moment | None = None
    ) -> None:
        if len(self.listed) < self.LARGEST:
            self.listed.append(Finding(name=name, message=message, first=first, last=first if last is None else last, at=at))
        else:
            self.omitted += 1
