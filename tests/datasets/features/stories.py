"""What the tests of feature views do over and over, on a real platform: clicks of users, and labels about them."""

from typing import Any

import pyarrow as pa

from falaj.base.clock import HOUR, Moment
from falaj.datasets.operations import features
from falaj.datasets.operations.versions import Version
from falaj.tables.joining.views import Feature, Key
from falaj.tables.moments import MOMENT
from tests.datasets.platform import PROJECT, START, Platform, arrow

CLICKS = {
    "user": [1, 1, 2, 1, 2],
    "happened": [0, 10, 20, 30, 40],
    "seen": [0, 10, 20, 300, 40],  # the fourth became known long after it happened
    "amount": [1.5, 2.5, None, 100.0, float("nan")],
}
LABELS = {"user": [2, 1, 3, 1, None], "asked": [45, 35, 35, 400, 1], "bought": [True, False, True, True, False]}
FEATURES = (
    Feature(name="last_amount", column="amount"),
    Feature(name="clicks", function="count"),
    Feature(name="spent", column="amount", function="sum"),
    Feature(name="recent", function="count", period=15 * HOUR),
)


def at(hours: list[int | None], since: Moment = START) -> pa.Array:
    return pa.array([None if one is None else since + one * HOUR for one in hours], pa.int64()).cast(MOMENT)


def clicks(rows: dict[str, list[Any]] | None = None, **more: Any) -> bytes:
    given = {**(rows or CLICKS), **more}
    return arrow(**{name: at(some) if name in ("happened", "seen") else some for name, some in given.items()})


def labels(rows: dict[str, list[Any]] | None = None, **more: Any) -> bytes:
    given = {**(rows or LABELS), **more}
    return arrow(**{name: at(some) if name == "asked" else some for name, some in given.items()})


def told(platform: Platform) -> tuple[Version, Version]:
    return platform.write(clicks(), dataset="clicks"), platform.write(labels(), dataset="labels")


def view(**fields: Any) -> features.ApplyView:
    given = {
        "project": PROJECT,
        "view": "by-user",
        "dataset": "clicks",
        "keys": (Key(column="user"),),
        "event": "happened",
        "known": "seen",
        "features": FEATURES,
        **fields,
    }
    return features.ApplyView(**given)


def applied(platform: Platform, token: str = "", **fields: Any) -> features.FeatureView:
    return platform.call(features.APPLY_VIEW, view(**fields), token)


def joined(platform: Platform, *references: str, token: str = "", **fields: Any) -> features.TrainingSet:
    given = {
        "project": PROJECT,
        "labels": "labels",
        "time": "asked",
        "features": references or ("by-user",),
        "into": "training",
        **fields,
    }
    return platform.call(features.MAKE_TRAINING_SET, features.MakeTrainingSet(**given), token)
