"""A run to tell, and a folder whose files live until they are sent."""

import shutil
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from falaj.training.telling import Run, run_from_environment


@contextmanager
def opened(run: Run | None) -> Iterator[tuple[Run, Path]]:
    """The job's own run where none is given, closed at the end. One that the caller brought is closed by the caller, and the
    folder stays for as long as it does."""
    folder = Path(tempfile.mkdtemp(prefix="falaj-"))
    if run is not None:
        weakref.finalize(run, shutil.rmtree, folder, ignore_errors=True)
        yield run, folder
        return
    own = run_from_environment()
    try:
        yield own, folder
    finally:
        own.close()
        shutil.rmtree(folder, ignore_errors=True)
