"""Features as notebooks use them: defined from a dictionary, joined, kept and read, all by names."""

from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pytest

import falaj
from falaj.base.clock import HOUR
from falaj.base.errors import Invalid, NotFound
from falaj.tables.moments import MOMENT
from tests.datasets.features.stories import told
from tests.datasets.features.test_catching_up import append
from tests.datasets.platform import PROJECT, Platform, arrow
from tests.datasets.test_client import Line

CLICKS = {
    "name": "clicks",
    "dataset": "clicks",
    "keys": ["user"],
    "event": "happened",
    "known": "seen",
    "log": 1,
    "features": {
        "last_amount": {"column": "amount"},
        "last_click": {"column": "happened"},
        "clicks_7d": {"function": "count", "period": "7d"},
    },
}


def of(platform: Platform) -> Any:
    return falaj.features(project=PROJECT, client=Line(platform))  # type: ignore[arg-type]


def test_a_notebook_defines_joins_keeps_reads_and_audits(small: Platform, tmp_path: Any) -> None:
    told(small)
    small.clock.forward(50 * HOUR)
    features = of(small)
    (defined,) = features.apply(CLICKS)
    assert (defined.version, [one.view for one in features.list()]) == (1, ["clicks"])
    training = features.training_set("labels", "clicks", time="asked")
    assert (training.name, training.version, training.rows) == ("training", 1, 5)
    assert training.pandas()["clicks_7d"].tolist() == [2, 2, 0, 0, 0]
    assert features.materialise("clicks").entities == 2
    found = features.get("clicks", [{"user": 1}, {"user": 2}, {"user": 3}])
    first, second, third = found.dicts()
    assert first == {"user": 1, "last_amount": 2.5, "last_click": datetime(2026, 11, 15, 19, tzinfo=UTC), "clicks_7d": 2}
    assert second["last_amount"] != second["last_amount"]  # NaN is a number again
    assert third == {"user": 3, "last_amount": None, "last_click": None, "clicks_7d": 0}
    frame = found.pandas()
    assert frame.columns.tolist() == ["user", "last_amount", "last_click", "clicks_7d"]
    assert features.get("clicks:clicks_7d", frame[["user"]]).rows == ((2,), (2,), (0,))
    append(small, 1, 49, 7.0)
    features.get("clicks", {"user": 1})
    asked = features.audit("clicks")  # what came late says that it was known before the earlier ones asked
    assert (asked.causes, asked.calls) == ({"stale": 3, "changed": 4}, 3)
    assert features.show("clicks").freshness.behind == 1
    assert features.delete("clicks") == ("clicks@1",)
    with pytest.raises(NotFound):
        features.show("clicks")


def test_as_many_entities_are_read_as_there_are(small: Platform) -> None:
    told(small)
    small.clock.forward(50 * HOUR)
    features = of(small)
    features.apply({"view": [CLICKS | {"log": 0}]})
    features.materialise("clicks", at=datetime(2026, 11, 17, 9, tzinfo=UTC))
    found = features.get(["clicks:clicks_7d"], pa.table({"user": range(2500)}))
    assert len(found) == 2500
    assert [number for number, (count,) in enumerate(found.rows) if count] == [1, 2]


def test_keys_of_all_kinds_are_told(small: Platform) -> None:
    moment = datetime(2026, 11, 1, tzinfo=UTC)
    keys = {"b": [b"\0\1"], "d": [date(2026, 1, 2)], "m": pa.array([moment], MOMENT), "t": ["ä"]}
    small.write(arrow(**keys, at=pa.array([moment], MOMENT)), dataset="things")
    features = of(small)
    features.apply(
        {"name": "v", "dataset": "things", "keys": list(keys), "event": "at", "features": {"n": {"function": "count"}}}
    )
    features.materialise("v")
    entity = {"b": b"\0\1", "d": date(2026, 1, 2), "m": moment, "t": "ä"}
    assert features.get("v", [entity]).rows == ((1,),)


REFUSED: dict[str, Any] = {
    "No entity": lambda features: features.get("clicks", []),
    "Entities are dictionaries": lambda features: features.get("clicks", "user"),
    "lacks 'dataset'": lambda features: features.apply({"name": "v"}),
    "defines no views": lambda features: features.apply({}),
    "a share from 0 to 1": lambda features: features.apply(CLICKS | {"log": 2}),
    "no moment": lambda features: features.materialise("clicks", at="yesterday"),
    "no time zone": lambda features: features.get("clicks", {"user": datetime.fromisoformat("2026-01-01T00:00")}),
}


@pytest.mark.parametrize("says", REFUSED)
def test_what_cannot_be_is_said_before_anything_is_asked(says: str) -> None:
    with pytest.raises(Invalid, match=says):
        REFUSED[says](falaj.features(project=PROJECT))
