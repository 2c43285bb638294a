"""Moving aliases and stages, which is policy; what was moved when; and the approvals that policy may ask for."""

from typing import Final, Literal

from falaj.base.clock import Moment
from falaj.base.operation import Group, Operation, Permission, Record, Scope
from falaj.base.pages import Cursor, Limit
from falaj.base.values import Id, Message, Name, value
from falaj.governance.ledger.operations import LeafProof
from falaj.registry.operations.models import READ, OneModel
from falaj.registry.operations.versions import DataVersion, Version, Versions
from falaj.registry.operations.words import (
    CHAMPION,
    AliasName,
    AliasNameOrNone,
    ModelName,
    ModelNameOrNone,
    MoveKind,
    Reason,
    Stage,
    VersionNumber,
)

PromotionState = Literal["done", "waiting", "unchanged", "allowed"]
ApprovalState = Literal["waiting", "ready", "used", "refused", "withdrawn", "expired", "void"]


@value
class Promote(Message):
    project: Name
    model: ModelName
    alias: AliasName = CHAMPION
    version: VersionNumber
    reason: Reason = ""


@value
class Rollback(Message):
    """Back to the version that the alias pointed at before the present one; again, to the one before that."""

    project: Name
    model: ModelName
    alias: AliasName = CHAMPION
    reason: Reason = ""


@value
class RemoveAlias(Message):
    project: Name
    model: ModelName
    alias: AliasName
    reason: Reason = ""


@value
class SetStage(Message):
    """`archive_others` archives the versions that hold the stage so far."""

    project: Name
    model: ModelName
    version: VersionNumber
    stage: Stage
    archive_others: bool = False
    reason: Reason = ""


@value
class Promotion(Message):
    """`done`: moved by `move`. `waiting`: policy wants approvals first; ask the same again once `approval` is ready.
    `unchanged`: it was so already. `allowed`: it was only asked about, and would be made.

    `alias` is the stage's name where a stage was set. `version` and `before` are 0 for none. `remarks` says what else one
    should know, as why the version cannot be served.
    """

    state: PromotionState
    model: ModelName
    alias: str
    version: int
    before: int
    kind: MoveKind
    move: str = ""
    approval: str = ""
    needed: int = 0
    given: int = 0
    expires: Moment | None = None
    rule: str = ""
    remarks: tuple[str, ...] = ()


@value
class Resolve(Message):
    project: Name
    model: ModelName
    alias: AliasName = CHAMPION


@value
class ReadMoves(Message):
    """Newest first; of every alias and stage where `alias` is left out."""

    project: Name
    model: ModelName
    alias: AliasNameOrNone = ""
    limit: Limit = 100
    cursor: Cursor = ""


@value
class Person(Message):
    """A principal and what it is called today."""

    id: str
    name: str


@value
class Move(Message):
    """One move of an alias, or of a version's stage where `kind` is `stage`; `before` and `version` are 0 for none."""

    id: Id
    alias: str
    kind: MoveKind
    before: int
    version: int
    by: Person
    at: Moment
    approval: str
    approvers: tuple[Person, ...]
    reason: Reason


@value
class Moves(Message):
    items: tuple[Move, ...]
    next: str = ""


@value
class ReadModelAsOf(Message):
    """`at` is included: a move made at that very moment counts."""

    project: Name
    model: ModelName
    alias: AliasName = CHAMPION
    at: Moment


@value
class ModelAsOf(Message):
    """What an alias pointed at, how it came to, and the proof.

    `version` is 0 where it pointed at nothing; `move` is None where nobody had ever moved it by then. `details` is the
    version as it is known today, None where it has been deleted since; `run` and `data` are known even then. `proof` shows
    the move's leaf under the ledger's newest head; it is None with `ledger` saying why.
    """

    model: ModelName
    alias: str
    at: Moment
    version: int
    move: Move | None
    details: Version | None
    run: str
    data: tuple[DataVersion, ...]
    leaf: str
    proof: LeafProof | None
    ledger: str


@value
class ListApprovals(Message):
    """Newest first. `open` are those that still wait, or are ready to be used."""

    project: Name
    model: ModelNameOrNone = ""
    state: Literal["open", "closed", "all"] = "open"
    limit: Limit = 100
    cursor: Cursor = ""


@value
class OneApproval(Message):
    project: Name
    approval: Id


@value
class GiveApproval(Message):
    project: Name
    approval: Id
    note: Reason = ""


@value
class Vote(Message):
    by: Person
    at: Moment
    approves: bool
    note: Reason


@value
class Approval(Message):
    """A wish to move an alias that policy wants other people to approve. Good for one move, of this alias to this version.

    `ready` once `needed` people approved; whoever may promote then asks for the move again, before `expires`. `before` is
    the version that the alias points at now, as long as the move can still be made; 0 for none, and for a stage.
    """

    id: Id
    model: ModelName
    alias: str
    version: int
    before: int = 0
    kind: MoveKind
    state: ApprovalState
    needed: int
    given: int
    rule: str
    reason: Reason
    requested_by: Person
    requested: Moment
    expires: Moment
    votes: tuple[Vote, ...]


