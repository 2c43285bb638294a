"""Values that are kept for serving: those of a training set of that moment, to the bit, and nothing that is too old."""

import io
import struct
from typing import Any

import pytest

from falaj.base.clock import HOUR, Moment
from falaj.base.errors import Conflict, Forbidden, Invalid, NotFound
from falaj.datasets.features.working import Lines, rows_of
from falaj.datasets.operations import classes, features
from falaj.datasets.workers import WorkerFailed
from falaj.governance.roles import Role
from falaj.tables.joining.views import Feature, Key
from falaj.tables.schemas import Column, Schema
from tests.datasets.features.stories import CLICKS, FEATURES, applied, clicks, joined, labels, told
from tests.datasets.platform import PROJECT, START, Platform

ALL = (
    *FEATURES,
    Feature(name="mean", column="amount", function="mean", period=100 * HOUR),
    Feature(name="least", column="amount", function="min"),
    Feature(name="most", column="amount", function="max"),
    Feature(name="different", column="amount", function="distinct"),
    Feature(name="latest", column="happened"),
)


def materialised(platform: Platform, moment: Moment | None = None, token: str = "", **fields: Any) -> features.Materialised:
    request = features.Materialise(**{"project": PROJECT, "view": "by-user", "moment": moment, **fields})
    return platform.call(features.MATERIALISE, request, token)


def got(platform: Platform, *entities: Any, of: tuple[str, ...] = ("by-user",), token: str = "") -> features.FeatureValues:
    some = tuple(one if isinstance(one, dict) else {"user": one} for one in entities)
    return platform.call(features.GET_FEATURES, features.GetFeatures(project=PROJECT, features=of, entities=some), token)


@pytest.mark.parametrize("hours", [5, 25, 45, 310])
def test_what_is_served_of_a_moment_is_the_training_set_of_that_moment(small: Platform, hours: int) -> None:
    moment = Moment(START + hours * HOUR)
    small.clock.forward(hours * HOUR)
    small.write(clicks(), dataset="clicks")
    users = [1, 2, 3, None]
    small.write(labels({"user": users, "asked": [hours] * 4}), dataset="labels")
    applied(small, features=ALL)
    done = materialised(small, moment)
    assert (done.entities, done.source, done.view) == (2, "clicks@1", "by-user@1")
    joined(small)
    expected = [row[2:] for row in small.rows(name="training")]
    found = got(small, *users)
    assert [column.name for column in found.views[0].columns] == [feature.name for feature in ALL]
    assert [[as_bits(one) for one in row] for row in found.rows] == [[as_bits(one) for one in row] for row in expected]
    assert found.views[0].moment == moment


def as_bits(one: Any) -> Any:
    """Through JSON a NaN is a word, and a moment is text."""
    if one == "nan":
        one = float("nan")
    if isinstance(one, float):
        return struct.pack("<d", one)
    return one.isoformat().replace("+00:00", "Z") if hasattr(one, "isoformat") else one


def test_what_is_too_old_by_now_is_served_as_nothing(small: Platform) -> None:
    told(small)
    applied(small, time_to_live=30 * HOUR)
    small.clock.forward(45 * HOUR)
    materialised(small)
    assert got(small, 2).rows == (("nan", 2, "nan", 1),)
    assert got(small, 2).events == ((Moment(START + 40 * HOUR),),)
    small.clock.forward(30 * HOUR)
    assert (got(small, 2).rows, got(small, 2).events) == (((None, 0, None, 0),), ((None,),))


def test_materialising_again_changes_nothing_and_goes_forward_only(platform: Platform) -> None:
    told(platform)
    applied(platform)
    platform.clock.forward(50 * HOUR)
    moment = Moment(START + 50 * HOUR)
    assert materialised(platform, moment).written == 2
    before = got(platform, 1, 2)
    assert materialised(platform, moment).written == 0
    assert got(platform, 1, 2) == before
    with pytest.raises(Conflict, match="only goes forward"):
        materialised(platform, Moment(moment - 1))
    with pytest.raises(Invalid, match="lies ahead"):
        materialised(platform, Moment(moment + HOUR))
    shown = platform.call(features.SHOW_VIEW, features.OneView(project=PROJECT, view="by-user"))
    assert shown.materialised == moment


def test_an_entity_that_was_deleted_is_served_no_more(small: Platform) -> None:
    told(small)
    applied(small)
    small.clock.forward(50 * HOUR)
    materialised(small)
    small.commit(small.open("delete", "clicks", where="user = 2"), 0)
    assert materialised(small).entities == 1
    assert got(small, 2).rows == ((None, 0, None, 0),)
    assert got(small, 1).rows != ((None, 0, None, 0),)


