"""`falaj import mlflow`: a stock MLflow, filled by its own client, comes over into a running platform."""

import json
import re
import shutil
import signal
import sqlite3
import time
import uuid
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Column, MetaData, Table, create_engine, select

from falaj.cli.importing.store import NEEDED, OPTIONAL, DatabaseSource
from tests.cli.conftest import Running
from tests.cli.importing.stock import NOW, POINTS, Filled, MlflowServer, filled

KINDS = {
    "experiments": 3, "runs": 6, "params": 4, "metric points": POINTS + 11, "datasets": 1, "artifacts": 6, "logged models": 1,
    "registered models": 2, "versions": 3, "aliases": 2,
}  # fmt: skip


@pytest.fixture(scope="module")
def stock(tmp_path_factory: pytest.TempPathFactory) -> Filled:
    return filled("mlflow3", tmp_path_factory.mktemp("stock") / "store")


@pytest.fixture
def project(platform: Running) -> str:
    """A new, empty project."""
    name = f"p-{uuid.uuid4().hex[:12]}"
    platform("project", "create", name, "--zone", "home")
    return name


def brought(platform: Running, uri: str, project: str, *options: str, status: int = 0) -> dict[str, Any]:
    return dict(platform.json("import", "mlflow", "--from", uri, "--project", project, *options, status=status))


def counts(report: dict[str, Any]) -> dict[str, int]:
    return {row["kind"]: row["here"] for row in report["rows"]}


def changes(platform: Running, project: str) -> int:
    """How many changes the ledger has of the project; who reads it is in it too."""
    found = platform.json("audit", "log", "--project", project, "--limit", "1000")["items"]
    return sum(not entry["operation"].startswith("audit.") for entry in found)


def copied(stock: Filled, folder: Path) -> tuple[Path, sqlite3.Connection]:
    """The database alone, to be changed; the artifacts stay where they are."""
    shutil.copy(stock.file, folder / "mlflow.db")
    return folder / "mlflow.db", sqlite3.connect(folder / "mlflow.db")


def assert_all_is_there(platform: Running, project: str, stock: Filled, tmp_path: Path) -> None:
    of = ("--project", project)
    best = platform.json("run", "show", stock.ids["best"], *of)
    assert (best["info"]["name"], best["info"]["user"], best["info"]["status"]) == ("best", "maryam", "FINISHED")
    assert (best["info"]["started"], best["info"]["ended"]) == (NOW, NOW + 60_000)
    params = {param["key"]: param["value"] for param in best["params"]}
    assert params == {"depth": "4", "text": "ünïcode 'quoted' \"twice\"; --", "empty": ""}
    assert {tag["key"]: tag["value"] for tag in best["tags"]}["long"] == "x" * 5000
    assert best["datasets"][0]["dataset"] == {
        "name": "payments", "digest": "0f1e2d3c", "source_type": "local", "source": '{"uri": "payments.parquet"}',
        "schema": '{"columns": []}', "profile": "{}",
    }  # fmt: skip
    loss = platform.json("run", "history", stock.ids["best"], "loss", "--limit", "25000", *of)["items"]
    assert [(point["step"], point["timestamp"], point["value"]) for point in loss] == [
        (step, NOW + step, 1.0 / (step + 1)) for step in range(POINTS)
    ]
    [odd] = platform.json("run", "list", "card fraud", "--filter", "attributes.run_name = 'odd'", *of)["items"]
    points = platform.json("run", "history", odd["info"]["id"], "odd/values", *of)["items"]
    assert (points[0]["value"], points[3]["value"]) == ("NaN", 1e300)
    child = platform.json("run", "show", stock.ids["child"], *of)
    assert {"key": "mlflow.parentRunId", "value": stock.ids["best"]} in child["tags"]
    deleted = platform.json("run", "list", "card fraud", "--state", "deleted", *of)["items"]
    assert [run["info"]["id"] for run in deleted] == [stock.ids["deleted"]]
    assert "last year's" in platform("experiment", "list", "--state", "deleted", *of)
    assert "in the default one" in platform("run", "list", "Default", *of)
    tags = platform.json("experiment", "show", "card fraud", *of)["tags"]
    assert {"key": "mlflow.note.content", "value": "All of *2025*."} in tags
    platform("artifact", "get", stock.ids["best"], "model", str(tmp_path / "model"), *of)
    assert (tmp_path / "model" / "weights" / "w 1.bin").read_text() == "0123456789" * 1000
    assert platform("artifact", "get", stock.ids["best"], "notes, ünïcode.txt", "-", *of) == "a note"


