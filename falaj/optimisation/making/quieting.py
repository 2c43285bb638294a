"""Libraries tell their progress to whoever imported them; a job's log is for what the job has to say."""

import contextlib
import io
import logging
from collections.abc import Iterator


@contextlib.contextmanager
def quietly(logger: str) -> Iterator[None]:
    """Only errors from this logger on."""
    found = logging.getLogger(logger)
    level = found.level
    found.setLevel(logging.ERROR)
    try:
        yield
    finally:
        found.setLevel(level)


@contextlib.contextmanager
def silently(logger: str) -> Iterator[None]:
    """Without the progress bars that it draws on whatever there is, either."""
    with quietly(logger), contextlib.redirect_stdout(io.StringIO()):
        yield
