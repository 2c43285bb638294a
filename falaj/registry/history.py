"""What was moved, and what was in place at any past moment, with the ledger's proof."""

from collections.abc import Mapping, Sequence
from typing import Any

from falaj.base.clock import MINUTE, Moment
from falaj.base.errors import Invalid, NotFound, Unavailable
from falaj.database.binding import Bound, bind
from falaj.database.work import Context, UnitOfWork
from falaj.governance.ledger import queries
from falaj.governance.ledger.operations import LeafProof
from falaj.governance.ledger.store import Wanted, list_leaves
from falaj.governance.ledger.trees import leaf_hash
from falaj.registry.lineage import data_behind, run_behind
from falaj.registry.operations.promotions import MODEL_AS_OF, ModelAsOf, Move, ReadModelAsOf
from falaj.registry.operations.words import ACTIVE_STAGES
from falaj.registry.store import approvals as approval_store
from falaj.registry.store import models as model_store
from falaj.registry.store import moves as store
from falaj.registry.store import versions as version_store
from falaj.registry.store.tables import Found
from falaj.registry.views import people, version_shown

_SAME_MOMENT = 1000  # leaves of one operation in one project in one microsecond: more than there ever are


class HistoryService:
    """`model.as-of`."""

    def bindings(self) -> list[Bound]:
        return [bind(MODEL_AS_OF, self.as_of)]

    def as_of(self, context: Context, request: ReadModelAsOf) -> ModelAsOf:
        project = context.required_project.id
        if request.at > context.now + MINUTE:  # clocks differ a little
            raise Invalid(f"Nobody knows yet what {request.alias!r} will point at on {request.at}; it is {context.now} now.")
        model = model_store.ever_named(context.work, project, request.model, request.at)
        if model is None:
            raise NotFound(f"There was no registered model {request.model!r} here at {request.at}.")
        move = store.last_until(context.work, model.id, request.alias, request.at)
        if move is None and request.alias in ACTIVE_STAGES:
            raise Invalid(
                f"{request.alias!r} is a stage here, which several versions may be in, and not an alias; its moves are in the "
                f"history: falaj model history {model.name} --alias {request.alias}"
            )
        if move is None:
            return _nothing_moved(model.name, request)
        version = version_store.of_model(context.work, model.id, move.version) if move.version else None
        leaf, proof, ledger = _proof(context.work, project, move)
        return ModelAsOf(
            model=model.name,
            alias=request.alias,
            at=request.at,
            version=move.version,
            move=moves_shown(context.work, [move])[0],
            details=version_shown(context.work, version) if version is not None and version.deleted is None else None,
            run=(version.run or run_behind(context, version.id)) if version is not None else "",
            data=data_behind(context, version.id) if version is not None else (),
            leaf=leaf,
            proof=proof,
            ledger=ledger,
        )


def facts_of(move: Mapping[str, Any]) -> dict[str, Any]:
    """What a move's leaf says of it, so that the row can be held against it later."""
    told = {name: move[name] for name in ("model", "alias", "kind", "before", "version", "approval")}
    return {"move": move["id"], "at": str(Moment(move["at"])), **told}


def moves_shown(work: UnitOfWork, rows: Sequence[Found]) -> tuple[Move, ...]:
    votes = approval_store.votes_in(work, [row.approval for row in rows if row.approval])
    approvers = {approval: [vote.principal for vote in cast if vote.approves] for approval, cast in votes.items()}
    named = people(work, {row.by for row in rows} | {id for ids in approvers.values() for id in ids})
    return tuple(
        Move(
            id=row.id,
            alias=row.alias,
            kind=row.kind,
            before=row.before,
            version=row.version,
            by=named[row.by],
            at=Moment(row.at),
            approval=row.approval,
            approvers=tuple(named[id] for id in approvers.get(row.approval, ())),
            reason=row.reason,
        )
        for row in rows
    )


def _nothing_moved(model: str, request: ReadModelAsOf) -> ModelAsOf:
    return ModelAsOf(
        model=model,
        alias=request.alias,
        at=request.at,
        version=0,
        move=None,
        details=None,
        run="",
        data=(),
        leaf="",
        proof=None,
        ledger=f"Nobody had moved {request.alias!r} by then, so the ledger has nothing to prove.",
    )


def _proof(work: UnitOfWork, project: str, move: Found) -> tuple[str, LeafProof | None, str]:
    """The leaf that put a move on record: its id, the proof that the ledger has it, and in words how that stands."""
    recorded = Moment(move.recorded)
    wanted = Wanted(project=project, operation=move.operation, since=recorded, until=Moment(recorded + 1))
    found = list_leaves(work, wanted, newest_first=False, after=None, limit=_SAME_MOMENT)
    leaf = next((leaf for leaf in (one.readable() for one in found) if leaf.facts.get("move") == move.id), None)
    if leaf is None:
        return "", None, "The ledger has no leaf of this move: run `falaj audit verify`, for somebody may have removed it."
    said = facts_of(move._asdict())
    if changed := sorted(name for name, fact in said.items() if leaf.facts.get(name) != fact):
        return leaf.id, None, f"The ledger says otherwise about {', '.join(changed)}: the registry's own record was changed."
    try:
        proof = queries.prove(work, id=leaf.id)
    except Unavailable:
        return leaf.id, None, "Recorded, and not yet under a signed head: that takes about a second."
    shown = LeafProof(
        index=proof.index,
        record=proof.record.decode(errors="replace"),
        hash=leaf_hash(proof.record).hex(),
        path=tuple(node.hex() for node in proof.path),
        head=proof.head,
    )
    return leaf.id, shown, f"Leaf {proof.index} of {proof.head.size} under the head that was signed at {proof.head.at}."
