"""Searching logged models: MLflow's language, orders and pages, on both databases."""

import math
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from falaj.base.clock import SECOND, Moment
from falaj.base.errors import Invalid
from falaj.tracking.operations import models
from tests.tracking.models.test_service import create
from tests.tracking.room import Caller, Room, metric


def make(caller: Caller, name: str, metrics: Any = None, *, data: str = "", digest: str = "", **fields: Any) -> str:
    """A model a second younger than the one before, with these metrics."""
    caller.room.now = Moment(caller.room.now + SECOND)
    model = create(caller, name, **fields).id
    measure(caller, model, metrics or {}, data=data, digest=digest)
    return model


def measure(caller: Caller, model: str, metrics: dict[str, float], *, at: int = 0, data: str = "", digest: str = "") -> None:
    if metrics:
        points = [metric(key, number, at=at) for key, number in metrics.items()]
        caller.log(caller.start(), *points, model=model, dataset_name=data, dataset_digest=digest)


def search(caller: Caller, filter: str = "", *order: models.ModelOrder, **fields: Any) -> list[str]:
    """The names of what was found, all pages of it."""
    found: list[str] = []
    cursor = ""
    while True:
        page = caller.call(models.SEARCH_LOGGED_MODELS, filter=filter, order=order, cursor=cursor, **fields)
        found += [one.name for one in page.items]
        if not page.next:
            return found
        cursor = page.next


def by(field: str, *, down: bool = False, data: str = "", digest: str = "") -> models.ModelOrder:
    dataset = models.MeasuredOn(name=data, digest=digest) if data else None
    return models.ModelOrder(field=field, ascending=not down, dataset=dataset)


@pytest.fixture
def zoo(amal: Caller) -> Caller:
    make(amal, "ant", {"auc": 0.5}, kind="tree", params={"depth": "2"}, tags={"team": "risk"})
    make(amal, "bee", {"auc": 0.7, "my loss": 1.5}, kind="tree", params={"depth": "4"}, tags={"team": "Risk"})
    make(amal, "cat", {"auc": math.nan}, kind="net", params={"depth": "8"})
    make(amal, "dog", kind="net", tags={"it's": "100%"})
    return amal


@pytest.mark.parametrize(
    ("filter", "expected"),
    [
        ("", "dog cat bee ant"),
        ("metrics.auc > 0.5", "bee"),
        ("metrics.auc >= 0.5 AND params.depth = '2'", "ant"),
        ("metrics.auc != 0.7", "ant"),
        ("metrics.`my loss` < 2", "bee"),
        ("params.depth != '4'", "cat ant"),
        ("params.depth IN ('2', '8')", "cat ant"),
        ("params.depth NOT IN ('2', '8')", "bee"),
        ("tags.team = 'risk'", "ant"),
        ("tags.team ILIKE 'RI%'", "bee ant"),
        ("tags.team LIKE 'Ri%'", "bee"),
        ("tags.team IS NULL", "dog cat"),
        ("tags.`it's` LIKE '1%'", "dog"),
        ("name = 'cat'", "cat"),
        ("attributes.name LIKE '%o%'", "dog"),
        ("model_type = 'net'", "dog cat"),
        ("status = 'PENDING' AND name != 'dog'", "cat bee ant"),
        ("metrics.auc > 0 AND metrics.auc < 0.6", "ant"),
        ("name = 'x'' OR 1=1 --'", ""),
        ("tags.team = 'risk''; DROP TABLE tracking_models; --'", ""),
    ],
)
def test_a_filter_finds_what_it_says(zoo: Caller, filter: str, expected: str) -> None:
    assert search(zoo, filter) == expected.split()


def test_times_are_compared_in_milliseconds(zoo: Caller) -> None:
    now = zoo.room.now // 1000
    for name in ("creation_time", "creation_timestamp", "creation_timestamp_ms", "last_updated_timestamp"):
        assert search(zoo, f"{name} >= {now - 1000}") == ["dog", "cat"]
        assert search(zoo, f"{name} < {now - 2000}") == ["ant"]


@pytest.mark.parametrize(
    "filter",
    [
        "nothing = 'x'",
        "metrics.auc = 'x'",
        "params.depth > 3",
        "name",
        "a.b = 'c'",
        "name = 'x' OR name = 'y'",
        "name = x",
        "datasets.name = 'x'",
    ],
)
def test_a_filter_that_means_nothing_is_refused(zoo: Caller, filter: str) -> None:
    with pytest.raises(Invalid, match="filter"):
        search(zoo, filter)


