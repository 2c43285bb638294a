"""The part of `falaj model` that says which version is in production: moving aliases, approvals, history, as-of."""

import json
import shlex
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Annotated, Final, Literal

import typer

from falaj.base.clock import SystemClock
from falaj.base.errors import Conflict, Corrupt, NotFound
from falaj.cli.choosing import InProject, OfModel, OfVersion, an_id, moment_of, project_of, version_of
from falaj.cli.command import Cursor, Limit, Yes
from falaj.cli.layout import Layout, cell, tell_of_more
from falaj.cli.terminal import Terminal
from falaj.governance.ledger.operations import LeafProof
from falaj.governance.ledger.trees import includes, leaf_hash
from falaj.registry.operations.models import SHOW_MODEL, OneModel
from falaj.registry.operations.promotions import (
    GIVE_APPROVAL,
    HISTORY,
    LIST_APPROVALS,
    MODEL_AS_OF,
    PROMOTE,
    REFUSE_APPROVAL,
    REMOVE_ALIAS,
    ROLLBACK,
    WITHDRAW_APPROVAL,
    Approval,
    Approvals,
    GiveApproval,
    ListApprovals,
    ModelAsOf,
    Move,
    Moves,
    OneApproval,
    Person,
    Promote,
    Promotion,
    ReadModelAsOf,
    ReadMoves,
    RemoveAlias,
    Rollback,
)
from falaj.registry.operations.versions import SHOW_VERSION, OneVersion
from falaj.registry.operations.words import CHAMPION

Alias = Annotated[str, typer.Option(help="The alias.")]
Reason = Annotated[str, typer.Option(help="Why; it stays on record.", show_default=False)]
OfApproval = Annotated[
    str, typer.Argument(help="The id that `promote` or `approvals` gave.", show_default=False, callback=an_id("approval"))
]
WAITS = 3  # the exit status of a move that was not made yet
AT_ONCE = 1000


def promote(
    terminal: Terminal,
    model: OfModel,
    version: OfVersion,
    alias: Alias = CHAMPION,
    reason: Reason = "",
    project: InProject = "",
) -> None:
    """Point an alias at a version. Where policy wants approvals first, this asks for them; say it again once they are given.

    The exit status is 3 while it waits for approval.

    Example: falaj model promote card-fraud 4 --reason "better recall" --project fraud
    """
    chosen = project_of(terminal, project)
    number = version_of(terminal, chosen, model, version)
    request = Promote(project=chosen, model=model, alias=alias, version=number, reason=reason)
    _moved(terminal, terminal.call(PROMOTE, request), chosen)


def rollback(
    terminal: Terminal,
    model: OfModel,
    alias: Alias = CHAMPION,
    reason: Reason = "",
    yes: Yes = False,
    project: InProject = "",
) -> None:
    """Point an alias back at the version it pointed at before; the exit status is 3 while it waits for approval.

    Example: falaj model rollback card-fraud --yes --project fraud
    """
    chosen = project_of(terminal, project)
    if not yes:
        terminal.confirm(_question(terminal, chosen, model, alias), yes)
    request = Rollback(project=chosen, model=model, alias=alias, reason=reason)
    _moved(terminal, terminal.call(ROLLBACK, request), chosen)


def remove_alias(
    terminal: Terminal,
    model: OfModel,
    alias: Annotated[str, typer.Argument(help="The alias.", show_default=False)],
    reason: Reason = "",
    yes: Yes = False,
    project: InProject = "",
) -> None:
    """Remove an alias of a model; its history stays. The exit status is 3 while it waits for approval.

    Example: falaj model remove-alias card-fraud challenger --yes --project fraud
    """
    terminal.confirm(f"Remove the alias {alias} of {model}?", yes)
    chosen = project_of(terminal, project)
    request = RemoveAlias(project=chosen, model=model, alias=alias, reason=reason)
    _moved(terminal, terminal.call(REMOVE_ALIAS, request), chosen)


