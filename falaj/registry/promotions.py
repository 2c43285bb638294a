"""Moving aliases and stages. Policy is asked once more about the very move; where it wants approvals, the move waits for them.

Every move is decided while the model's row is held, so moves have one order, and all of them are in the history.
"""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from falaj.base.clock import Moment
from falaj.base.errors import Conflict, Forbidden, Invalid, NotFound
from falaj.base.ids import new_id
from falaj.base.pages import page_of, read_cursor
from falaj.base.values import value
from falaj.database.binding import Bound, bind
from falaj.database.work import Context
from falaj.governance.gate import Gatekeeper
from falaj.governance.policies.cedar import Promoting, Ruling
from falaj.registry import approvals, evidence
from falaj.registry.approvals import Wish
from falaj.registry.evidence import Shown
from falaj.registry.history import facts_of, moves_shown
from falaj.registry.operations import promotions as declared
from falaj.registry.operations.models import OneModel
from falaj.registry.operations.promotions import PROMOTION, Promotion
from falaj.registry.operations.versions import Version, Versions
from falaj.registry.operations.words import ACTIVE_STAGES, MoveKind
from falaj.registry.sources import Sources
from falaj.registry.store import approvals as approval_store
from falaj.registry.store import evidence as evidence_store
from falaj.registry.store import models as model_store
from falaj.registry.store import moves as store
from falaj.registry.store import versions as version_store
from falaj.registry.store.tables import Found
from falaj.registry.verifying import Verifier
from falaj.registry.views import is_convertible, required_model, required_version, version_shown, versions_shown

MOST_APPROVALS: Final = 3  # policy is tried with so many before a move counts as forbidden


@value
class Intent:
    """A move that is to be decided about: what it is called in the history, from where to where."""

    operation: str
    model: Found
    alias: str
    kind: MoveKind
    before: int
    version: int
    reason: str
    signed: bool = True
    leaves: str = ""  # the stage that the version is taken out of
    approved: tuple[str, int] = ("", 0)  # an approval that was used for this version before, and by how many it was given
    remarks: tuple[str, ...] = ()
    shown: Shown = Shown()
    required: frozenset[str] = frozenset()  # gates without which it is not made, whatever policy says