def assert_models_are_there(platform: Running, project: str, stock: Filled) -> None:
    of = ("--project", project)
    model = platform.json("model", "show", "card-fraud", *of)
    assert (model["description"], model["tags"]) == ("Scores card payments.", [{"key": "owner", "value": "risk"}])
    assert {alias["alias"]: alias["version"] for alias in model["aliases"]} == {"champion": 4, "challenger": 3}
    versions = {one["version"]: one for one in platform.json("model", "versions", "card-fraud", *of)["items"]}
    assert sorted(versions) == [1, 3, 4]
    assert versions[1]["stage"] == "Archived"
    assert (versions[3]["holder"], versions[3]["folder"]) == (stock.ids["best"], "model")
    assert versions[4]["logged_model"].startswith("m-")
    assert all(one["signed"] and one["files"] == 2 for one in versions.values())
    assert platform.json("model", "verify", "card-fraud", "champion", *of)["ok"]
    best = platform.json("run", "show", stock.ids["best"], *of)
    assert best["models_made"] == [{"model": versions[4]["logged_model"], "step": 7}]


def test_everything_comes_over_from_the_database(platform: Running, project: str, stock: Filled, tmp_path: Path):
    report = brought(platform, stock.uri, project)
    assert report["ok"]
    assert counts(report) == KINDS
    assert_all_is_there(platform, project, stock, tmp_path)
    assert_models_are_there(platform, project, stock)


@pytest.mark.heavy
def test_everything_comes_over_from_a_running_server(platform: Running, project: str, stock: Filled, tmp_path: Path):
    server = MlflowServer("mlflow3", stock)
    try:
        report = brought(platform, server.url, project)
        assert counts(report) == KINDS
        assert_all_is_there(platform, project, stock, tmp_path)
        assert_models_are_there(platform, project, stock)
        again = brought(platform, server.url, project, "--fresh")
        assert counts(again) == KINDS
        told = platform.fails("import", "mlflow", "--from", f"{server.url}/elsewhere", "--project", project)
        assert "MLflow server" in told
    finally:
        server.stop()


def test_everything_comes_over_from_a_postgres(platform: Running, project: str, stock: Filled, postgres_url: str):
    """The tables of the stock store, copied into a Postgres; the constraints are spelled for SQLite and stay behind."""
    found, copies = MetaData(), MetaData()
    there, here = create_engine(stock.uri), create_engine(postgres_url)
    found.reflect(there, only=[*NEEDED, *OPTIONAL])
    for table in found.sorted_tables:
        Table(table.name, copies, *(Column(column.name, column.type) for column in table.columns))
    copies.create_all(here)
    with there.connect() as reading, here.begin() as writing:
        for table in copies.sorted_tables:
            if rows := [dict(row) for row in reading.execute(select(table)).mappings()]:
                writing.execute(table.insert(), rows)
    there.dispose()
    here.dispose()
    uri = postgres_url.replace("postgresql+psycopg:", "postgresql:")
    assert "--artifacts DIR" in platform.fails("import", "mlflow", "--from", uri, "--project", project, status=2)
    without = brought(platform, uri, project, "--without-artifacts")
    assert counts(without) == KINDS | {"artifacts": 0}
    assert any("--artifacts" in remark for remark in without["remarks"])
    assert counts(brought(platform, uri, project, "--artifacts", str(stock.folder), "--fresh")) == KINDS