def history(
    terminal: Terminal,
    model: OfModel,
    alias: Annotated[str, typer.Option(help="Only of this alias.", show_default=False)] = "",
    project: InProject = "",
    limit: Limit = 100,
    cursor: Cursor = "",
) -> None:
    """List every move of a model's aliases and stages, newest first: who, when, from where to where, approved by whom.

    Example: falaj model history card-fraud --alias champion --project fraud
    """
    request = ReadMoves(project=project_of(terminal, project), model=model, alias=alias, limit=limit, cursor=cursor)
    terminal.run(HISTORY, request, _moves)


def as_of(
    terminal: Terminal,
    model: OfModel,
    alias: Alias = CHAMPION,
    at: Annotated[
        str | None,
        typer.Option(help="The moment, e.g. 2026-11-15T12:00:00Z; now by default.", metavar="TIME", show_default=False),
    ] = None,
    project: InProject = "",
) -> None:
    """Say what an alias pointed at in a moment: version, run, data, approvers, and the ledger's proof, which is checked here.

    Example: falaj model as-of card-fraud --alias champion --at 2026-11-15T12:00:00Z --project fraud
    """
    moment = SystemClock().now() if at is None else moment_of(at)
    request = ReadModelAsOf(project=project_of(terminal, project), model=model, alias=alias, at=moment)
    state = terminal.call(MODEL_AS_OF, request)
    if state.move is None:
        _require_alias(terminal, request)
    if state.proof is not None:
        _check(state, state.proof)
    terminal.show(state, _state)


def approvals(
    terminal: Terminal,
    model: Annotated[str, typer.Argument(help="Only of this model.", show_default=False)] = "",
    state: Annotated[Literal["open", "closed", "all"], typer.Option(help="Which.")] = "open",
    project: InProject = "",
    limit: Limit = 100,
    cursor: Cursor = "",
) -> None:
    """List the moves that wait for approval, or once did.

    Example: falaj model approvals --project fraud
    """
    chosen = project_of(terminal, project)
    request = ListApprovals(project=chosen, model=model, state=state, limit=limit, cursor=cursor)
    page = terminal.call(LIST_APPROVALS, request)
    if model and not page.items:
        terminal.call(SHOW_MODEL, OneModel(project=chosen, model=model))  # a name that is misspelled is told
    terminal.show(page, _approvals)


def approve(
    terminal: Terminal,
    approval: OfApproval,
    note: Annotated[str, typer.Option(help="A word for the record.", show_default=False)] = "",
    project: InProject = "",
) -> None:
    """Approve a move that somebody else asked for.

    Example: falaj model approve 0199a1b2c3d4e5f60718293a4b5c6d7e --project fraud
    """
    chosen = project_of(terminal, project)
    request = GiveApproval(project=chosen, approval=approval, note=note)
    terminal.run(GIVE_APPROVAL, request, partial(_approval, chosen))


def refuse(
    terminal: Terminal,
    approval: OfApproval,
    note: Annotated[str, typer.Option(help="Why.", show_default=False)] = "",
    project: InProject = "",
) -> None:
    """Refuse a move that somebody else asked for; one refusal ends it.

    Example: falaj model refuse 0199a1b2c3d4e5f60718293a4b5c6d7e --note "not on this data" --project fraud
    """
    chosen = project_of(terminal, project)
    request = GiveApproval(project=chosen, approval=approval, note=note)
    terminal.run(REFUSE_APPROVAL, request, partial(_approval, chosen))


def withdraw(terminal: Terminal, approval: OfApproval, project: InProject = "") -> None:
    """Take back a move that you asked for.

    Example: falaj model withdraw 0199a1b2c3d4e5f60718293a4b5c6d7e --project fraud
    """
    chosen = project_of(terminal, project)
    terminal.run(WITHDRAW_APPROVAL, OneApproval(project=chosen, approval=approval), partial(_approval, chosen))