@value
class Approvals(Message):
    items: tuple[Approval, ...]
    next: str = ""


# Every way to move an alias or a stage is one permission, so that a policy about promotion cannot be walked around.
PROMOTION: Final = Permission(name="model.promote", group=Group.DEPLOY)
_APPROVE: Final = Permission(name="approval.give", group=Group.APPROVE)

PROMOTE: Final = Operation(
    name="model.promote",
    summary="Point an alias at a version, or ask for the approvals that policy wants first.",
    method="PUT",
    path="projects/{project}/model/alias",
    request=Promote,
    result=Promotion,
    permission=PROMOTION,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
ROLLBACK: Final = Operation(
    name="model.rollback",
    summary="Point an alias at the version it pointed at before.",
    method="POST",
    path="projects/{project}/model/rollback",
    request=Rollback,
    result=Promotion,
    permission=PROMOTION,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
REMOVE_ALIAS: Final = Operation(
    name="model.remove-alias",
    summary="Remove an alias; its history stays.",
    method="DELETE",
    path="projects/{project}/model/alias",
    request=RemoveAlias,
    result=Promotion,
    permission=PROMOTION,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
SET_STAGE: Final = Operation(
    name="version.stage",
    summary="Move a version to a stage of old clients: None, Staging, Production or Archived.",
    method="PUT",
    path="projects/{project}/version/stage",
    request=SetStage,
    result=Promotion,
    permission=PROMOTION,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
RESOLVE: Final = Operation(
    name="model.resolve",
    summary="The version an alias points at, its signature checked.",
    method="GET",
    path="projects/{project}/model/alias",
    request=Resolve,
    result=Version,
    permission=READ,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
LATEST: Final = Operation(
    name="model.latest",
    summary="The newest version of each stage.",
    method="GET",
    path="projects/{project}/model/latest",
    request=OneModel,
    result=Versions,
    permission=READ,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
HISTORY: Final = Operation(
    name="model.history",
    summary="Every move of a model's aliases and stages: who, when, from where to where, approved by whom.",
    method="GET",
    path="projects/{project}/model/history",
    request=ReadMoves,
    result=Moves,
    permission=READ,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
MODEL_AS_OF: Final = Operation(
    name="model.as-of",
    summary="What an alias pointed at in a moment: version, run, data, approvers, and the ledger's proof.",
    method="GET",
    path="projects/{project}/model/as-of",
    request=ReadModelAsOf,
    result=ModelAsOf,
    permission=READ,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
LIST_APPROVALS: Final = Operation(
    name="approval.list",
    summary="List the moves that wait for approval, or once did.",
    method="GET",
    path="projects/{project}/approvals",
    request=ListApprovals,
    result=Approvals,
    permission=READ,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
SHOW_APPROVAL: Final = Operation(
    name="approval.show",
    summary="Show a move that waits for approval, or once did.",
    method="GET",
    path="projects/{project}/approvals/{approval}",
    request=OneApproval,
    result=Approval,
    permission=READ,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
ASK_APPROVAL: Final = Operation(
    name="approval.ask",
    summary="Ask for the approvals that policy wants before an alias points at a version, and move nothing.",
    method="POST",
    path="projects/{project}/approvals",
    request=Promote,
    result=Promotion,
    permission=PROMOTION,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
GIVE_APPROVAL: Final = Operation(
    name="approval.give",
    summary="Approve a move that somebody else asked for.",
    method="POST",
    path="projects/{project}/approvals/{approval}/give",
    request=GiveApproval,
    result=Approval,
    permission=_APPROVE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
REFUSE_APPROVAL: Final = Operation(
    name="approval.refuse",
    summary="Refuse a move that somebody else asked for; one refusal ends it.",
    method="POST",
    path="projects/{project}/approvals/{approval}/refuse",
    request=GiveApproval,
    result=Approval,
    permission=_APPROVE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
WITHDRAW_APPROVAL: Final = Operation(
    name="approval.withdraw",
    summary="Take back a move that you asked for.",
    method="POST",
    path="projects/{project}/approvals/{approval}/withdraw",
    request=OneApproval,
    result=Approval,
    permission=PROMOTION,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)

OPERATIONS: Final = (
    PROMOTE,
    ROLLBACK,
    REMOVE_ALIAS,
    SET_STAGE,
    RESOLVE,
    LATEST,
    HISTORY,
    MODEL_AS_OF,
    LIST_APPROVALS,
    SHOW_APPROVAL,
    ASK_APPROVAL,
    GIVE_APPROVAL,
    REFUSE_APPROVAL,
    WITHDRAW_APPROVAL,
)
