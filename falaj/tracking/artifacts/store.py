"""The tables of artifacts: the files, large ones that still come in parts, and references that wait to be released.

A blob is referred to by the id of its row here, so a row that goes takes exactly its own reference with it. What goes in
great numbers goes by way of `tracking_leftovers`: releasing a reference takes several statements, moving a row takes none.
"""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, TypeAlias

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Index,
    Integer,
    Row,
    String,
    Table,
    UniqueConstraint,
    and_,
    bindparam,
    delete,
    func,
    insert,
    literal,
    or_,
    select,
    text,
    update,
)

from falaj.base.clock import Moment
from falaj.database.work import UnitOfWork, metadata
from falaj.tracking.artifacts.names import LONGEST, below
from falaj.tracking.operations.artifacts import Artifact

Found: TypeAlias = Row[Any]  # a row as it was read, so that other modules need not know SQLAlchemy

ARTIFACT: Final = "artifact"
UPLOAD: Final = "upload"
# In the order of their characters, which is what SQLite does by itself: folders are ranges of names.
_NAME: Final = String(LONGEST).with_variant(String(LONGEST, collation="C"), "postgresql")

artifacts = Table(
    "tracking_artifacts",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("project", String(32), nullable=False),
    Column("holder", String(34), nullable=False),
    Column("name", _NAME, nullable=False),
    Column("blob", String(32), nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("digest", String(64), nullable=False),
    Column("created", BigInteger, nullable=False),
    Column("created_by", String(32), nullable=False),
    Column("token", String(32), nullable=False, server_default=text("''")),  # that it was brought by: a job's is its own
    UniqueConstraint("project", "holder", "name", name="tracking_artifacts_name"),
)

uploads = Table(
    "tracking_uploads",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("project", String(32), nullable=False),
    Column("holder", String(34), nullable=False),
    Column("name", _NAME, nullable=False),
    Column("zone", String(100), nullable=False),
    Column("expires", BigInteger, nullable=False),
    Column("created_by", String(32), nullable=False),
    Index("tracking_uploads_expiry", "expires"),
)

parts = Table(
    "tracking_parts",
    metadata,
    Column("upload", String(32), primary_key=True),
    Column("part", Integer, primary_key=True, autoincrement=False),
    Column("id", String(32), nullable=False),
    Column("blob", String(32), nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("digest", String(64), nullable=False),
)

leftovers = Table(
    "tracking_leftovers",
    metadata,
    Column("owner", String(32), primary_key=True),
    Column("kind", String(50), nullable=False),
    Column("project", String(32), nullable=False),
    Index("tracking_leftovers_project", "project", "owner"),
)

_OF_HOLDER: Final = and_(artifacts.c.project == bindparam("project"), artifacts.c.holder == bindparam("holder"))
_ONE: Final = select(artifacts).where(_OF_HOLDER, artifacts.c.name == bindparam("name"))
_ANY_NAMED: Final = select(artifacts.c.name).where(_OF_HOLDER, artifacts.c.name.in_(bindparam("names", expanding=True)))
_FROM: Final = (
    select(artifacts)
    .where(_OF_HOLDER, artifacts.c.name >= bindparam("least"))
    .order_by(artifacts.c.name)
    .limit(bindparam("most"))
)
_BETWEEN: Final = _FROM.where(artifacts.c.name < bindparam("until"))
_ADD: Final = insert(artifacts)
_REPLACE: Final = (
    update(artifacts)
    .where(artifacts.c.id == bindparam("replaced"))
    .values(
        {column: bindparam(f"new_{column}") for column in ("id", "blob", "size", "digest", "created", "created_by", "token")}
    )
)


# Artifacts


def hold_names(work: UnitOfWork, holder: str) -> None:
    """Let nobody else change names of this holder before the transaction ends: what may be added depends on what is there.

    SQLite has one writer as it is.
    """
    if work.connection.dialect.name == "postgresql":
        number = int.from_bytes(hashlib.sha256(f"artifacts of {holder}".encode()).digest()[:8], signed=True)
        work.execute(select(func.pg_advisory_xact_lock(number)))


def find_artifact(work: UnitOfWork, project: str, holder: str, name: str) -> Found | None:
    return work.execute(_ONE, {"project": project, "holder": holder, "name": name}).first()


def first_file_named(work: UnitOfWork, project: str, holder: str, names: Collection[str]) -> str | None:
    """One of these names that a file has."""
    if not names:
        return None
    return work.execute(_ANY_NAMED, {"project": project, "holder": holder, "names": list(names)}).scalars().first()


def files_between(work: UnitOfWork, project: str, holder: str, least: str, until: str, limit: int) -> Sequence[Found]:
    """Files in the order of their names, from `least` up to and without `until`; empty is no bound."""
    bounds = {"project": project, "holder": holder, "least": least, "most": limit}
    return work.execute(_BETWEEN, bounds | {"until": until}).all() if until else work.execute(_FROM, bounds).all()


def files_below(work: UnitOfWork, project: str, holder: str, folder: str) -> Sequence[Found]:
    every = select(artifacts).where(_within(project, holder, folder)).order_by(artifacts.c.name)
    return work.execute(every).all()


def set_artifact(
    work: UnitOfWork, project: str, holder: str, artifact: Artifact, *, id: str, token: str, replaced: str
) -> None:
    """Add a file, or give the row `replaced` this content and this id."""
    content = {
        "id": id,
        "blob": artifact.blob,
        "size": artifact.size,
        "digest": artifact.digest,
        "created": int(artifact.created),
        "created_by": artifact.created_by,
        "token": token,
    }
    if replaced:
        work.execute(_REPLACE, {"replaced": replaced} | {f"new_{column}": value for column, value in content.items()})
    else:
        work.execute(_ADD, content | {"project": project, "holder": holder, "name": artifact.name})


def drop_artifacts(work: UnitOfWork, project: str, holder: str, name: str) -> int:
    """Forget the file of this name and those below the folder of this name; their references become leftovers."""
    going = _within(project, holder, name)
    if name:
        going = or_(going, and_(artifacts.c.project == project, artifacts.c.holder == holder, artifacts.c.name == name))
    owners = select(artifacts.c.id, literal(ARTIFACT), artifacts.c.project).where(going)
    work.execute(insert(leftovers).from_select(["owner", "kind", "project"], owners))
    return work.execute(delete(artifacts).where(going)).rowcount


def _within(project: str, holder: str, folder: str) -> ColumnElement[bool]:
    least, until = below(folder)
    its = and_(artifacts.c.project == project, artifacts.c.holder == holder)
    return and_(its, artifacts.c.name >= least, artifacts.c.name < until) if folder else its


# Uploads in parts


def add_upload(work: UnitOfWork, row: Mapping[str, Any]) -> None:
    work.execute(insert(uploads), row)


def find_upload(work: UnitOfWork, project: str, upload: str, now: Moment, *, hold: bool = False) -> Found | None:
    """One that has not expired, where `hold` says so held against all who would change it or its parts."""
    query = select(uploads).where(uploads.c.id == upload, uploads.c.project == project, uploads.c.expires > now)
    return work.execute(query.with_for_update() if hold else query).first()


def find_part(work: UnitOfWork, upload: str, part: int) -> Found | None:
    return work.execute(select(parts).where(parts.c.upload == upload, parts.c.part == part)).first()


def parts_of(work: UnitOfWork, upload: str) -> Sequence[Found]:
    return work.execute(select(parts).where(parts.c.upload == upload).order_by(parts.c.part)).all()


def set_part(work: UnitOfWork, row: Mapping[str, Any]) -> None:
    work.execute(delete(parts).where(parts.c.upload == row["upload"], parts.c.part == row["part"]))
    work.execute(insert(parts), row)


def drop_upload(work: UnitOfWork, upload: str) -> None:
    """Forget an upload; its parts' references become leftovers."""
    owners = (
        select(parts.c.id, literal(UPLOAD), uploads.c.project)
        .join(uploads, uploads.c.id == parts.c.upload)
        .where(parts.c.upload == upload)
    )
    work.execute(insert(leftovers).from_select(["owner", "kind", "project"], owners))
    work.execute(delete(parts).where(parts.c.upload == upload))
    work.execute(delete(uploads).where(uploads.c.id == upload))


def expired_uploads(work: UnitOfWork, now: Moment, limit: int) -> Sequence[str]:
    """Held, so that nobody finishes what is being forgotten."""
    due = select(uploads.c.id).where(uploads.c.expires <= now).order_by(uploads.c.expires, uploads.c.id).limit(limit)
    return work.execute(due.with_for_update()).scalars().all()


# Leftovers


def take_leftovers(work: UnitOfWork, project: str, limit: int) -> Sequence[Found]:
    """Some of a project's, which the caller releases in this transaction."""
    some = select(leftovers.c.owner).where(leftovers.c.project == project).order_by(leftovers.c.owner).limit(limit)
    taken = delete(leftovers).where(leftovers.c.owner.in_(some)).returning(leftovers.c.owner, leftovers.c.kind)
    return work.execute(taken).all()


def project_with_leftovers(work: UnitOfWork) -> str | None:
    return work.execute(select(leftovers.c.project).limit(1)).scalars().first()
