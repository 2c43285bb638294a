"""Datasets from the command line of a running platform: real files in, real files out."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import falaj as sdk
from tests.cli.conftest import Running

CSV = "id,name,at,score\n1,well,2026-11-15T09:30:00Z,0.5\n2,channel,2026-11-15T10:30:00Z,1.5\n3,,2026-11-15T11:30:00Z,2.5\n"


@pytest.fixture
def csv(tmp_path: Path) -> str:
    (tmp_path / "flights.csv").write_text(CSV)
    return str(tmp_path / "flights.csv")


def test_a_file_is_imported_looked_at_asked_and_exported(platform: Running, csv: str, tmp_path: Path):
    made = platform.json("dataset", "import", "flights", csv)
    assert (made["version"], made["rows"], made["origin"], made["mode"]) == (1, 3, "flights.csv", "append")
    assert "already" in platform.both("dataset", "import", "flights", csv)[1]
    assert platform.json("dataset", "import", "flights", csv, "--again")["rows"] == 6
    assert "flights" in platform("dataset", "list")
    shown = platform("dataset", "show", "flights@1", "--rows", "2")
    assert "moment" in shown
    assert "channel" in shown
    assert "There are more rows" in shown
    assert [one["version"] for one in platform.json("dataset", "history", "flights")["items"]] == [2, 1]
    assert "flights.csv" in platform("dataset", "history", "flights")
    found = platform.json("dataset", "query", 'SELECT count(*) AS n, sum(score) AS s FROM "flights@1"')
    assert (found["rows"], found["versions"]) == ([[3, 4.5]], ["flights@1"])
    target = tmp_path / "out.parquet"
    told = platform.json("dataset", "export", "flights@1", str(target))
    assert (told["rows"], told["version"]) == (3, 1)
    assert pq.read_table(target)["name"].to_pylist() == ["well", "channel", None]
    lines = platform("dataset", "export", "flights@1", "-", "--format", "jsonl", "--column", "id", "--column", "at")
    assert json.loads(lines.splitlines()[0]) == {"id": 1, "at": "2026-11-15T09:30:00+00:00"}
    assert platform("dataset", "export", "flights@1", "-", "--format", "csv", "--column", "id") == '"id"\n1\n2\n3\n'


def test_rows_are_merged_deleted_and_everything_can_be_gone_back_to(platform: Running, csv: str, tmp_path: Path):
    platform("dataset", "import", "merged", csv)
    new = pa.table({"id": [2, 9], "name": ["canal", "pump"], "score": [9.0, 9.5]})
    pq.write_table(new, tmp_path / "new.parquet")
    merged = platform.json("dataset", "import", "merged", str(tmp_path / "new.parquet"), "--mode", "merge", "--key", "id")
    assert (merged["rows"], merged["mode"]) == (4, "merge")
    told = platform("dataset", "diff", "merged@1", "merged", "--key", "id")
    assert "rows added       1" in told
    assert "rows changed     1" in told
    assert "two datasets" in platform.fails("dataset", "diff", "merged", "others", status=2)
    assert platform.json("dataset", "delete", "merged", "--where", "score > 9")["rows"] == 3
    assert platform.json("dataset", "compact", "merged")["parts"] == 1
    assert "is what merged@1 was" in platform("dataset", "restore", "merged@1")
    assert platform.json("dataset", "show", "merged")["rows"] == 3
    platform("dataset", "tag", "merged@2", "audited")
    assert platform.json("dataset", "prune", "merged", "--keep", "2", "--yes")["versions"] == [1, 3]
    assert platform.json("dataset", "show", "merged@audited")["version"] == 2
    platform("dataset", "tag", "merged", "audited", "--remove")
    renamed = platform.json("dataset", "rename", "merged", "score=points")
    assert [column["name"] for column in renamed["columns"]] == ["id", "name", "at", "points"]
    assert "Say --yes" in platform.fails("dataset", "delete", "merged", status=2)
    assert "gone for good" in platform("dataset", "delete", "merged", "--yes")
    assert "no dataset 'merged'" in platform.fails("dataset", "show", "merged")


def test_what_is_wrong_with_a_file_is_told_by_its_line_and_nothing_is_made(platform: Running, tmp_path: Path):
    file = tmp_path / "bad.csv"
    file.write_text("id,name\n1,a\n2,b,c\n")
    assert "line 3" in platform.fails("dataset", "import", "bad", str(file), status=2).lower()
    file.write_text("at\n2026-11-15 09:30:00\n")
    assert "zone" in platform.fails("dataset", "import", "bad", str(file), status=2)
    assert platform.json("dataset", "import", "bad", str(file), "--time-zone", "Asia/Dubai")["rows"] == 1
    file.write_text('{"id": 1}\n{"id": \n')
    assert "line 2" in platform.fails("dataset", "import", "worse", str(file), "--format", "jsonl", status=2).lower()
    assert "no version yet" in platform.fails("dataset", "show", "worse")
    (tmp_path / "bad.parquet").write_bytes(b"PAR1")
    said = platform.fails("dataset", "import", "worse", str(tmp_path / "bad.parquet"), "--type", "id=text", status=2)
    assert "--type is for CSV and JSON lines; Parquet says it itself" in said


def test_a_profile_and_how_far_columns_moved_are_shown(platform: Running, csv: str, tmp_path: Path):
    platform("dataset", "import", "moving", csv)
    shown = platform("dataset", "show", "moving", "--profile")
    assert "MEDIAN" in shown
    assert "33.33%" in shown
    assert "length 4" in shown
    assert "well (1)" in shown
    profile = platform.json("dataset", "show", "moving", "--profile")["profile"]
    assert [(one["name"], one["nulls"]) for one in profile["columns"]] == [("id", 0), ("name", 1), ("at", 0), ("score", 0)]
    (tmp_path / "later.csv").write_text(CSV.replace("0.5", "90.5").replace("1.5", "95.5").replace("2.5", "99.5"))
    platform("dataset", "import", "moving", str(tmp_path / "later.csv"), "--mode", "overwrite")
    told = platform.json("dataset", "diff", "moving@1", "moving", "--key", "id")
    assert [(one["name"], one["distance"]) for one in told["shifts"]] == [("score", 1.0)]
    assert "DISTANCE" in platform("dataset", "diff", "moving@1", "moving")


def test_columns_that_look_personal_are_told_at_import_and_classified(platform: Running, tmp_path: Path):
    file = tmp_path / "people.csv"
    file.write_text("id,contact\n1,amal@example.ae\n2,badr@example.ae\n")
    told = platform.both("dataset", "import", "people", str(file))[1]
    assert "Column contact looks like e-mail addresses, by 100% of its values" in told
    assert "contact=personal" in told
    assert "looks like" in platform.both("dataset", "classify", "people")[1]
    assert "personal" in platform("dataset", "classify", "people", "contact=personal")
    assert "looks like" not in platform.both("dataset", "classify", "people")[1]
    assert platform.json("dataset", "classify", "people", "contact=none")["columns"] == []
    assert "says no class" in platform.fails("dataset", "classify", "people", "contact=secret", status=2)
    assert "no column 'phone'" in platform.fails("dataset", "classify", "people", "phone=personal", status=2)


CHECKS = """
[[checks]]
name = "score"
kind = "range"
columns = ["score"]
least = 0
most = 10

