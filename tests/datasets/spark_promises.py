"""What is promised of datasets in Spark; each is given a session, which all share, and a falaj client. See `test_spark`."""

import datetime as dt
import json
import os
import re
import sys
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.types import LongType, StructField, StructType

import falaj
from falaj.client.environments import client_of_environment
from falaj.datasets.operations.datasets import SHOW_DATASET, OneDataset
from falaj.governance.identity.operations import LIST_TOKENS, ListTokens
from tests.training.elsewhere import KEPT, promises_of

PROJECT = "default"
TYPES = pa.table(
    {
        "i8": pa.array([1, None], pa.int8()),
        "u8": pa.array([255, None], pa.uint8()),
        "u64": pa.array([2**64 - 1, None], pa.uint64()),
        "f32": pa.array([0.5, None], pa.float32()),
        "text": pa.array(["بئر", None]),
        "raw": pa.array([b"\x00\xff", None], pa.binary()),
        "yes": pa.array([True, None]),
        "at": pa.array([dt.datetime(2026, 11, 16, 8, 0, 0, 1, tzinfo=dt.UTC), None], pa.timestamp("us", "UTC")),
        "day": pa.array([dt.date(2026, 11, 16), None]),
        "clock": pa.array([dt.time(8, 0, 0, 1), None], pa.time64("us")),
        "span": pa.array([dt.timedelta(days=3, microseconds=1), None], pa.duration("us")),
        "price": pa.array([Decimal("1.50"), None], pa.decimal128(12, 2)),
        "some `list`": pa.array([[1, None], None], pa.list_(pa.int64())),
        "vector": pa.array([[0.5, 1.5], None], pa.list_(pa.float32(), 2)),
        "record": pa.array([{"a": 1, "b": [{"c": "x"}]}, None]),
    }
)


@contextmanager
def _raises(pattern: str) -> Iterator[None]:
    said = None
    try:
        yield
    except Exception as error:  # noqa: BLE001 - Spark's own, with what ours said
        said = str(error)
    assert said is not None, "nothing was raised"
    assert re.search(pattern, said), said


def _read(spark: SparkSession, reference: str, **options: str) -> DataFrame:
    return spark.read.format("falaj").options(dataset=reference, **options).load()


def _written(frame: DataFrame, dataset: str, mode: str = "append", **options: str) -> None:
    frame.write.format("falaj").options(dataset=dataset, **options).mode(mode).save()


def _versions(dataset: str) -> int:
    with client_of_environment() as caller:
        return caller.call(SHOW_DATASET, OneDataset(project=PROJECT, dataset=dataset)).versions


def _tokens(label: str) -> list[Any]:
    with client_of_environment() as caller:
        return [one for one in caller.call(LIST_TOKENS, ListTokens(limit=1000)).items if one.label == label]


def every_type_is_read_as_sparks_own_and_written_back(spark: SparkSession) -> None:
    falaj.save_dataset("types", TYPES)
    frame = _read(spark, "types@1")
    found = [row.asDict(recursive=True) for row in frame.collect()]
    assert found[0] == TYPES.to_pylist()[0] | {"raw": bytearray(b"\x00\xff"), "u64": Decimal(2**64 - 1)} | {
        "at": frame.select("at").first()[0]
    }
    assert frame.selectExpr("unix_micros(at)").first()[0] == 1_794_816_000_000_001
    assert set(found[1].values()) == {None}
    _written(frame.coalesce(1), "types-again")
    again = falaj.dataset("types-again").arrow()
    wider = [again.schema.field(name).with_type(kind) for name, kind in (("u8", pa.int16()), ("u64", pa.decimal128(20, 0)))]
    assert [again.schema.field(field.name) for field in wider] == wider
    assert again.drop(["u8", "u64", "vector"]) == TYPES.drop(["u8", "u64", "vector"])
    assert again["vector"].to_pylist() == TYPES["vector"].to_pylist()


def a_reading_stays_with_its_version_and_takes_the_columns_that_were_named(spark: SparkSession) -> None:
    falaj.save_dataset("wells", pa.table({"id": range(10), "depth": [float(n) for n in range(10)]}))
    current = _read(spark, "wells", columns="depth")
    falaj.save_dataset("wells", pa.table({"id": [99], "depth": [99.0]}))
    assert (current.columns, current.count()) == (["depth"], 10)
    assert _read(spark, "wells").agg({"id": "max"}).first()[0] == 99
    named = spark.read.format("falaj").schema("id BIGINT").load("wells@1")
    assert sorted(row.id for row in named.collect()) == list(range(10))
    spark.sql("CREATE OR REPLACE TEMPORARY VIEW wells USING falaj OPTIONS (dataset 'wells@1')")
    assert spark.sql("SELECT count(*) FROM wells WHERE depth > 7").first()[0] == 2


def large_parts_are_read_by_several_tasks_and_small_ones_by_one(spark: SparkSession) -> None:
    rows = 600_000
    noise = os.urandom(rows * 64)
    pads = pa.Array.from_buffers(pa.binary(64), rows, [None, pa.py_buffer(noise)]).cast(pa.binary())
    falaj.save_dataset("large", pa.table({"id": range(rows), "pad": pads}))
    frame = _read(spark, "large")
    assert frame.rdd.getNumPartitions() >= 2
    assert frame.selectExpr("count(id)", "count(distinct id)", "sum(length(pad))").first() == (rows, rows, rows * 64)


