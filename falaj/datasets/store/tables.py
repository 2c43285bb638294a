"""The tables of datasets. What is deleted keeps its row, because lineage and the ledger speak of it."""

from typing import Any, Final, TypeAlias

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Row, String, Table, Text, UniqueConstraint

from falaj.database.work import metadata

Found: TypeAlias = Row[Any]  # a row as it was read, so that other modules need not know SQLAlchemy

# `last_version` was given last, `current` is what the name alone means; 0: none yet. Both change while the row is held.
datasets: Final = Table(
    "datasets_datasets",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("project", String(32), nullable=False),
    Column("name", String(100), nullable=False),
    Column("description", Text, nullable=False),
    Column("zone", String(100), nullable=False),
    Column("last_version", BigInteger, nullable=False),
    Column("current", BigInteger, nullable=False),
    Column("created", BigInteger, nullable=False),
    Column("created_by", String(32), nullable=False),
    Column("changed", BigInteger, nullable=False),
    Column("deleted", BigInteger),
)
_LIVE: Final = datasets.c.deleted.is_(None)
Index("datasets_datasets_name", datasets.c.project, datasets.c.name, unique=True, sqlite_where=_LIVE, postgresql_where=_LIVE)

# `line` is 0 for what was published, one after the other; what was not has a line of its own, by its number. `schema`: JSON.
versions: Final = Table(
    "datasets_versions",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("project", String(32), nullable=False),
    Column("dataset", String(32), ForeignKey("datasets_datasets.id"), nullable=False),
    Column("number", BigInteger, nullable=False),
    Column("line", BigInteger, nullable=False),
    Column("parent", BigInteger, nullable=False),
    Column("mode", String(10), nullable=False),
    Column("schema", Text, nullable=False),
    Column("rows", BigInteger, nullable=False),
    Column("parts", BigInteger, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("digest", String(64), nullable=False),
    Column("zone", String(100), nullable=False),
    Column("origin", Text, nullable=False),
    Column("created", BigInteger, nullable=False),
    Column("created_by", String(32), nullable=False),
    Column("pruned", BigInteger),
    UniqueConstraint("dataset", "number", name="datasets_versions_number"),
    Index("datasets_versions_by_digest", "project", "digest"),
)
# A part is one Parquet file, sealed by itself; `digest` is that of its content, `schema` what it was written with.
# Rows of a write that was not committed yet belong to it (`write`, `piece`); the others have spans. `known` is when its rows
# became known: when they were first published, whatever they were rewritten into since; where parts were joined, the last.
parts: Final = Table(
    "datasets_parts",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("project", String(32), nullable=False),
    Column("dataset", String(32), ForeignKey("datasets_datasets.id"), nullable=False),
    Column("blob", String(32), nullable=False),
    Column("object", String(32), nullable=False),
    Column("rows", BigInteger, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("digest", String(64), nullable=False),
    Column("schema", Text, nullable=False),
    Column("profile", String(32), nullable=False),
    Column("known", BigInteger),
    Index("datasets_parts_of", "dataset"),
)
# A part belongs to the versions of its line from `since` on and before `until`, in the order of `position`. `renamed` is JSON:
# what the part's own columns are called there, where that differs.
spans: Final = Table(
    "datasets_spans",
    metadata,
    Column("dataset", String(32), ForeignKey("datasets_datasets.id"), primary_key=True),
    Column("line", BigInteger, primary_key=True),
    Column("since", BigInteger, primary_key=True),
    Column("part", String(32), ForeignKey("datasets_parts.id"), primary_key=True),
    Column("until", BigInteger, nullable=False),
    Column("position", BigInteger, nullable=False),
    Column("renamed", Text, nullable=False),
    Index("datasets_spans_standing", "dataset", "line", "until"),
)
# `parent` is the version that the writer had before him; `key` finds a write again; `version` is what became of it.
writes: Final = Table(
    "datasets_writes",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("project", String(32), nullable=False),
    Column("dataset", String(32), ForeignKey("datasets_datasets.id"), nullable=False),
    Column("mode", String(10), nullable=False),
    Column("parent", BigInteger, nullable=False),
    Column("settings", Text, nullable=False),
    Column("key", String(64), nullable=False),
    Column("state", String(10), nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("created", BigInteger, nullable=False),
    Column("created_by", String(32), nullable=False),
    Column("changed", BigInteger, nullable=False),
    Index("datasets_writes_by_key", "dataset", "key"),
    Index("datasets_writes_by_age", "state", "changed"),
)
# `source` is the digest of the bytes that came, so that the same number with other bytes is seen.
pieces: Final = Table(
    "datasets_pieces",
    metadata,
    Column("write", String(32), ForeignKey("datasets_writes.id"), primary_key=True),
    Column("number", BigInteger, primary_key=True),
    Column("part", String(32), ForeignKey("datasets_parts.id"), nullable=False),
    Column("source", String(64), nullable=False),
)
tags: Final = Table(
    "datasets_tags",
    metadata,
    Column("dataset", String(32), ForeignKey("datasets_datasets.id"), primary_key=True),
    Column("tag", String(100), primary_key=True),
    Column("version", BigInteger, nullable=False),
)
# Columns that are personal or sensitive, by the names they have in any version.
classes: Final = Table(
    "datasets_classes",
    metadata,
    Column("dataset", String(32), ForeignKey("datasets_datasets.id"), primary_key=True),
    Column("name", String(500), primary_key=True),
    Column("kind", String(10), nullable=False),
)
# What must hold of a dataset's rows: `declared` is JSON.
checks: Final = Table(
    "datasets_checks",
    metadata,
    Column("dataset", String(32), ForeignKey("datasets_datasets.id"), primary_key=True),
    Column("declared", Text, nullable=False),
    Column("changed", BigInteger, nullable=False),
    Column("changed_by", String(32), nullable=False),
)
# What checks found of a version, where they found anything: `found` is JSON without a row; the examples are in the blob
# `evidence`. `decided` is when one that is in quarantine was released or dropped.
findings: Final = Table(
    "datasets_findings",
    metadata,
    Column("version", String(32), ForeignKey("datasets_versions.id"), primary_key=True),
    Column("dataset", String(32), ForeignKey("datasets_datasets.id"), nullable=False),
    Column("found", Text, nullable=False),
    Column("evidence", String(32), nullable=False),
    Column("decided", BigInteger),
    Index("datasets_findings_of", "dataset"),
)
