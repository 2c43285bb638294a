"""Labels that came one by one are read as quickly as those that came together, and nobody counts them twice or misses any."""

import pytest
from sqlalchemy import Integer, select

from falaj.base.ids import new_id
from falaj.monitoring import merging
from falaj.monitoring.labels import LABELS
from falaj.monitoring.operations.labels import Label
from falaj.monitoring.store import abtests as abtest_store
from falaj.monitoring.store import labels as store
from falaj.monitoring.store.abtest_tables import abtests
from falaj.serving.operations.endpoints import DELETE_ENDPOINT, OneEndpoint
from falaj.storage.store import references
from tests.monitoring.labels.labelled import Labelled, figures
from tests.serving.control.platform import PROJECT


@pytest.fixture(autouse=True)
def few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "MANY", 5)


def one_by_one(labelled: Labelled, count: int, start: int = 0) -> None:
    ids = [f"call-{number}" for number in range(start, start + count)]
    labelled.log(*(labelled.call(id, {"y": [1]}) for id in ids))
    for place, id in enumerate(ids):
        labelled.add(Label(id=id, truth=int(place % 3 > 0)))


def batches(labelled: Labelled) -> list[int]:
    """Rows of each, in order."""
    found = labelled.platform.app.database.read(lambda work: store.batches_after(work, labelled.endpoint.id, 0, 1000))
    return [row.rows for row in found]


def clean(labelled: Labelled) -> None:
    while labelled.platform.app.monitoring.clean(labelled.clock.now()):
        pass


def test_small_batches_become_one_and_everything_that_was_said_is_known(labelled: Labelled):
    one_by_one(labelled, 12)
    clean(labelled)
    assert batches(labelled) == [1] * 12  # nobody judged them yet
    labelled.platform.app.monitoring.step(labelled.clock.now())
    before = labelled.rows()
    clean(labelled)
    assert batches(labelled) == [12]
    assert labelled.rows() == before
    again = labelled.add(Label(id="call-0", truth=0), Label(id="call-1", truth=0))
    assert (again.repeated, again.refused) == (1, 1)
    one_by_one(labelled, 12, start=12)
    assert batches(labelled) == [12, *[1] * 12]
    assert figures(labelled.quality(span="whole").items[0])["accuracy"].at == pytest.approx(16 / 24)
    places = [
        row.place
        for row in labelled.platform.app.database.read(lambda work: store.batches_after(work, labelled.endpoint.id, 0, 9))
    ]
    assert places[:2] == [12, 13]


def reads_on(labelled: Labelled, place: int) -> str:
    """An A/B test that has come to this place."""
    id = new_id(labelled.clock.now())
    row = {column.name: 0 if isinstance(column.type, Integer) else "" for column in abtests.c if not column.nullable}
    row |= {"id": id, "endpoint": labelled.endpoint.id, "endpoint_busy": labelled.endpoint.id, "place": place}
    labelled.platform.app.database.write(lambda work: abtest_store.add(work, row))
    return id


def test_whoever_is_in_the_middle_of_the_batches_loses_nothing(labelled: Labelled):
    one_by_one(labelled, 8)
    labelled.platform.app.monitoring._judging.step(labelled.clock.now())
    merge, test = labelled.platform.app.monitoring._merging.step, reads_on(labelled, 4)
    assert not merge(labelled.clock.now())
    assert batches(labelled) == [1] * 8
    labelled.platform.app.database.write(lambda work: abtest_store.change(work, test, place=8))
    assert merge(labelled.clock.now())
    assert batches(labelled) == [8]


def test_what_was_merged_goes_with_its_endpoint(small: Labelled):
    one_by_one(small, 8)
    small.platform.app.monitoring.step(small.clock.now())
    clean(small)
    assert batches(small) == [8]
    small.platform.call(DELETE_ENDPOINT, OneEndpoint(project=PROJECT, endpoint="scores"))
    clean(small)
    assert batches(small) == []
    held = select(references.c.blob).where(references.c.kind == LABELS)
    assert small.platform.app.database.read(lambda work: work.execute(held).all()) == []