def test_the_store_of_an_mlflow_2_has_no_logged_models_and_no_workspaces(
    platform: Running, project: str, stock: Filled, tmp_path: Path
):
    file, database = copied(stock, tmp_path)
    with database:
        for (table,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            if table.startswith("logged_model"):
                database.execute(f"DROP TABLE {table}")
                continue
            found = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
            columns = [name for name in found if name != "workspace" and (table, name) != ("inputs", "step")]
            database.execute(f"CREATE TABLE plain AS SELECT {', '.join(columns)} FROM {table}")
            database.execute(f"DROP TABLE {table}")
            database.execute(f"ALTER TABLE plain RENAME TO {table}")
    database.close()
    report = brought(platform, f"sqlite:///{file}", project, "--artifacts", str(stock.folder))
    assert counts(report) == KINDS | {"logged models": 0, "artifacts": 4}


def test_a_second_import_changes_nothing_and_losing_the_state_doubles_nothing(
    platform: Running, project: str, stock: Filled, tmp_path: Path
):
    state = str(tmp_path / "state")
    first = brought(platform, stock.uri, project, "--state", state)
    before = changes(platform, project)
    assert brought(platform, stock.uri, project, "--state", state) == first
    assert changes(platform, project) == before
    lost = brought(platform, stock.uri, project, "--state", str(tmp_path / "new"))
    assert counts(lost) == KINDS
    assert lost["ok"]


def test_an_import_that_is_killed_goes_on_where_it_was_and_brings_nothing_twice(
    platform: Running, project: str, stock: Filled, tmp_path: Path
):
    file, database = copied(stock, tmp_path)
    runs, points = 150, 30
    with database:
        for number in range(runs):
            run = uuid.uuid4().hex
            database.execute(
                "INSERT INTO runs (run_uuid, name, status, start_time, lifecycle_stage, artifact_uri, experiment_id) "
                "VALUES (?, ?, 'FINISHED', ?, 'active', ?, 1)",
                (run, f"many {number}", NOW, f"{stock.folder}/mlruns/1/{run}/artifacts"),
            )
            curve = [("loss", number / (step + 1), NOW + step, run, step, 0) for step in range(points)]
            database.executemany("INSERT INTO metrics VALUES (?, ?, ?, ?, ?, ?)", curve)
            database.execute(
                "INSERT INTO latest_metrics VALUES (?, ?, ?, ?, ?, ?)", ("loss", *curve[-1][1:3], points - 1, 0, run)
            )
    database.close()
    state = tmp_path / "state"
    options = ("--from", f"sqlite:///{file}", "--project", project, "--artifacts", str(stock.folder), "--state", str(state))
    for least in (20, 80):
        process = platform.start("import", "mlflow", *options)
        while not state.exists() or state.read_text().count('"run"') < least:
            assert process.poll() is None, process.communicate()
            time.sleep(0.005)
        process.kill()
        process.communicate()
    assert state.read_text().count('"run"') < runs
    report = platform.json("import", "mlflow", *options)
    assert counts(report) == KINDS | {"runs": 6 + runs, "metric points": KINDS["metric points"] + runs * points}
    found = platform.json("run", "list", "card fraud", "--state", "all", "--limit", "1000", "--project", project)["items"]
    assert len(found) == len({run["info"]["id"] for run in found}) == 4 + runs


def test_a_run_that_went_on_there_is_brought_up_to_date(platform: Running, project: str, stock: Filled, tmp_path: Path):
    file, database = copied(stock, tmp_path)
    options = ("--artifacts", str(stock.folder))
    brought(platform, f"sqlite:///{file}", project, *options)
    child = stock.ids["child"]
    with database:
        database.execute("UPDATE runs SET status = 'FINISHED', end_time = ? WHERE run_uuid = ?", (NOW + 9, child))
        database.execute("INSERT INTO metrics VALUES ('auc', 0.6, ?, ?, 1, 0)", (NOW + 5, child))
        database.execute("UPDATE latest_metrics SET value = 0.6, timestamp = ?, step = 1 WHERE run_uuid = ?", (NOW + 5, child))
        database.execute("INSERT INTO params VALUES ('late', 'yes', ?)", (child,))
    database.close()
    report = brought(platform, f"sqlite:///{file}", project, *options)
    assert counts(report) == KINDS | {"params": 5, "metric points": KINDS["metric points"] + 1}
    run = platform.json("run", "show", child, "--project", project)
    assert (run["info"]["status"], run["info"]["ended"]) == ("FINISHED", NOW + 9)
    assert {"key": "late", "value": "yes"} in run["params"]


def test_what_people_changed_here_since_is_not_overruled(platform: Running, project: str, stock: Filled):
    brought(platform, stock.uri, project)
    of = ("--project", project)
    platform("model", "promote", "card-fraud", "3", *of)
    platform("experiment", "restore", "last year's", *of)
    report = brought(platform, stock.uri, project)
    assert report["ok"]
    assert any("it stays" in remark for remark in report["remarks"])
    model = platform.json("model", "show", "card-fraud", *of)
    assert {alias["alias"]: alias["version"] for alias in model["aliases"]}["champion"] == 3
    assert "last year's" in platform("experiment", "list", *of)


def test_the_count_tells_what_is_missing_and_a_fresh_look_mends_it(platform: Running, project: str, stock: Filled):
    brought(platform, stock.uri, project)
    platform("artifact", "delete", stock.ids["best"], "model", "--yes", "--project", project)
    report = brought(platform, stock.uri, project, status=1)
    assert not report["ok"]
    assert [row for row in report["rows"] if row["there"] != row["here"]] == [{"kind": "artifacts", "there": 6, "here": 4}]
    table = platform("import", "mlflow", "--from", stock.uri, "--project", project, status=1)
    assert "differs" in table
    assert brought(platform, stock.uri, project, "--fresh")["ok"]


def test_artifacts_out_of_reach_are_counted_and_private_files_are_left_alone(
    platform: Running, project: str, stock: Filled, tmp_path: Path
):
    file, database = copied(stock, tmp_path)
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "id_rsa").write_text("a secret")
    with database:
        database.execute("UPDATE runs SET artifact_uri = 's3://bucket/' || run_uuid WHERE name = 'best'")
        database.execute("UPDATE runs SET artifact_uri = ? WHERE name = 'odd'", (f"file://{tmp_path / 'private'}",))
    database.close()
    report = brought(platform, f"sqlite:///{file}", project, "--artifacts", str(stock.folder))
    assert counts(report) == KINDS | {"artifacts": 3}
    [remark] = [remark for remark in report["remarks"] if "s3://bucket" in remark]
    assert "of 1 runs" in remark
    assert any(str(tmp_path / "private") in remark for remark in report["remarks"])
    [odd] = platform.json("run", "list", "card fraud", "--filter", "attributes.run_name = 'odd'", "-p", project)["items"]
    assert platform.json("artifact", "list", odd["info"]["id"], "--project", project)["items"] == []
    versions = {one["version"]: one for one in platform.json("model", "versions", "card-fraud", "-p", project)["items"]}
    assert (versions[3]["holder"], versions[3]["servable"]) == ("", False)
    assert versions[3]["source"].endswith("/artifacts/model")


