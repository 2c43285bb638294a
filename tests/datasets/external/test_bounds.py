"""What a table says of itself leads nowhere but into its place; what is read of it is bounded, and goes on where it was."""

import io
import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from falaj.base.clock import DAY, HOUR
from falaj.base.errors import Forbidden, Invalid, NotFound, TooLarge, Unavailable
from falaj.datasets.external import reading
from falaj.datasets.external.pins import ChangedUpstream
from falaj.datasets.operations.comparing import COMPARE_VERSIONS, CompareVersions
from falaj.datasets.operations.places import REMOVE_PLACE, Address, OnePlace
from falaj.datasets.operations.reading import QUERY, Query
from falaj.governance.zones.store import Zone, add_zone
from falaj.tables.joining.views import Feature
from tests.datasets.external.lake import declare, folder_place, refresh, register, step, write_file
from tests.datasets.features.stories import applied, clicks, joined, labels
from tests.datasets.platform import PROJECT, Platform


@pytest.fixture
def lake(small: Platform, tmp_path: Path) -> Path:
    folder = folder_place(small, tmp_path)
    write_file(tmp_path / "secret.parquet", id=[42])
    return folder


@pytest.mark.parametrize(
    "path", ["../../../secret.parquet", "%2E%2E/%2E%2E/../secret.parquet", "{root}/secret.parquet", "s3://other/secret.parquet"]
)
def test_no_delta_log_leads_out_of_its_table(small: Platform, lake: Path, path: str):
    log = lake / "sales/orders/_delta_log"
    log.mkdir(parents=True)
    actions = [
        {"protocol": {"minReaderVersion": 1}},
        {"metaData": {"id": "x", "schemaString": '{"fields": []}', "partitionColumns": []}},
        {"add": {"path": path.format(root=lake.parent), "size": 1, "partitionValues": {}}},
    ]
    (log / f"{0:020}.json").write_text("\n".join(map(json.dumps, actions)))
    with pytest.raises(Invalid):
        register(small, kind="delta")


@pytest.mark.parametrize(
    "uri", ["file:///etc/passwd", "{root}/secret.parquet", "{root}/lake/../secret.parquet", "http://169.254.169.254/"]
)
def test_no_iceberg_metadata_leads_out_of_its_place(small: Platform, lake: Path, uri: str):
    folder = lake / "sales/orders/metadata"
    folder.mkdir(parents=True)
    about = {
        "format-version": 2,
        "current-snapshot-id": 1,
        "snapshots": [{"snapshot-id": 1, "manifest-list": uri.format(root=lake.parent)}],
        "current-schema-id": 0,
        "schemas": [{"schema-id": 0, "fields": [{"id": 1, "name": "id"}]}],
    }
    (folder / "v1.metadata.json").write_text(json.dumps(about))
    with pytest.raises(Invalid):
        register(small, kind="iceberg")


def test_a_place_in_a_zone_that_is_not_the_projects_is_refused(small: Platform, lake: Path):
    zone = Zone(name="abroad", country="DE", jurisdictions=("gdpr",), storage="local", engines=(), created=small.clock.now())
    small.database.write(lambda work: add_zone(work, zone))
    declare(small, "pond", address=Address(folder=str(lake)), zone="abroad")
    write_file(lake / "sales/orders/1.parquet", id=[1])
    with pytest.raises(Forbidden, match="zone 'abroad', which is none of the project's"):
        register(small, place="pond")
    with pytest.raises(NotFound, match="no zone 'nowhere'"):
        declare(small, "pool", address=Address(folder=str(lake)), zone="nowhere")


