"""Write the next migration: what the rooms' tables have that the history does not. Read it before you keep it.

.venv/bin/python scripts/new_migration.py "what it brings"
"""

import importlib
import pkgutil
import re
import sys
import tempfile
import textwrap
from pathlib import Path

from alembic.autogenerate import produce_migrations, render_python_code
from alembic.operations.ops import MigrationScript, UpgradeOps
from alembic.runtime.migration import MigrationContext

import falaj
from falaj.database.migrations import HISTORY, migrate, read_history
from falaj.database.sqlite import sqlite_engine
from falaj.database.work import metadata

# Where tables are declared: every room's `store`, and the leases.
WITH_TABLES = re.compile(r"falaj\.(.*\.)?store(\..*)?|falaj\.database\.leases")


def load_tables() -> None:
    """Import whatever declares tables, so that they register in `metadata`."""
    for module in pkgutil.walk_packages(falaj.__path__, "falaj."):
        if WITH_TABLES.fullmatch(module.name):
            importlib.import_module(module.name)


def differences(context: MigrationContext) -> UpgradeOps:
    """What must be done to the database behind `context` to make it what the rooms declare."""
    script: MigrationScript = produce_migrations(context, metadata)
    assert script.upgrade_ops is not None
    return script.upgrade_ops


def write_migration(message: str, history: Path = HISTORY) -> Path | None:
    load_tables()
    _, scripts = read_history(history)
    revisions = list(scripts.walk_revisions())
    with tempfile.TemporaryDirectory() as folder:
        engine = sqlite_engine(Path(folder) / "migrated.db", writes=True)
        if revisions:
            migrate(engine, history)
        with engine.connect() as connection:
            needed = differences(MigrationContext.configure(connection, opts={"compare_type": True}))
            body = render_python_code(needed, migration_context=MigrationContext.configure(connection))
        engine.dispose()
    if needed.is_empty():
        return None
    number = f"{len(revisions) + 1:04d}"
    name = re.sub(r"\W+", "_", message.lower()).strip("_")
    (history / "versions").mkdir(exist_ok=True)
    text = f'"""{message[0].upper()}{message[1:].rstrip(".")}."""\n\nimport sqlalchemy as sa\nfrom alembic import op\n\n'
    text += (
        f'revision = "{number}"\ndown_revision = {scripts.get_current_head()!r}\n\n\ndef upgrade() -> None:\n{indented(body)}\n'
    )
    target = history / "versions" / f"{number}_{name}.py"
    target.write_text(text)
    return target


def indented(body: str) -> str:
    """Without the remarks that Alembic puts around it."""
    lines = [line for line in body.splitlines() if not line.lstrip().startswith("# ###")]
    return textwrap.indent(textwrap.dedent("\n".join(lines)), "    ")


def main() -> int:
    if len(sys.argv) != 2 or not sys.argv[1].strip():
        print(__doc__, file=sys.stderr)
        return 2
    target = write_migration(sys.argv[1].strip())
    print(
        f"wrote {target}; now read it and run `make format`" if target else "nothing to write: the history has all the tables"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