def executors_have_a_token_that_can_only_read_here_for_a_day(spark: SparkSession) -> None:
    from falaj.client.handing_on import Way

    falaj.save_dataset("guarded", [{"id": 1}])
    frame = _read(spark, "guarded")
    assert frame.count() == frame.count() == 1
    (token,) = _tokens("spark reads guarded")
    assert (token.scopes, token.projects, token.revoked) == (("dataset.read",), (PROJECT,), None)
    assert token.expires - token.created <= 24 * 3600 * 1_000_000
    assert os.environ["FALAJ_TOKEN"] not in repr(Way(url="u", token=os.environ["FALAJ_TOKEN"]))


def many_tasks_make_one_version_and_an_overwrite_replaces_it(spark: SparkSession) -> None:
    frame = spark.range(0, 1000, 1, 4).selectExpr("id", "CAST(id AS STRING) AS name")
    _written(frame, "scored", origin="a test")
    _written(frame.where("id < 10"), "scored")
    found = falaj.dataset("scored")
    assert (found.version, found.rows) == (2, 1010)
    assert falaj.dataset("scored@1").arrow()["id"].to_pylist() == list(range(1000))  # in the order of the partitions
    _written(frame.where("id < 5"), "scored", "overwrite")
    _written(frame.where("id = 4").selectExpr("id", "'new' AS name"), "scored", keys="id")
    assert sorted(falaj.dataset("scored").arrow()["name"].to_pylist()) == ["0", "1", "2", "3", "new"]
    assert all(token.revoked for token in _tokens("spark writes scored"))
    _written(frame.where("id < 0"), "nothing")
    assert (falaj.dataset("nothing").rows, falaj.dataset("nothing").schema.names) == (0, ("id", "name"))


def a_task_that_is_tried_again_writes_its_rows_once(spark: SparkSession) -> None:
    with tempfile.TemporaryDirectory() as folder:

        def failing_once(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            yield from rows
            mark = Path(folder, str(TaskContext.get().partitionId()))
            if not mark.exists():
                mark.touch()
                os._exit(9)  # with its rows on their way, or there already

        frame = (
            spark.range(0, 400_000, 1, 2)
            .selectExpr("id", "repeat(uuid(), 4) AS pad")
            .mapInArrow(failing_once, "id LONG, pad STRING")
        )
        _written(frame, "retried")
    found = falaj.dataset("retried").arrow(["id"])["id"].to_pylist()
    assert sorted(found) == list(range(400_000))


def what_fails_for_good_leaves_nothing(spark: SparkSession) -> None:
    falaj.save_dataset("kept", [{"id": 1}])

    def failing(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from rows
        raise ValueError("this never works")

    with _raises("this never works"):
        _written(spark.range(10).mapInArrow(failing, "id LONG"), "kept", "overwrite")
    assert (_versions("kept"), falaj.dataset("kept").arrow().to_pylist()) == (1, [{"id": 1}])
    assert all(token.revoked for token in _tokens("spark writes kept"))


def what_does_not_fit_is_told_before_a_task_runs(spark: SparkSession) -> None:
    falaj.save_dataset("fixed", [{"id": 1}])
    ran = spark.sparkContext.statusTracker().getJobIdsForGroup(None)
    one = spark.range(1)
    for frame, options, said in (
        (one.selectExpr("id", "1 AS other"), {}, "not expected: other"),
        (one.selectExpr("id", "parse_json('1') AS v"), {}, "Column 'v' holds variants"),
        (one.selectExpr("id", "array(TIMESTAMP_NTZ '2026-11-16 08:00:00') AS t"), {}, "timeZone"),
        (one, {"dataset": "fixed@1"}, "cannot be: say fixed alone"),
    ):
        with _raises(re.escape(said)):
            _written(frame, **({"dataset": "fixed"} | options))
    with _raises("no dataset 'nowhere'"):
        _read(spark, "nowhere")
    with _raises("no column 'depth'"):
        _read(spark, "fixed", columns="depth")
    assert spark.sparkContext.statusTracker().getJobIdsForGroup(None) == ran
    assert _versions("fixed") == 1
    zoned = one.selectExpr("TIMESTAMP_NTZ '2026-11-16 12:00:00' AS t")
    _written(zoned, "zoned", timeZone="Asia/Dubai")
    assert falaj.dataset("zoned").arrow().to_pylist() == [{"t": dt.datetime(2026, 11, 16, 8, tzinfo=dt.UTC)}]
    nulls = spark.createDataFrame([Row(id=None)], StructType([StructField("id", LongType())]))
    _written(nulls, "nulls")
    assert falaj.dataset("nulls").arrow().to_pylist() == [{"id": None}]


def _session() -> SparkSession:
    quiet = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.sql.session.timeZone": "Asia/Dubai"}
    builder = SparkSession.builder.master("local[2,3]")  # two at a time, three tries of each
    for name, text in quiet.items():
        builder = builder.config(name, text)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    session.dataSource.register(falaj.spark.DataSource)
    return session


def _kept(promise: str, session: SparkSession) -> str:
    try:
        getattr(sys.modules[__name__], promise)(session)
    except BaseException:  # noqa: BLE001 - whatever it was is told
        return traceback.format_exc()
    return KEPT


if __name__ == "__main__":
    started = _session()
    told = {promise: _kept(promise, started) for promise in sys.argv[1:] or promises_of("tests.datasets.spark_promises")}
    started.stop()
    print(json.dumps(told))
