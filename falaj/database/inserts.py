"""Inserting what may be there already, on either engine."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Table
from sqlalchemy.dialects import postgresql, sqlite

from falaj.database.prepared import Prepared
from falaj.database.work import UnitOfWork


def insert_or_skip(work: UnitOfWork, table: Table, row: Mapping[str, Any]) -> bool:
    """Insert unless something unique is taken; waits for whoever is about to take it. Whether it was inserted."""
    dialect = postgresql if work.connection.dialect.name == "postgresql" else sqlite
    statement = dialect.insert(table).values(row).on_conflict_do_nothing().returning(*table.primary_key)
    return work.execute(statement).first() is not None


def insert_all_or_skip(work: UnitOfWork, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert those of many rows of which nothing unique is taken."""
    dialect = postgresql if work.connection.dialect.name == "postgresql" else sqlite
    work.execute(dialect.insert(table).on_conflict_do_nothing(), list(rows))


def prepared_insert_or_skip(table: Table) -> Prepared:
    """The same for hot paths: all columns are given, and it runs to the number of rows it inserted."""
    return Prepared(
        {
            "sqlite": sqlite.insert(table).on_conflict_do_nothing(),
            "postgresql": postgresql.insert(table).on_conflict_do_nothing(),
        }
    )
