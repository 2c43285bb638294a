"""Backups: made while the platform runs, verified without one, restored elsewhere with the recovery kit."""

import json
from pathlib import Path

from tests.cli.conftest import Falaj, Running
from tests.servers.softhsm import SoftHsm


def test_a_backup_is_made_verified_and_restored_elsewhere_and_its_ledger_is_whole(platform: Running, tmp_path: Path):
    blob = platform.json("blob", "put", "default", "-", input="sealed water")["id"]
    output, said = platform.both("backup", "create", "--json")
    made = json.loads(output)
    assert said.endswith("you need the recovery kit.\n")
    assert made["name"] in platform("backup", "list")
    assert platform("backup", "verify", made["name"]).startswith("The backup is whole: ")
    copy, kit = tmp_path / "copy.falaj-backup", tmp_path / "kit.txt"
    copy.write_bytes((platform.home / "backups" / made["name"]).read_bytes())
    kit.write_text(platform("key", "kit"))
    elsewhere = Falaj(tmp_path / "elsewhere", tmp_path / "config")
    assert "--kit" in elsewhere.fails("backup", "restore", str(copy), status=2)
    assert elsewhere.json("backup", "restore", str(copy), "--kit", str(kit))["tree_size"] == made["tree_size"]
    assert "not empty" in elsewhere.fails("backup", "restore", str(copy), "--kit", str(kit))
    restored = Running(tmp_path / "elsewhere", tmp_path / "config")
    try:
        assert restored("blob", "get", "default", blob, "-") == "sealed water"
        assert restored("audit", "verify").startswith("The ledger is whole: ")
    finally:
        restored.stop()


def test_a_changed_byte_of_a_backup_is_found(platform: Running, tmp_path: Path):
    made = platform.json("backup", "create")
    content = bytearray((platform.home / "backups" / made["name"]).read_bytes())
    content[-2000] ^= 1
    (tmp_path / "changed").write_bytes(content)
    platform.fails("backup", "verify", str(tmp_path / "changed"))
    (tmp_path / "nonsense").write_text("nonsense")
    platform.fails("backup", "verify", str(tmp_path / "nonsense"), status=2)


def test_where_the_keys_are_in_a_hardware_module_a_backup_speaks_of_that_and_of_no_kit(softhsm: SoftHsm, tmp_path: Path):
    softhsm.new_token("backed-up")
    keys = {"KIND": "pkcs11", "MODULE": softhsm.module, "TOKEN": "backed-up", "PIN": softhsm.pin}
    environment = {f"FALAJ_KEYS_{name}": text for name, text in keys.items()} | softhsm.env
    running = Running(tmp_path / "home", tmp_path / "config", **environment)
    try:
        assert running.announced["recovery_kit"] == ""
        output, said = running.both("backup", "create", "--json")
    finally:
        running.stop()
    assert "hardware module" in said
    assert "kit" not in said
    assert "whole" in running("backup", "verify", json.loads(output)["name"])