class PromotionService:
    def __init__(self, gate: Gatekeeper, verifier: Verifier, sources: Sources) -> None:
        self._gate, self._verifier, self._sources = gate, verifier, sources

    def bindings(self) -> list[Bound]:
        return [
            bind(declared.PROMOTE, self.promote),
            bind(declared.ASK_APPROVAL, self.ask),
            bind(declared.ROLLBACK, self.rollback),
            bind(declared.REMOVE_ALIAS, self.remove),
            bind(declared.SET_STAGE, self.set_stage),
            bind(declared.RESOLVE, self.resolve),
            bind(declared.LATEST, self.latest),
            bind(declared.HISTORY, self.history),
        ]

    # Moving

    def promote(self, context: Context, request: declared.Promote) -> Promotion:
        return self._move(context, self._promoting(context, request))

    def ask(self, context: Context, request: declared.Promote) -> Promotion:
        """As `promote`, up to the move itself."""
        return self._move(context, self._promoting(context, request), only_ask=True)

    def _promoting(self, context: Context, request: declared.Promote) -> Intent:
        check_alias(request.alias)
        model = required_model(context, request.model, hold=True)
        version = required_version(context, request.model, request.version)
        return Intent(
            operation=declared.PROMOTE.name,
            model=model,
            alias=request.alias,
            kind="promote",
            before=_pointing_at(context, model, request.alias),
            version=request.version,
            reason=request.reason,
            signed=self._verifier.check_whole(context, version).is_signed,
            remarks=_remarks(version),
            shown=evidence.shown_by(context.work, version),
            required=evidence_store.required(context.work, model.project, model.name, request.alias),
        )

    def rollback(self, context: Context, request: declared.Rollback) -> Promotion:
        model = required_model(context, request.model, hold=True)
        done = store.of_alias(context.work, model.id, request.alias)
        target = previous(done, version_store.numbers_left(context.work, model.id))
        if not target:
            raise Conflict(
                f"There is no version left that {request.alias} of {request.model!r} pointed at before; see its history."
            )
        version = required_version(context, request.model, target)
        used = [move.approval for move in done if move.version == target and move.approval]
        intent = Intent(
            operation=declared.ROLLBACK.name,
            model=model,
            alias=request.alias,
            kind="rollback",
            before=_pointing_at(context, model, request.alias),
            version=target,
            reason=request.reason,
            signed=self._verifier.check_whole(context, version).is_signed,
            approved=approvals.given_before(context.work, used),
            remarks=_remarks(version),
            # What it showed when it was there counts: going back cannot wait for gates that were added or changed since.
            shown=evidence.once_shown_by(context.work, version),
        )
        return self._move(context, intent)

    def remove(self, context: Context, request: declared.RemoveAlias) -> Promotion:
        """An alias that is not there is no trouble, as clients expect."""
        model = required_model(context, request.model, hold=True)
        intent = Intent(
            operation=declared.REMOVE_ALIAS.name,
            model=model,
            alias=request.alias,
            kind="remove",
            before=model_store.aliased_version(context.work, model.id, request.alias),
            version=0,
            reason=request.reason,
            shown=evidence.nothing_to_show(context.work, model.project),
        )
        return self._move(context, intent)

    def set_stage(self, context: Context, request: declared.SetStage) -> Promotion:
        if request.archive_others and request.stage not in ACTIVE_STAGES:
            raise Invalid(f"Others can be archived for the stages {' and '.join(ACTIVE_STAGES)}, not for {request.stage}.")
        model = required_model(context, request.model, hold=True)
        version = required_version(context, request.model, request.version)
        # What lost a file can still be taken out of use.
        entering = request.stage in ACTIVE_STAGES
        checked = self._verifier.check_whole(context, version) if entering else self._verifier.check(context.work, version)
        held = version_store.in_stages(context.work, model.id, [request.stage]) if request.archive_others else ()
        others = [row for row in held if row.number != request.version]
        intent = Intent(
            operation=declared.SET_STAGE.name,
            model=model,
            alias=request.stage,
            kind="stage",
            before=request.version if version.stage == request.stage and not others else 0,
            version=request.version,
            reason=request.reason,
            signed=checked.is_signed,
            leaves=version.stage if version.stage != request.stage else "",
            remarks=_remarks(version),
            shown=evidence.shown_by(context.work, version),
            required=evidence_store.required(context.work, model.project, model.name, request.stage),
        )

        def enter(decided: Intent, approval: str) -> None:
            version_store.update_version(context.work, version.id, stage=request.stage, changed=context.now)
            for other in others:
                version_store.update_version(context.work, other.id, stage="Archived", changed=context.now)
                _record(context, replace(decided, alias="Archived", version=other.number), approval)

        return self._move(context, intent, enter)

    def _move(
        self,
        context: Context,
        intent: Intent,
        enter: Callable[[Intent, str], None] | None = None,
        *,
        only_ask: bool = False,
    ) -> Promotion:
        """1. nothing to do? 2. gates that are missing refuse; 3. ask policy, with the approvals there are; 4. wait for more, or
        refuse; 5. move.

        `enter` makes the move where it is not an alias that moves.
        """
        if intent.before == intent.version:
            return _answer(intent, "unchanged")
        if missing := intent.required - set(intent.shown.passed):
            what = f"{intent.alias} of model {intent.model.name!r} to version {intent.version}"
            raise Forbidden(f"Moving {what} is refused: {intent.shown.told(missing)}", rule=evidence.RULE)
        wanted = approval_store.wanted(context.work, intent.model.id, intent.alias, intent.kind, intent.version, context.now)
        fresh = approvals.given(context.work, wanted.id) if wanted is not None else 0
        approval, given = (wanted.id, fresh) if wanted is not None and fresh > intent.approved[1] else intent.approved
        ruling = self._rule(context, intent, given)
        if not ruling.allowed:
            return self._wait(context, intent, ruling, given)
        if only_ask:
            context.facts.update(version=intent.version)
            return _answer(intent, "allowed", approval=approval, given=given)
        if wanted is not None:  # good for one move; or not needed any more
            uses = approval == wanted.id
            approval_store.close(context.work, wanted.id, "used" if uses else "void")
            # Whoever asks again seldom says again why; the approvers read it in the request.
            intent = replace(intent, reason=intent.reason or wanted.reason) if uses else intent
        if enter is None:
            model_store.point_alias(context.work, intent.model.id, intent.alias, intent.version)
        else:
            enter(intent, approval)
        move = _record(context, intent, approval)
        return _answer(intent, "done", move=move, approval=approval, given=given)

    def _wait(self, context: Context, intent: Intent, ruling: Ruling, given: int) -> Promotion:
        """Ask for the approvals that would be enough; where none would be, refuse."""
        enough = (count for count in range(given + 1, MOST_APPROVALS + 1) if self._rule(context, intent, count).allowed)
        needed = next(enough, None)
        rule = _rule(ruling)
        if needed is None:
            what = f"{intent.alias} of model {intent.model.name!r} to version {intent.version}"
            hint = intent.shown.told(intent.shown.missing) if intent.shown.missing else ""
            raise Forbidden(f"Moving {what} is refused by {', '.join(ruling.rules) or rule}. {hint}".rstrip(), rule=rule)
        wish = Wish(model=intent.model.id, alias=intent.alias, kind=intent.kind, version=intent.version, reason=intent.reason)
        asked = approvals.request_approval(context, wish, needed, rule, self._sources.authors(context))
        context.facts.update(waiting=asked.id, version=intent.version)
        return _answer(
            intent, "waiting", approval=asked.id, needed=needed, given=given, rule=rule, expires=Moment(asked.expires)
        )

    def _rule(self, context: Context, intent: Intent, given: int) -> Ruling:
        promoting = Promoting(
            model=intent.model.name,
            alias=intent.alias,
            approvals=given,
            signed=intent.signed,
            gates=intent.shown.passed,
        )
        ruling = self._ask(context, promoting)
        if ruling.allowed and intent.leaves in ACTIVE_STAGES:
            # As with an alias that is removed: what was in use is so no more, and an older version may be in its place.
            free = evidence.nothing_to_show(context.work, intent.model.project)
            ruling = self._ask(context, replace(promoting, alias=intent.leaves, signed=True, gates=free.passed))
        return ruling

    def _ask(self, context: Context, promoting: Promoting) -> Ruling:
        project = context.required_project.name
        return self._gate.rule_on_promotion(context.work, context.identity, PROMOTION, project, promoting)

    def check_renaming(self, context: Context, model: Found, name: str) -> None:
        """Who renames a model moves its aliases and stages to another name: policy is asked as if they were promoted there,
        with the approvals that they have. Otherwise a rule about one model could be walked around by renaming it a while."""
        for what, promoting in sorted(self._in_use(context, model, name), key=repr):
            needed = [evidence_store.required(context.work, model.project, one, promoting.alias) for one in (name, model.name)]
            if missing := needed[0] - needed[1] - set(promoting.gates):
                raise Forbidden(
                    f"The {what} {promoting.alias} of model {model.name!r} would go by the name {name!r}, for which the gates "
                    f"{', '.join(sorted(missing))} are needed; remove it first.",
                    rule=evidence.RULE,
                )
            if not (ruling := self._ask(context, promoting)).allowed:
                raise Forbidden(
                    f"The {what} {promoting.alias} of model {model.name!r} would go by the name {name!r}, which is refused by "
                    f"{', '.join(ruling.rules) or _rule(ruling)}; remove it first.",
                    rule=_rule(ruling),
                )

    def _in_use(self, context: Context, model: Found, name: str) -> set[tuple[str, Promoting]]:
        """What a model's aliases and active stages are, as moves under another name; many versions make few of them."""
        found = set()
        for row in model_store.aliases_of(context.work, [model.id]):
            done = store.of_alias(context.work, model.id, row.alias)
            _, given = approvals.given_before(context.work, [done[-1].approval])
            version = version_store.of_model(context.work, model.id, row.version)
            signed = version is not None and bool(version.digest)
            gates = evidence.shown_by(context.work, version).passed if version is not None else ()
            found.add(("alias", Promoting(model=name, alias=row.alias, approvals=given, signed=signed, gates=gates)))
        entered = {stage: store.into_stage(context.work, model.id, stage) for stage in ACTIVE_STAGES}
        for row in version_store.in_stages(context.work, model.id, ACTIVE_STAGES):
            _, given = approvals.given_before(context.work, [entered[row.stage].get(row.number, "")])
            version = version_store.of_model(context.work, model.id, row.number)
            gates = evidence.shown_by(context.work, version).passed if version is not None else ()
            signed = bool(row.digest)
            found.add(("stage", Promoting(model=name, alias=row.stage, approvals=given, signed=signed, gates=gates)))
        return found

    # Looking

    def resolve(self, context: Context, request: declared.Resolve) -> Version:
        model = required_model(context, request.model)
        number = model_store.aliased_version(context.work, model.id, request.alias)
        if not number:
            raise NotFound(f"Model {request.model!r} has no alias {request.alias!r}.")
        version = required_version(context, request.model, number)
        self._verifier.check_whole(context, version)
        return version_shown(context.work, version)

    def latest(self, context: Context, request: OneModel) -> Versions:
        model = required_model(context, request.model)
        return Versions(items=versions_shown(context.work, version_store.latest(context.work, [model.id])))

    def history(self, context: Context, request: declared.ReadMoves) -> declared.Moves:
        """Also of a model that was deleted: the last one of that name."""
        model = model_store.ever_named(context.work, context.required_project.id, request.model)
        if model is None:
            raise NotFound(f"There is no registered model {request.model!r} here.")
        before = int(read_cursor(request.cursor, int)[0]) if request.cursor else None
        found = store.newest_first(context.work, model.id, request.alias, before=before, limit=request.limit + 1)
        page, following = page_of(found, request.limit, lambda row: (row.place,))
        return declared.Moves(items=moves_shown(context.work, page), next=following)


