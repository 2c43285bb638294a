"""Approvals: somebody wishes a move, others approve it, and the move uses that up.

The law: whoever approves is a person, signed in as itself, who neither asked for the move nor made the token it was asked with,
nor wrote what asked for it by itself; each counts once. An approval is good for one move of one alias to one version, and not
for long.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from falaj.base.clock import DAY, Moment
from falaj.base.errors import Conflict, Forbidden, NotFound
from falaj.base.ids import new_id
from falaj.base.pages import page_of, read_text_cursor
from falaj.base.values import value
from falaj.database.binding import Bound, bind
from falaj.database.work import Context, UnitOfWork
from falaj.governance.identity.store import principals_with_ids
from falaj.registry.operations import promotions as declared
from falaj.registry.operations.promotions import Approval, ApprovalState, Vote
from falaj.registry.operations.words import MoveKind
from falaj.registry.store import approvals as store
from falaj.registry.store import models as model_store
from falaj.registry.store.tables import Found
from falaj.registry.views import people

LIFE: Final = 7 * DAY


@value
class Wish:
    """One move that is asked for."""

    model: str  # its id
    alias: str
    kind: MoveKind
    version: int
    reason: str


class ApprovalService:
    def bindings(self) -> list[Bound]:
        return [
            bind(declared.LIST_APPROVALS, self.list),
            bind(declared.SHOW_APPROVAL, self.show),
            bind(declared.GIVE_APPROVAL, self.give),
            bind(declared.REFUSE_APPROVAL, self.refuse),
            bind(declared.WITHDRAW_APPROVAL, self.withdraw),
        ]

    def list(self, context: Context, request: declared.ListApprovals) -> declared.Approvals:
        rows = store.page(
            context.work,
            context.required_project.id,
            model=request.model,
            which=request.state,
            now=context.now,
            before=read_text_cursor(request.cursor),
            limit=request.limit + 1,
        )
        page, following = page_of(rows, request.limit, lambda row: (row.id,))
        return declared.Approvals(items=_shown(context, page), next=following)

    def show(self, context: Context, request: declared.OneApproval) -> Approval:
        return _one(context, request.approval)

    def give(self, context: Context, request: declared.GiveApproval) -> Approval:
        row = self._open(context, request.approval)
        vote = self._vote(context, row, request.note, approves=True)
        if not store.add_vote(context.work, vote):
            raise Conflict("You approved this already; it counts once.")
        return _one(context, row.id)

    def refuse(self, context: Context, request: declared.GiveApproval) -> Approval:
        """Also by somebody who approved it before."""
        row = self._open(context, request.approval)
        store.replace_vote(context.work, self._vote(context, row, request.note, approves=False))
        store.close(context.work, row.id, "refused")
        return _one(context, row.id)

    def withdraw(self, context: Context, request: declared.OneApproval) -> Approval:
        row = self._open(context, request.approval)
        if context.identity.principal not in json.loads(row.behind):
            raise Forbidden("Only whoever asked for this move can take it back; others refuse it.", rule="approval.requester")
        store.close(context.work, row.id, "withdrawn")
        return _one(context, row.id)

    def _open(self, context: Context, id: str) -> Found:
        """The request, with its model held: no move uses it up, and no other vote closes it, before this transaction ends."""
        found = _required(context, id)
        model_store.hold_by_id(context.work, context.required_project.id, found.model)
        row = _required(context, id)
        if row.state != store.OPEN or row.expires <= context.now:
            raise Conflict(f"This request is {_state(row, 0, context.now)}: nothing can be decided about it any more.")
        return row

    def _vote(self, context: Context, row: Found, note: str, *, approves: bool) -> dict[str, object]:
        """The caller's vote. Raises where it does not count; see the law above."""
        identity = context.identity
        if identity.kind != "person":
            raise Forbidden(
                "People approve, signed in as themselves; a service account or a short-lived token cannot.",
                rule="approval.person",
            )
        if identity.principal in json.loads(row.behind):
            raise Forbidden(
                "You asked for this move, yourself, by a token you made, or by what you wrote: somebody else has to decide.",
                rule="approval.self",
            )
        context.facts.update(model=row.model, alias=row.alias, version=row.version)
        return {"approval": row.id, "principal": identity.principal, "approves": approves, "note": note, "at": context.now}


