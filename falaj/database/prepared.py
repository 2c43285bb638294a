"""Statements for hot paths, spelled out once per engine and handed to the driver as they are.

Building and compiling a statement, and SQLAlchemy's own result around it, cost ten times what SQLite needs to run a small one.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql.expression import ClauseElement

from falaj.base.values import value
from falaj.database.work import UnitOfWork


@value
class _Spelled:
    """`names` is the order of the parameters, where the engine takes them by place; `constants` came with the statement."""

    text: str
    names: tuple[str, ...]
    constants: dict[str, Any]

    def given(self, parameters: Mapping[str, Any]) -> Any:
        known = {**self.constants, **parameters} if self.constants else parameters
        return [known[name] for name in self.names] if self.names else known


class Prepared:
    """One statement, or one for each engine under the name of its dialect. Thread-safe.

    Parameters and rows are the driver's own: a boolean may come back as 0 or 1.
    """

    def __init__(self, statement: ClauseElement | Mapping[str, ClauseElement]) -> None:
        self._statement = statement
        self._spelled: dict[str, _Spelled] = {}

    def first(self, work: UnitOfWork, **parameters: Any) -> Any:
        """The first row as a tuple, or None."""
        return self._execute(work, parameters).fetchone()

    def all(self, work: UnitOfWork, **parameters: Any) -> list[Any]:
        return self._execute(work, parameters).fetchall()  # type: ignore[no-any-return]

    def run(self, work: UnitOfWork, **parameters: Any) -> int:
        """How many rows it touched."""
        return self._execute(work, parameters).rowcount  # type: ignore[no-any-return]

    def run_many(self, work: UnitOfWork, rows: Sequence[Mapping[str, Any]]) -> None:
        spelled = self._spelled_for(work)
        cursor = work.driver.cursor()
        try:
            cursor.executemany(spelled.text, [spelled.given(row) for row in rows])
        except Exception as error:
            raise _as_sqlalchemy(work, spelled.text, error) from error
        finally:
            cursor.close()

    def _execute(self, work: UnitOfWork, parameters: Mapping[str, Any]) -> Any:
        spelled = self._spelled_for(work)
        try:
            return work.driver.execute(spelled.text, spelled.given(parameters))
        except Exception as error:
            raise _as_sqlalchemy(work, spelled.text, error) from error

    def _spelled_for(self, work: UnitOfWork) -> _Spelled:
        dialect = work.connection.dialect
        known = self._spelled.get(dialect.name)
        if known is None:
            statement = self._statement if isinstance(self._statement, ClauseElement) else self._statement[dialect.name]
            compiled = statement.compile(dialect=dialect)
            names = tuple(compiled.positiontup or ()) if dialect.positional else ()  # type: ignore[attr-defined]
            constants = {name: bind.value for name, bind in compiled.binds.items() if not bind.required}  # type: ignore[attr-defined]
            known = self._spelled[dialect.name] = _Spelled(text=str(compiled), names=names, constants=constants)
        return known


def _as_sqlalchemy(work: UnitOfWork, text: str, error: Exception) -> BaseException:
    """The error as everything else in this room knows it; `translated` and the repeats on Postgres look at that."""
    module: Any = work.connection.dialect.dbapi
    return DBAPIError.instance(text, None, error, module.Error, dialect=work.connection.dialect)
