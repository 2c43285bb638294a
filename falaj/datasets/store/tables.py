"""The tables of datasets. What is deleted keeps its row, because lineage and the ledger speak of it."""

from typing import Any, Final, TypeAlias

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer, LargeBinary, Row, String, Table, Text, UniqueConstraint

from falaj.database.work import metadata

Found: TypeAlias = Row[Any]  # a row as it was read, so that other modules need not know SQLAlchemy

# `last_version` was given last, `current` is what the name alone means; 0: none yet. Both change while the row is held.
# `external` is JSON: of which table in which place, where its rows are not kept here.
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
    Column("external", Text),
)
_LIVE: Final = datasets.c.deleted.is_(None)
Index("datasets_datasets_name", datasets.c.project, datasets.c.name, unique=True, sqlite_where=_LIVE, postgresql_where=_LIVE)

# `line` is 0 for what was published, one after the other; what was not has a line of its own, by its number. `schema`: JSON.
# `profile` is the blob of what the profiles of several parts were merged to, once somebody asked.
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
    Column("profile", String(32)),
    UniqueConstraint("dataset", "number", name="datasets_versions_number"),
    Index("datasets_versions_by_digest", "project", "digest"),
)
# A part is one Parquet file, sealed by itself; `digest` is that of its content, `schema` what it was written with.
# Rows of a write that was not committed yet belong to it (`write`, `piece`); the others have spans. `known` is when its rows
# became known: when they were first published, whatever they were rewritten into since; where parts were joined, the last.
# Of one whose rows are not kept here, `elsewhere` is JSON: where they are, and how they are known again; then `blob` is only
# what its key is made from.
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
    Column("elsewhere", Text),
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
# Which columns of a derived dataset came from which of another, in any version; an empty name stands for all of them.
made_of: Final = Table(
    "datasets_made_of",
    metadata,
    Column("dataset", String(32), ForeignKey("datasets_datasets.id"), primary_key=True),
    Column("name", String(500), primary_key=True),
    Column("source", String(32), ForeignKey("datasets_datasets.id"), primary_key=True),
    Column("source_name", String(500), primary_key=True),
    Index("datasets_made_of_source", "source"),
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
# Where data is that is not kept here, as an operator declared it: `address` is JSON; what opens the place is sealed.
places: Final = Table(
    "datasets_places",
    metadata,
    Column("name", String(100), primary_key=True),
    Column("kind", String(10), nullable=False),
    Column("zone", String(100), nullable=False),
    Column("address", Text, nullable=False),
    Column("sealed", LargeBinary, nullable=False),
    Column("wrapped", LargeBinary, nullable=False),
    Column("ring_version", Integer, nullable=False),
    Column("changed", BigInteger, nullable=False),
    Column("changed_by", String(32), nullable=False),
)
# Which projects may use a place, by their ids.
place_projects: Final = Table(
    "datasets_place_projects",
    metadata,
    Column("place", String(100), ForeignKey("datasets_places.name"), primary_key=True),
    Column("project", String(32), primary_key=True),
)
# Parts that are elsewhere and were brought here, sealed, because somebody reads them; `used` is when last.
copies: Final = Table(
    "datasets_copies",
    metadata,
    Column("part", String(32), primary_key=True),
    Column("project", String(32), nullable=False),
    Column("blob", String(32), nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("used", BigInteger, nullable=False),
    Index("datasets_copies_by_use", "used"),
)
# Rows that were pushed: durable in a part of their own, until a batch of them is a version. `source` is the digest of the bytes
# that came; `key` finds a push again. Once it is `done` its rows are in `version`, and `part` is let go. `tried` is when the
# last attempt at a version failed, for `error`.
pushes: Final = Table(
    "datasets_pushes",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("project", String(32), nullable=False),
    Column("dataset", String(32), ForeignKey("datasets_datasets.id"), nullable=False),
    Column("part", String(32), ForeignKey("datasets_parts.id")),
    Column("key", String(64), nullable=False),
    Column("source", String(64), nullable=False),
    Column("rows", BigInteger, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("state", String(10), nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("accepted", BigInteger, nullable=False),
    Column("created_by", String(32), nullable=False),
    Column("done", BigInteger),
    Column("tried", BigInteger),
    Column("error", Text, nullable=False),
    Index("datasets_pushes_by_key", "dataset", "key"),
    Index("datasets_pushes_by_part", "part"),
    Index("datasets_pushes_by_state", "state", "project"),
)
# What a version was made of: `digest` is over the kind, the code and the content of its inputs (JSON), so that the same is
# found again; `code` is what of it can be shown.
derivations: Final = Table(
    "datasets_derivations",
    metadata,
    Column("version", String(32), ForeignKey("datasets_versions.id"), primary_key=True),
    Column("dataset", String(32), ForeignKey("datasets_datasets.id"), nullable=False),
    Column("digest", String(64), nullable=False),
    Column("kind", String(20), nullable=False),
    Column("code", Text, nullable=False),
    Column("inputs", Text, nullable=False),
    Index("datasets_derivations_made", "dataset", "digest"),
)
