"""A process killed at every failpoint of the ledger leaves one that verifies and catches up."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from falaj.database.sqlite import SqliteDatabase, sqlite_engine
from falaj.database.work import metadata
from falaj.governance.ledger.copies import read_copy
from tests.governance.ledger.conftest import TABLES, KeySigner, Ledger

REPOSITORY = Path(__file__).parents[3]
VICTIM = """
import sys
from pathlib import Path
from falaj.base.operation import Record
from falaj.database.sqlite import SqliteDatabase
from falaj.governance.ledger.recording import count
from tests.governance.ledger.conftest import Invite, KeySigner, Ledger, identity, operation

home = Path(sys.argv[1])
ledger = Ledger(SqliteDatabase(home / "falaj.db"), home)
ledger.use(KeySigner(private=bytes.fromhex(sys.argv[2])))
ledger.record(3)
arguments = {"operation": operation(Record.TELEMETRY), "identity": identity(), "project": ""}
ledger.database.write(lambda work: count(work, content=b"{}", subject="", now=ledger.clock.now(), **arguments))
print("acknowledged", flush=True)
ledger.sequencer.step(close_all_windows=True)
"""


@pytest.mark.parametrize("name", ["ledger.windows-closed", "ledger.head-signed", "ledger.copy-written"])
def test_a_kill_in_the_middle_of_sequencing_loses_nothing(tmp_path: Path, name: str):
    engine = sqlite_engine(tmp_path / "falaj.db", writes=True)
    metadata.create_all(engine, tables=TABLES)
    engine.dispose()
    key = KeySigner().private
    victim = subprocess.run(
        [sys.executable, "-c", VICTIM, str(tmp_path), key.hex()],
        env=os.environ | {"FALAJ_FAILPOINT": name},
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (victim.stdout, victim.returncode) == ("acknowledged\n", -signal.SIGKILL), victim.stderr

    ledger = Ledger(SqliteDatabase(tmp_path / "falaj.db"), tmp_path)
    ledger.use(KeySigner(private=key))
    assert ledger.verify().ok
    ledger.sequencer.step()
    report = ledger.verify()
    assert (report.ok, report.leaves, report.unsequenced) == (True, 4, 0)
    assert [head.size for head in read_copy(ledger.copy_file)] == [4]
    ledger.database.close()