def check_alias(alias: str) -> None:
    if alias.lower() == "latest" or re.fullmatch(r"[vV]?[0-9]+", alias):
        raise Invalid(f"{alias!r} cannot be an alias, because clients read it as a version; choose another word.")


def _pointing_at(context: Context, model: Found, alias: str) -> int:
    """The version that an alias which is about to point at one points at now. Raises where another is spelled almost so."""
    found = {row.alias: int(row.version) for row in model_store.aliases_of(context.work, [model.id])}
    alike = [other for other in found if other.lower() == alias.lower()]
    if alike and alias not in found:
        raise Conflict(
            f"{alias!r} differs from {alike[0]!r}, which model {model.name!r} has already, in upper and lower case only; "
            f"say {alike[0]!r}, or remove that first."
        )
    return found.get(alias, 0)


def previous(moves: Sequence[Found], left: set[int]) -> int:
    """Where an alias was before, going by its moves from the first to the last; 0 where there is nothing.

    A rollback takes back the moves since, so that the next one goes further back. Versions that are gone are passed over.
    """
    line: list[int] = []
    for move in moves:
        if move.kind == "rollback":
            while line and line[-1] != move.version:
                line.pop()
        if line[-1:] != [move.version]:
            line.append(move.version)
    now = line.pop() if line else 0
    return next((version for version in reversed(line) if version in left and version != now), 0)


