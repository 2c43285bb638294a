"""Datasets from where the data already is: a real Postgres, a real bucket, database files and folders."""

import importlib.util
import sqlite3
from pathlib import Path

import psycopg
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

import falaj as sdk
from falaj.base.errors import Forbidden, Unauthenticated
from falaj.client.environments import client_of_environment
from falaj.client.handing_on import handed_on, taken_back
from falaj.datasets.operations.datasets import LIST_DATASETS, ListDatasets
from falaj.datasets.operations.writing import OPEN_WRITE, OpenWrite
from falaj.governance.identity.operations import CREATE_TOKEN, EXCHANGE_TOKEN, CreateToken, ExchangeToken
from tests.cli.conftest import Running
from tests.servers.s3 import S3Storage


@pytest.fixture
def database(postgres_url: str) -> str:
    url = postgres_url.replace("+psycopg", "")
    run(
        url,
        "create table wells (id bigint, name text, price numeric(12, 3), at timestamptz, raw bytea)",
        "insert into wells values (1, 'بئر', 1.5, '2026-11-16 12:00:00+04', '\\x00ff'), (2, null, null, null, null)",
    )
    return url


def run(url: str, *statements: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def test_a_table_of_postgres_becomes_a_version_with_its_types(platform: Running, database: str):
    address = database.replace("falaj@", "falaj:geheim@")
    made = platform.json("dataset", "import", "wells", address, "--table", "wells")
    assert (made["rows"], made["version"]) == (2, 1)
    assert made["origin"].endswith(", table wells")
    assert "geheim" not in str(platform.json("dataset", "history", "wells"))
    types = {column["name"]: column["type"] for column in made["columns"]}
    assert types == {"id": "int64", "name": "text", "price": "decimal(12, 3)", "at": "moment", "raw": "bytes"}
    line = platform("dataset", "export", "wells", "-", "--format", "jsonl").splitlines()[0]
    assert line == '{"id": 1, "name": "بئر", "price": "1.500", "at": "2026-11-16T08:00:00+00:00", "raw": "00ff"}'
    query = "select id, 'canal' as name from wells where id = 2"
    merged = platform.json("dataset", "import", "wells", address, "--query", query, "--mode", "merge", "--key", "id")
    assert (merged["rows"], merged["mode"]) == (2, "merge")
    assert merged["origin"].endswith(", a query")
    # What is in a table today is not what was in it a minute ago: it is read again.
    assert platform.json("dataset", "import", "wells", address, "--table", "wells")["rows"] == 4


def test_times_without_an_offset_need_a_zone(platform: Running, database: str):
    query = "select timestamp '2026-11-16 12:00' as at"
    assert "zone" in platform.fails("dataset", "import", "times", database, "--query", query, status=2)
    platform("dataset", "import", "times", database, "--query", query, "--time-zone", "Asia/Dubai")
    assert "2026-11-16T08:00:00" in platform("dataset", "export", "times", "-", "--format", "jsonl")


def test_a_source_that_cannot_be_opened_leaves_no_trace(platform: Running, database: str):
    secret = database.replace("falaj@", "nobody:geheim@")
    for address, options, status, told in (
        (database, ("--table", "nowhere"), 2, '"nowhere" does not exist'),
        (database, (), 2, "--table"),
        (secret, ("--table", "wells"), 2, "nobody"),
        ("postgresql://reader:ge@heim@db/sales", ("--table", "wells"), 2, "%40"),
        ("postgresql://reader:geheim@127.0.0.1:1/sales", ("--table", "wells"), 1, "does not answer"),
        ("mysql://reader:geheim@db/sales", ("--table", "wells"), 2, "mysql:// is none"),
        ("sqlite:///nothing.db", ("--table", "wells"), 1, "no file nothing.db"),
    ):
        error = platform.fails("dataset", "import", "untouched", address, *options, status=status)
        assert told in error
        assert "heim" not in error
    assert "no dataset 'untouched'" in platform.fails("dataset", "show", "untouched")


def test_a_connection_that_is_cut_makes_no_version(platform: Running, database: str):
    """Cut by itself, from within the query, when the first piece is long sent."""
    query = (
        "select n, case when n = 800 then pg_terminate_backend(pg_backend_pid())::text else repeat('x', 100000) end as pad "
        "from generate_series(1, 1000) n"
    )
    error = platform.fails("dataset", "import", "cut", database, "--query", query)
    assert "No version was made" in error
    assert "no version yet" in platform.fails("dataset", "show", "cut")


def test_database_files_and_folders_are_imported(platform: Running, tmp_path: Path):
    connection = sqlite3.connect(tmp_path / "wells.db")
    connection.execute("create table wells (id integer, depth real)")
    connection.execute("insert into wells values (1, 1.5), (2, null)")
    connection.commit()
    connection.close()
    made = platform.json("dataset", "import", "lite", f"sqlite:///{tmp_path}/wells.db", "--table", "wells", "--type", "id=text")
    assert (made["rows"], made["origin"]) == (2, "sqlite:///wells.db, table wells")
    assert [column["type"] for column in made["columns"]] == ["text", "float64"]
    folder = tmp_path / "sales"
    for day in (1, 2):
        (folder / f"day={day}").mkdir(parents=True)
        pq.write_table(pa.table({"id": [day]}), folder / f"day={day}" / "part.parquet")
    assert platform.json("dataset", "import", "folder", str(folder))["rows"] == 2
    assert "already" in platform.both("dataset", "import", "folder", str(folder))[1]
    found = platform.json("dataset", "query", "SELECT sum(id * day) AS s FROM folder")
    assert found["rows"] == [[5]]
    assert "--table is for databases" in platform.fails(
        "dataset", "import", "folder", str(folder / "day=1" / "part.parquet"), "--table", "x", status=2
    )


def test_a_folder_in_a_bucket_is_imported(platform: Running, s3_storage: S3Storage):
    keys = {"AWS_ACCESS_KEY_ID": s3_storage["access_key"], "AWS_SECRET_ACCESS_KEY": s3_storage["secret_key"]}
    files = pafs.S3FileSystem(
        access_key=s3_storage["access_key"],
        secret_key=s3_storage["secret_key"],
        endpoint_override=s3_storage["endpoint"],
        region=s3_storage["region"],
    )
    pq.write_table(pa.table({"id": [1, 2]}), f"{s3_storage['bucket']}/sales/part.parquet", filesystem=files)
    address = f"s3://{s3_storage['bucket']}/sales"
    made = platform.json("dataset", "import", "bucket", address, "--endpoint", s3_storage["endpoint"], **keys)
    assert (made["rows"], made["origin"]) == (2, address)
    keys["AWS_SECRET_ACCESS_KEY"] = "geheim"
    error = platform.fails("dataset", "import", "bucket", address, "--endpoint", s3_storage["endpoint"], status=2, **keys)
    assert "lets nobody in" in error


def test_a_source_feeds_a_dataset_from_python(platform: Running, database: str, monkeypatch: pytest.MonkeyPatch):
    token = platform.json("token", "create", "notebook")["token"]
    for name, text in {"URL": platform.url, "TOKEN": token, "PROJECT": "default"}.items():
        monkeypatch.setenv(f"FALAJ_{name}", text)
    rows = sdk.source(database, query="select id, price * 2 as twice from wells", types={"twice": "decimal(20, 3)"})
    assert sdk.save_dataset("twice", rows).rows == 2
    assert [str(one) for one in sdk.dataset("twice").arrow()["twice"].to_pylist()] == ["3.000", "None"]


def test_what_is_handed_on_to_executors_can_do_one_thing_in_one_project(platform: Running, monkeypatch: pytest.MonkeyPatch):
    own = platform.json("token", "create", "notebook")["token"]
    monkeypatch.setenv("FALAJ_URL", platform.url)
    monkeypatch.setenv("FALAJ_TOKEN", own)
    way = handed_on("dataset.read", project="default", label="spark reads sales")
    assert own not in repr(way) + way.token
    reading = ListDatasets(project="default")
    with way.client() as narrow:
        narrow.call(LIST_DATASETS, reading)
        with pytest.raises(Forbidden):
            narrow.call(OPEN_WRITE, OpenWrite(project="default", dataset="sales", create=True))
        with pytest.raises(Forbidden):
            narrow.call(CREATE_TOKEN, CreateToken(label="wider"))
        taken_back(way)
        with pytest.raises(Unauthenticated):
            narrow.call(LIST_DATASETS, reading)
    with client_of_environment() as caller:  # one that can make no other, as that of a job
        brief = caller.call(EXCHANGE_TOKEN, ExchangeToken(scopes=("dataset.read",))).token
    monkeypatch.setenv("FALAJ_TOKEN", brief)
    way = handed_on("dataset.read", project="default", label="spark reads sales")
    assert (way.token, way.id, way.expires) == (brief, "", None)
    taken_back(way)


@pytest.mark.skipif(importlib.util.find_spec("deltalake") is not None, reason="it is installed here")
def test_a_library_that_is_missing_is_named_by_its_extra(platform: Running, database: str, tmp_path: Path):
    platform("dataset", "import", "lake", database, "--table", "wells")
    for arguments in (("import", "lake", f"delta:///{tmp_path}"), ("export", "lake", f"delta:///{tmp_path}/out")):
        assert "falaj[lake]" in platform.fails("dataset", *arguments)
    assert "postgresql:// is none" in platform.fails("dataset", "export", "lake", database, status=2)