# For promotions, which ask for approvals and use them up


def given(work: UnitOfWork, approval: str) -> int:
    """How many people's approval of an open request counts."""
    return _counted(work, store.votes_in(work, [approval])).get(approval, 0)


def given_before(work: UnitOfWork, used: Sequence[str]) -> tuple[str, int]:
    """Of approvals that were used, the one that most people gave, and how many those were."""
    votes = store.votes_in(work, used)
    counts = {id: sum(1 for vote in cast if vote.approves) for id, cast in votes.items()}
    return max(counts.items(), key=lambda pair: (pair[1], pair[0]), default=("", 0))


def request_approval(context: Context, wish: Wish, needed: int, rule: str, authors: Collection[str]) -> Found:
    """The open request for this move, made where there is none; the model is held. `authors` stand behind the run
    that asks."""
    found = store.wanted(context.work, wish.model, wish.alias, wish.kind, wish.version, context.now)
    if found is not None:
        store.need(context.work, found.id, needed, rule)
        return found
    identity = context.identity
    makers = store.makers_of(context.work, identity.token) if identity.token else set()
    behind = {str(identity.principal), *makers, *authors}
    store.add(
        context.work,
        {
            "id": new_id(context.now),
            "project": context.required_project.id,
            "model": wish.model,
            "alias": wish.alias,
            "kind": wish.kind,
            "version": wish.version,
            "state": store.OPEN,
            "needed": needed,
            "rule": rule,
            "reason": wish.reason,
            "requested_by": identity.principal,
            "behind": json.dumps(sorted(behind)),
            "requested": context.now,
            "expires": context.now + LIFE,
        },
    )
    made = store.wanted(context.work, wish.model, wish.alias, wish.kind, wish.version, context.now)
    if made is None:
        raise RuntimeError("a request that was just made is not there")
    return made


def _counted(work: UnitOfWork, votes: Mapping[str, Sequence[Found]]) -> dict[str, int]:
    """How many approve, by request: nobody whose account has been disabled since."""
    known = principals_with_ids(work, {vote.principal for cast in votes.values() for vote in cast})
    usable = {id for id, principal in known.items() if not principal.disabled}
    return {id: sum(1 for vote in cast if vote.approves and vote.principal in usable) for id, cast in votes.items()}


# Showing


def _required(context: Context, id: str) -> Found:
    found = store.find(context.work, context.required_project.id, id)
    if found is None:
        raise NotFound(f"There is no request for approval {id} here.")
    return found


def _one(context: Context, id: str) -> Approval:
    return _shown(context, [_required(context, id)])[0]


def _shown(context: Context, rows: Sequence[Found]) -> tuple[Approval, ...]:
    votes = store.votes_in(context.work, [row.id for row in rows])
    ids = {row.requested_by for row in rows} | {vote.principal for cast in votes.values() for vote in cast}
    named, counts = people(context.work, ids), _counted(context.work, votes)
    aliased = model_store.aliases_of(context.work, sorted({row.model for row in rows}))
    pointing = {(row.model, row.alias): row.version for row in aliased}
    shown = []
    for row in rows:
        cast, approving = votes.get(row.id, ()), counts.get(row.id, 0)
        state = _state(row, approving, context.now)
        moves_alias = row.kind != "stage" and state in ("waiting", "ready")
        shown.append(
            Approval(
                id=row.id,
                model=row.model_name,
                alias=row.alias,
                version=row.version,
                before=pointing.get((row.model, row.alias), 0) if moves_alias else 0,
                kind=row.kind,
                state=state,
                needed=row.needed,
                given=approving,
                rule=row.rule,
                reason=row.reason,
                requested_by=named[row.requested_by],
                requested=Moment(row.requested),
                expires=Moment(row.expires),
                votes=tuple(
                    Vote(by=named[vote.principal], at=Moment(vote.at), approves=bool(vote.approves), note=vote.note)
                    for vote in cast
                ),
            )
        )
    return tuple(shown)


def _state(row: Found, approving: int, now: Moment) -> ApprovalState:
    if row.state != store.OPEN:
        state: ApprovalState = row.state
        return state
    if row.expires <= now:
        return "expired"
    return "ready" if approving >= row.needed else "waiting"
