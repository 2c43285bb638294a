"""The columns of the runs table."""

import pytest

from falaj.base.clock import Moment
from falaj.tracking.operations.runs import Keys, Run, RunInfo
from falaj.tracking.operations.words import Metric, Param
from falaj.web.experiments.columns import STARTED, Column, by_kind, chosen, header, worth_seeing


def run(params: dict[str, str], metrics: dict[str, float]) -> Run:
    info = RunInfo(
        id="0" * 32,
        experiment=0,
        name="",
        user="",
        status="FINISHED",
        started=0,
        ended=None,
        deleted=False,
        created=Moment(0),
        created_by="",
    )
    return Run(
        info=info,
        params=tuple(Param(key=key, value=value) for key, value in params.items()),
        tags=(),
        metrics=tuple(Metric(key=key, value=value, timestamp=0) for key, value in metrics.items()),
    )


def auc(name: str = "auc") -> Column:
    return Column(kind="metrics", name=name)


def test_the_first_click_brings_the_best_to_the_top_and_the_next_turns_around() -> None:
    assert header(auc(), "").order == "metrics.auc DESC"
    assert header(auc("val_loss"), "").order == "metrics.val_loss ASC"
    first = header(auc(), "metrics.auc DESC")
    assert (first.order, first.sorted) == ("metrics.auc ASC", "descending")
    second = header(auc(), "metrics.auc ASC")
    assert (second.order, second.sorted) == ("metrics.auc DESC", "ascending")


def test_without_an_order_the_newest_come_first_and_the_header_says_so() -> None:
    assert header(STARTED, "").sorted == "descending"
    assert header(STARTED, "").order == "attributes.start_time ASC"
    assert header(STARTED, "metrics.auc DESC").sorted == "none"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("auc", "metrics.auc"),
        ("val/auc", "metrics.`val/auc`"),
        ("val auc", "metrics.`val auc`"),
        ("a`b", 'metrics."a`b"'),
        ('a`b"c', None),
    ],
)
def test_a_name_is_quoted_where_the_language_needs_it(name: str, words: str | None) -> None:
    assert auc(name).words == words
    assert bool(header(auc(name), "").order) == (words is not None)


def test_the_address_names_columns_and_what_is_none_is_left_out() -> None:
    asked = [
        "metrics.auc",
        "params.a.b",
        "tags.team",
        "metrics.auc",
        "nonsense",
        "metrics.",
        "attributes.x",
        "metrics." + "n" * 251,
    ]
    assert [column.key for column in chosen(asked)] == ["metrics.auc", "params.a.b", "tags.team"]


def test_at_first_one_sees_metrics_most_runs_have_and_parameters_that_differ() -> None:
    runs = [
        run({"depth": "3", "seed": "1"}, {"auc": 0.9, "system/cpu": 4.0}),
        run({"depth": "4", "seed": "1"}, {"auc": 0.8, "rare": 1.0}),
    ]
    assert [column.key for column in worth_seeing(runs)] == ["metrics.auc", "metrics.rare", "params.depth"]
    assert [column.key for column in worth_seeing(runs[:1])] == ["metrics.auc", "params.depth", "params.seed"]


def test_what_one_may_choose_comes_with_what_machines_wrote_last() -> None:
    keys = Keys(metrics=("system/cpu", "auc"), params=("b", "a"), tags=("mlflow.user", "team"))
    found = by_kind(keys)
    assert [column.name for column in found["metrics"]] == ["auc", "system/cpu"]
    assert [column.name for column in found["tags"]] == ["team", "mlflow.user"]
    assert [column.name for column in found["params"]] == ["a", "b"]
