"""The auditor's operations.

`audit.follow` is a plain read: were it recorded, each poll would make a leaf that the next poll sees, for ever.
"""

from typing import Annotated, Any, Literal, TypeAlias

from falaj.base.clock import Moment
from falaj.base.operation import Download, Group, Operation, Permission, Record, Scope
from falaj.base.pages import Cursor, Limit
from falaj.base.values import Message, Name, Range, Text, value
from falaj.governance.ledger.heads import Head
from falaj.governance.ledger.reports import Report
from falaj.keys.endorsements import Endorsement

Index: TypeAlias = Annotated[int, Range(least=0, most=2**53)]
Format: TypeAlias = Literal["leaf", "cloudevents"]
Order: TypeAlias = Literal["newest-first", "oldest-first"]
OutcomeWish: TypeAlias = Literal["", "done", "refused"]
OperationName: TypeAlias = Annotated[str, Text(pattern=r"^[a-z.-]*$", longest=100)]
OptionalId: TypeAlias = Annotated[str, Text(pattern=r"^([0-9a-f]{32})?$", longest=32)]
Hex: TypeAlias = Annotated[str, Text(pattern=r"^[0-9a-f]*$", longest=128)]


@value
class Entry(Message):
    """A leaf in a listing. `index` is None until it is sequenced, within a second."""

    index: int | None
    id: str
    inserted: Moment
    operation: str
    record: str
    outcome: str
    principal: str
    token: str
    zone: str
    project: str
    request_id: str
    request: dict[str, Any]
    facts: dict[str, Any]
    rule: str


@value
class LogPage(Message):
    items: tuple[Entry, ...]
    next: str = ""


@value
class ReadLog(Message):
    """`project` and `principal` are ids; `since` is included, `until` is not."""

    project: OptionalId = ""
    operation: OperationName = ""
    principal: OptionalId = ""
    outcome: OutcomeWish = ""
    since: Moment | None = None
    until: Moment | None = None
    order: Order = "newest-first"
    limit: Limit = 100
    cursor: Cursor = ""


@value
class ReadProjectLog(Message):
    project: Name
    operation: OperationName = ""
    principal: OptionalId = ""
    outcome: OutcomeWish = ""
    since: Moment | None = None
    until: Moment | None = None
    order: Order = "newest-first"
    limit: Limit = 100
    cursor: Cursor = ""


@value
class ReadHead(Message):
    pass


@value
class LedgerState(Message):
    """The newest head, what is not yet under it, and the public keys (hex) that heads are signed with.

    Every key but the first comes with the endorsement of the one before it.
    """

    head: Head | None
    unsequenced: int
    oldest_unsequenced: Moment | None
    keys: dict[str, str]
    endorsements: tuple[Endorsement, ...] = ()


@value
class ProveLeaf(Message):
    """Name the leaf by id or by index."""

    leaf: OptionalId = ""
    index: Index | None = None


@value
class LeafProof(Message):
    """`record` is the leaf's exact text; sha256(0x00 || record) hashed along `path` gives `head.root` (RFC 9162, 2.1.3)."""

    index: int
    record: str
    hash: str
    path: tuple[str, ...]
    head: Head


@value
class ProveGrowth(Message):
    old: Annotated[int, Range(least=1, most=2**53)]
    new: Annotated[int, Range(least=1, most=2**53)]


@value
class GrowthProof(Message):
    """That the tree of `new` leaves begins with the tree of `old` (RFC 9162, 2.1.4)."""

    old: int
    new: int
    path: tuple[str, ...]


@value
class ReadAsOf(Message):
    at: Moment


@value
class LedgerAsOf(Message):
    """At that moment `size` leaves stood under `head` and `unsequenced` more were recorded; `covered_by` is the next head."""

    at: Moment
    size: int
    head: Head | None
    covered_by: Head | None
    unsequenced: int


@value
class VerifyLedger(Message):
    """`expected` is a head you kept: the ledger must still begin with it."""

    expected: Head | None = None


@value
class ExportLedger(Message):
    """Format `leaf` can be verified offline; `cloudevents` is for other programs."""

    format: Format = "leaf"