COMMANDS: Final[dict[str, Callable[..., None]]] = {
    "promote": promote,
    "rollback": rollback,
    "remove-alias": remove_alias,
    "history": history,
    "as-of": as_of,
    "approvals": approvals,
    "approve": approve,
    "refuse": refuse,
    "withdraw": withdraw,
}


def _moved(terminal: Terminal, it: Promotion, project: str) -> None:
    """Scripts tell by the exit status whether the alias points there, or only may one day."""
    terminal.show(it, partial(promotion_shown, project))
    if it.state == "waiting":
        raise typer.Exit(WAITS)


def _question(terminal: Terminal, project: str, model: str, alias: str) -> str:
    """What a rollback would do, going by the history."""
    now, *earlier = line_of(_every_move(terminal, project, model, alias)) or [0]
    for version in earlier:
        if version not in (0, now) and _is_there(terminal, project, model, version):
            here = f"version {now}" if now else "nothing"
            return f"Point {alias} of {model} back from {here} to version {version}?"
    raise Conflict(
        f"There is no version left that {alias} of {model} pointed at before; see: "
        f"falaj model history {shlex.quote(model)} --project {project}"
    )


def line_of(moves: Sequence[Move]) -> list[int]:
    """Where an alias points and where it was before, nearest first, going by its moves from the last to the first.

    A rollback takes back the moves since, so that the next one goes further back.
    """
    line: list[int] = []
    for move in reversed(moves):
        if move.kind == "rollback":
            while line and line[0] != move.version:
                line.pop(0)
        if line[:1] != [move.version]:
            line.insert(0, move.version)
    return line


def _every_move(terminal: Terminal, project: str, model: str, alias: str) -> list[Move]:
    found: list[Move] = []
    cursor = ""
    while True:
        page = terminal.call(HISTORY, ReadMoves(project=project, model=model, alias=alias, limit=AT_ONCE, cursor=cursor))
        found += [move for move in page.items if move.kind != "stage"]
        cursor = page.next
        if not cursor:
            return found


def _is_there(terminal: Terminal, project: str, model: str, version: int) -> bool:
    with suppress(NotFound):
        terminal.call(SHOW_VERSION, OneVersion(project=project, model=model, version=version))
        return True
    return False


def _require_alias(terminal: Terminal, asked: ReadModelAsOf) -> None:
    """An alias that nobody ever moved is misspelled rather than unset. Of a model that is gone, nobody can tell."""
    try:
        known = terminal.call(SHOW_MODEL, OneModel(project=asked.project, model=asked.model)).aliases
        moves = terminal.call(HISTORY, ReadMoves(project=asked.project, model=asked.model, alias=asked.alias, limit=1))
    except NotFound:
        return
    if not moves.items:
        named = ", ".join(alias.alias for alias in known) or "none"
        raise NotFound(f"{asked.model} never had an alias {asked.alias}; its aliases: {named}.")


def _check(state: ModelAsOf, proof: LeafProof) -> None:
    """The leaf says what the answer says, and is in the tree. Whose signature the tree's head has, `audit verify` checks."""
    said = json.loads(proof.record)["facts"]
    if (said.get("alias"), said.get("version")) != (state.alias, state.version):
        raise Corrupt("The ledger's proof is that of another move; run `falaj audit verify`.")
    path = [bytes.fromhex(node) for node in proof.path]
    if not includes(bytes.fromhex(proof.head.root), proof.head.size, leaf_hash(proof.record.encode()), proof.index, path):
        raise Corrupt("The ledger's proof of this move does not hold; run `falaj audit verify`.")


