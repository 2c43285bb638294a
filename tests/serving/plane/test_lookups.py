"""Looking features up where something is missing: what is told, and what is counted, without a platform."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from falaj.base.clock import Moment, SystemClock
from falaj.base.errors import Invalid, TooLarge, Unavailable
from falaj.base.ids import ProjectId
from falaj.datasets.online.lmdb import LmdbStore
from falaj.datasets.online.redis import RedisStore
from falaj.datasets.online.rows import Field as OnlineField
from falaj.datasets.online.sealing import Secrets, ViewSecrets
from falaj.datasets.online.stores import OnlineStore
from falaj.datasets.online.views import Given as Materialised
from falaj.datasets.online.views import OnlineView, ViewShape
from falaj.runtimes.engine import TensorSpec
from falaj.serving.plane.asking import Given
from falaj.serving.plane.lookups.joining import Lookup
from falaj.serving.plane.lookups.views import Views
from falaj.serving.states import Column, Field, LookupView

PROJECT = "0" * 32
SECRETS = ViewSecrets.of(Secrets(places=b"p" * 32, rows={1: b"r" * 32}), project=PROJECT, view="users")
KEYS = (Field(name="country", type="text"), Field(name="born", type="date"))
FEATURES = (Field(name="age", type="int64"), Field(name="spent", type="float64"), Field(name="vip", type="bool"))
TOLD = LookupView(
    reference="users@1",
    keys=KEYS,
    features=FEATURES,
    wanted=("vip", "age"),
    counts=("age",),
    place=SECRETS.place.hex(),
    entities=SECRETS.entities.hex(),
    seals={version: key.hex() for version, key in SECRETS.rows.items()},
)
COLUMNS = (Column(name="amount", type="double"), Column(name="age", type="long"), Column(name="vip", type="double"))
INPUTS = (TensorSpec(name="x", datatype="FP32", shape=(-1, 3)),)


@pytest.fixture(params=["lmdb", "redis"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OnlineStore]:
    redis = request.param == "redis"
    opened: OnlineStore = RedisStore(request.getfixturevalue("redis_url")) if redis else LmdbStore(tmp_path / "online")
    yield opened
    opened.close()


def lookup(views: Views) -> Lookup:
    return Lookup(views.of(PROJECT, [TOLD]), INPUTS, COLUMNS, "scores", SystemClock())


def asked(*countries: str, **changes: Any) -> list[Given]:
    given = {
        "country": Given("country", "BYTES", [len(countries)], list(countries)),
        "born": Given("born", "BYTES", [len(countries), 1], [b"2001-02-03"] * len(countries)),
        "amount": Given("amount", "FP32", [len(countries), 1], [1.5] * len(countries)),
    }
    return list((given | changes).values())


def test_a_request_is_joined_out_of_either_store_and_a_lost_view_is_told(store: OnlineStore) -> None:
    views = Views(lambda: store)
    with pytest.raises(Unavailable, match="has nothing of the feature view 'users@1': materialise it again"):
        lookup(views).joined(asked("AE"))
    fields = [tuple(OnlineField(name=one.name, type=one.type) for one in some) for some in (KEYS, FEATURES)]
    shape = ViewShape(project=ProjectId(PROJECT), name="users", entity=fields[0], features=fields[1])
    online = OnlineView(store, SECRETS, shape)
    online.write([Materialised(("AE", 11_356), (33, 2.5, True))], of=Moment(1))
    online.complete(Moment(1))
    found = lookup(views)
    assert [(one.name, one.datatype) for one in found.inputs] == [("country", "BYTES"), ("born", "BYTES"), ("amount", "FP32")]
    joined = found.joined(asked("AE", "OM"))
    assert (joined.given[0].name, list(joined.given[0].shape)) == ("x", [2, 3])
    assert str(joined.given[0].data) == str([1.5, 33.0, 1.0, 1.5, 0.0, float("nan")])
    assert (joined.unknown, joined.entities["country"]) == (1, ["AE", "OM"])
    for wrong, says in (
        ({"born": Given("born", "BYTES", [1], ["yesterday"])}, "'born' is a date, written like 2026-11-15"),
        ({"age": Given("age", "INT64", [1], [3])}, "'age' is looked up by this endpoint and cannot be given"),
        ({"amount": Given("amount", "FP64", [1], [3.0])}, "the model takes FP32"),
        ({"amount": Given("amount", "FP32", [2], [3.0, 4.0])}, "all inputs have as many"),
        ({"country": Given("country", "BYTES", [1], [b"\xff"])}, "is not UTF-8"),
    ):
        with pytest.raises(Invalid, match=says):
            found.joined(asked("AE", **wrong))
    with pytest.raises(TooLarge, match="send them in several requests"):
        found.joined(asked(*["AE"] * 10_001))


def test_a_host_without_a_way_to_the_store_and_a_view_that_is_gone_say_what_to_do() -> None:
    with pytest.raises(Unavailable, match="FALAJ_FEATURES_REDIS"):
        Views(None).of(PROJECT, [TOLD])
    with pytest.raises(Unavailable, match="nothing is kept"):
        Views(None).of(PROJECT, [LookupView(reference="users@1", problem="nothing is kept")])