[[checks]]
name = "named"
kind = "nulls"
severity = "warn"
columns = ["name"]
"""


def test_a_bad_batch_is_quarantined_looked_at_and_released_or_dropped(platform: Running, csv: str, tmp_path: Path):
    platform("dataset", "import", "checked", csv)
    rules = tmp_path / "checks.toml"
    rules.write_text(CHECKS)
    assert "score" in platform("dataset", "check", "checked", "--set", str(rules))
    assert "least 0" in platform("dataset", "check", "checked", "--show")
    told = platform("dataset", "check", "checked")
    assert "holds" in told
    assert "warning" in told
    bad = tmp_path / "bad.csv"
    bad.write_text("id,name,at,score\n7,dam,2026-11-15T09:30:00Z,99\n")
    rows, said = platform.both("dataset", "import", "checked", str(bad), status=1)
    assert "checked@2 is in quarantine" in said
    assert "score: score must be at least 0 and at most 10 (1 row)" in said
    assert "dam" in rows
    assert platform.json("dataset", "show", "checked")["version"] == 1
    shown = platform("dataset", "show", "checked", "--quarantined")
    assert "in quarantine" in shown
    assert "dam" in shown
    assert platform.json("dataset", "show", "checked", "--quarantined")["evidence"]["outcomes"][0]["examples"][0][0] == 7
    assert "breaks 1 of its checks" in platform.both("dataset", "check", "checked@quarantined", status=1)[1]
    assert "gone for good" in platform("dataset", "drop", "checked", "--yes")
    assert "and is decided" in platform.both("dataset", "import", "checked", str(bad), status=1)[1]
    assert platform.json("dataset", "import", "checked", str(bad), "--again", status=1)["quarantined"]
    assert "and current" in platform("dataset", "release", "checked@3", "--yes")
    assert "checked@3 (released or dropped)" in platform("dataset", "show", "checked@3")
    assert "was quarantined" in platform("dataset", "history", "checked")
    assert platform.json("dataset", "show", "checked")["rows"] == 4
    rules.write_text('[[checks]]\nname = "score"\nkind = "rage"\n')
    assert "check 1: kind" in platform.fails("dataset", "check", "checked", "--set", str(rules), status=2)
    rules.write_text("nothing")
    assert "neither JSON nor TOML" in platform.fails("dataset", "check", "checked", "--set", str(rules), status=2)


def test_standard_input_and_options_of_csv(platform: Running):
    rows = "1;0012;-\n2;0034;x\n"
    options = ("--format", "csv", "--delimiter", ";", "--no-header", "--null", "-")
    made = platform.json("dataset", "import", "piped", "-", *options, input=rows)
    assert (made["rows"], len(made["columns"]), made["origin"]) == (2, 3, "standard input")
    typed = platform.json("dataset", "import", "typed", "-", "--type", "zip=text", input="id,zip\n1,0012\n")
    assert [column["type"] for column in typed["columns"]] == ["int64", "text"]
    assert "COLUMN=TYPE" in platform.fails("dataset", "import", "typed", "-", "--type", "zip", input="id\n1\n", status=2)


def test_a_notebook_reads_by_name_and_version(platform: Running, csv: str, monkeypatch: pytest.MonkeyPatch):
    platform("dataset", "import", "noted", csv)
    token = platform.json("token", "create", "notebook")["token"]
    for name, text in {"URL": platform.url, "TOKEN": token, "PROJECT": "default"}.items():
        monkeypatch.setenv(f"FALAJ_{name}", text)
    found = sdk.dataset("noted@1")
    assert found.arrow(["id", "name"]).to_pylist()[2] == {"id": 3, "name": None}
    frame = found.pandas()
    assert frame["score"].sum() == 4.5
    saved = sdk.save_dataset("doubled", frame.assign(score=frame["score"] * 2))
    assert sdk.dataset("doubled").arrow()["score"].to_pylist() == [1.0, 3.0, 5.0]
    assert saved.rows == 3