def test_reading_goes_on_where_it_was(small: Platform, lake: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(reading, "_PATIENCE", 0.0)
    for number in range(3):
        write_file(lake / f"sales/orders/{number}.parquet", id=[number])
    told = step(small)
    assert (told.done, told.of, told.version) == (1, 3, None)
    with pytest.raises(NotFound, match="has no version yet"):
        small.grant(name="orders")
    (lake / "sales/orders/0.parquet").touch()  # looks as if it were another: it is read once more
    assert [step(small).done for _ in range(2)] == [1, 2]
    assert step(small).version is not None
    assert small.rows(name="orders") == [(0,), (1,), (2,)]


def test_no_more_is_held_here_than_may_be(small: Platform, lake: Path):
    for number in range(3):
        write_file(lake / f"sales/orders/{number}.parquet", id=list(range(1000 * number, 1000 * number + 1000)))
    register(small)
    parts = small.grant(name="orders").parts
    small.room._copies._most = parts[1].size + max(parts[0].size, parts[2].size)
    for part in parts[:2]:
        small.part(part.id, name="orders")
    with pytest.raises(Unavailable, match=r"data\.external_mib"):
        small.part(parts[2].id, name="orders")
    small.clock.forward(11 * 60_000_000)
    assert small.part(parts[1].id, name="orders")  # in use again
    assert small.part(parts[2].id, name="orders")
    shutil.rmtree(lake / "sales")
    assert small.part(parts[1].id, name="orders")
    small.clock.forward(11 * 60_000_000)
    with pytest.raises(ChangedUpstream, match="gone upstream"):
        small.part(parts[0].id, name="orders")


def test_no_project_keeps_another_from_reading(small: Platform, lake: Path):
    small.project("other")
    declare(small, address=Address(folder=str(lake)), projects=(PROJECT, "other"))
    for number in range(3):
        write_file(lake / f"sales/orders/{number}.parquet", id=list(range(1000 * number, 1000 * number + 1000)))
    write_file(lake / "own/1.parquet", id=list(range(1000)))
    register(small)
    register(small, "mine", table="own", project="other")
    parts = small.grant(name="orders").parts
    small.room._copies._most = sum(part.size for part in parts)
    for part in parts:
        small.part(part.id, name="orders")
    query = Query(project="other", sql="SELECT count(*) FROM mine", tables=())
    assert small.call(QUERY, query).rows == ((1000,),)  # of those who have most, the first has to go
    assert small.part(parts[2].id, name="orders")
    with pytest.raises(Unavailable, match=r"data\.external_mib"):  # and does not come back at the other's expense
        small.part(parts[0].id, name="orders")


def test_what_a_table_says_of_its_files_is_bounded(small: Platform, lake: Path, monkeypatch: pytest.MonkeyPatch):
    for number in range(3):
        write_file(lake / f"sales/orders/{'long' * 50}={number}/1.parquet", id=[number])
    monkeypatch.setattr(reading, "_MOST_SAID", 1000)
    before = small.objects()
    with pytest.raises(TooLarge, match="What the table says of its files"):
        register(small)
    assert small.objects() == before


def test_versions_are_compared_as_any_others(small: Platform, lake: Path):
    write_file(lake / "sales/orders/1.parquet", id=[1, 2], name=["a", "b"])
    register(small)
    write_file(lake / "sales/orders/2.parquet", id=[3], name=["c"])
    refresh(small)
    request = CompareVersions(project=PROJECT, dataset="orders", version="1", other="2", keys=("id",))
    found = small.call(COMPARE_VERSIONS, request)
    assert (found.rows_added, found.rows_removed, found.rows_changed) == (1, 0, 0)


def test_a_training_set_joins_rows_that_stay_where_they_are(small: Platform, lake: Path):
    """Known from when they were pinned: what a later refresh brings does not leak into labels before it."""
    (lake / "web/clicks").mkdir(parents=True)
    for number, rows in enumerate(({"happened": [-20], "amount": [1.0]}, {"happened": [-10], "amount": [99.0]})):
        table = pa.ipc.open_stream(io.BytesIO(clicks({"user": [1], **rows}))).read_all()
        pq.write_table(table, lake / f"web/clicks/{number}.parquet")
        register(small, "clicks", table="web/clicks")
        small.clock.forward(100 * HOUR)
    small.write(labels({"user": [1, 1, 1], "asked": [-5, 50, 150]}), dataset="labels")
    applied(small, known="", features=(Feature(name="last_amount", column="amount"),))
    joined(small)
    assert [row[-1] for row in small.rows(name="training")] == [None, 1.0, 99.0]


def test_either_database_keeps_places_pins_and_copies(platform: Platform, tmp_path: Path):
    folder = folder_place(platform, tmp_path)
    before = platform.objects()
    write_file(folder / "sales/orders/1.parquet", id=[1, 2])
    register(platform)
    write_file(folder / "sales/orders/2.parquet", id=[3])
    assert refresh(platform).rows == 3
    assert platform.rows(name="orders") == [(1,), (2,), (3,)]
    declare(platform, address=Address(folder=str(folder)))  # once more, as with new credentials
    platform.clock.forward(2 * HOUR)
    platform.room.step(platform.clock.now())
    assert platform.rows("1", "orders") == [(1,), (2,)]
    platform.delete("orders")
    platform.call(REMOVE_PLACE, OnePlace(place="lake"))
    platform.clock.forward(30 * DAY)
    platform.collector.step(platform.clock.now())
    assert platform.objects() == before
