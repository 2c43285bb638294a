"""What gates found of a version, kept with it for good."""

from typing import Final

from falaj.base.clock import Moment
from falaj.base.operation import Group, Operation, Permission, Record, Scope
from falaj.base.pages import Cursor, Limit
from falaj.base.values import Id, Message, Name, NameOrNone, Nothing, value
from falaj.registry.operations.promotions import Person
from falaj.registry.operations.versions import OneVersion
from falaj.registry.operations.words import ModelName, VersionNumber


@value
class Evidence(Message):
    """What one gate found. `definition` is the digest of what the gate was then, `current` says that it is so still, and
    `counts` that this is what a promotion looks at: the newest under the gate's present definition, and held against what the
    alias still points at. `document` has the figures, as JSON; `digest` is its SHA-256, which the ledger has as well.
    `against` is the version it was held against, by the alias `against_alias`; 0 for none."""

    id: Id
    gate: Name
    definition: str
    current: bool
    counts: bool
    passed: bool
    words: str
    document: str
    digest: str
    against_alias: str
    against: int
    job: str
    by: Person
    at: Moment


@value
class ReadEvidence(Message):
    """Newest first; of every gate where `gate` is left out."""

    project: Name
    model: ModelName
    version: VersionNumber
    gate: NameOrNone = ""
    limit: Limit = 100
    cursor: Cursor = ""


@value
class EvidenceOf(Message):
    items: tuple[Evidence, ...]
    next: str = ""


READ_EVIDENCE: Final = Operation(
    name="version.evidence",
    summary="What gates found of a version, newest first, with the figures.",
    method="GET",
    path="projects/{project}/version/evidence",
    request=ReadEvidence,
    result=EvidenceOf,
    permission=Permission(name="version.read", group=Group.READ),
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
# The leaf of each piece of evidence says so. It is reachable by no route: evidence is written down by the platform alone.
JUDGE_VERSION: Final = Operation(
    name="version.judge",
    summary="What a gate found of a version.",
    method="POST",
    path="projects/{project}/version/evidence",
    request=OneVersion,
    result=Nothing,
    permission=Permission(name="version.judge", group=Group.OPERATE),
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)

OPERATIONS: Final = (READ_EVIDENCE,)
