"""Data stays at home, sealed: two countries, refusals that name their rule, a key that is turned, and one that is forgotten."""

import hashlib
import threading
from pathlib import Path
from typing import Final

import httpx

from falaj.base.errors import FalajError
from falaj.cli.demo.ground import Ground
from falaj.cli.demo.playing import Step
from falaj.cli.demo.stage import expect
from falaj.storage.operations import BLOB_GET, KEY_SHOW, GetBlob, OneProject

_SECRET: Final = b"applicant;income\nMaryam;18500\nKhalid;21300\n" * 200


class Residency:
    """Maryam works for loans in Abu Dhabi, an account called scorer for claims in Frankfurt."""

    def __init__(self, ground: Ground) -> None:
        self.stage, self.falaj = ground.stage, ground.stage.falaj

    def steps(self) -> list[Step]:
        return [
            Step(
                title="Seal a file in its own country",
                words="A zone is a place under a law, with a storage of its own; a project lives in zones.",
                play=self.sealed,
            ),
            Step(
                title="Be refused across zones",
                words="Neither written there nor read from there; the refusal names the rule that decided.",
                play=self.across_zones,
            ),
            Step(
                title="Be refused across projects",
                words="Whoever is outside is told the same as if it did not exist.",
                play=self.across_projects,
            ),
            Step(
                title="Turn the key while it is read, then forget it",
                words="A new project key wraps every data key anew. Shredding forgets the only key of the bytes.",
                play=self.keys,
            ),
        ]

    def sealed(self) -> str:
        self.falaj("zone", "create", "abu-dhabi", "--country", "AE", "--storage", "abu-dhabi", "--jurisdiction", "pdpl")
        self.falaj("zone", "create", "frankfurt", "--country", "DE", "--storage", "frankfurt", "--jurisdiction", "gdpr")
        self.falaj("project", "create", "loans", "--zone", "abu-dhabi")
        self.falaj("project", "create", "claims", "--zone", "frankfurt")
        session = self.stage.person("maryam", "loans", "scientist")
        self.maryam = self.falaj("token", "create", "office", "--zone", "abu-dhabi", token=session)["token"]
        self.travelling = self.falaj("token", "create", "laptop", "--zone", "frankfurt", token=session)["token"]
        self.falaj("service", "create", "claims", "scorer", "--role", "engineer")
        self.scorer = self.falaj("service", "token", "create", "claims", "scorer", "--zone", "frankfurt")["token"]

        self.file, copy = self.stage.folder / "applicants.csv", self.stage.folder / "copy.csv"
        self.file.write_bytes(_SECRET)
        self.blob = self.falaj("blob", "put", "loans", str(self.file), token=self.maryam)["id"]
        self.falaj("blob", "get", "loans", self.blob, str(copy), token=self.maryam)
        expect(_sha256(copy) == _sha256(self.file), "The file came back changed.")
        objects = _files_in(self.stage.folder / "disk-in-abu-dhabi")
        on_disk = objects[0].read_bytes()
        self.stage.say(f"in the file  {_SECRET[:32]!r}")
        self.stage.say(f"on the disk  {on_disk[:32].hex(' ')}")
        expect(len(objects) == 1 and b"Maryam" not in on_disk, "The disk in abu-dhabi does not hold exactly one sealed object.")
        expect(not _files_in(self.stage.folder / "disk-in-frankfurt"), "Something was written in frankfurt.")
        return f"{len(_SECRET):,} bytes read back with the same SHA-256; the disk in abu-dhabi holds ciphertext"

    def across_zones(self) -> str:
        written = self.falaj("blob", "put", "loans", str(self.file), "--zone", "frankfurt", token=self.maryam, fails=True)
        self.stage.say(written, "red")
        expect("residency.target-zone" in written, "A write into another zone was not refused by residency.target-zone.")
        read = self._get(f"/v1/projects/loans/blobs/{self.blob}/content", self.travelling)
        self.stage.say(f"maryam reads from frankfurt: {read.status_code} {read.json()['detail']}", "red")
        decided = (read.status_code, read.json()["rule"])
        expect(decided == (403, "residency.caller-zone"), "A read from another zone was let through.")
        asked = ("policy", "explain", "blob.get", "--project", "loans", "--principal", "maryam", "--caller-zone", "frankfurt")
        why = self.falaj(*asked)
        self.stage.say(why["deciding"][0]["text"].strip().replace("\n", "\n   "), "dim")
        expect([rule["rule"] for rule in why["deciding"]] == ["residency.caller-zone"], "The explanation names another rule.")
        return "403 by residency.target-zone and residency.caller-zone; `policy explain` shows the rule"

    def across_projects(self) -> str:
        real = self._get(f"/v1/projects/loans/blobs/{self.blob}", self.scorer)
        unreal = self._get(f"/v1/projects/nowhere/blobs/{self.blob}", self.scorer)
        self.stage.say(f"scorer asks for a blob of loans:    {real.status_code} {real.json()['detail']}")
        self.stage.say(f"scorer asks for a blob of nowhere:  {unreal.status_code} {unreal.json()['detail']}")
        expect(real.status_code == unreal.status_code == 404, "A stranger was not answered with 404.")
        same = real.json()["detail"].replace("loans", "nowhere") == unreal.json()["detail"]
        expect(same, "A stranger can tell a project that exists from one that does not.")
        return "404, in the same words as for a project that does not exist"

    def keys(self) -> str:
        finished, reads = threading.Event(), list[bytes]()
        reader = threading.Thread(target=self._read_until, args=(finished, reads), daemon=True)
        reader.start()
        try:
            self.falaj("key", "rotate", "loans")
            with self.stage.client(self.maryam) as client:
                shown = OneProject(project="loans")
                self.stage.until(lambda: not client.call(KEY_SHOW, shown).rotating, "the rotation to end", every=0.02)
                version = client.call(KEY_SHOW, shown).version
        finally:
            finished.set()
            reader.join()
        expect(reads and set(reads) == {_SECRET}, "A read during the rotation failed or brought other bytes.")
        self.stage.say(f"{len(reads)} reads while the key went to version {version}, none failed")
        self.falaj("blob", "shred", "loans", self.blob, "--yes")
        answer = self._get(f"/v1/projects/loans/blobs/{self.blob}/content", self.maryam)
        self.stage.say(f"maryam reads it again: {answer.status_code} {answer.json()['detail']}")
        expect(answer.status_code == 404, "A shredded blob can still be read.")
        return f"{len(reads)} reads during the rotation, none failed; shredded it is gone for maryam too"

    # What the steps share

    def _get(self, path: str, token: str) -> httpx.Response:
        return httpx.get(self.stage.url + path, headers={"authorization": f"Bearer {token}"}, trust_env=False)

    def _read_until(self, finished: threading.Event, reads: list[bytes]) -> None:
        with self.stage.client(self.maryam) as client:
            while not finished.is_set():
                try:
                    download = client.call(BLOB_GET, GetBlob(project="loans", blob=self.blob), retry=False)
                    reads.append(b"".join(download.chunks))
                except FalajError as error:
                    reads.append(str(error).encode())


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _files_in(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]