def promotion_shown(project: str, layout: Layout, it: Promotion) -> None:
    target = f"version {it.version}" if it.version else "no version"
    if it.state == "unchanged":
        layout.line(f"{it.alias} of {it.model} points at {target} already.")
    elif it.state == "done":
        before = f"; before, it was version {it.before}" if it.before else ""
        layout.line(f"{it.alias} of {it.model} points at {target} now{before}.")
    else:
        wanted = "1 approval" if it.needed == 1 else f"{it.needed} approvals"
        layout.line(f"Policy wants {wanted} before {it.alias} of {it.model} points at {target} ({it.rule}).")
        layout.line(f"Somebody else gives one with: falaj model approve {it.approval} --project {project}")
        layout.line(f"Then say the same again, before {cell(it.expires)}.")
    for remark in it.remarks:
        layout.line(f"Note: {remark}")


def _people(people: Sequence[Person]) -> str:
    return ", ".join(person.name or person.id for person in people)


def _moves(layout: Layout, page: Moves) -> None:
    layout.table(
        ["at", "alias", "kind", "from", "to", "by", "approved by", "reason"],
        (
            [
                str(move.at),  # in full, so that `as-of` agrees with it
                move.alias,
                move.kind,
                move.before or None,
                move.version or None,
                move.by.name or move.by.id,
                _people(move.approvers),
                move.reason,
            ]
            for move in page.items
        ),
    )
    tell_of_more(page)


def _state(layout: Layout, it: ModelAsOf) -> None:
    rows: list[tuple[str, object]] = [("model", it.model), ("alias", it.alias), ("at", str(it.at))]
    rows.append(("version", it.version or "none: it pointed at nothing then"))
    if it.version:
        rows += [("run", it.run), ("data", tuple(f"{data.name}@{data.digest}" for data in it.data))]
        rows.append(("digest", it.details.digest if it.details else "the version has been deleted since"))
    if it.move is not None:
        rows += [
            ("moved", str(it.move.at)),
            ("moved by", it.move.by.name or it.move.by.id),
            ("approved by", _people(it.move.approvers) or "nobody: no approval was needed"),
            ("reason", it.move.reason),
        ]
    rows.append(("leaf", it.leaf))
    if it.proof is not None:
        rows += [
            ("index", it.proof.index),
            ("tree size", it.proof.head.size),
            ("tree root", it.proof.head.root),
            ("proof", f"holds; an auditor checks it again with: falaj audit prove {it.proof.index}"),
            ("offline", "falaj audit export ledger.jsonl, and anywhere: falaj audit verify --file ledger.jsonl"),
        ]
    elif it.ledger:
        rows.append(("proof", it.ledger))
    layout.pairs(rows)


def _approvals(layout: Layout, page: Approvals) -> None:
    layout.table(
        ["id", "model", "alias", "version", "kind", "state", "given", "requested by", "expires", "reason"],
        (
            [
                one.id,
                one.model,
                one.alias,
                one.version or None,
                one.kind,
                one.state,
                f"{one.given} of {one.needed}",
                one.requested_by.name or one.requested_by.id,
                one.expires,
                one.reason,
            ]
            for one in page.items
        ),
    )
    tell_of_more(page)


def _approval(project: str, layout: Layout, it: Approval) -> None:
    target = f"version {it.version}" if it.version else "no version"
    layout.line(f"{it.alias} of {it.model} to {target}: {it.state}, {it.given} of {it.needed} approvals.")
    if it.state == "ready":
        layout.line(f"Whoever asked makes the move by saying the same again: {_words_of(it, project)}")


def _words_of(it: Approval, project: str) -> str:
    """How the move that was approved is asked for; each kind of move is approved for itself."""
    model = shlex.quote(it.model)
    if it.kind == "promote":
        return f"falaj model promote {model} {it.version} --alias {it.alias} --project {project}"
    if it.kind == "rollback":
        return f"falaj model rollback {model} --alias {it.alias} --project {project}"
    if it.kind == "remove":
        return f"falaj model remove-alias {model} {it.alias} --project {project}"
    return f"the stage {it.alias} is set by an MLflow client"
