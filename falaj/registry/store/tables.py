"""The registry's tables. What is deleted keeps its row, because history speaks of it."""

from typing import Any, Final, TypeAlias

from sqlalchemy import BigInteger, Boolean, Column, ForeignKey, Index, Row, String, Table, Text, UniqueConstraint, text

from falaj.database.work import metadata

Found: TypeAlias = Row[Any]  # a row as it was read, so that other modules need not know SQLAlchemy

# `last_version` and `last_move` were given last; both are counted under the lock of this row and never go back.
models: Final = Table(
    "registry_models",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("project", String(32), nullable=False),
    Column("name", String(255), nullable=False),
    Column("description", Text, nullable=False),
    Column("last_version", BigInteger, nullable=False),
    Column("last_move", BigInteger, nullable=False),
    Column("created", BigInteger, nullable=False),
    Column("created_by", String(32), nullable=False),
    Column("changed", BigInteger, nullable=False),
    Column("deleted", BigInteger),
    Index("registry_models_by_name", "project", "name"),
)
_LIVE: Final = models.c.deleted.is_(None)
Index("registry_models_name", models.c.project, models.c.name, unique=True, sqlite_where=_LIVE, postgresql_where=_LIVE)

model_tags: Final = Table(
    "registry_model_tags",
    metadata,
    Column("model", String(32), ForeignKey("registry_models.id"), primary_key=True),
    Column("key", String(250), primary_key=True),
    Column("value", Text, nullable=False),
)
versions: Final = Table(
    "registry_versions",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("project", String(32), nullable=False),
    Column("model", String(32), ForeignKey("registry_models.id"), nullable=False),
    Column("number", BigInteger, nullable=False),
    Column("description", Text, nullable=False),
    Column("stage", String(20), nullable=False),
    Column("source", Text, nullable=False),
    Column("holder", String(34), nullable=False),
    Column("folder", Text, nullable=False),
    Column("run", String(32), nullable=False),
    Column("files", BigInteger, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("digest", String(64), nullable=False),
    Column("servable", Boolean, nullable=False),
    Column("runtime", String(50), nullable=False),
    Column("reasons", Text, nullable=False),
    Column("flavors", Text, nullable=False),
    Column("inputs", Text, nullable=False),
    Column("outputs", Text, nullable=False),
    Column("created", BigInteger, nullable=False),
    Column("created_by", String(32), nullable=False),
    Column("changed", BigInteger, nullable=False),
    Column("deleted", BigInteger),
    UniqueConstraint("model", "number", name="registry_versions_number"),
    Index("registry_versions_by_change", "project", "changed"),
    Index("registry_versions_by_run", "project", "run"),
)
version_tags: Final = Table(
    "registry_version_tags",
    metadata,
    Column("version", String(32), ForeignKey("registry_versions.id"), primary_key=True),
    Column("key", String(250), primary_key=True),
    Column("value", Text, nullable=False),
)
# Found by a digest of the name: Postgres does not index a name as long as they may be.
files: Final = Table(
    "registry_files",
    metadata,
    Column("version", String(32), ForeignKey("registry_versions.id"), primary_key=True),
    Column("key", String(32), primary_key=True),
    Column("position", BigInteger, nullable=False),
    Column("name", Text, nullable=False),
    Column("blob", String(32), nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("digest", String(64), nullable=False),
    Column("token", String(32), nullable=False, server_default=text("''")),  # that it was brought by, where that is known
    Index("registry_files_in_order", "version", "position"),
)
# Apart from the versions, because they are long and seldom asked for; `bundle` is the signature.
documents: Final = Table(
    "registry_documents",
    metadata,
    Column("version", String(32), ForeignKey("registry_versions.id"), primary_key=True),
    Column("bundle", Text, nullable=False),
    Column("sbom", Text, nullable=False),
)
aliases: Final = Table(
    "registry_aliases",
    metadata,
    Column("model", String(32), ForeignKey("registry_models.id"), primary_key=True),
    Column("alias", String(255), primary_key=True),
    Column("version", BigInteger, nullable=False),
)
# `place` is the move's number among its model's, `at` never goes back along it; `recorded` is the moment of its leaf.
moves: Final = Table(
    "registry_moves",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("model", String(32), ForeignKey("registry_models.id"), nullable=False),
    Column("place", BigInteger, nullable=False),
    Column("alias", String(255), nullable=False),
    Column("kind", String(10), nullable=False),
    Column("before", BigInteger, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("by", String(32), nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("operation", String(100), nullable=False),
    Column("recorded", BigInteger, nullable=False),
    Column("approval", String(32), nullable=False),
    Column("reason", Text, nullable=False),
    UniqueConstraint("model", "place", name="registry_moves_place"),
    Index("registry_moves_by_alias", "model", "alias", "place"),
)
# `behind` are the principals that the request was made for: who asked, and who made the token it was asked with.
approvals: Final = Table(
    "registry_approvals",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("project", String(32), nullable=False),
    Column("model", String(32), ForeignKey("registry_models.id"), nullable=False),
    Column("alias", String(255), nullable=False),
    Column("kind", String(10), nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("state", String(10), nullable=False),
    Column("needed", BigInteger, nullable=False),
    Column("rule", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("requested_by", String(32), nullable=False),
    Column("behind", Text, nullable=False),
    Column("requested", BigInteger, nullable=False),
    Column("expires", BigInteger, nullable=False),
    Index("registry_approvals_listing", "project", "id"),
    Index("registry_approvals_wanted", "model", "state"),
)
votes: Final = Table(
    "registry_votes",
    metadata,
    Column("approval", String(32), ForeignKey("registry_approvals.id"), primary_key=True),
    Column("principal", String(32), primary_key=True),
    Column("approves", Boolean, nullable=False),
    Column("note", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
)
# Gates as they are defined now; what a definition says is read by whoever applies it, here its digest alone counts.
gates: Final = Table(
    "registry_gates",
    metadata,
    Column("project", String(32), primary_key=True),
    Column("name", String(100), primary_key=True),
    Column("definition", Text, nullable=False),
    Column("digest", String(64), nullable=False),
    Column("changed", BigInteger, nullable=False),
    Column("changed_by", String(32), nullable=False),
)
# By the names of models, as rules of policy are; without one it holds for every model. `alias` is in small letters.
required_gates: Final = Table(
    "registry_required_gates",
    metadata,
    Column("project", String(32), primary_key=True),
    Column("model", String(255), primary_key=True),
    Column("alias", String(255), primary_key=True),
    Column("gate", String(100), primary_key=True),
)
# Only ever added to. `definition` is the digest of what the gate was then, `digest` that of `document`; `against` the number of
# the version that `against_alias` pointed at, where the version was held against one.
evidence: Final = Table(
    "registry_evidence",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("project", String(32), nullable=False),
    Column("version", String(32), ForeignKey("registry_versions.id"), nullable=False),
    Column("gate", String(100), nullable=False),
    Column("definition", String(64), nullable=False),
    Column("passed", Boolean, nullable=False),
    Column("words", Text, nullable=False),
    Column("document", Text, nullable=False),
    Column("digest", String(64), nullable=False),
    Column("against_alias", String(255), nullable=False),
    Column("against", BigInteger, nullable=False),
    Column("job", String(32), nullable=False),
    Column("by", String(32), nullable=False),
    Column("at", BigInteger, nullable=False),
    Index("registry_evidence_by_gate", "version", "gate", "id"),
)
