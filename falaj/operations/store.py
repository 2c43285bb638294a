"""The table of answers that were given under an idempotency key."""

from typing import Any

from sqlalchemy import BigInteger, Column, LargeBinary, Row, String, Table, delete, insert, select, update

from falaj.base.clock import Moment
from falaj.database.inserts import insert_or_skip
from falaj.database.work import UnitOfWork, metadata

LONGEST_KEY = 200

# `created` is the moment from which the time counts that an answer is kept: of one that lasts until it is let go, one to come.
replays = Table(
    "operations_replays",
    metadata,
    Column("principal", String(32), primary_key=True),
    Column("key", String(LONGEST_KEY), primary_key=True),
    Column("request_digest", LargeBinary(32), nullable=False),
    Column("answer", LargeBinary),
    Column("created", BigInteger, nullable=False, index=True),
)


def find_answer(work: UnitOfWork, principal: str, key: str) -> Row[Any] | None:
    return work.execute(select(replays).where(replays.c.principal == principal, replays.c.key == key)).first()


def add_answer(work: UnitOfWork, *, principal: str, key: str, request_digest: bytes, answer: bytes | None, now: Moment) -> None:
    row = {"principal": principal, "key": key, "request_digest": request_digest, "answer": answer, "created": now}
    work.execute(insert(replays).values(row))


def withdraw(work: UnitOfWork, principal: str, key: str, now: Moment) -> bool:
    """Whether nothing was done under this key; then nothing ever is: whoever comes with it late is refused."""
    row = {"principal": principal, "key": key, "request_digest": b"", "answer": None, "created": now}
    if insert_or_skip(work, replays, row):
        return True
    found = find_answer(work, principal, key)
    return found is not None and not found.request_digest


def let_go(work: UnitOfWork, start: str, now: Moment) -> None:
    """Answers that last, under the keys that begin so, are kept as long as any from now on."""
    lasting = (replays.c.created > now, replays.c.key.startswith(start, autoescape=True))
    work.execute(update(replays).where(*lasting).values(created=now))


def forget_answers(work: UnitOfWork, before: Moment) -> None:
    work.execute(delete(replays).where(replays.c.created < before))
