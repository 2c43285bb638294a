"""Looking features up where something is missing, or too much is asked: what is told, and who waits, without a platform."""

import asyncio
import threading
from collections.abc import Iterator, Sequence
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
from falaj.serving.plane.asking import Ask, DeadlinePassed, Given
from falaj.serving.plane.lookups import desk as desk_module
from falaj.serving.plane.lookups.desk import Crowded, Desk
from falaj.serving.plane.lookups.joining import Joined, Lookup
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


class Slow(Lookup):
    """Ends when it is told to."""

    def __init__(self, store: OnlineStore, project: str) -> None:
        super().__init__(Views(lambda: store).of(project, [TOLD]), INPUTS, COLUMNS, "scores", SystemClock())
        self.may_end, self.begun = threading.Event(), 0

    def joined(self, given: Sequence[Given]) -> Joined:
        self.begun += 1
        assert self.may_end.wait(30)
        return super().joined(given)


class Caller:
    """A request, and what became of it."""

    def __init__(self) -> None:
        self.gone, self.told = False, asyncio.Event()
        self.failure: Exception | None = None
        self.ask = Ask(token="", endpoint="scores", given=asked("AE"), reply=self, arrived=0.0)

    def answer(self, answer: Any) -> None: ...

    def refuse(self, error: Exception) -> None: ...

    def done(self, failure: Exception | None) -> None:
        self.failure = failure
        self.told.set()


def test_whoever_asks_for_much_keeps_no_other_project_waiting_and_what_is_too_late_is_not_looked_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(desk_module, "_PATIENCE", 0.0)
    store = LmdbStore(tmp_path / "online")
    fields = [tuple(OnlineField(name=one.name, type=one.type) for one in some) for some in (KEYS, FEATURES)]
    shape = ViewShape(project=ProjectId(PROJECT), name="users", entity=fields[0], features=fields[1])
    OnlineView(store, SECRETS, shape).complete(Moment(1))

    async def play() -> None:
        desk, greedy, modest = Desk(Views(None), SystemClock()), Slow(store, PROJECT), Slow(store, "1" * 32)
        crowd = [Caller() for _ in range(40)]
        for number, one in enumerate(crowd):
            desk.join(greedy, one.ask, 60_000 if number < 20 else 0, one.done)
        crowd[10].gone = True
        crowd[11].ask.deadline = 0.0
        other = Caller()
        modest.may_end.set()
        desk.join(modest, other.ask, 60_000, other.done)
        await asyncio.wait_for(other.told.wait(), 10)
        assert (other.failure, modest.begun) == (None, 1)
        assert not any(one.told.is_set() for one in crowd)
        greedy.may_end.set()
        await asyncio.wait_for(asyncio.gather(*(one.told.wait() for one in crowd)), 10)
        wrong = {number: type(one.failure) for number, one in enumerate(crowd) if one.failure is not None}
        assert wrong == {10: DeadlinePassed, 11: DeadlinePassed} | dict.fromkeys(range(20, 40), Crowded)
        assert greedy.begun == 18
        await asyncio.to_thread(desk.close)

    asyncio.run(play())
    store.close()
