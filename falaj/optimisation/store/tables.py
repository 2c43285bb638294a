"""The room's tables."""

from typing import Any, Final, TypeAlias

from sqlalchemy import BigInteger, Boolean, Column, ForeignKey, Index, Integer, Row, String, Table, Text, UniqueConstraint

from falaj.database.work import metadata

Found: TypeAlias = Row[Any]  # a row as it was read, so that other modules need not know SQLAlchemy

# `request` is what was asked for; `pinned` what that meant then: versions, digests, files; `found` what its job told. All JSON.
optimisations: Final = Table(
    "optimisation_optimisations",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("project", String(32), nullable=False),
    Column("model", String(32), nullable=False),
    Column("model_name", String(255), nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("version_id", String(32), nullable=False),
    Column("request", Text, nullable=False),
    Column("pinned", Text, nullable=False),
    Column("found", Text, nullable=False),
    Column("held_out", String(64), nullable=False),  # the digest of the rows that variants are judged on
    Column("classified", Boolean, nullable=False),
    Column("state", String(10), nullable=False),
    Column("created", BigInteger, nullable=False),
    Column("created_by", String(32), nullable=False),
    Column("ended", BigInteger),
    Index("optimisation_optimisations_of_model", "project", "model", "created"),
)
# `job` says who makes it; `tries` how often it was taken. `made` is JSON: runtime, file, settings, notes.
variants: Final = Table(
    "optimisation_variants",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("project", String(32), nullable=False),
    Column("optimisation", String(32), ForeignKey("optimisation_optimisations.id"), nullable=False),
    Column("version_id", String(32), nullable=False),
    Column("place", Integer, nullable=False),
    Column("name", String(80), nullable=False),
    Column("steps", Text, nullable=False),
    Column("why", Text, nullable=False),
    Column("state", String(10), nullable=False),
    Column("reason", Text, nullable=False),
    Column("made", Text, nullable=False),
    Column("measures", Text, nullable=False),
    Column("job", String(32), nullable=False),
    Column("tries", Integer, nullable=False),
    Column("settled", BigInteger),
    UniqueConstraint("optimisation", "name", name="optimisation_variants_name"),
    Index("optimisation_variants_of_version", "version_id", "name"),
)
files: Final = Table(
    "optimisation_files",
    metadata,
    Column("variant", String(32), ForeignKey("optimisation_variants.id"), primary_key=True),
    Column("name", String(100), primary_key=True),
    Column("blob", String(32), nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("digest", String(64), nullable=False),
)
# `held_out` is the digest of the rows it was judged on: how many were judged on them before is part of what it says.
certificates: Final = Table(
    "optimisation_certificates",
    metadata,
    Column("variant", String(32), ForeignKey("optimisation_variants.id"), primary_key=True),
    Column("project", String(32), nullable=False),
    Column("version_id", String(32), nullable=False),
    Column("held_out", String(64), nullable=False),
    Column("fit", Boolean, nullable=False),
    Column("reasons", Text, nullable=False),
    Column("task", String(10), nullable=False),
    Column("bundle", Text, nullable=False),
    Column("digest", String(64), nullable=False),
    Column("issued", BigInteger, nullable=False),
    Index("optimisation_certificates_by_rows", "version_id", "held_out"),
)
