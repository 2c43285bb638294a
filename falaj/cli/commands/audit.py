"""`falaj audit`: read the ledger, verify it, prove from it, export it, follow it."""

import json
import re
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from falaj.base.errors import Corrupt, Invalid, TemporaryError
from falaj.cli.choosing import moment_of
from falaj.cli.command import Commands, Cursor, Limit, Yes
from falaj.cli.deferred import Deferred
from falaj.cli.layout import Layout, cell, sentence, tell_of_more
from falaj.cli.naming import names_of
from falaj.cli.terminal import Terminal, read_text
from falaj.cli.transfers import save, watched
from falaj.governance.ledger.heads import Head, head_of
from falaj.governance.ledger.operations import (
    AS_OF,
    ERASE_SALTS,
    EXPORT,
    FOLLOW,
    HEAD,
    LOG,
    LOG_PROJECT,
    PROVE,
    PROVE_GROWTH,
    VERIFY,
    EraseSalts,
    ExportLedger,
    FollowLog,
    Format,
    LeafProof,
    LedgerAsOf,
    LedgerState,
    LogPage,
    OutcomeWish,
    ProveGrowth,
    ProveLeaf,
    ReadAsOf,
    ReadHead,
    ReadLog,
    ReadProjectLog,
    VerifyLedger,
)
from falaj.governance.ledger.reports import Report
from falaj.governance.ledger.trees import includes, leaf_hash

if TYPE_CHECKING:
    from falaj.governance.ledger import offline
else:
    offline = Deferred("falaj.governance.ledger.offline")

commands = Commands("The ledger: read it, verify it, prove from it, export it, follow it.")
PATIENCE = 3600.0  # a full verification reads every leaf there is
LONGEST_PAUSE = 30.0
FORMAT = "`leaf` can be verified offline; `cloudevents` is for other programs."


@commands.command("log")
def log(
    terminal: Terminal,
    project: Annotated[str, typer.Option(help="Only what touched this project.", show_default=False)] = "",
    operation: Annotated[str, typer.Option(help="Only this operation, e.g. token.create.", show_default=False)] = "",
    principal: Annotated[str, typer.Option(help="Only what this one did, by id.", show_default=False)] = "",
    outcome: Annotated[Literal["done", "refused"] | None, typer.Option(help="Only what was done, or refused.")] = None,
    since: Annotated[str, typer.Option(help="From this time on, e.g. 2026-11-15T09:30:00Z.", show_default=False)] = "",
    until: Annotated[str, typer.Option(help="Before this time.", show_default=False)] = "",
    oldest_first: Annotated[bool, typer.Option("--oldest-first", help="Begin with the oldest.")] = False,
    limit: Limit = 100,
    cursor: Cursor = "",
) -> None:
    """Page through the ledger, newest first.

    Example: falaj audit log --project fraud --outcome refused --since 2026-11-01T00:00:00Z
    """
    wish: OutcomeWish = outcome or ""
    order: Literal["newest-first", "oldest-first"] = "oldest-first" if oldest_first else "newest-first"
    start, end = (moment_of(text) if text else None for text in (since, until))
    if project:
        of_project = ReadProjectLog(
            project=project, operation=operation, principal=principal, outcome=wish, since=start, until=end, order=order,
            limit=limit, cursor=cursor,
        )  # fmt: skip
        page = terminal.call(LOG_PROJECT, of_project)
    else:
        request = ReadLog(
            operation=operation,
            principal=principal,
            outcome=wish,
            since=start,
            until=end,
            order=order,
            limit=limit,
            cursor=cursor,
        )
        page = terminal.call(LOG, request)
    names = {} if terminal.as_json else names_of(terminal, page.items, project)
    terminal.show(page, partial(_log, names))


@commands.command("verify")
def verify(
    terminal: Terminal,
    file: Annotated[Path | None, typer.Option(help="Verify this export, offline.", metavar="EXPORT")] = None,
    head: Annotated[
        str, typer.Option(help="What `audit head --json` printed earlier: the ledger must still begin with it.")
    ] = "",
) -> None:
    """Verify every leaf, head and copy; each damage is named, and the exit status is 1 when there is any.

    Example: falaj audit verify --file ledger.jsonl --head head.json
    """
    kept, keys = _kept(head) if head else (None, None)
    if file is None:
        report = terminal.call(VERIFY, VerifyLedger(expected=kept), patience=PATIENCE)
    else:
        report = offline.verify_export(file, keys=keys, expected=kept)
    terminal.show(report, _report)
    if not report.ok:
        raise typer.Exit(1)


