"""Which runs make a version of a model again, to see whether the same comes out: what they register is no new candidate."""

from falaj.database.work import UnitOfWork
from falaj.lifecycle.records import read_options
from falaj.lifecycle.store import runs as store


def replay_behind(work: UnitOfWork, token: str) -> str:
    """The version that is made again by a run that is under way and that this token is of, at any remove; empty for none."""
    found = (read_options(one).replay_of for one in store.options_behind(work, token))
    return next(filter(None, found), "")