def test_a_run_whose_id_is_of_another_kind_gets_one_and_says_where_it_came_from(
    platform: Running, project: str, stock: Filled, tmp_path: Path
):
    file, database = copied(stock, tmp_path)
    with database:
        for table, column in (
            ("runs", "run_uuid"),
            ("tags", "run_uuid"),
            ("metrics", "run_uuid"),
            ("latest_metrics", "run_uuid"),
        ):
            database.execute(f"UPDATE {table} SET {column} = 'My-Run_1' WHERE {column} = ?", (stock.ids["child"],))
        database.execute("INSERT INTO tags VALUES ('mlflow.parentRunId', 'My-Run_1', ?)", (stock.ids["deleted"],))
    database.close()
    brought(platform, f"sqlite:///{file}", project, "--artifacts", str(stock.folder))
    [run] = platform.json("run", "list", "card fraud", "--filter", "attributes.run_name = 'child'", "-p", project)["items"]
    assert {"key": "falaj.imported-from", "value": "My-Run_1"} in run["tags"]
    other = platform.json("run", "show", stock.ids["deleted"], "--project", project)
    assert {"key": "mlflow.parentRunId", "value": run["info"]["id"]} in other["tags"]


def test_chosen_experiments_come_alone_with_the_versions_made_in_them(platform: Running, project: str, stock: Filled):
    report = brought(platform, stock.uri, project, "--experiment", "Default")
    assert {kind: count for kind, count in counts(report).items() if count} == {"experiments": 1, "runs": 1, "params": 1}
    more = counts(brought(platform, stock.uri, project, "--experiment", "card fraud"))
    assert (more["experiments"], more["versions"], more["aliases"], more["registered models"]) == (1, 3, 2, 1)


