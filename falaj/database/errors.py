"""What the drivers' errors mean to the rest of the platform."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from falaj.base.errors import Conflict, OutOfSpace, Unavailable


@contextmanager
def translated() -> Iterator[None]:
    """Turn driver errors into Falaj's; what is neither fullness, absence nor conflict is a bug and passes through."""
    try:
        yield
    except IntegrityError as error:
        raise Conflict("Another request changed the same thing at the same moment; look at it again.") from error
    except PoolTimeout as error:
        raise Unavailable("The database is busy; try again shortly.") from error
    except DBAPIError as error:
        text = str(error.orig).lower()
        if "disk is full" in text or "no space left" in text or "disk i/o error" in text or "could not extend file" in text:
            raise OutOfSpace("The disk of the database is full; free some space. Reading goes on.", delay=5) from error
        if isinstance(error, OperationalError) or error.connection_invalidated:
            raise Unavailable(
                f"The database does not answer: {text.splitlines()[0] if text else 'no reason given'}", delay=2
            ) from error
        raise
