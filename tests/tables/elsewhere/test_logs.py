"""What tables say of themselves, written by anybody: read right, or refused with words."""

import contextlib
import io
import json
import zlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from falaj.base.errors import Invalid, NotFound
from falaj.tables.elsewhere import delta, iceberg
from falaj.tables.elsewhere.avro import Avro

SCHEMA = json.dumps({"type": "struct", "fields": [{"name": "day", "type": "date"}, {"name": "at", "type": "timestamp"}]})
BEGINNING = [
    {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
    {"metaData": {"id": "one", "schemaString": SCHEMA, "partitionColumns": ["day", "at"], "configuration": {}}},
]


def log(*actions: dict[str, Any]) -> dict[str, Any]:
    lines = "\n".join(json.dumps(action) for action in (*BEGINNING, *actions))
    return delta.files_of(io.BytesIO(lines.encode()), [])


def added(path: str, **more: Any) -> dict[str, Any]:
    return {"add": {"path": path, "size": 10, "partitionValues": {"day": "2026-11-16", "at": ""}, **more}}


def test_files_of_a_delta_log_are_those_that_were_not_removed():
    told = log(added("a"), added("b"), {"remove": {"path": "a"}}, {"commitInfo": {}}, added("c"))
    said = [["day", "date", "2026-11-16"], ["at", "moment", None]]
    assert told == {"files": [["b", 10, said], ["c", 10, said]], "id": "one"}
    times = log(added("a", partitionValues={"day": None, "at": "2026-11-16 09:00:00"}))["files"][0][2]
    assert times == [["day", "date", None], ["at", "moment", "2026-11-16T09:00:00Z"]]


def test_a_file_with_rows_deleted_is_not_lost_among_its_own_removal():
    with pytest.raises(Invalid, match="deletion vectors"):
        log(added("a"), added("a", deletionVector={"storageType": "u"}), {"remove": {"path": "a"}})
    again = log(added("a"), added("a", deletionVector={"n": 1}), {"remove": {"path": "a", "deletionVector": {"n": 1}}})
    assert len(again["files"]) == 1


@pytest.mark.parametrize(
    ("action", "says"),
    [
        (added("a", deletionVector={"storageType": "u"}), "deletion vectors"),
        ({"sidecar": {"path": "x"}}, "v2"),
        ({"protocol": {"minReaderVersion": 3, "readerFeatures": ["rowTime"]}}, "rowTime"),
        ({"protocol": {"minReaderVersion": 9}}, "asks more of its readers"),
        ({"metaData": {"schemaString": SCHEMA, "configuration": {"delta.columnMapping.mode": "name"}}}, "column mapping"),
        ({"metaData": {"schemaString": "{}", "partitionColumns": ["x"]}}, "cannot be read"),
        (added("a", size="many"), "cannot be read"),
    ],
)
def test_what_a_delta_log_asks_and_is_not_done_is_refused(action: dict[str, Any], says: str):
    with pytest.raises(Invalid, match=says):
        log(action)


@given(
    st.binary(max_size=300)
    | st.recursive(st.none() | st.text() | st.integers(), lambda x: st.lists(x)).map(str).map(str.encode)
)
def test_no_delta_log_does_more_than_be_refused(content: bytes):
    with pytest.raises(Invalid):
        delta.files_of(io.BytesIO(content), [io.BytesIO(content)])


# Avro, as the specification has it


def number(value: int) -> bytes:
    zigzag, made = (value << 1) ^ (value >> 63), b""
    while zigzag > 0x7F:
        made += bytes([zigzag & 0x7F | 0x80])
        zigzag >>= 7
    return made + bytes([zigzag])


def text(value: str | bytes) -> bytes:
    content = value.encode() if isinstance(value, str) else value
    return number(len(content)) + content


def avro(schema: Any, count: int, block: bytes, codec: str = "null") -> bytes:
    if codec == "deflate":
        packing = zlib.compressobj(wbits=-15)
        block = packing.compress(block) + packing.flush()
    about = {"avro.schema": json.dumps(schema), "avro.codec": codec}
    head = number(len(about)) + b"".join(text(name) + text(value) for name, value in about.items()) + number(0)
    sync = bytes(range(16))
    return b"Obj\x01" + head + sync + number(count) + number(len(block)) + block + sync


RECORD = {
    "type": "record",
    "name": "manifest_file",
    "fields": [
        {"name": "manifest_path", "type": "string"},
        {"name": "sizes", "type": ["null", {"type": "array", "items": "long"}]},
        {"name": "bounds", "type": {"type": "map", "values": "bytes"}},
        {"name": "id", "type": {"type": "fixed", "name": "four", "size": 4}},
        {"name": "other", "type": ["null", "four"]},
        {"name": "share", "type": "double"},
    ],
}
ONE = text("a.avro") + number(1) + number(-2) + number(2) + number(-7) + number(300) + number(0)
ONE += number(1) + text("k") + text(b"\xff") + number(0) + b"1234" + number(1) + b"5678" + bytes(8)


@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_records_of_avro_are_read_by_their_schema(codec: str):
    found = list(Avro(avro(RECORD, 2, ONE * 2, codec)).records())
    assert (
        found
        == [
            {
                "manifest_path": "a.avro",
                "sizes": [-7, 300],
                "bounds": {"k": b"\xff"},
                "id": b"1234",
                "other": b"5678",
                "share": 0.0,
            }
        ]
        * 2
    )
    assert iceberg.manifests_of(avro(RECORD, 2, ONE * 2, codec)) == {"manifests": ["a.avro"] * 2}


def test_avro_that_says_it_has_more_than_it_has_is_refused():
    for count, block in ((1 << 60, b""), (-1, b""), (1, text("a.avro")), (2, ONE)):
        with pytest.raises(Invalid):
            iceberg.manifests_of(avro(RECORD, count, block))
    for kind in ({"type": "array", "items": "null"}, {"type": "map", "values": "null"}):
        with pytest.raises(Invalid, match="cut short"):
            list(
                Avro(
                    avro({"type": "record", "name": "x", "fields": [{"name": "y", "type": kind}]}, 1, number(1 << 60))
                ).records()
            )
    deep: Any = "long"
    for _ in range(100):
        deep = {"type": "array", "items": deep}
    with pytest.raises(Invalid, match="deep"):
        Avro(avro(deep, 0, b""))


@settings(max_examples=200)
@given(st.data())
def test_avro_with_bytes_changed_is_read_or_refused(data: st.DataObject):
    content = bytearray(avro(RECORD, 2, ONE * 2, data.draw(st.sampled_from(["null", "deflate"]))))
    for place in data.draw(st.lists(st.integers(0, len(content) - 1), min_size=1, max_size=4)):
        content[place] = data.draw(st.integers(0, 255))
    with contextlib.suppress(Invalid):
        iceberg.manifests_of(bytes(content))


# Iceberg


def table(**more: Any) -> bytes:
    about = {
        "format-version": 2,
        "current-snapshot-id": 5,
        "snapshots": [
            {"snapshot-id": 4, "manifest-list": "old", "schema-id": 0},
            {"snapshot-id": 5, "manifest-list": "new", "schema-id": 1},
        ],
        "current-schema-id": 1,
        "schemas": [
            {"schema-id": 0, "fields": [{"id": 1, "name": "before"}]},
            {"schema-id": 1, "fields": [{"id": 1, "name": "now"}, {"id": 2, "name": "day"}]},
        ],
        "partition-specs": [
            {"fields": [{"source-id": 2, "transform": "identity"}, {"source-id": 1, "transform": "bucket[4]"}]}
        ],
    }
    return json.dumps({**about, **more}).encode()


def test_a_snapshot_has_the_columns_of_its_time():
    assert iceberg.snapshot_of(table(), "") == {
        "snapshot": 5, "manifests": "new", "fields": {"1": "now", "2": "day"}, "needs": [2],
    }  # fmt: skip
    assert iceberg.snapshot_of(table(), "4") == {"snapshot": 4, "manifests": "old", "fields": {"1": "before"}, "needs": []}
    assert iceberg.snapshot_of(table(**{"current-snapshot-id": None}), "")["manifests"] == ""
    with pytest.raises(NotFound, match="has no snapshot 9"):
        iceberg.snapshot_of(table(), "9")
    with pytest.raises(Invalid, match="of format 3"):
        iceberg.snapshot_of(table(**{"format-version": 3}), "")


@given(st.binary(max_size=200) | st.dictionaries(st.text(), st.integers()).map(json.dumps).map(str.encode))
def test_no_metadata_does_more_than_be_refused(content: bytes):
    with pytest.raises(Invalid):
        iceberg.snapshot_of(content, "")


def entry(status: int, content: int, format: str) -> bytes:
    return number(status) + number(content) + text("s3://bucket/a") + text(format) + number(7)


DATA_FILE = {
    "type": "record",
    "name": "data_file",
    "fields": [
        {"name": "content", "type": "int"},
        {"name": "file_path", "type": "string"},
        {"name": "file_format", "type": "string"},
        {"name": "file_size_in_bytes", "type": "long"},
    ],
}
MANIFEST = {
    "type": "record",
    "name": "entry",
    "fields": [{"name": "status", "type": "int"}, {"name": "data_file", "type": DATA_FILE}],
}


def test_rows_that_are_deleted_elsewhere_are_refused():
    live = avro(MANIFEST, 2, entry(1, 0, "PARQUET") + entry(2, 1, "PARQUET"))
    assert iceberg.files_of([live]) == {"files": [["s3://bucket/a", 7]]}
    for content, format, says in (
        (1, "PARQUET", "deleted in files"),
        (2, "PARQUET", "deleted in files"),
        (0, "ORC", "files of ORC"),
    ):
        with pytest.raises(Invalid, match=says):
            iceberg.files_of([live, avro(MANIFEST, 1, entry(0, content, format))])