def test_an_experiment_that_is_not_there_is_told_with_those_that_are(platform: Running, project: str, stock: Filled):
    for way in ((), ("--dry-run",)):
        asked = ("import", "mlflow", "--from", stock.uri, "--project", project, "--experiment", "card frod", *way)
        told = platform.fails(*asked, status=1)
        assert "no experiment 'card frod'" in told
        assert "'card fraud'" in told


def test_an_experiment_and_a_model_of_that_name_are_joined_and_another_version_is_not_overwritten(
    platform: Running, project: str, stock: Filled
):
    of = ("--project", project)
    platform("experiment", "create", "card fraud", "--tag", "team=ours", *of)
    run = platform("run", "create", "card fraud", "--name", "ours", *of).strip()
    platform("artifact", "put", run, "-", "--name", "model/ours", *of, input="x")
    platform("model", "create", "card-fraud", *of)
    platform("model", "register", "card-fraud", run, "model", *of)
    report = brought(platform, stock.uri, project, status=1)
    assert [failure["id"] for failure in report["failures"]] == ["card-fraud/1"]
    assert platform.json("model", "show", "card-fraud", "1", *of)["holder"] == run
    tags = {tag["key"]: tag["value"] for tag in platform.json("experiment", "show", "card fraud", *of)["tags"]}
    assert tags["team"] == "ours"
    assert "mlflow.note.content" in tags


def test_a_dry_run_says_what_is_there_and_brings_nothing(platform: Running, project: str, stock: Filled):
    seen = platform.json("import", "mlflow", "--from", stock.uri, "--project", project, "--dry-run")
    assert {row["kind"]: row["there"] for row in seen["rows"]}["runs"] == 6
    assert "card fraud" not in platform("experiment", "list", "--project", project)


def test_a_database_counts_what_it_has_before_anything_is_brought(stock: Filled):
    with closing(DatabaseSource(stock.uri)) as source:
        assert source.totals(()) == {kind: KINDS[kind] for kind in ("runs", "metric points", "logged models")}
        assert source.totals(["Default"]) == {"runs": 1, "metric points": 0, "logged models": 0}


def test_an_import_that_would_find_no_artifacts_stops_before_anything_is_registered(
    platform: Running, project: str, stock: Filled, tmp_path: Path
):
    file, database = copied(stock, tmp_path)
    database.close()
    asked = ("import", "mlflow", "--from", f"sqlite:///{file}", "--project", project)
    assert "There is no directory /nosuch" in platform.fails(*asked, "--artifacts", "/nosuch", status=2)
    (tmp_path / "empty").mkdir()
    for way in ((), ("--artifacts", str(tmp_path / "empty"))):
        told = platform.fails(*asked, *way, status=2)
        assert f"below {tmp_path / 'empty' if way else tmp_path}:" in told
        assert f"{stock.folder}/mlruns/" in told
        assert "--artifacts DIR" in told
        assert "--without-artifacts" in told
    assert "card fraud" not in platform("experiment", "list", "--project", project)
    assert "exclude" in platform.fails(*asked, "--artifacts", str(tmp_path), "--without-artifacts", status=2)
    report = brought(platform, f"sqlite:///{file}", project, "--without-artifacts")
    assert counts(report) == KINDS | {"artifacts": 0}
    assert any("left out" in remark for remark in report["remarks"])


RULE = """
forbid (principal, action == Action::"model.promote", resource)
when {{ context has promotion && ({}) }};
"""
NEVER = 'context.promotion.alias == "{}"'
FOUR_EYES = f"{NEVER} && context.promotion.approvals < 1"


