"""The ledger's tables. A leaf's `position` is its index in the tree, NULL until the sequencer has given it one.

The columns beside `record` repeat what the record says, for finding leaves; verification holds them against it.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Index,
    Integer,
    LargeBinary,
    Row,
    Select,
    String,
    Table,
    and_,
    bindparam,
    delete,
    func,
    insert,
    literal,
    or_,
    select,
    tuple_,
    update,
)

from falaj.base.clock import Moment
from falaj.base.ids import LeafId
from falaj.base.values import value
from falaj.database.inserts import prepared_insert_or_skip
from falaj.database.prepared import Prepared
from falaj.database.work import UnitOfWork, metadata
from falaj.governance.ledger.heads import Head
from falaj.governance.ledger.leaves import Commitments, Leaf, decode
from falaj.governance.ledger.trees import Node

leaves = Table(
    "ledger_leaves",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("position", BigInteger),
    Column("inserted", BigInteger, nullable=False),
    Column("operation", String(100), nullable=False),
    Column("project", String(32), nullable=False),
    Column("principal", String(32), nullable=False),
    Column("outcome", String(10), nullable=False),
    Column("record", LargeBinary, nullable=False),
)
Index("ledger_leaves_by_time", leaves.c.inserted, leaves.c.id)
Index("ledger_leaves_by_project", leaves.c.project, leaves.c.inserted, leaves.c.id)
Index("ledger_leaves_by_operation", leaves.c.operation, leaves.c.inserted, leaves.c.id)
Index("ledger_leaves_by_principal", leaves.c.principal, leaves.c.inserted, leaves.c.id)
_REFUSED = leaves.c.outcome == literal("refused", literal_execute=True)
Index("ledger_leaves_refused", leaves.c.inserted, leaves.c.id, sqlite_where=_REFUSED, postgresql_where=_REFUSED)
# Two partial indexes, so that a leaf stands in the small one while it waits and in the large one once it has its place.
_SEQUENCED = leaves.c.position.is_not(None)
Index("ledger_leaves_sequenced", leaves.c.position, unique=True, sqlite_where=_SEQUENCED, postgresql_where=_SEQUENCED)
_WAITING = leaves.c.position.is_(None)
Index("ledger_leaves_waiting", leaves.c.inserted, leaves.c.id, sqlite_where=_WAITING, postgresql_where=_WAITING)

# `principal` did it, `subject` is the principal it was about: either may ask for erasure.
salts = Table(
    "ledger_salts",
    metadata,
    Column("leaf", String(32), primary_key=True),
    Column("field", String(200), primary_key=True),
    Column("principal", String(32), nullable=False, index=True),
    Column("subject", String(32), nullable=False, index=True),
    Column("salt", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)

windows = Table(
    "ledger_windows",
    metadata,
    Column("operation", String(100), primary_key=True),
    Column("project", String(32), primary_key=True),
    Column("principal", String(32), primary_key=True),
    Column("subject", String(100), primary_key=True),
    Column("start", BigInteger, nullable=False, index=True),
    Column("until", BigInteger, nullable=False),
    Column("calls", BigInteger, nullable=False),
    Column("seed", LargeBinary, nullable=False),
    Column("digest", LargeBinary, nullable=False),
)

nodes = Table(
    "ledger_nodes",
    metadata,
    Column("level", Integer, primary_key=True, autoincrement=False),
    Column("position", BigInteger, primary_key=True, autoincrement=False),
    Column("hash", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)

heads = Table(
    "ledger_heads",
    metadata,
    Column("size", BigInteger, primary_key=True, autoincrement=False),
    Column("root", String(64), nullable=False),
    Column("at", BigInteger, nullable=False, index=True),
    Column("previous", String(64), nullable=False),
    Column("key", String(200), nullable=False),
    Column("signature", String(128), nullable=False),
)

LONGEST_FIELD = 200
_FORGOTTEN = "ledger.forgotten."


@value
class StoredLeaf:
    """A leaf as the table has it; nothing in it is trusted before it was verified."""

    index: int | None
    record: bytes
    columns: tuple[str, int, str, str, str, str]

    def readable(self) -> Leaf:
        """The leaf, or what its columns say where somebody spoiled the record: a listing must not fall over that."""
        try:
            return decode(self.record)
        except (ValueError, RecursionError):
            id, inserted, operation, project, principal, _ = self.columns
            return Leaf(
                id=LeafId(id),
                inserted=Moment(inserted),
                operation=operation,
                record="unreadable",
                outcome="done",
                principal=principal,
                project=project,
                request={},
                facts={},
            )


@value
class Wanted:
    """Which leaves a listing is about; empty texts and None mean any."""

    project: str = ""
    operation: str = ""
    principal: str = ""
    outcome: str = ""
    since: Moment | None = None
    until: Moment | None = None


# --- writing -----------------------------------------------------------------------------------------------------------------


_INSERT_LEAF = Prepared(insert(leaves))
_INSERT_SALT = Prepared(insert(salts))


def insert_leaf(work: UnitOfWork, leaf: Leaf, record: bytes) -> None:
    _INSERT_LEAF.run(
        work,
        id=leaf.id,
        position=None,
        inserted=int(leaf.inserted),
        operation=leaf.operation,
        project=leaf.project,
        principal=leaf.principal,
        outcome=leaf.outcome,
        record=record,
    )


def insert_salts(work: UnitOfWork, leaf: Leaf, commitments: Commitments, *, subject: str) -> None:
    of_leaf = {"leaf": leaf.id, "principal": leaf.principal, "subject": subject}
    _INSERT_SALT.run_many(work, [of_leaf | {"field": field[:LONGEST_FIELD], "salt": salt} for field, salt in commitments])


def erase_salts(work: UnitOfWork, *, leaf: str = "", principal: str = "") -> int:
    """Forget the salts of one leaf, or of all that a principal did or that was done about it; how many.

    With a principal's go the seeds of its open windows, and this very transaction keeps no salt of it any more.
    """
    if leaf:
        return int(work.execute(delete(salts).where(salts.c.leaf == leaf)).rowcount)
    work.remembered[_FORGOTTEN + principal] = 1
    work.execute(update(windows).where(windows.c.principal == principal).values(seed=b""))
    of_principal = or_(salts.c.principal == principal, salts.c.subject == principal)
    return int(work.execute(delete(salts).where(of_principal)).rowcount)


def is_forgotten(work: UnitOfWork, *principals: str) -> bool:
    """Whether the salts of one of them were erased in this transaction."""
    return any(_FORGOTTEN + principal in work.remembered for principal in principals)


def salts_of(work: UnitOfWork, leaf: str) -> dict[str, bytes]:
    return {row.field: row.salt for row in work.execute(select(salts.c.field, salts.c.salt).where(salts.c.leaf == leaf))}


_KEY = ("operation", "project", "principal", "subject")
_THIS_WINDOW = and_(*(windows.c[name] == bindparam(f"its_{name}") for name in _KEY))
_MAKE_WINDOW = prepared_insert_or_skip(windows)
_LOCK_WINDOW = Prepared(select(windows.c.until, windows.c.calls, windows.c.digest).where(_THIS_WINDOW).with_for_update())
_UPDATE_WINDOW = Prepared(
    update(windows).where(_THIS_WINDOW).values({name: bindparam(name) for name in ("until", "calls", "digest")})
)
_DELETE_WINDOW = Prepared(delete(windows).where(_THIS_WINDOW))


@value
class WindowKey:
    """Which telemetry belongs together. `subject` is what it is about: a run, for instance."""

    operation: str
    project: str
    principal: str
    subject: str = ""

    def parameters(self) -> dict[str, str]:
        return {f"its_{name}": getattr(self, name) for name in _KEY}


@value
class Window:
    """How far a window has come."""

    until: Moment
    calls: int
    digest: bytes


def open_window(work: UnitOfWork, key: WindowKey, *, now: Moment, seed: bytes) -> Window:
    """The window of this key, locked until the transaction ends; made when there is none."""
    while (row := _LOCK_WINDOW.first(work, **key.parameters())) is None:
        # Once more, when another call made it, or the sequencer closed it, at the same moment.
        named = {name: getattr(key, name) for name in _KEY}
        _MAKE_WINDOW.run(work, **named, start=int(now), until=int(now), calls=0, seed=seed, digest=seed)
    until, calls, digest = row
    return Window(until=Moment(until), calls=calls, digest=bytes(digest))


def update_window(work: UnitOfWork, key: WindowKey, window: Window) -> None:
    _UPDATE_WINDOW.run(work, **key.parameters(), until=int(window.until), calls=window.calls, digest=window.digest)


def due_windows(work: UnitOfWork, *, started_before: int, limit: int) -> Sequence[Row[Any]]:
    """Windows to close. One that a call is just counting in is left for the next round."""
    due = select(windows).where(windows.c.start < started_before).order_by(windows.c.start).limit(limit)
    return work.execute(due.with_for_update(skip_locked=True)).all()


def any_window_due(work: UnitOfWork, *, started_before: int) -> bool:
    return work.execute(select(windows.c.start).where(windows.c.start < started_before).limit(1)).first() is not None


def delete_window(work: UnitOfWork, key: WindowKey) -> None:
    _DELETE_WINDOW.run(work, **key.parameters())


def waiting(work: UnitOfWork, limit: int) -> Sequence[Row[Any]]:
    """Leaves without an index, in the order in which they will get one."""
    columns = select(leaves.c.id, leaves.c.record).where(_WAITING)
    return work.execute(columns.order_by(leaves.c.inserted, leaves.c.id).limit(limit)).all()


def give_positions(work: UnitOfWork, first: int, ids: Sequence[str]) -> None:
    statement = update(leaves).where(leaves.c.id == bindparam("leaf"), _WAITING).values(position=bindparam("place"))
    work.execute(statement, [{"leaf": leaf, "place": first + number} for number, leaf in enumerate(ids)])


def insert_nodes(work: UnitOfWork, made: Sequence[tuple[Node, bytes]]) -> None:
    work.execute(insert(nodes), [{"level": level, "position": place, "hash": node} for (level, place), node in made])


def insert_head(work: UnitOfWork, head: Head) -> None:
    work.execute(insert(heads), head.document() | {"at": head.at})


# --- reading: tree and heads -------------------------------------------------------------------------------------------------


def read_nodes(work: UnitOfWork, wanted: Collection[Node]) -> dict[Node, bytes]:
    if not wanted:
        return {}
    # Written as alternatives, each found by the primary key; `(level, position) IN (...)` makes SQLite read the whole table.
    places = (and_(nodes.c.level == level, nodes.c.position == position) for level, position in wanted)
    rows = work.execute(select(nodes).where(or_(*places)))
    return {(row.level, row.position): bytes(row.hash) for row in rows}


def nodes_completed(work: UnitOfWork, start: int, end: int) -> dict[Node, bytes]:
    """The nodes that became complete while the tree grew from `start` to `end` leaves."""
    spans = [
        and_(nodes.c.level == level, nodes.c.position >= start >> level, nodes.c.position < end >> level)
        for level in range(end.bit_length())
        if start >> level < end >> level
    ]
    rows: dict[Node, bytes] = {}
    for span in spans:  # one by one: a union of them would not be read by the primary key
        rows |= {(row.level, row.position): bytes(row.hash) for row in work.execute(select(nodes).where(span))}
    return rows


def leaf_hashes(work: UnitOfWork, start: int, end: int) -> dict[int, bytes]:
    rows = work.execute(select(nodes).where(nodes.c.level == 0, nodes.c.position >= start, nodes.c.position < end))
    return {row.position: bytes(row.hash) for row in rows}


def newest_head(work: UnitOfWork) -> Head | None:
    row = work.execute(select(heads).order_by(heads.c.size.desc()).limit(1)).first()
    return None if row is None else _head(row)


def head_of_size(work: UnitOfWork, size: int) -> Head | None:
    row = work.execute(select(heads).where(heads.c.size == size)).first()
    return None if row is None else _head(row)


def last_head_until(work: UnitOfWork, at: int) -> Head | None:
    row = work.execute(select(heads).where(heads.c.at <= at).order_by(heads.c.at.desc(), heads.c.size.desc()).limit(1)).first()
    return None if row is None else _head(row)


def first_head_after(work: UnitOfWork, at: int) -> Head | None:
    row = work.execute(select(heads).where(heads.c.at > at).order_by(heads.c.at, heads.c.size).limit(1)).first()
    return None if row is None else _head(row)


def heads_beyond(work: UnitOfWork, size: int, limit: int) -> list[Head]:
    return [_head(row) for row in work.execute(select(heads).where(heads.c.size > size).order_by(heads.c.size).limit(limit))]


def each_head(work: UnitOfWork, *, batch: int = 1000) -> Iterator[Head]:
    """All heads, by size, in bounded memory."""
    size = 0
    while found := heads_beyond(work, size, batch):
        yield from found
        size = found[-1].size


def _head(row: Row[Any]) -> Head:
    return Head(size=row.size, root=row.root, at=Moment(row.at), previous=row.previous, key=row.key, signature=row.signature)


# --- reading: leaves ---------------------------------------------------------------------------------------------------------


def sequenced(work: UnitOfWork, start: int, end: int) -> list[StoredLeaf]:
    rows = work.execute(select(leaves).where(leaves.c.position >= start, leaves.c.position < end).order_by(leaves.c.position))
    return [_leaf(row) for row in rows]


def sequenced_count(work: UnitOfWork) -> int:
    """One more than the last index given."""
    last = work.execute(select(leaves.c.position).where(_SEQUENCED).order_by(leaves.c.position.desc()).limit(1)).scalar()
    return 0 if last is None else int(last) + 1


def unsequenced(work: UnitOfWork) -> tuple[int, Moment | None]:
    """How many leaves wait for an index, and since when the oldest does."""
    counted = select(func.count().label("waiting"), func.min(leaves.c.inserted).label("oldest")).where(_WAITING)
    row = work.execute(counted).one()
    return row.waiting, None if row.oldest is None else Moment(row.oldest)


def unsequenced_at(work: UnitOfWork, at: Moment, size: int, later_size: int) -> int:
    """Leaves inserted until `at` that got an index of `size` or more; none took longer than until the tree had `later_size`."""
    sequenced_late = and_(leaves.c.position >= size, leaves.c.position < later_size)
    total = 0
    for late in (sequenced_late, _WAITING):
        count = work.execute(select(func.count()).select_from(leaves).where(leaves.c.inserted <= at, late)).scalar()
        total += int(count or 0)
    return total


def find_leaf(work: UnitOfWork, *, id: str = "", index: int | None = None) -> StoredLeaf | None:
    which = leaves.c.id == id if id else leaves.c.position == index
    row = work.execute(select(leaves).where(which)).first()
    return None if row is None else _leaf(row)


def list_leaves(
    work: UnitOfWork, wanted: Wanted, *, newest_first: bool, after: tuple[int, str] | None, limit: int
) -> list[StoredLeaf]:
    """By time and id, because a range of time is what people look for; `after` is the last (inserted, id) seen."""
    key = tuple_(leaves.c.inserted, leaves.c.id)
    statement: Select[Any] = select(leaves)
    for column, wish in (
        (leaves.c.project, wanted.project),
        (leaves.c.operation, wanted.operation),
        (leaves.c.principal, wanted.principal),
    ):
        if wish:
            statement = statement.where(column == wish)
    if wanted.outcome:
        # Spelled out rather than bound: the index of refusals is a partial one.
        statement = statement.where(leaves.c.outcome == literal(wanted.outcome, literal_execute=True))
    if wanted.since is not None:
        statement = statement.where(leaves.c.inserted >= wanted.since)
    if wanted.until is not None:
        statement = statement.where(leaves.c.inserted < wanted.until)
    if after is not None:
        statement = statement.where(key < after if newest_first else key > after)
    order = (leaves.c.inserted.desc(), leaves.c.id.desc()) if newest_first else (leaves.c.inserted, leaves.c.id)
    return [_leaf(row) for row in work.execute(statement.order_by(*order).limit(limit))]


def _leaf(row: Row[Any]) -> StoredLeaf:
    columns = (row.id, row.inserted, row.operation, row.project, row.principal, row.outcome)
    return StoredLeaf(index=row.position, record=bytes(row.record), columns=columns)