@value
class FollowLog(Message):
    after: Annotated[int, Range(least=-1, most=2**53)] = -1
    format: Format = "leaf"
    limit: Limit = 100


@value
class FollowPage(Message):
    """`after` is what to ask for next; the same as before when there was nothing new."""

    items: tuple[dict[str, Any], ...]
    after: int


@value
class EraseSalts(Message):
    """One leaf's personal values, or all that a principal entered or that were entered about it."""

    leaf: OptionalId = ""
    principal: OptionalId = ""


@value
class ErasedSalts(Message):
    erased: int


def _audit(name: str) -> Permission:
    return Permission(name=name, group=Group.AUDIT)


LOG = Operation(
    name="audit.log",
    summary="Page through the ledger of the whole platform",
    method="GET",
    path="audit/log",
    request=ReadLog,
    result=LogPage,
    permission=_audit("audit.log"),
    scope=Scope.PLATFORM,
    record=Record.SENSITIVE_READ,
)
LOG_PROJECT = Operation(
    name="audit.log-project",
    summary="Page through the ledger of one project",
    method="GET",
    path="projects/{project}/audit/log",
    request=ReadProjectLog,
    result=LogPage,
    permission=_audit("audit.log-project"),
    scope=Scope.PROJECT,
    record=Record.SENSITIVE_READ,
)
HEAD = Operation(
    name="audit.head",
    summary="The newest signed head of the ledger and the keys it is signed with",
    method="GET",
    path="audit/head",
    request=ReadHead,
    result=LedgerState,
    permission=_audit("audit.head"),
    scope=Scope.PLATFORM,
    record=Record.PLAIN_READ,
)
PROVE = Operation(
    name="audit.prove",
    summary="Prove that a leaf is in the ledger",
    method="GET",
    path="audit/proof",
    request=ProveLeaf,
    result=LeafProof,
    permission=_audit("audit.prove"),
    scope=Scope.PLATFORM,
    record=Record.SENSITIVE_READ,
)
PROVE_GROWTH = Operation(
    name="audit.prove-growth",
    summary="Prove that the ledger only grew between two sizes",
    method="GET",
    path="audit/growth",
    request=ProveGrowth,
    result=GrowthProof,
    permission=_audit("audit.prove-growth"),
    scope=Scope.PLATFORM,
    record=Record.PLAIN_READ,
)
AS_OF = Operation(
    name="audit.as-of",
    summary="The state of the ledger at a moment",
    method="GET",
    path="audit/as-of",
    request=ReadAsOf,
    result=LedgerAsOf,
    permission=_audit("audit.as-of"),
    scope=Scope.PLATFORM,
    record=Record.PLAIN_READ,
)
VERIFY = Operation(
    name="audit.verify",
    summary="Verify every leaf, head and copy of the ledger",
    method="POST",
    path="audit/verify",
    request=VerifyLedger,
    result=Report,
    permission=_audit("audit.verify"),
    scope=Scope.PLATFORM,
    record=Record.PLAIN_READ,
)
EXPORT = Operation(
    name="audit.export",
    summary="Export the sequenced ledger as JSON lines",
    method="GET",
    path="audit/export",
    request=ExportLedger,
    result=Download,
    permission=_audit("audit.export"),
    scope=Scope.PLATFORM,
    record=Record.SENSITIVE_READ,
)
FOLLOW = Operation(
    name="audit.follow",
    summary="The sequenced leaves after an index, for streaming by polling",
    method="GET",
    path="audit/follow",
    request=FollowLog,
    result=FollowPage,
    permission=_audit("audit.follow"),
    scope=Scope.PLATFORM,
    record=Record.PLAIN_READ,
)
ERASE_SALTS = Operation(
    name="audit.erase-salts",
    summary="Erase the salts of personal values, so that their commitments say nothing any more",
    method="POST",
    path="audit/erase-salts",
    request=EraseSalts,
    result=ErasedSalts,
    permission=Permission(name="audit.erase-salts", group=Group.ADMINISTER),
    scope=Scope.PLATFORM,
    record=Record.CHANGE,
)

OPERATIONS = (LOG, LOG_PROJECT, HEAD, PROVE, PROVE_GROWTH, AS_OF, VERIFY, EXPORT, FOLLOW, ERASE_SALTS)
