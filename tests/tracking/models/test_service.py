"""Logged models as a caller sees them, on both databases."""

import math
import threading
from typing import Any

import pytest

from falaj.base.clock import SECOND, Moment
from falaj.base.errors import FalajError, Invalid, NotFound
from falaj.lineage.graph import Node, ancestors
from falaj.tracking.operations import experiments, models, runs
from falaj.tracking.operations.words import Param, Tag
from tests.tracking.room import Caller, Room, metric, pairs

UNKNOWN = "m-" + "0" * 32


def create(caller: Caller, name: str = "", *, params: Any = None, tags: Any = None, **fields: Any) -> models.LoggedModel:
    given = {"params": pairs(Param, params or {}), "tags": pairs(Tag, tags or {})}
    return caller.call(models.CREATE_LOGGED_MODEL, name=name, **given, **fields)


def show(caller: Caller, model: str) -> models.LoggedModel:
    return caller.call(models.SHOW_LOGGED_MODEL, model=model)


def params_of(model: models.LoggedModel) -> dict[str, str]:
    return {param.key: param.value for param in model.params}


def tags_of(model: models.LoggedModel) -> dict[str, str]:
    return {tag.key: tag.value for tag in model.tags}


def test_a_model_is_shown_as_it_was_announced(amal: Caller) -> None:
    run = amal.start("train")
    made = create(amal, "forest", kind="sklearn", run=run, params={"depth": "4"}, tags={"team": "risk"})
    assert made.id.startswith("m-")
    assert (made.name, made.kind, made.run, made.status, made.experiment) == ("forest", "sklearn", run, "PENDING", 0)
    assert (params_of(made), tags_of(made), made.metrics) == ({"depth": "4"}, {"team": "risk"}, ())
    assert (made.created, made.changed, made.created_by) == (amal.room.now, amal.room.now, amal.identity.principal)
    assert show(amal, made.id) == made


def test_a_model_without_a_name_gets_one_and_names_need_not_differ(amal: Caller) -> None:
    assert create(amal).name
    assert create(amal, "same").id != create(amal, "same").id


@pytest.mark.parametrize("name", ["a/b", "a:b", "a.b", "a%b", 'a"b', "a'b", "..", "/"])
def test_a_name_that_addresses_could_not_hold_is_refused(amal: Caller, name: str) -> None:
    with pytest.raises(Invalid, match="model name"):
        create(amal, name)


def test_a_model_belongs_to_an_experiment_that_takes_it(amal: Caller) -> None:
    with pytest.raises(NotFound, match="has no experiment 7"):
        create(amal, experiment=7)
    number = amal.new_experiment("mine")
    assert create(amal, experiment=number).experiment == number
    amal.call(experiments.DELETE_EXPERIMENT, experiment=number)
    with pytest.raises(Invalid, match="deleted"):
        create(amal, experiment=number)


def test_a_model_comes_from_a_run_of_its_own_project(room: Room, amal: Caller) -> None:
    foreign = room.caller("beta").start("theirs")
    for run in (foreign, "0" * 32):
        with pytest.raises(NotFound, match="has no run"):
            create(amal, run=run)
    run = amal.start("train")
    model = create(amal, "forest", run=run)
    walk = amal.read(lambda work: ancestors(work, amal.facts.id, Node(kind="model", id=model.id)))
    assert walk.nodes == (Node(kind="run", id=run, label="train"),)
    amal.call(runs.LOG_OUTPUTS, run=run, models=(runs.ModelOutput(model=model.id),))
    again = amal.read(lambda work: ancestors(work, amal.facts.id, Node(kind="model", id=model.id)))
    assert again.edges == walk.edges  # said by the model and by the run, it is one thing


def test_another_projects_model_does_not_exist(room: Room, amal: Caller) -> None:
    model, stranger = create(amal, tags={"a": "1"}).id, room.caller("beta")
    calls: list[tuple[Any, dict[str, Any]]] = [
        (models.SHOW_LOGGED_MODEL, {}),
        (models.FINISH_LOGGED_MODEL, {"status": "READY"}),
        (models.DELETE_LOGGED_MODEL, {}),
        (models.TAG_LOGGED_MODEL, {"tags": (Tag(key="a", value="2"),)}),
        (models.UNTAG_LOGGED_MODEL, {"key": "a"}),
        (models.LOG_MODEL_PARAMS, {"params": (Param(key="b", value="2"),)}),
    ]
    for operation, fields in calls:
        with pytest.raises(NotFound) as refused:
            stranger.call(operation, model=model, **fields)
        with pytest.raises(NotFound) as absent:
            stranger.call(operation, model=UNKNOWN, **fields)
        assert str(refused.value).replace(model, "") == str(absent.value).replace(UNKNOWN, "")
    assert stranger.call(models.SEARCH_LOGGED_MODELS).items == ()
    assert tags_of(show(amal, model)) == {"a": "1"}