@commands.command("prove")
def prove(
    terminal: Terminal,
    leaf: Annotated[str, typer.Argument(help="The leaf's id or its index.", show_default=False)],
) -> None:
    """Prove that a leaf is in the ledger; the proof is checked here as well.

    Example: falaj audit prove 42 --json > proof.json
    """
    request = ProveLeaf(index=int(leaf)) if re.fullmatch(r"\d{1,16}", leaf) else ProveLeaf(leaf=leaf)
    proof = terminal.call(PROVE, request)
    path = [bytes.fromhex(node) for node in proof.path]
    if not includes(bytes.fromhex(proof.head.root), proof.head.size, leaf_hash(proof.record.encode()), proof.index, path):
        raise Corrupt(f"The proof of leaf {leaf} does not hold; run `falaj audit verify`.")
    terminal.show(proof, _proven)


def _proven(layout: Layout, proof: LeafProof) -> None:
    leaf, head = json.loads(proof.record), proof.head
    layout.pairs(
        [
            ("leaf", f"{proof.index}: {leaf['operation']}, {leaf['outcome']}, {leaf['inserted']}"),
            ("record", proof.record),
            ("hash", proof.hash),
            ("head", f"of {head.size} leaves, signed {cell(head.at)} by the key {head.key}"),
            ("root", head.root),
            ("proof", f"holds: {len(proof.path)} hashes lead from the leaf to the root; --json has them"),
            ("signature", "the head's is checked by: falaj audit verify"),
        ]
    )


@commands.command("growth")
def growth(
    terminal: Terminal,
    old: Annotated[int, typer.Argument(help="The earlier size.", show_default=False)],
    new: Annotated[int, typer.Argument(help="The later size.", show_default=False)],
) -> None:
    """Prove that the ledger only grew between two sizes.

    Example: falaj audit growth 100 250 --json
    """
    terminal.run(PROVE_GROWTH, ProveGrowth(old=old, new=new))


@commands.command("export")
def export(
    terminal: Terminal,
    file: Annotated[str, typer.Argument(help="Where to write it; - is standard output.", show_default=False)],
    format: Annotated[Format, typer.Option(help=FORMAT)] = "leaf",
) -> None:
    """Export the sequenced ledger as JSON lines.

    Example: falaj audit export ledger.jsonl
    """
    download = terminal.call(EXPORT, ExportLedger(format=format), patience=PATIENCE)
    size = save(watched(download.chunks, download.size, download.name), file)
    terminal.told({"file": file, "size": size}, f"Wrote {size:,} bytes to {file}.", file)


@commands.command("follow")
def follow(
    terminal: Terminal,
    after: Annotated[int, typer.Option(help="Begin after this index; -1 is the beginning.", min=-1)] = -1,
    format: Annotated[Format, typer.Option(help="`leaf` or `cloudevents`.")] = "leaf",
    once: Annotated[bool, typer.Option("--once", help="End when nothing new is there.")] = False,
) -> None:
    """Stream the ledger as JSON lines, for a SIEM. Resume with --after and the last index that was kept.

    Example: falaj audit follow --after 1041 >> /var/log/falaj-audit.jsonl
    """
    pause = 1.0
    while True:
        try:
            page = terminal.call(FOLLOW, FollowLog(after=after, format=format, limit=1000))
        except TemporaryError as error:
            terminal.say(f"falaj: {error} Going on after {after} in {pause:g} s.")
            time.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)
            continue
        for item in page.items:
            sys.stdout.write(json.dumps(item, ensure_ascii=False, separators=(",", ":")) + "\n")
        sys.stdout.flush()
        caught_up, after, pause = page.after == after, page.after, 1.0
        if caught_up and once:
            return
        if caught_up:
            time.sleep(1)


@commands.command("as-of")
def as_of(
    terminal: Terminal,
    time: Annotated[str, typer.Argument(help="The moment, e.g. 2026-11-15T12:00:00Z.", show_default=False)],
) -> None:
    """Say which state of the ledger held at a moment.

    Example: falaj audit as-of 2026-11-15T12:00:00Z
    """
    terminal.run(AS_OF, ReadAsOf(at=moment_of(time)), _state_at)


