"""The tables of the graph and all their SQL.

Edges name nodes by a digest of kind and id: a dataset's id may be longer than what Postgres indexes.
"""

import hashlib
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final

from sqlalchemy import BigInteger, Column, Index, Row, Select, String, Table, Text, and_, bindparam, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite

from falaj.base.clock import Moment
from falaj.database.prepared import Prepared
from falaj.database.work import UnitOfWork, metadata

nodes = Table(
    "lineage_nodes",
    metadata,
    Column("project", String(32), primary_key=True),
    Column("key", String(32), primary_key=True),
    Column("kind", String(20), nullable=False),
    Column("id", Text, nullable=False),
    Column("label", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
    Index("lineage_nodes_by_time", "project", "kind", "at", "key"),
)
edges = Table(
    "lineage_edges",
    metadata,
    Column("project", String(32), primary_key=True),
    Column("source", String(32), primary_key=True),
    Column("target", String(32), primary_key=True),
    Column("relation", String(50), primary_key=True),
    Column("at", BigInteger, nullable=False),
    Index("lineage_edges_by_target", "project", "target"),
)


def _insert_unless_there(table: Table) -> Prepared:
    return Prepared({engine.dialect.name: engine.insert(table).on_conflict_do_nothing() for engine in (postgresql, sqlite)})


_INSERT_NODE: Final = _insert_unless_there(nodes)
_INSERT_EDGE: Final = _insert_unless_there(edges)
_RELABEL: Final = Prepared(
    update(nodes)
    .where(nodes.c.project == bindparam("its_project"), nodes.c.key == bindparam("its_key"))
    .where(nodes.c.label != bindparam("newer_label"))
    .values(label=bindparam("newer_label"))
)


def key_of(kind: str, id: str) -> str:
    return hashlib.sha256(f"{kind}\0{id}".encode()).hexdigest()[:32]


def keep_node(work: UnitOfWork, project: str, *, kind: str, id: str, label: str, now: Moment) -> str:
    """The key of a node that is there now, under its newest label."""
    key = key_of(kind, id)
    is_new = _INSERT_NODE.run(work, project=project, key=key, kind=kind, id=id, label=label, at=now)
    if not is_new and label:
        _RELABEL.run(work, its_project=project, its_key=key, newer_label=label)
    return key


def keep_edge(work: UnitOfWork, project: str, *, source: str, target: str, relation: str, now: Moment) -> None:
    _INSERT_EDGE.run(work, project=project, source=source, target=target, relation=relation, at=now)


def _edges_at(end: Column[Any]) -> Select[Any]:
    """The edges that have any of the nodes at this end, newest first."""
    here = and_(edges.c.project == bindparam("project"), end.in_(bindparam("keys", expanding=True)))
    order = (edges.c.at.desc(), edges.c.source, edges.c.target, edges.c.relation)
    return select(edges).where(here).order_by(*order).limit(bindparam("most"))


_EDGES_INTO: Final = _edges_at(edges.c.target)
_EDGES_OUT_OF: Final = _edges_at(edges.c.source)


def edges_into(work: UnitOfWork, project: str, keys: Collection[str], most: int) -> Sequence[Row[Any]]:
    return work.execute(_EDGES_INTO, {"project": project, "keys": list(keys), "most": most}).all()


def edges_out_of(work: UnitOfWork, project: str, keys: Collection[str], most: int) -> Sequence[Row[Any]]:
    return work.execute(_EDGES_OUT_OF, {"project": project, "keys": list(keys), "most": most}).all()


_NODES: Final = select(nodes).where(nodes.c.project == bindparam("project"), nodes.c.key.in_(bindparam("keys", expanding=True)))


def nodes_with(work: UnitOfWork, project: str, keys: Iterable[str]) -> dict[str, Row[Any]]:
    return {row.key: row for row in work.execute(_NODES, {"project": project, "keys": list(keys)})}


def nodes_by_time(work: UnitOfWork, project: str, kind: str, *, after: tuple[int, str], limit: int) -> Sequence[Row[Any]]:
    """A kind's nodes in the order in which they appeared, behind a moment and a key."""
    at, key = after
    behind = and_(nodes.c.at >= at, or_(nodes.c.at > at, nodes.c.key > key))
    found = select(nodes).where(nodes.c.project == project, nodes.c.kind == kind, behind)
    return work.execute(found.order_by(nodes.c.at, nodes.c.key).limit(limit)).all()
