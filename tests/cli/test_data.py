"""Blobs and the ledger, from the command line of a running platform."""

import json
import os
import re
import time
from pathlib import Path

import pytest

from tests.cli.conftest import Running


def test_a_file_comes_back_as_it_was(platform: Running, tmp_path: Path):
    content = os.urandom(3_000_000)
    (tmp_path / "table.csv").write_bytes(content)
    stored = platform.json("blob", "put", "default", str(tmp_path / "table.csv"))
    assert (stored["name"], stored["size"], stored["media_type"]) == ("table.csv", len(content), "text/csv")
    target = tmp_path / "back.csv"
    target.write_text("what was there before")
    told = platform.json("blob", "get", "default", stored["id"], str(target))
    assert told == {"file": str(target), "size": len(content)}
    assert target.read_bytes() == content
    assert platform.raw("blob", "get", "default", stored["id"], "-").stdout == content
    assert platform.raw("blob", "get", "default", stored["id"], "-", "--offset", "5", "--length", "7").stdout == content[5:12]
    assert stored["id"] in platform("blob", "list", "default")
    assert platform.json("blob", "show", "default", stored["id"])["digest"] == stored["digest"]
    assert list(tmp_path.glob(".*partial")) == []


def test_standard_input_is_stored_and_deleted_and_shredded(platform: Running):
    first = platform.json("blob", "put", "default", "-", "--name", "note", input="water")
    assert first["size"] == 5
    assert "gone for good" in platform("blob", "delete", "default", first["id"])
    second = platform.json("blob", "put", "default", "-", input="more water")
    assert "gone for good" in platform("blob", "shred", "default", second["id"], "--yes")
    platform.fails("blob", "get", "default", second["id"], "-")


def test_a_download_that_breaks_off_leaves_the_file_as_it_was(platform: Running, tmp_path: Path):
    """The stored object is cut on the disk, so the stream ends early."""
    content = os.urandom(4_000_000)
    before = set((platform.home / "blobs").rglob("*"))
    stored = platform.json("blob", "put", "default", "-", input=content)
    [object_file] = [file for file in set((platform.home / "blobs").rglob("*")) - before if file.is_file()]
    os.truncate(object_file, object_file.stat().st_size - 1_500_000)
    target = tmp_path / "kept"
    target.write_text("what was there before")
    platform.fails("blob", "get", "default", stored["id"], str(target))
    assert target.read_text() == "what was there before"
    assert [file.name for file in tmp_path.iterdir()] == ["kept"]


def test_the_log_is_filtered_and_every_call_is_in_it(platform: Running):
    platform("project", "create", "logged", "--zone", "home")
    platform("blob", "put", "logged", "-", input="x")
    entries = platform.json("audit", "log", "--project", "logged", "--operation", "blob.put")["items"]
    assert [entry["operation"] for entry in entries] == ["blob.put"]
    assert platform.json("audit", "log", "--until", "2020-01-01T00:00:00Z")["items"] == []
    assert "time zone" in platform.fails("audit", "log", "--since", "2026-01-01T00:00:00", status=2)
    assert "is no time" in platform.fails("audit", "log", "--since", "yesterday", status=2)
    oldest = platform.json("audit", "log", "--oldest-first", "--limit", "1")["items"][0]
    assert oldest["index"] == 0
    assert "platform.start" in platform("audit", "log", "--oldest-first", "--limit", "1")