def test_a_refused_alias_and_a_refused_version_are_noted_and_the_rest_comes_over(
    platform: Running, project: str, stock: Filled
):
    rule = RULE.format(" || ".join([NEVER.format("champion"), NEVER.format("Archived"), FOUR_EYES.format("challenger")]))
    platform("policy", "put", "strict", "-", "--project", project, input=rule)
    report = brought(platform, stock.uri, project, status=1)
    assert counts(report) == KINDS | {"aliases": 0}
    refused = {failure["id"]: failure["why"] for failure in report["failures"]}
    assert sorted(refused) == ["card-fraud/1", "card-fraud@champion"]
    assert all("is refused by" in why and "strict" in why for why in refused.values())
    [waiting] = [remark for remark in report["remarks"] if "challenger" in remark]
    assert re.search(rf"falaj model approve [0-9a-f]{{32}} --project {project};", waiting)
    told = platform("import", "mlflow", "--from", stock.uri, "--project", project, status=1)
    assert told.startswith("KIND")
    assert "alias card-fraud@champion: " in told
    platform("policy", "delete", "strict", "--project", project)
    assert counts(brought(platform, stock.uri, project)) == KINDS
    assert platform.json("model", "show", "card-fraud", "1", "--project", project)["stage"] == "Archived"


def test_a_stage_that_waits_for_approval_is_set_by_a_later_import(platform: Running, project: str, stock: Filled):
    rule = RULE.format(FOUR_EYES.format("Archived"))
    platform("policy", "put", "four-eyes", "-", "--project", project, input=rule)
    assert any("Archived of card-fraud waits" in remark for remark in brought(platform, stock.uri, project)["remarks"])
    platform("policy", "delete", "four-eyes", "--project", project)
    brought(platform, stock.uri, project)
    assert platform.json("model", "show", "card-fraud", "1", "--project", project)["stage"] == "Archived"


def test_who_stops_an_import_is_told_how_it_goes_on(platform: Running, project: str, stock: Filled, tmp_path: Path):
    state = tmp_path / "state"
    process = platform.start("import", "mlflow", "--from", stock.uri, "--project", project, "--state", str(state))
    while not state.exists() or '"run"' not in state.read_text():
        assert process.poll() is None, process.communicate()
        time.sleep(0.002)
    process.send_signal(signal.SIGINT)
    output, said = process.communicate(timeout=60)
    assert (process.returncode, output) == (130, "")
    assert said == "Stopped; run the same command again and it goes on where it was.\n"
    assert counts(brought(platform, stock.uri, project, "--state", str(state))) == KINDS


@pytest.fixture
def foreign(tmp_path: Path) -> str:
    database = sqlite3.connect(tmp_path / "other.db")
    database.execute("CREATE TABLE runs (id)")
    database.close()
    return f"sqlite:///{tmp_path / 'other.db'}"


def test_what_is_no_mlflow_is_told_in_one_line(platform: Running, project: str, foreign: str, tmp_path: Path):
    def told(uri: str, status: int = 2) -> str:
        return platform.fails("import", "mlflow", "--from", uri, "--project", project, status=status)

    assert "no database of an MLflow" in told(foreign)
    assert "There is no file" in told(f"sqlite:///{tmp_path / 'nothing.db'}")
    assert "mlflow server" in told("mysql://host/db")
    assert "write http" in told("mlruns")
    assert "does not answer" in told("http://127.0.0.1:1", status=1)
    assert "MLFLOW_TRACKING_PASSWORD" in told("http://user:word@127.0.0.1:1")


def test_the_report_is_a_table_for_people(platform: Running, project: str, stock: Filled):
    lines = platform("import", "mlflow", "--from", stock.uri, "--project", project).splitlines()
    assert lines[0].split() == ["KIND", "THERE", "HERE"]
    assert lines[1].split() == ["experiments", "3", "3", "same"]
    assert lines[-1] == f"Everything is in project {project}."
    assert json.loads(platform("run", "show", stock.ids["best"], "--project", project, "--json"))["info"]["name"] == "best"
