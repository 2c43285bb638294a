"""Falaj in three minutes: two countries, sealed data, refusals that name their rule, a ledger that finds forgery, datasets and
features of what was known at the time, drift and an A/B test on real flights, trainings that share a machine, models, and
one of them in production.

`make demo` runs it. Everything happens in a throw-away folder, through the `falaj` command and the typed client alone.
"""

import argparse
import hashlib
import json
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import httpx
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from data_story import DataStory
from job_story import JobStory
from model_story import ModelStory
from serving_story import ServingStory
from small_story import SmallStory
from stage import PATIENCE, Stage, Unexpected, expect
from training_story import TrainingStory
from watch_story import WatchStory

from falaj.base.errors import FalajError
from falaj.client.http import Client
from falaj.storage.operations import BLOB_GET, BLOB_PUT, BLOB_SHOW, KEY_SHOW, GetBlob, OneBlob, OneProject, PutBlob

SECRET = b"applicant;income\nMaryam;18500\nKhalid;21300\n" * 200


class Demo:
    """The steps, in order. Each returns in one sentence what it showed."""

    def __init__(self, stage: Stage) -> None:
        self.stage, self.falaj = stage, stage.falaj
        self.file = stage.folder / "applicants.csv"
        self.file.write_bytes(SECRET)

    def start(self) -> str:
        took = self.stage.start()
        self.stage.say(f"{self.stage.url} is ready. The keys lie outside the home, in {self.stage.home.name}.keys.")
        return f"ready after {took:.1f} s; everybody must show a token from the first second on"

    def people_and_places(self) -> str:
        """A zone is a place under a law, with a storage of its own; a project lives in zones; people have roles in projects."""
        self.falaj("zone", "create", "abu-dhabi", "--country", "AE", "--storage", "abu-dhabi", "--jurisdiction", "pdpl")
        self.falaj("zone", "create", "frankfurt", "--country", "DE", "--storage", "frankfurt", "--jurisdiction", "gdpr")
        self.falaj("project", "create", "loans", "--zone", "abu-dhabi")
        self.falaj("project", "create", "claims", "--zone", "frankfurt")

        invited = self.falaj("user", "create", "maryam")
        self.falaj("project", "member", "add", "loans", "maryam", "scientist")
        session = self.stage.signed_in(invited["code"])
        self.maryam = self.falaj("token", "create", "office", "--zone", "abu-dhabi", token=session)["token"]
        self.travelling = self.falaj("token", "create", "laptop", "--zone", "frankfurt", token=session)["token"]

        self.falaj("service", "create", "claims", "scorer", "--role", "engineer")
        self.scorer = self.falaj("service", "token", "create", "claims", "scorer", "--zone", "frankfurt")["token"]
        return "maryam works for loans in abu-dhabi (AE), the account scorer for claims in frankfurt (DE)"

    def sealed(self) -> str:
        """What is stored is ciphertext on the disk of its own zone, and comes back byte for byte."""
        self.blob = self.falaj("blob", "put", "loans", str(self.file), token=self.maryam)["id"]
        copy = self.stage.folder / "copy.csv"
        self.falaj("blob", "get", "loans", self.blob, str(copy), token=self.maryam)
        expect(sha256(copy) == sha256(self.file), "The file came back changed.")

        objects = list(files_in(self.stage.folder / "disk-in-abu-dhabi"))
        on_disk = objects[0].read_bytes()
        self.stage.say(f"in the file  {SECRET[:32]!r}")
        self.stage.say(f"on the disk  {on_disk[:32].hex(' ')}")
        expect(len(objects) == 1 and b"Maryam" not in on_disk, "The disk in abu-dhabi does not hold exactly one sealed object.")
        expect(not list(files_in(self.stage.folder / "disk-in-frankfurt")), "Something was written in frankfurt.")
        return f"{len(SECRET):,} bytes read back with the same SHA-256; the disk holds ciphertext"

    def across_projects(self) -> str:
        """Whoever is outside a project is told the same as if it did not exist."""
        real = self.get(f"/v1/projects/loans/blobs/{self.blob}", self.scorer)
        unreal = self.get(f"/v1/projects/nowhere/blobs/{self.blob}", self.scorer)
        self.stage.say(f"scorer asks for a blob of loans:    {real.status_code} {real.json()['detail']}")
        self.stage.say(f"scorer asks for a blob of nowhere:  {unreal.status_code} {unreal.json()['detail']}")
        expect(real.status_code == unreal.status_code == 404, "A stranger was not answered with 404.")
        same = real.json()["detail"].replace("loans", "nowhere") == unreal.json()["detail"]
        expect(same, "A stranger can tell a project that exists from one that does not.")
        return "404, in the same words as for a project that does not exist"

    def across_zones(self) -> str:
        """Data is neither written outside its project's zones nor read from there, and the refusal names the rule."""
        written = self.falaj("blob", "put", "loans", str(self.file), "--zone", "frankfurt", token=self.maryam, fails=True)
        self.stage.say(written)
        expect("residency.target-zone" in written, "A write into another zone was not refused by residency.target-zone.")

        read = self.get(f"/v1/projects/loans/blobs/{self.blob}/content", self.travelling)
        self.stage.say(f"maryam reads from frankfurt: {read.status_code} {read.json()['detail']}")
        expect(
            (read.status_code, read.json()["rule"]) == (403, "residency.caller-zone"),
            "A read from another zone was let through.",
        )

        asked = ("policy", "explain", "blob.get", "--project", "loans", "--principal", "maryam", "--caller-zone", "frankfurt")
        why = self.falaj(*asked)
        self.stage.say(why["deciding"][0]["text"].strip().replace("\n", "\n   "), "dim")
        expect([rule["rule"] for rule in why["deciding"]] == ["residency.caller-zone"], "The explanation names another rule.")
        return "403 by residency.target-zone and residency.caller-zone; `policy explain` shows the rule"

    def ledger(self) -> str:
        """Everything above is on record, the refusals too, in the same transaction as its effect."""
        entries = self.falaj("audit", "log", "--oldest-first")["items"]
        for entry in entries:
            if entry["operation"].startswith("blob."):
                told = (entry["inserted"][:19] + "Z", f"{entry['operation']:<9}", f"{entry['outcome']:<7}", entry["rule"])
                self.stage.say("  ".join(told), "red" if entry["outcome"] == "refused" else "")
        refused = [entry["rule"] for entry in entries if entry["outcome"] == "refused"]
        wanted = {"not-visible", "residency.target-zone", "residency.caller-zone"}
        expect(wanted <= set(refused), f"The ledger has refusals by {refused} only.")
        return f"{len(entries)} leaves so far, {len(refused)} of them refusals with the rule that decided"

    def proof(self) -> str:
        """That a leaf is in the ledger can be checked by anybody, offline, with a hash function and one public key."""
        proof = self.falaj("audit", "prove", self.sequenced("blob.put")["id"])
        head = proof["head"]
        expect(merkle_root(proof) == head["root"], "The path does not lead from the leaf to the signed root.")
        self.kept_head = self.stage.folder / "head.json"
        kept = self.falaj("audit", "head")
        self.kept_head.write_text(json.dumps(kept))
        check_signature(head, kept["keys"][head["key"]])
        self.stage.say(f"root {head['root']}, signed at {head['at']}")
        return f"leaf {proof['index']} proven with {len(proof['path'])} hashes, root and signature checked offline"

    def forgery(self) -> str:
        """An exported ledger verifies on its own; a forged copy does not, and the finding says what was done to it."""
        export = self.stage.folder / "ledger.jsonl"
        self.falaj("audit", "export", str(export))
        whole = self.falaj("audit", "verify", "--file", str(export), "--head", str(self.kept_head))
        expect(whole["ok"], f"The untouched export does not verify: {whole['findings']}")
        for forge, finding in FORGERIES:
            copy = self.stage.folder / f"{forge.__name__}.jsonl"
            copy.write_text("".join(forge(export.read_text().splitlines(keepends=True))))
            report = self.falaj("audit", "verify", "--file", str(copy), "--head", str(self.kept_head), fails=True)
            found = {item["name"] for item in report["findings"]}
            self.stage.say(f"{forge.__name__}: {report['findings'][0]['message']}")
            expect(finding in found, f"{forge.__name__}: expected {finding}, found {sorted(found)}.")
        return "each caught and named: " + ", ".join(finding for _, finding in FORGERIES)

    def rotation(self) -> str:
        """A new project key wraps every data key anew in the background; no byte is rewritten and no read fails."""
        finished, reads = threading.Event(), list[bytes]()
        reader = threading.Thread(target=self.read_until, args=(finished, reads))
        reader.start()
        try:
            self.falaj("key", "rotate", "loans")
            with Client(self.stage.url, self.maryam) as client:
                wait_until(lambda: not client.call(KEY_SHOW, OneProject(project="loans")).rotating, "the rotation to end")
                version = client.call(KEY_SHOW, OneProject(project="loans")).version
        finally:
            finished.set()
            reader.join()
        expect(reads and set(reads) == {SECRET}, "A read during the rotation failed or brought other bytes.")
        return f"{len(reads)} reads while the key went to version {version}, none failed"

    def shredding(self) -> str:
        """Shredding forgets the only key of the bytes, so that every copy of the ciphertext is worth nothing."""
        self.falaj("blob", "shred", "loans", self.blob, "--yes")
        answer = self.get(f"/v1/projects/loans/blobs/{self.blob}/content", self.maryam)
        self.stage.say(f"maryam reads it again: {answer.status_code} {answer.json()['detail']}")
        expect(answer.status_code == 404, "A shredded blob can still be read.")
        return "gone for maryam too: 404, and the key of its bytes is forgotten"

    def power_cut(self) -> str:
        """kill -9 in the middle of writing: what was acknowledged is there, and the ledger is whole."""
        acknowledged: dict[str, str] = {}
        writer = threading.Thread(target=self.write_until_it_breaks, args=(acknowledged,))
        writer.start()
        wait_until(lambda: len(acknowledged) >= 25 or not writer.is_alive(), "25 writes")
        self.stage.kill()
        writer.join()
        expect(len(acknowledged) >= 25, f"Writing broke off after {len(acknowledged)} writes.")
        self.stage.say(f"killed with SIGKILL after {len(acknowledged)} acknowledged writes")
        took = self.stage.start()
        with Client(self.stage.url, self.maryam) as client:
            for blob, digest in acknowledged.items():
                expect(client.call(BLOB_SHOW, OneBlob(project="loans", blob=blob)).digest == digest, f"Blob {blob} is another.")
                content = b"".join(client.call(BLOB_GET, GetBlob(project="loans", blob=blob)).chunks)
                expect(hashlib.sha256(content).hexdigest() == digest, f"The bytes of blob {blob} are lost.")
        report = self.falaj("audit", "verify")
        expect(report["ok"], f"The ledger does not verify: {report['findings']}")
        return f"all {len(acknowledged)} acknowledged writes are there, ready again after {took:.1f} s, the ledger verifies"

    def backup(self) -> str:
        """A backup is one sealed file, made while the platform runs, and checked without it."""
        made = self.falaj("backup", "create")
        manifest = self.falaj("backup", "verify", made["name"])
        rows, objects = sum(manifest["rows"].values()), sum(manifest["objects"].values())
        return f"one sealed file of {made['size']:,} bytes: {rows} rows, {objects} objects, {manifest['tree_size']} leaves"

    # What the steps share

    def get(self, path: str, token: str) -> httpx.Response:
        return httpx.get(self.stage.url + path, headers={"authorization": f"Bearer {token}"}, trust_env=False)

    def sequenced(self, operation: str) -> dict[str, Any]:
        """The newest leaf of an operation, once it has its place in the tree; the sequencer takes about a second."""
        found: list[dict[str, Any]] = []

        def is_there() -> bool:
            found[:] = self.falaj("audit", "log", "--operation", operation, "--outcome", "done")["items"]
            return bool(found) and found[0]["index"] is not None

        wait_until(is_there, "the sequencer")
        return found[0]

    def read_until(self, finished: threading.Event, reads: list[bytes]) -> None:
        with Client(self.stage.url, self.maryam) as client:
            while not finished.is_set():
                try:
                    download = client.call(BLOB_GET, GetBlob(project="loans", blob=self.blob), retry=False)
                    reads.append(b"".join(download.chunks))
                except FalajError as error:
                    reads.append(str(error).encode())

    def write_until_it_breaks(self, acknowledged: dict[str, str]) -> None:
        with Client(self.stage.url, self.maryam) as client:
            for number in count():
                content = f"measurement {number}".encode()
                try:
                    blob = client.call(BLOB_PUT, PutBlob(project="loans"), chunks=[content])
                except FalajError:
                    return
                acknowledged[blob.id] = blob.digest