def test_orders_take_attributes_and_the_last_value_of_metrics(zoo: Caller) -> None:
    assert search(zoo, "", by("name")) == ["ant", "bee", "cat", "dog"]
    assert search(zoo, "", by("creation_timestamp")) == ["ant", "bee", "cat", "dog"]
    assert search(zoo, "", by("model_type"), by("name", down=True)) == ["dog", "cat", "bee", "ant"]
    assert search(zoo, "", by("metrics.auc")) == ["ant", "bee", "dog", "cat"]
    assert search(zoo, "", by("metrics.auc", down=True)) == ["bee", "ant", "dog", "cat"]
    assert search(zoo, "", by("metrics.my loss")) == ["bee", "dog", "cat", "ant"]
    ant = zoo.call(models.SEARCH_LOGGED_MODELS, filter="name = 'ant'").items[0].id
    measure(zoo, ant, {"auc": 0.9}, at=50)
    measure(zoo, ant, {"auc": 0.1}, at=20)
    assert search(zoo, "", by("metrics.auc", down=True))[:2] == ["ant", "bee"]
    for field in ("nothing", "params.depth", "tags.team", "metric.auc", "name; DROP TABLE x"):
        with pytest.raises(Invalid, match="order"):
            search(zoo, "", by(field))


def test_metrics_count_on_the_data_that_is_asked_for(amal: Caller) -> None:
    one, two = make(amal, "one"), make(amal, "two")
    make(amal, "three", {"auc": 0.99})
    measure(amal, one, {"auc": 0.9}, data="train", digest="1")
    measure(amal, one, {"auc": 0.2}, data="test", digest="1", at=9)
    measure(amal, two, {"auc": 0.5}, data="test", digest="2")
    on = [models.MeasuredOn(name="train"), models.MeasuredOn(name="test"), models.MeasuredOn(name="test", digest="2")]
    assert search(amal, "metrics.auc > 0.4", datasets=(on[0],)) == ["one"]
    assert search(amal, "metrics.auc > 0.4", datasets=(on[1],)) == ["two"]
    assert search(amal, "metrics.auc > 0.1", datasets=(on[0], on[2])) == ["two", "one"]
    assert search(amal, datasets=(on[1],)) == ["two", "one"]
    assert search(amal, "name != 'x'", datasets=(on[2],)) == ["two"]
    assert search(amal, "metrics.auc > 0.95", datasets=on[:2]) == []
    assert search(amal, "", by("metrics.auc", data="test")) == ["one", "two", "three"]
    assert search(amal, "", by("metrics.auc", down=True, data="train")) == ["one", "three", "two"]
    assert search(amal, "", by("metrics.auc", data="test", digest="2")) == ["two", "three", "one"]


def test_a_model_measured_often_is_found_once(amal: Caller) -> None:
    model = make(amal, "often")
    for number in range(5):
        measure(amal, model, {"auc": 0.5}, at=number, data=f"data {number}")
    assert search(amal, "metrics.auc > 0.1", limit=1) == ["often"]


def test_only_the_experiments_that_are_asked_for_are_searched(amal: Caller) -> None:
    number = amal.new_experiment("second")
    make(amal, "zero")
    make(amal, "first", experiment=number)
    assert search(amal) == ["zero"]
    assert search(amal, experiments=(0, number, 99)) == ["first", "zero"]
    assert search(amal, experiments=()) == []


def test_what_another_project_measures_counts_for_nothing_here(room: Room, amal: Caller) -> None:
    make(amal, "ours", {"auc": 0.1})
    make(room.caller("beta"), "theirs", {"auc": 0.9})
    assert search(amal, "metrics.auc > 0.05") == ["ours"]


def test_pages_show_each_model_once_though_new_ones_come(amal: Caller) -> None:
    for number in range(7):
        make(amal, f"{number}", {"auc": number % 3})
    for order in ((), (by("metrics.auc"),), (by("name", down=True),)):
        whole = search(amal, "", *order, limit=1000)
        assert search(amal, "", *order, limit=2) == whole
    first = amal.call(models.SEARCH_LOGGED_MODELS, limit=3)
    make(amal, "late")
    rest = amal.call(models.SEARCH_LOGGED_MODELS, limit=10, cursor=first.next)
    assert [one.name for one in (*first.items, *rest.items)] == ["6", "5", "4", "3", "2", "1", "0"]
    for cursor in ("x", "WzFd", first.next[:-2]):
        with pytest.raises(Invalid, match="cursor"):
            amal.call(models.SEARCH_LOGGED_MODELS, cursor=cursor)


@given(text=some.text(some.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=40))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_text_breaks_out_of_a_filter(zoo: Caller, text: str) -> None:
    quoted = text.replace("'", "''")
    assert search(zoo, f"name = '{quoted}'") == [name for name in ("dog", "cat", "bee", "ant") if name == text]
    try:
        search(zoo, text)
    except Invalid as refused:
        assert str(refused).startswith("The filter")  # noqa: PT017