def test_the_log_names_who_did_it_to_those_who_may_know_and_asking_leaves_no_trace(platform: Running, tmp_path: Path):
    platform("project", "create", "named", "--zone", "home")
    platform("service", "create", "named", "nightly", "--role", "scientist")
    service = platform.json("service", "token", "create", "named", "nightly")["token"]
    platform("blob", "put", "named", "-", input="x", FALAJ_TOKEN=service)
    invited = platform.json("user", "create", "fatima")
    auditor = {"FALAJ_HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path), "FALAJ_URL": platform.url}
    platform("login", "--code", invited["code"], **auditor)
    platform("project", "member", "add", "named", "fatima", "auditor")

    def told(*arguments: str, **environment: str) -> set[tuple[str, str]]:
        """Who did what, by name."""
        lines = platform("audit", "log", "--limit", "30", *arguments, **environment).splitlines()
        return {(line.split()[2], line.split()[5]) for line in lines[1:]}

    of_project = {("blob.put", "nightly"), ("member.add", "owner"), ("service.create", "owner")}
    assert of_project <= told("--project", "named", **auditor), "its auditor knows the project's members"
    assert {("blob.put", "nightly"), ("member.add", "owner"), ("audit.log-project", "fatima")} <= told()
    narrow = platform.json("token", "create", "siem", "--scope", "audit", "--days", "1")["token"]
    assert {("blob.put", "-"), ("member.add", "owner")} <= told(FALAJ_TOKEN=narrow), "oneself is known to everybody"
    assert not any(
        entry["operation"] in ("policy.explain", "member.list", "user.show")
        for entry in platform.json("audit", "log", "--outcome", "refused")["items"]
    )


def test_a_leaf_is_proved_and_the_ledger_is_whole(platform: Running):
    proof = platform.json("audit", "prove", "0")
    assert proof["index"] == 0
    leaf = json.loads(proof["record"])["id"]
    assert platform.json("audit", "prove", leaf)["index"] == 0
    told = platform("audit", "prove", leaf)
    assert re.match(r"leaf +0: [a-z.-]+, done, ", told)
    assert re.search(r"^proof +holds: \d+ hashes lead from the leaf to the root", told, re.MULTILINE)
    assert platform.json("audit", "growth", "1", str(proof["head"]["size"]))["old"] == 1
    assert platform("audit", "verify").startswith("The ledger is whole: ")
    assert platform.json("audit", "as-of", "2020-01-01T00:00:00Z")["size"] == 0
    assert "root" in platform("audit", "head")


def test_an_export_is_verified_offline_against_a_head_that_was_kept_and_a_changed_one_is_found(
    platform: Running, tmp_path: Path
):
    head, export = tmp_path / "head.json", tmp_path / "ledger.jsonl"
    head.write_text(platform("audit", "head", "--json"))
    platform("audit", "export", str(export))
    offline = {"FALAJ_HOME": str(tmp_path / "nothing"), "FALAJ_URL": "http://127.0.0.1:1"}
    report = platform.json("audit", "verify", "--file", str(export), "--head", str(head), **offline)
    assert (report["ok"], report["findings"]) == (True, [])
    platform("audit", "verify", "--head", str(head))
    lines = export.read_text().splitlines()
    place = next(number for number, line in enumerate(lines) if '"index":1,' in line)
    lines[place] = lines[place].replace('"outcome":"done"', '"outcome":"refused"')
    export.write_text("\n".join(lines) + "\n")
    report = platform.json("audit", "verify", "--file", str(export), "--head", str(head), status=1, **offline)
    assert "leaf-changed" in [finding["name"] for finding in report["findings"]]
    assert "leaf-changed" in platform("audit", "verify", "--file", str(export), status=1, **offline)
    platform.fails("audit", "verify", "--head", str(export), status=2)


def test_a_head_kept_before_the_signing_key_was_rotated_vouches_for_what_the_new_key_signs(platform: Running, tmp_path: Path):
    head, export = tmp_path / "head.json", tmp_path / "ledger.jsonl"
    head.write_text(platform("audit", "head", "--json"))
    new = platform.json("key", "rotate", "--signing", "ledger")["id"]
    platform("project", "create", "after-the-rotation", "--zone", "home")
    deadline = time.monotonic() + 30
    while platform.json("audit", "head")["head"]["key"] != new:
        assert time.monotonic() < deadline, "no head under the new key"
    platform("audit", "export", str(export))
    report = platform.json("audit", "verify", "--file", str(export), "--head", str(head))
    assert (report["ok"], report["findings"], report["head"]["key"]) == (True, [], new)
    platform("audit", "verify", "--head", str(head))
    endorsement = platform.json("audit", "head")["endorsements"][-1]
    assert (endorsement["key"], endorsement["by"]) == (new, json.loads(head.read_text())["head"]["key"])


@pytest.mark.parametrize("format", ["leaf", "cloudevents"])
def test_following_resumes_after_an_index(platform: Running, format: str):
    everything = [json.loads(line) for line in platform("audit", "follow", "--once", "--format", format).splitlines()]
    assert len(everything) > 3
    rest = platform("audit", "follow", "--once", "--after", "2", "--format", format).splitlines()
    assert [json.loads(line) for line in rest][: len(everything) - 3] == everything[3:]


def test_following_sees_what_happens_next(platform: Running):
    last = json.loads(platform("audit", "follow", "--once").splitlines()[-1])["index"]
    following = platform.start("audit", "follow", "--after", str(last))
    try:
        platform("project", "create", "seen-live", "--zone", "home")
        assert following.stdout is not None
        seen = json.loads(following.stdout.readline())
        assert (seen["operation"], seen["index"]) == ("project.create", last + 1)
    finally:
        following.terminate()
        following.communicate()


def test_personal_values_are_made_unsayable_and_the_ledger_stays_whole(platform: Running):
    person = platform.json("user", "create", "forgotten", "--display", "Forgotten")["id"]
    assert "Say --yes" in platform.fails("audit", "erase-salts", "--principal", person, status=2)
    assert platform.json("audit", "erase-salts", "--principal", person, "--yes")["erased"] >= 2
    assert platform.json("audit", "erase-salts", "--principal", person, "--yes")["erased"] == 0
    assert platform.json("audit", "verify")["ok"] is True
    platform.fails("audit", "erase-salts", "--yes", status=2)
