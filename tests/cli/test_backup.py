"""Backups: made while the platform runs, verified without one, restored elsewhere with the recovery kit."""

from pathlib import Path

from tests.cli.conftest import Falaj, Running


def test_a_backup_is_made_verified_and_restored_elsewhere_and_its_ledger_is_whole(platform: Running, tmp_path: Path):
    blob = platform.json("blob", "put", "default", "-", input="sealed water")["id"]
    made = platform.json("backup", "create")
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
