"""Folders of files, here and in a real bucket, read as one table."""

import gzip
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

from falaj.base.errors import Invalid, NotFound
from falaj.tables.connectors.asking import Asked
from falaj.tables.connectors.opened import SourceUnavailable
from falaj.tables.connectors.opening import opened
from falaj.tables.forms import Form
from tests.servers.s3 import S3Storage


def rows(source: str, **asked: Any) -> list[dict[str, object]]:
    return opened(source, Asked(**asked)).reader().read_all().to_pylist()


def test_files_are_one_table_in_the_order_of_their_names(tmp_path: Path):
    for number in (2, 1):
        pq.write_table(pa.table({"id": [number, 10 * number], "name": ["a", None]}), tmp_path / f"part-{number}.parquet")
    (tmp_path / "_SUCCESS").write_text("")
    (tmp_path / ".hidden.parquet").write_text("nothing")
    source = opened(str(tmp_path), Asked())
    assert source.reader().read_all()["id"].to_pylist() == [1, 10, 2, 20]
    assert source.shown == tmp_path.name
    assert source.pin == opened(str(tmp_path), Asked()).pin
    pq.write_table(pa.table({"name": ["b"], "id": [3]}), tmp_path / "part-3.parquet")  # in another order
    assert source.pin != opened(str(tmp_path), Asked()).pin
    assert rows(str(tmp_path))[-1] == {"id": 3, "name": "b"}


def test_what_names_of_folders_say_is_a_column(tmp_path: Path):
    for day, zone, number in (("2026-11-15", "01", 1), ("2026-11-16", "__HIVE_DEFAULT_PARTITION__", 2)):
        place = tmp_path / f"year=2026/day={day}/zone={zone}"
        place.mkdir(parents=True)
        (place / "rows.csv").write_text(f"id\n{number}\n")
    assert rows(str(tmp_path)) == [
        {"id": 1, "year": 2026, "day": "2026-11-15", "zone": "01"},
        {"id": 2, "year": 2026, "day": "2026-11-16", "zone": None},
    ]


def test_the_first_file_of_text_decides_the_types(tmp_path: Path):
    (tmp_path / "1.csv.gz").write_bytes(gzip.compress(b"id;at\n1;2026-11-16T09:30:00Z\n"))
    (tmp_path / "2.csv").write_text("id;at\nmany;2026-11-16T09:30:00Z\n")
    with pytest.raises(Invalid, match=r"2\.csv: Line 2"):
        rows(str(tmp_path))
    assert [row["id"] for row in rows(str(tmp_path), form=Form(types={"id": "text"}))] == ["1", "many"]


def test_files_that_do_not_go_together_are_told_by_name(tmp_path: Path):
    pq.write_table(pa.table({"id": [1]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"number": [1]}), tmp_path / "2.parquet")
    with pytest.raises(Invalid, match=r"2\.parquet: its columns are number, and those of .*1\.parquet are id"):
        rows(str(tmp_path))
    (tmp_path / "2.parquet").write_bytes((tmp_path / "1.parquet").read_bytes()[:-20])
    with pytest.raises(Invalid, match=r"2\.parquet"):
        rows(str(tmp_path))
    (tmp_path / "2.parquet").rename(tmp_path / "2.csv")
    with pytest.raises(Invalid, match=r"end in csv, parquet"):
        rows(str(tmp_path))
    with pytest.raises(Invalid, match="--table means nothing"):
        rows(str(tmp_path), table="wells")
    (tmp_path / "empty").mkdir()
    with pytest.raises(NotFound, match="no files in empty"):
        rows(str(tmp_path / "empty"))


@pytest.fixture
def bucket(s3_storage: S3Storage, monkeypatch: pytest.MonkeyPatch) -> tuple[str, pafs.S3FileSystem]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3_storage["access_key"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3_storage["secret_key"])
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", s3_storage["endpoint"])
    files = pafs.S3FileSystem(endpoint_override=s3_storage["endpoint"], region=s3_storage["region"])
    return s3_storage["bucket"], files


def test_a_folder_in_a_bucket_is_read(bucket: tuple[str, pafs.S3FileSystem]):
    name, files = bucket
    for number in (1, 2):
        pq.write_table(pa.table({"id": [number]}), f"{name}/sales/day={number}/part.parquet", filesystem=files)
        with files.open_output_stream(f"{name}/text/{number}.csv") as stream:
            stream.write(f"id,name\n{number},بئر\n".encode())
    source = opened(f"s3://{name}/sales", Asked())
    assert source.reader().read_all().to_pylist() == [{"id": 1, "day": 1}, {"id": 2, "day": 2}]
    assert source.shown == f"s3://{name}/sales"
    assert rows(f"s3://{name}/text/") == [{"id": 1, "name": "بئر"}, {"id": 2, "name": "بئر"}]
    assert rows(f"s3://{name}/text/2.csv") == [{"id": 2, "name": "بئر"}]
    with pytest.raises(NotFound, match="no files"):
        rows(f"s3://{name}/nothing")


def test_keys_are_never_in_an_address_and_wrong_ones_are_told(
    bucket: tuple[str, pafs.S3FileSystem], monkeypatch: pytest.MonkeyPatch
):
    name, _ = bucket
    with pytest.raises(Invalid, match="AWS_ACCESS_KEY_ID") as caught:
        rows(f"s3://me:geheim@{name}/sales")
    assert "geheim" not in str(caught.value)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "geheim")
    with pytest.raises(Invalid, match="lets nobody in") as caught:
        rows(f"s3://{name}/sales")
    assert "geheim" not in str(caught.value)


def test_a_bucket_that_does_not_answer_is_told(bucket: tuple[str, pafs.S3FileSystem]):
    with pytest.raises(SourceUnavailable, match="No version was made"):
        rows(f"s3://{bucket[0]}/sales", endpoint="http://127.0.0.1:1")


def test_files_are_opened_one_after_the_other(tmp_path: Path):
    for number in range(5):
        pq.write_table(pa.table({"id": [number]}), tmp_path / f"{number}.parquet")
    source = opened(str(tmp_path), Asked())
    assert next(source.batches)["id"].to_pylist() == [0]
    (tmp_path / "3.parquet").unlink()
    assert [next(source.batches)["id"].to_pylist() for _ in range(2)] == [[1], [2]]
    with pytest.raises(NotFound, match=r"3\.parquet"):
        next(source.batches)