def wait_until(done: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not done():
        expect(time.monotonic() < deadline, f"Waited {PATIENCE:g} s for {what}.")
        time.sleep(0.02)


# Forgeries of an exported ledger. Its lines are: the keys, then the signed heads, then the leaves in order.


def change(lines: list[str]) -> list[str]:
    """Blame the read that was refused on somebody else."""
    at, entry = refused_read(lines)
    entry["leaf"]["principal"] = "0" * 32
    return [*lines[:at], json.dumps(entry) + "\n", *lines[at + 1 :]]


def remove(lines: list[str]) -> list[str]:
    at, _ = refused_read(lines)
    return [*lines[:at], *lines[at + 1 :]]


def reorder(lines: list[str]) -> list[str]:
    """Let the refused read come before what preceded it."""
    at, entry = refused_read(lines)
    before = json.loads(lines[at - 1])
    before["leaf"], entry["leaf"] = entry["leaf"], before["leaf"]
    return [*lines[: at - 1], json.dumps(before) + "\n", json.dumps(entry) + "\n", *lines[at + 1 :]]


def truncate(lines: list[str]) -> list[str]:
    """Cut the read and all that came after it off, and every head that would tell of it."""
    at, entry = refused_read(lines)
    heads = {number: json.loads(line)["head"]["size"] for number, line in enumerate(lines[:at]) if line.startswith('{"head"')}
    return [line for number, line in enumerate(lines[:at]) if heads.get(number, 0) <= entry["index"]]


FORGERIES = ((change, "leaf-changed"), (remove, "leaf-removed"), (reorder, "leaves-reordered"), (truncate, "log-truncated"))


def refused_read(lines: list[str]) -> tuple[int, dict[str, Any]]:
    """What somebody might want to hide: the line of the read that was refused, and its content."""
    for at, line in enumerate(lines):
        entry = json.loads(line)
        if entry.get("leaf", {}).get("operation") == "blob.get" and entry["leaf"]["outcome"] == "refused":
            return at, entry
    raise Unexpected("The export does not have the refused read.")


# Checking a proof takes no Falaj: RFC 9162, section 2.1.3.2, and one Ed25519 signature.


def merkle_root(proof: dict[str, Any]) -> str:
    """The root that follows from the leaf and the path."""
    position, last = proof["index"], proof["head"]["size"] - 1
    node = hashlib.sha256(b"\x00" + proof["record"].encode()).digest()
    for sibling in map(bytes.fromhex, proof["path"]):
        if position & 1 or position == last:
            node = hashlib.sha256(b"\x01" + sibling + node).digest()
            while not position & 1 and position:
                position, last = position >> 1, last >> 1
        else:
            node = hashlib.sha256(b"\x01" + node + sibling).digest()
        position, last = position >> 1, last >> 1
    return node.hex()


def check_signature(head: dict[str, Any], public: str) -> None:
    """Raises InvalidSignature for a head that this key did not sign."""
    signed = {name: head[name] for name in ("at", "key", "previous", "root", "size")}
    message = b"falaj ledger head v1\x00" + json.dumps(signed, sort_keys=True, separators=(",", ":")).encode()
    Ed25519PublicKey.from_public_bytes(bytes.fromhex(public)).verify(bytes.fromhex(head["signature"]), message)


def sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def files_in(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--exit", action="store_true", help="end after the last step instead of keeping the console open")
    stay = not parser.parse_args().exit
    for number in (signal.SIGTERM, signal.SIGHUP):  # however it is ended, nothing is left behind
        signal.signal(number, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="falaj-demo-") as folder, Stage(Path(folder)) as stage:
        demo, models = Demo(stage), ModelStory(stage)
        jobs, serving = JobStory(stage, models), ServingStory(stage, models)
        training, data, small = TrainingStory(jobs), DataStory(stage), SmallStory(stage, models, serving)
        watch = WatchStory(stage)
        stage.title(f"Falaj demo, in {folder}; everything is removed at the end.")
        try:
            stage.play(
                [
                    ("Start the platform with one command", demo.start),
                    ("Two zones, two projects, one person and one service account", demo.people_and_places),
                    ("Store and read a sealed file", demo.sealed),
                    ("Be refused across projects", demo.across_projects),
                    ("Be refused across zones", demo.across_zones),
                    ("Read all of that in the ledger", demo.ledger),
                    ("Prove one entry offline", demo.proof),
                    ("Forge copies of the ledger", demo.forgery),
                    ("Rotate a key while reading", demo.rotation),
                    ("Shred a file", demo.shredding),
                    ("Kill the control plane with kill -9", demo.power_cut),
                    ("Import real flights out of a package", data.imported),
                    ("Put a bad batch in quarantine", data.quarantined),
                    ("See what a version changed", data.compared),
                    ("Make a training set of what was known at the time", data.known_then),
                    ("Train on it, by name and version", data.trained),
                    ("Serve the same features", data.served),
                    ("Serve a model of January, and watch what it is asked", watch.watched),
                    ("Ask it about July, and be told what changed", watch.alarmed),
                    ("Let an A/B test decide, looked at all the time", watch.tested),
                    ("Share this machine between two queues", jobs.shared),
                    ("Train three models as jobs, and ask why one waits", jobs.trained),
                    ("Take a lent share back", jobs.reclaimed),
                    ("Track and register them with the stock mlflow client", jobs.registered),
                    ("Search for better parameters", training.tuned),
                    ("Kill a training, and see it go on", training.resumed),
                    ("Promote one under four eyes", models.promoted),
                    ("Make the champion small, with a certificate", small.certified),
                    ("Roll it back with one command", models.rolled_back),
                    ("Ask what was in production then", models.as_of),
                    ("Deploy the champion, and ask it over REST and gRPC", serving.deployed),
                    ("Try the next version as a canary, under load", serving.canary),
                    ("Take it back with one command", serving.rolled_back),
                    ("Serve the certified variant", small.served),
                    ("Predict while there is no control plane", serving.alone),
                    ("Back up and verify", demo.backup),
                ]
            )
        except Unexpected as error:
            stage.title(f"\nThe demo failed: {error}", "bold red")
            return 1
        except KeyboardInterrupt:
            return 130
        if stay:
            keep_open(stage)
    return 0


def keep_open(stage: Stage) -> None:
    try:
        link = stage.falaj("console", "--no-browser")["link"]
        stage.title(f"\nThe console, until you press Ctrl-C: {link}", "bold")
        signal.pause()
    except KeyboardInterrupt:
        stage.title("\nStopping, and removing everything.")


if __name__ == "__main__":
    os.umask(0o077)
    sys.exit(main())