def test_what_is_made_of_columns_that_somebody_may_not_see_is_not_served_to_him(small: Platform) -> None:
    told(small)
    applied(small)
    materialised(small)
    viewer, hidden = small.person("amal", Role.VIEWER), (classes.Classified(column="amount", kind="sensitive"),)
    request = classes.ClassifyColumns(project=PROJECT, dataset="clicks", columns=hidden)
    small.call(classes.CLASSIFY_COLUMNS, request)
    with pytest.raises(Forbidden, match="may not see \\(amount\\)"):
        got(small, 1, token=viewer)
    assert got(small, 1, of=("by-user:clicks",), token=viewer).rows == ((1,),)
    assert got(small, 1).rows


def test_nothing_is_served_of_a_dataset_that_was_deleted(platform: Platform) -> None:
    told(platform)
    applied(platform)
    materialised(platform)
    platform.delete("clicks")
    with pytest.raises(NotFound, match="no dataset 'clicks' here"):
        got(platform, 1)
    platform.write(clicks({"user": [5], "happened": [0], "seen": [0], "amount": [1.0]}), dataset="clicks")
    with pytest.raises(Conflict, match="is another one now"):
        got(platform, 1)
    platform.clock.forward(HOUR)
    materialised(platform)
    assert got(platform, 1, 5).rows == ((None, 0, None, 0), (1.0, 1, 1.0, 1))


def test_columns_that_widen_are_served_beside_the_old_ones(small: Platform) -> None:
    small.write(clicks({"user": [1], "happened": [0], "seen": [0], "amount": [3]}), dataset="clicks")
    one = (Feature(name="amount", column="amount"),)
    applied(small, features=one)
    for amount, kind in ((3, "int64"), (2.5, "float64"), (4.5, "float64")):
        small.clock.forward(HOUR)
        if kind == "float64":
            rows = {"user": [1], "happened": [0], "seen": [0], "amount": [amount]}
            small.write(clicks(rows), dataset="clicks", mode="overwrite")
        materialised(small)
        found = got(small, 1)
        assert (found.rows, found.views[0].columns[0].type) == (((amount,),), kind)


def test_a_new_version_is_served_once_it_is_materialised(small: Platform) -> None:
    told(small)
    applied(small)
    with pytest.raises(Conflict, match="was not materialised yet"):
        got(small, 1)
    small.clock.forward(50 * HOUR)
    materialised(small)
    applied(small, features=FEATURES[1:2])
    assert got(small, 1).views[0].view == "by-user@1"
    materialised(small)
    assert got(small, 1).views[0].view == "by-user@2"
    assert got(small, 1, of=("by-user@1:clicks",)).rows == ((2,),)


def test_several_views_with_keys_of_their_own_are_read_at_once(small: Platform) -> None:
    small.write(clicks({**CLICKS, "day": ["a", "a", "b", "b", "b"]}), dataset="clicks")
    applied(small, features=FEATURES[1:2])
    applied(small, view="by-day", keys=(Key(column="day", label="on"),), features=(Feature(name="all", function="count"),))
    small.clock.forward(50 * HOUR)
    materialised(small)
    materialised(small, view="by-day")
    found = got(small, {"user": 1, "on": "b"}, {"user": 9, "on": "a"}, of=("by-user", "by-day"))
    assert found.rows == ((2, 2), (0, 2))
    with pytest.raises(Invalid, match=r"Entity 1 has no 'on'\. It has user"):
        got(small, 1, of=("by-day",))
    with pytest.raises(Invalid, match="Entity 2 has color, by which no view"):
        got(small, 1, {"user": 1, "color": 3})
    with pytest.raises(Invalid, match="'user' is of type int64"):
        got(small, "one")


def test_another_project_reads_nothing(small: Platform) -> None:
    told(small)
    applied(small)
    materialised(small)
    small.project("other")
    stranger = small.person("zayd", Role.SCIENTIST, project="other")
    with pytest.raises((Forbidden, NotFound)):
        got(small, 1, token=stranger)
    request = features.GetFeatures(project="other", features=("by-user",), entities=({"user": 1},))
    with pytest.raises(NotFound, match="no feature view 'by-user' here"):
        small.call(features.GET_FEATURES, request, stranger)
    with pytest.raises(NotFound):
        materialised(small, token=stranger, project="other")
    viewer = small.person("amal", Role.VIEWER)
    assert got(small, 1, token=viewer).rows
    with pytest.raises(Forbidden):
        materialised(small, token=viewer)


@pytest.mark.parametrize(
    "said", [b"", b"[1, 2", b"[1]\n", b"[1, 4, 7, 8]\n", b'[1, "a", 0, 0]\n', b'[1, 5, "now", 0]\n', b"7\n"]
)
def test_a_worker_that_says_nonsense_is_not_believed(said: bytes) -> None:
    schema = Schema(columns=(Column(name="user", type="int64"), Column(name="amount", type="float64")))
    with pytest.raises(WorkerFailed):
        list(rows_of(Lines(file=io.BytesIO(said), schema=schema, rows=2)))