def test_a_model_is_finished_or_has_failed(amal: Caller) -> None:
    model = create(amal).id
    amal.room.now = Moment(amal.room.now + SECOND)
    ready = amal.call(models.FINISH_LOGGED_MODEL, model=model, status="READY")
    assert (ready.status, ready.changed - ready.created) == ("READY", SECOND)
    assert amal.call(models.FINISH_LOGGED_MODEL, model=model, status="UPLOAD_FAILED").status == "UPLOAD_FAILED"


def test_a_deleted_model_is_hidden(amal: Caller) -> None:
    model, other = create(amal).id, create(amal).id
    amal.call(models.DELETE_LOGGED_MODEL, model=model)
    with pytest.raises(NotFound):
        show(amal, model)
    with pytest.raises(NotFound):
        amal.call(models.DELETE_LOGGED_MODEL, model=model)
    assert [found.id for found in amal.call(models.SEARCH_LOGGED_MODELS).items] == [other]


def test_tags_are_set_again_and_removed_and_the_last_of_one_request_counts(amal: Caller) -> None:
    model = create(amal, tags={"a": "1", "b": "1"}).id
    given = (Tag(key="a", value="2"), Tag(key="c", value="x"), Tag(key="c", value="3"))
    assert tags_of(amal.call(models.TAG_LOGGED_MODEL, model=model, tags=given)) == {"a": "2", "b": "1", "c": "3"}
    amal.call(models.UNTAG_LOGGED_MODEL, model=model, key="b")
    with pytest.raises(NotFound, match="no tag 'b'"):
        amal.call(models.UNTAG_LOGGED_MODEL, model=model, key="b")
    assert tags_of(show(amal, model)) == {"a": "2", "c": "3"}
    assert amal.call(models.TAG_LOGGED_MODEL, model=model, tags=()).tags == show(amal, model).tags


def test_a_param_is_written_once(amal: Caller) -> None:
    model = create(amal, params={"depth": "4"}).id
    log = [Param(key="depth", value="4"), Param(key="rate", value="0.1")]
    for _ in range(2):  # the answer may have been lost
        amal.call(models.LOG_MODEL_PARAMS, model=model, params=tuple(log))
    with pytest.raises(Invalid, match="cannot change"):
        amal.call(models.LOG_MODEL_PARAMS, model=model, params=(Param(key="new", value="1"), Param(key="rate", value="9")))
    with pytest.raises(Invalid, match="given twice"):
        amal.call(models.LOG_MODEL_PARAMS, model=model, params=(Param(key="x", value="1"), Param(key="x", value="2")))
    with pytest.raises(Invalid, match="given twice"):
        amal.call(models.CREATE_LOGGED_MODEL, params=(Param(key="x", value="1"), Param(key="x", value="2")))
    assert params_of(show(amal, model)) == {"depth": "4", "rate": "0.1"}


def test_metrics_of_a_model_come_with_run_and_data(amal: Caller) -> None:
    model = create(amal).id
    trained, checked = amal.start("train"), amal.start("check")
    amal.log(trained, metric("auc", 0.9, step=1, at=10), model=model, dataset_name="iris", dataset_digest="d1")
    amal.log(checked, metric("auc", math.nan, step=2, at=20), metric("loss", math.inf), model=model)
    amal.log(checked, metric("other", 1.0))
    found = show(amal, model).metrics
    told = [
        (one.metric.key, one.metric.step, one.metric.timestamp, one.run, one.dataset_name, one.dataset_digest) for one in found
    ]
    assert told == [("auc", 1, 10, trained, "iris", "d1"), ("auc", 2, 20, checked, "", ""), ("loss", 0, 0, checked, "", "")]
    assert [one.metric.value for one in found][::2] == [0.9, math.inf]
    assert math.isnan(found[1].metric.value)


def test_two_who_tag_and_log_at_once_both_count(amal: Caller) -> None:
    model, failures = create(amal).id, []
    together = threading.Barrier(6)

    def change(number: int) -> None:
        together.wait()
        try:
            amal.call(models.TAG_LOGGED_MODEL, model=model, tags=(Tag(key="same", value=f"{number}"), Tag(key=f"{number}")))
            amal.call(models.LOG_MODEL_PARAMS, model=model, params=(Param(key="same", value="1"), Param(key=f"{number}")))
        except FalajError as error:
            failures.append(error)

    threads = [threading.Thread(target=change, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert len(show(amal, model).tags) == len(show(amal, model).params) == 7