@commands.command("head")
def head(terminal: Terminal) -> None:
    """Show the newest signed head. Kept elsewhere, it proves later what the ledger was now.

    Example: falaj audit head --json > head.json
    """
    terminal.run(HEAD, ReadHead(), _state)


@commands.command("erase-salts")
def erase_salts(
    terminal: Terminal,
    principal: Annotated[str, typer.Option(help="Whose personal values, by id.", show_default=False)] = "",
    leaf: Annotated[str, typer.Option(help="Or those of one leaf, by id.", show_default=False)] = "",
    yes: Yes = False,
) -> None:
    """Make personal values in the ledger unsayable, by erasing their salts. Every leaf and every proof stays valid.

    Example: falaj audit erase-salts --principal 01a1e0e41f3f78298b7c642219a6a210
    """
    if bool(principal) == bool(leaf):
        raise Invalid("Say whose personal values: give either --principal or --leaf.")
    terminal.confirm(f"Erase the salts of {principal or leaf}? Nothing brings them back.", yes)
    said = sentence(lambda it: f"Erased {it.erased} salts; what stood behind them can no longer be told or confirmed.")
    terminal.run(ERASE_SALTS, EraseSalts(leaf=leaf, principal=principal), said)


def _log(names: dict[str, str], layout: Layout, page: LogPage) -> None:
    """Entries with the name of whoever did it beside the id, which is what `--principal` takes."""
    layout.table(
        ["index", "inserted", "operation", "outcome", "principal", "name", "rule"],
        (
            [
                entry.index,
                entry.inserted,
                entry.operation,
                entry.outcome,
                entry.principal,
                names.get(entry.principal),
                entry.rule,
            ]
            for entry in page.items
        ),
    )
    tell_of_more(page)


def _kept(file: str) -> tuple[Head, dict[str, bytes] | None]:
    """The head, and the keys where they were kept with it, from what `audit head --json` printed."""
    try:
        document = json.loads(read_text(file))
        keys = {name: bytes.fromhex(key) for name, key in document["keys"].items()} if "keys" in document else None
        return head_of(document.get("head", document)), keys
    except (ValueError, TypeError, AttributeError):
        raise Invalid(f"{file} has no head of the ledger; `falaj audit head --json` prints one.") from None


def _state(layout: Layout, state: LedgerState) -> None:
    layout.pairs([*_head("", state.head), ("not yet under it", state.unsequenced)])


def _state_at(layout: Layout, state: LedgerAsOf) -> None:
    layout.pairs(
        [("at", state.at), *_head("", state.head), ("recorded beyond it", state.unsequenced), *_head("next ", state.covered_by)]
    )


def _head(prefix: str, head: Head | None) -> list[tuple[str, object]]:
    if head is None:
        return [(f"{prefix}head", "none yet")]
    return [
        (f"{prefix}size", head.size),
        (f"{prefix}root", head.root),
        (f"{prefix}signed", head.at),
        (f"{prefix}key", head.key),
    ]


def _report(layout: Layout, report: Report) -> None:
    if report.ok:
        layout.line(
            f"The ledger is whole: {_counted(report.leaves, 'leaf', 'leaves')}, {_counted(report.heads, 'head', 'heads')}, "
            f"{_counted(report.copies, 'copy', 'copies')}.",
            style="green",
        )
    else:
        findings = _counted(len(report.findings) + report.omitted, "finding", "findings")
        layout.line(f"The ledger is damaged: {findings}.", style="bold red")
        layout.table(["finding", "leaves", "what"], ([f.name, _span(f.first, f.last), f.message] for f in report.findings))
    if report.omitted:
        layout.line(f"{report.omitted} more findings were left out.")
    if report.unsequenced:
        layout.line(
            f"{report.unsequenced} leaves are not yet under a head, the oldest since {cell(report.oldest_unsequenced)}."
        )
    for note in report.notes:
        layout.line(f"Note: {note}")


def _counted(number: int, one: str, several: str) -> str:
    return f"{number} {one if number == 1 else several}"


def _span(first: int | None, last: int | None) -> str:
    return "-" if first is None else str(first) if first == last else f"{first}-{last}"
