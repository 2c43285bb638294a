"""Bringing a home to this release's schema: stop, back up, migrate. A migration that fails leaves the old schema."""

import threading

from falaj.app.backends import database_location, open_ring, open_storages
from falaj.app.backups import Source, make_backup
from falaj.app.home import Home, locked
from falaj.app.settings import Settings
from falaj.base.clock import Clock
from falaj.base.errors import NotFound
from falaj.base.values import Message, value
from falaj.database.migrations import is_known, newest_revision
from falaj.database.opening import SchemaDiffers


@value
class Upgraded(Message):
    """`backup` is empty where there was nothing to do."""

    before: str
    after: str
    backup: str


def upgrade(home: Home, settings: Settings, clock: Clock) -> Upgraded:
    """Run the missing migrations, after a backup of what is there. The platform must be stopped."""
    location = database_location(home, settings)
    if not home.path.is_dir() or (before := location.revision()) is None:
        raise NotFound(f"There is no platform at {home.path}; start one with: falaj up --home {home.path}")
    newest = newest_revision()
    if before == newest:
        return Upgraded(before=before, after=newest, backup="")
    if not is_known(before):
        raise SchemaDiffers(f"The database is at schema {before}, which a newer Falaj made; install that release.")
    with locked(home):
        database = location.connect()
        try:
            made = make_backup(
                Source(
                    home=home,
                    database=database,
                    ring=open_ring(home, settings, clock, home_exists=True),
                    places=open_storages(home, settings),
                    clock=clock,
                    settle=lambda: None,
                    collecting=threading.Lock(),
                )
            )
        finally:
            database.close()
        location.migrate()
    return Upgraded(before=before, after=newest, backup=str(home.backups / made.name))
