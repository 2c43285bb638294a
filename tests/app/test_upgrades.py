"""Between releases: a database of another schema is not touched by `up`, and `upgrade` makes a backup before it migrates."""

import shutil
import sqlite3
from pathlib import Path

import pytest

import falaj
from falaj.database.migrations import newest_revision
from falaj.keys.file import KIT
from tests.app.conftest import MakePlatform
from tests.app.effects import Load, check, come_back, new_effect, verify_ledger
from tests.app.mortal import MortalPlatform, run_falaj

NEXT = "9999"
MIGRATION = f'''"""The next release: one table and one column more."""
import sqlalchemy as sa
from alembic import op
revision, down_revision = "{NEXT}", "{{newest}}"
def upgrade() -> None:
    op.create_table("later_things", sa.Column("id", sa.String(32), primary_key=True))
    op.add_column("storage_objects", sa.Column("later", sa.String(10)))
    {{then}}
'''
TABLE = """

from sqlalchemy import Column as _Column
later_things = Table("later_things", metadata, _Column("id", String(32), primary_key=True))
"""


def release(place: Path, *, then: str = "pass") -> dict[str, str]:
    """A later release of this package, as an environment in which `falaj` is that one."""
    package = place / "falaj"
    shutil.copytree(Path(falaj.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    version = package / "database" / "history" / "versions" / f"{NEXT}_later.py"
    version.write_text(MIGRATION.format(newest=newest_revision(), then=then))
    with (package / "operations" / "store.py").open("a") as store:
        store.write(TABLE)
    return {"PYTHONPATH": str(place), "PYTHONSAFEPATH": "1"}


def revision(platform: MortalPlatform) -> str:
    with sqlite3.connect(platform.home.database) as database:
        found = database.execute("select version_num from alembic_version").fetchone()[0]
    database.close()
    return str(found)


@pytest.fixture
def used(make_platform: MakePlatform) -> tuple[MortalPlatform, Load]:
    """A platform of this release with something in it; it runs."""
    platform, load = make_platform().start(), Load()
    with platform.http() as http:
        for kind in ("blob", "project", "zone"):
            assert load.do(http, new_effect(kind))
    return platform, load


def test_nothing_to_do_is_no_error_and_makes_no_backup(used: tuple[MortalPlatform, Load]):
    platform, load = used
    platform.stop()
    told = platform.falaj("upgrade")
    assert told.returncode == 0, told.stderr
    assert "already" in told.stdout
    assert list(platform.home.backups.iterdir()) == []
    come_back(platform)
    check(platform, load)


def test_an_older_database_waits_for_the_upgrade_which_backs_up_and_migrates(
    used: tuple[MortalPlatform, Load], make_platform: MakePlatform, tmp_path: Path
):
    platform, load = used
    later = release(tmp_path / "later")
    running = platform.falaj("upgrade", **later)
    assert running.returncode == 1, running.stdout
    assert "falaj down" in running.stderr
    assert revision(platform) == newest_revision()
    platform.stop()
    waits = platform.falaj("up", "--port", "0", **later)
    assert waits.returncode == 1
    assert "falaj upgrade" in waits.stderr
    assert revision(platform) == newest_revision(), "`up` migrated without a backup"
    done = platform.falaj("upgrade", **later)
    assert done.returncode == 0, done.stderr
    assert revision(platform) == NEXT
    (backup,) = platform.home.backups.iterdir()
    assert backup.name in done.stdout
    come_back(platform, **later)
    check(platform, load)
    platform.stop()
    # The way back: the backup from before restores under this release, and under the later one.
    kit = str(platform.home.keys / KIT)
    for name, environment in {"before": {}, "after": later}.items():
        restored = make_platform(name)
        done = run_falaj("backup", "restore", str(backup), "--kit", kit, home=restored.home.path, **environment)
        assert done.returncode == 0, done.stderr
        come_back(restored, **environment)
        check(restored, load)
        assert revision(restored) == (NEXT if environment else newest_revision())


def test_a_database_of_a_newer_release_is_told_and_left_alone(used: tuple[MortalPlatform, Load], tmp_path: Path):
    platform, load = used
    platform.stop()
    later = release(tmp_path / "later")
    assert platform.falaj("upgrade", **later).returncode == 0
    content = platform.home.database.read_bytes()
    for command in (("up", "--port", "0"), ("upgrade",)):
        told = platform.falaj(*command)
        assert told.returncode == 1
        assert "newer" in told.stderr
        assert "install" in told.stderr
        assert "falaj upgrade" not in told.stderr, "an upgrade cannot help here"
        assert "Traceback" not in told.stderr
    assert platform.home.database.read_bytes() == content
    come_back(platform, **later)
    check(platform, load)


def test_a_migration_that_fails_leaves_the_old_schema_and_the_backup(used: tuple[MortalPlatform, Load], tmp_path: Path):
    platform, load = used
    platform.stop()
    later = release(tmp_path / "later", then='op.execute("insert into no_such_table values (1)")')
    failed = platform.falaj("upgrade", **later)
    assert failed.returncode == 1
    assert revision(platform) == newest_revision()
    assert len(list(platform.home.backups.iterdir())) == 1
    with sqlite3.connect(platform.home.database) as database:
        tables = {name for (name,) in database.execute("select name from sqlite_master")}
    database.close()
    assert "later_things" not in tables, "half of the migration stayed"
    come_back(platform)
    check(platform, load)


def test_upgrade_on_postgres(make_platform: MakePlatform, tmp_path: Path, postgres_url: str):
    platform, load = make_platform(FALAJ_DATABASE_URL=postgres_url).start(), Load()
    with platform.http() as http:
        assert load.do(http, new_effect("blob"))
    platform.stop()
    later = release(tmp_path / "later")
    assert "falaj upgrade" in platform.falaj("up", "--port", "0", **later).stderr
    done = platform.falaj("upgrade", **later)
    assert done.returncode == 0, done.stderr
    assert len(list(platform.home.backups.iterdir())) == 1
    come_back(platform, **later)
    check(platform, load)
    with platform.http() as http:
        verify_ledger(http)


def test_where_there_is_no_platform_there_is_nothing_to_upgrade(tmp_path: Path):
    told = run_falaj("upgrade", home=tmp_path / "home")
    assert told.returncode == 1
    assert "falaj up" in told.stderr
    assert not (tmp_path / "home").exists()
