"""The control plane is killed while predictions are asked for and data is written: nothing that was acknowledged is lost."""

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Final

from falaj.base.errors import FalajError
from falaj.cli.demo.asking import load
from falaj.cli.demo.ground import ENDPOINT, PROJECT, Ground
from falaj.cli.demo.playing import Step
from falaj.cli.demo.stage import expect
from falaj.storage.operations import BLOB_GET, BLOB_PUT, BLOB_SHOW, GetBlob, OneBlob, PutBlob

_WRITES: Final = 25
_ASKED: Final = 300


class Outage:
    def __init__(self, ground: Ground) -> None:
        self.ground, self.stage = ground, ground.stage
        self.acknowledged: dict[str, str] = {}  # digests by the ids of blobs

    def steps(self) -> list[Step]:
        return [
            Step(
                title="Kill the control plane with kill -9, while it writes and predicts",
                words="The serving plane answers by its last signed state. The next control plane finds it again.",
                play=self.killed,
            ),
            Step(
                title="Look for what was acknowledged",
                words="Every write that was said to be done has to be there, byte for byte, and the ledger whole.",
                play=self.looked,
            ),
            Step(
                title="Back it up, and check the backup",
                words="One sealed file, made while the platform runs, and checked without it.",
                play=self.backed_up,
            ),
        ]

    def killed(self) -> str:
        self.ground.made()
        with self.ground.ask() as ask, load(ask, self.ground.served, "outage") as asked:
            with self._writing() as writer:
                self.stage.until(lambda: len(self.acknowledged) >= _WRITES or not writer.is_alive(), "writes", every=0.01)
                asked.wait_for(50)
                self.stage.kill()
            self.stage.say(
                f"killed with SIGKILL after {len(self.acknowledged)} acknowledged writes: there is no control plane now"
            )
            before = len(asked.answers)
            asked.wait_for(_ASKED)
            alone = len(asked.answers) - before
            took = self.stage.start()
            self.stage.until(self._is_found_again, "the plane to be found again")
            asked.wait_for(50)
        expect(len(self.acknowledged) >= _WRITES, f"Writing broke off after {len(self.acknowledged)} writes.")
        return f"{alone:,} predictions without a control plane, none failed; it was back after {took:.1f} s"

    def looked(self) -> str:
        with self.stage.client() as client:
            for blob, digest in self.acknowledged.items():
                expect(client.call(BLOB_SHOW, OneBlob(project=PROJECT, blob=blob)).digest == digest, f"Blob {blob} is another.")
                content = b"".join(client.call(BLOB_GET, GetBlob(project=PROJECT, blob=blob)).chunks)
                expect(hashlib.sha256(content).hexdigest() == digest, f"The bytes of blob {blob} are lost.")
        report = self.stage.falaj("audit", "verify")
        expect(report["ok"], f"The ledger does not verify: {report['findings']}")
        return f"all {len(self.acknowledged)} acknowledged writes are there, and the ledger verifies"

    def backed_up(self) -> str:
        made = self.stage.falaj("backup", "create")
        manifest = self.stage.falaj("backup", "verify", made["name"])
        rows, objects = sum(manifest["rows"].values()), sum(manifest["objects"].values())
        return (
            f"one sealed file of {made['size']:,} bytes: {rows:,} rows, {objects:,} objects, {manifest['tree_size']:,} leaves"
        )

    # What the steps share

    def _is_found_again(self) -> bool:
        found = self.ground.falaj("endpoint", "show", ENDPOINT, quietly=True)
        return bool(found["ready"] and found["url"] == self.ground.url)

    @contextmanager
    def _writing(self) -> Iterator[threading.Thread]:
        writer = threading.Thread(target=self._write_until_it_breaks, daemon=True)
        writer.start()
        yield writer
        writer.join()

    def _write_until_it_breaks(self) -> None:
        with self.stage.client() as client:
            for number in count():
                content = f"measurement {number}".encode()
                try:
                    blob = client.call(BLOB_PUT, PutBlob(project=PROJECT), chunks=[content])
                except FalajError:
                    return
                self.acknowledged[blob.id] = blob.digest
