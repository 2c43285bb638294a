"""What the online store gives at a moment has the bits of a training set of that moment."""

import random
from datetime import timedelta

import pyarrow as pa

from falaj.base.clock import Moment
from falaj.base.errors import Invalid
from falaj.base.ids import ProjectId
from falaj.datasets.online.lmdb import LmdbStore
from falaj.datasets.online.rows import Field
from falaj.datasets.online.sealing import Secrets
from falaj.datasets.online.views import Given, OnlineView, ViewShape
from falaj.tables.arrow_schemas import from_arrow
from falaj.tables.joining.materialising import materialised
from falaj.tables.joining.training_sets import Source, training_set
from falaj.tables.joining.views import Feature, View
from falaj.tables.moments import MOMENT
from falaj.tables.plain_values import from_plain, to_plain
from tests.tables.joining.cases import START, made
from tests.tables.joining.oracle import bits, microseconds

SECRETS = Secrets(places=bytes(32), rows={1: bytes(32)})


def with_event(source: Source) -> Source:
    """The event of the newest row is one more feature: it says how long the others live."""
    view = source.view
    features = (*view.features, Feature(name="newest event", column=view.event))
    names = {name: getattr(view, name) for name in ("name", "keys", "event", "known", "time_to_live")}
    return Source(view=View(**names, features=features), pieces=source.pieces)


def online(store: LmdbStore, name: str, source: Source, table: pa.Table) -> OnlineView:
    columns = [Field(name=column.name, type=column.type) for column in from_arrow(table.schema).columns]
    keys = len(source.view.keys)
    shape = ViewShape(
        project=ProjectId("a" * 32),
        name=name,
        entity=tuple(columns[:keys]),
        features=tuple(columns[keys:-1]),
        time_to_live=source.view.time_to_live,
    )
    return OnlineView(store, SECRETS, shape)


def test_values_read_online_are_those_of_a_training_set(tmp_path):
    store, compared = LmdbStore(tmp_path), 0
    for seed in range(25):
        case, at = made(random.Random(seed)), START + timedelta(minutes=40 + seed)
        now = Moment(microseconds(at))
        for number, source in enumerate(case.sources):
            keys = len(source.view.keys)
            try:
                table = pa.concat_tables(materialised(with_event(source), at=now))
                view = online(store, f"{seed}.{number}", source, table)
            except Invalid:  # a sum beyond 64 bits, or keys that cannot be ones
                continue
            rows = list(zip(*map(to_plain, table.columns), strict=True))
            view.write((Given(row[:keys], row[keys:-1], row[-1]) for row in rows), of=now)
            labels = table.select(range(keys)).rename_columns([key.in_labels for key in source.view.keys])
            labels = labels.append_column("t", pa.array([at] * len(labels), MOMENT))
            expected = pa.concat_tables(training_set(labels, time="t", sources=[source])).select(
                range(keys + 1, keys + 1 + len(source.view.features))
            )
            found = [view.get(row[:keys], now=now) for row in rows]
            for index, column in enumerate(expected.columns):
                back = from_plain([one.values[index] for one in found], column.type)
                assert [bits(one) for one in back.to_pylist()] == [bits(one) for one in column.to_pylist()]
            compared += len(rows)
    store.close()
    assert compared > 100