def _record(context: Context, intent: Intent, approval: str) -> str:
    """Add to the history and to the leaf. The history goes forward in time, also where another control plane's clock is
    ahead of ours."""
    row = {
        "id": new_id(context.now),
        "model": intent.model.id,
        "place": model_store.next_move(context.work, intent.model.id, context.now),
        "alias": intent.alias,
        "kind": intent.kind,
        "before": intent.before,
        "version": intent.version,
        "by": context.identity.principal,
        "at": max(int(context.now), store.last_moment(context.work, intent.model.id) + 1),
        "operation": intent.operation,
        "recorded": int(context.now),
        "approval": approval,
        "reason": intent.reason,
    }
    store.add(context.work, row)
    context.facts.update(facts_of(row))
    return str(row["id"])


def _rule(ruling: Ruling) -> str:
    """The rule that a refusal names."""
    return ruling.rules[0] if ruling.rules else "policy.error" if ruling.trouble else "no-permit"


def _remarks(version: Found) -> tuple[str, ...]:
    """What one should know who promotes this version."""
    if version.servable:
        return ()
    if is_convertible(version):
        return ("No runtime takes this version as it is; `falaj deploy` converts it, and says how far the two are apart.",)
    return ("Falaj cannot serve this version; clients can still load it.", *json.loads(version.reasons))


def _answer(
    intent: Intent,
    state: declared.PromotionState,
    *,
    move: str = "",
    approval: str = "",
    needed: int = 0,
    given: int = 0,
    expires: Moment | None = None,
    rule: str = "",
) -> Promotion:
    return Promotion(
        state=state,
        model=intent.model.name,
        alias=intent.alias,
        version=intent.version,
        before=intent.before,
        kind=intent.kind,
        move=move,
        approval=approval,
        needed=needed,
        given=given,
        expires=expires,
        rule=rule,
        remarks=intent.remarks,
    )
