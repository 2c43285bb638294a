"""Runs: begun, told about, hidden, brought back and taken over."""

import pytest

from falaj.base.errors import Conflict, Invalid, NotFound
from falaj.tracking.operations import runs as declared
from falaj.tracking.operations.words import Param, Tag
from tests.tracking.room import EARLY, Caller, Room, metric, pairs


def test_a_run_is_shown_as_it_was_begun(amal: Caller) -> None:
    number = amal.new_experiment("churn")
    made = amal.call(
        declared.CREATE_RUN, experiment=number, name="first", user="amal", started=17, tags=(Tag(key="team", value="risk"),)
    )
    assert amal.show(made.info.id) == made
    assert made.info == declared.RunInfo(
        id=made.info.id,
        experiment=number,
        name="first",
        user="amal",
        status="RUNNING",
        started=17,
        ended=None,
        deleted=False,
        created=EARLY,
        created_by=amal.identity.principal,
    )
    assert made.tags == (Tag(key="mlflow.runName", value="first"), Tag(key="team", value="risk"))


def test_a_run_that_says_little_begins_now_in_the_first_experiment_under_a_friendly_name(amal: Caller) -> None:
    info = amal.call(declared.CREATE_RUN).info
    assert (info.experiment, info.started) == (0, EARLY // 1000)
    how, what, number = info.name.split("-")
    assert how.isalpha()
    assert what.isalpha()
    assert number.isdigit()
    assert amal.tags(info.id) == {"mlflow.runName": info.name}
    assert amal.call(declared.CREATE_RUN).info.name != info.name


def test_the_name_and_its_tag_stay_in_step(amal: Caller) -> None:
    run = amal.call(declared.CREATE_RUN, tags=(Tag(key="mlflow.runName", value="tagged"),)).info.id
    assert amal.show(run).info.name == "tagged"
    amal.log(run, tags={"mlflow.runName": "again"})
    assert amal.show(run).info.name == "again"
    assert amal.call(declared.UPDATE_RUN, run=run, name="updated").name == "updated"
    assert amal.tags(run) == {"mlflow.runName": "updated"}
    amal.log(run, tags={"mlflow.runName": "", "other": "x"})
    assert amal.show(run).info.name == "updated"
    assert amal.tags(run) == {"mlflow.runName": "updated", "other": "x"}
    with pytest.raises(Invalid, match="give one name"):
        amal.call(declared.CREATE_RUN, name="a", tags=(Tag(key="mlflow.runName", value="b"),))
    amal.call(declared.CREATE_RUN, name="a", tags=(Tag(key="mlflow.runName", value="a"),))


def test_an_update_changes_only_what_it_names(amal: Caller) -> None:
    run = amal.start("a")
    assert amal.call(declared.UPDATE_RUN, run=run, status="FINISHED").status == "FINISHED"
    info = amal.call(declared.UPDATE_RUN, run=run, ended=99)
    assert (info.status, info.ended, info.name) == ("FINISHED", 99, "a")
    assert amal.show(run).info == info


def test_a_params_value_is_written_once(amal: Caller) -> None:
    run = amal.start()
    amal.log(run, params={"depth": "4", "rate": "0.1"})
    amal.log(run, params={"depth": "4", "seed": "7"})
    with pytest.raises(Invalid, match="'depth' was logged before as '4' and cannot change to '5'"):
        amal.log(run, metric("auc", 1), params={"other": "1", "depth": "5"}, tags={"t": "1"})
    assert amal.params(run) == {"depth": "4", "rate": "0.1", "seed": "7"}
    assert amal.last(run) == {}
    assert set(amal.tags(run)) == {"mlflow.runName"}


def test_a_param_twice_in_one_request_must_be_the_same(amal: Caller) -> None:
    run = amal.start()
    with pytest.raises(Invalid, match="given twice in one request, as '4' and as '5'"):
        amal.call(declared.LOG_TO_RUN, run=run, params=(Param(key="a", value="4"), Param(key="a", value="5")))
    amal.call(declared.LOG_TO_RUN, run=run, params=(Param(key="a", value="4"), Param(key="a", value="4")))
    assert amal.params(run) == {"a": "4"}


def test_a_refusal_does_not_repeat_a_long_param(amal: Caller) -> None:
    run = amal.start()
    amal.log(run, params={"text": "x" * 6000})
    with pytest.raises(Invalid, match=r"6000 characters") as refusal:
        amal.log(run, params={"text": "y" * 6000})
    assert len(str(refusal.value)) < 500
    assert amal.params(run) == {"text": "x" * 6000}


def test_the_last_of_a_tags_values_counts(amal: Caller) -> None:
    run = amal.start("a")
    amal.log(run, tags={"stage": "early", "note": "ü 💧 'quoted'\n"})
    amal.call(declared.LOG_TO_RUN, run=run, tags=(Tag(key="stage", value="middle"), Tag(key="stage", value="late")))
    assert amal.tags(run) == {"mlflow.runName": "a", "note": "ü 💧 'quoted'\n", "stage": "late"}
    amal.call(declared.UNTAG_RUN, run=run, key="stage")
    with pytest.raises(NotFound, match="no tag 'stage'"):
        amal.call(declared.UNTAG_RUN, run=run, key="stage")


def test_a_thousand_of_each_come_in_at_once(amal: Caller) -> None:
    run = amal.start()
    many = {f"key {number:04}": str(number) for number in range(999)}
    amal.log(run, *(metric(key, float(value)) for key, value in many.items()), params=many, tags=many)
    assert amal.params(run) == many
    assert amal.tags(run).items() >= many.items()
    assert amal.last(run) == {key: float(value) for key, value in many.items()}


def test_another_projects_run_is_as_unknown_as_none(room: Room, amal: Caller) -> None:
    run = amal.start()
    badr = room.caller("beta")
    calls = (
        (declared.SHOW_RUN, {}),
        (declared.UPDATE_RUN, {"status": "KILLED"}),
        (declared.LOG_TO_RUN, {"metrics": (metric("a", 1),)}),
        (declared.UNTAG_RUN, {"key": "mlflow.runName"}),
        (declared.LOG_INPUTS, {}),
        (declared.LOG_OUTPUTS, {}),
        (declared.DELETE_RUN, {}),
        (declared.RESTORE_RUN, {}),
        (declared.READ_HISTORY, {"key": "a"}),
    )
    for operation, fields in calls:
        refusals = []
        for unknown in (run, "f" * 32):
            with pytest.raises(NotFound) as refusal:
                badr.call(operation, run=unknown, **fields)
            refusals.append(str(refusal.value).replace(unknown, "RUN"))
        assert refusals[0] == refusals[1]
    with pytest.raises(NotFound):
        badr.call(declared.READ_CURVES, runs=(run,), keys=("a",))
    assert badr.search() == []
    assert amal.show(run).info.status == "RUNNING"


def test_a_deleted_run_is_hidden_and_takes_nothing(amal: Caller) -> None:
    run, other = amal.start("a"), amal.start("b")
    amal.call(declared.DELETE_RUN, run=run)
    assert amal.search() == ["b"]
    assert amal.search(state="deleted") == ["a"]
    assert set(amal.search(state="all")) == {"a", "b"}
    assert amal.show(run).info.deleted is True
    for operation, fields in (
        (declared.UPDATE_RUN, {"status": "FINISHED"}),
        (declared.LOG_TO_RUN, {"metrics": (metric("a", 1),)}),
        (declared.UNTAG_RUN, {"key": "mlflow.runName"}),
        (declared.LOG_INPUTS, {}),
        (declared.LOG_OUTPUTS, {}),
    ):
        with pytest.raises(Invalid, match="must be in the 'active' state"):
            amal.call(operation, run=run, **fields)
    amal.call(declared.DELETE_RUN, run=run)
    amal.call(declared.RESTORE_RUN, run=run)
    amal.call(declared.RESTORE_RUN, run=run)
    assert amal.show(run).info.status == "RUNNING"
    assert set(amal.search()) == {"a", "b"}
    assert amal.show(other).info.deleted is False


def imported(amal: Caller, run: str, **fields: object) -> declared.RunInfo:
    given = {"experiment": 0, "status": "FINISHED", "started": 5, "ended": 9, **fields}
    return amal.call(declared.IMPORT_RUN, run=run, **given)


def test_a_run_is_taken_over_whole_and_once(amal: Caller) -> None:
    run = "0123456789abcdef" * 2
    data = declared.DatasetInput(
        dataset=declared.Dataset(name="iris", digest="d1"), tags=(Tag(key="mlflow.data.context", value="train"),)
    )
    fields = {"name": "old", "user": "badr", "params": pairs(Param, {"a": "1"}), "datasets": (data,)}
    info = imported(amal, run, tags=pairs(Tag, {"mlflow.runName": "old", "t": "1"}), **fields)
    assert (info.id, info.name, info.user, info.status, info.started, info.ended) == (run, "old", "badr", "FINISHED", 5, 9)
    amal.log(run, metric("auc", 0.5, step=3, at=7))
    shown = amal.show(run)
    assert imported(amal, run, name="new", params=pairs(Param, {"a": "2"})) == info
    assert amal.show(run) == shown
    assert (amal.params(run), amal.tags(run)) == ({"a": "1"}, {"mlflow.runName": "old", "t": "1"})
    assert shown.datasets == (data,)


def test_a_run_that_comes_deleted_stays_so_and_takes_what_follows(amal: Caller) -> None:
    run = "0123456789abcdef" * 2
    assert imported(amal, run, deleted=True).deleted is True
    amal.log(run, metric("auc", 0.5))
    assert amal.last(run) == {"auc": 0.5}
    assert amal.search() == []
    amal.call(declared.RESTORE_RUN, run=run)
    assert len(amal.search()) == 1
    amal.call(declared.DELETE_RUN, run=run)
    with pytest.raises(Invalid, match="'active' state"):
        amal.log(run, metric("auc", 0.6))


def test_two_projects_may_take_over_the_same_run(room: Room, amal: Caller) -> None:
    run, badr = "0123456789abcdef" * 2, room.caller("beta")
    imported(amal, run, name="ours")
    imported(badr, run, name="theirs")
    amal.log(run, metric("auc", 0.5))
    assert (amal.show(run).info.name, badr.show(run).info.name) == ("ours", "theirs")
    assert (amal.last(run), badr.last(run)) == ({"auc": 0.5}, {})


def test_nothing_is_taken_over_into_an_experiment_that_is_not_there(amal: Caller) -> None:
    with pytest.raises(NotFound):
        imported(amal, "f" * 32, experiment=9)


def test_an_id_that_exists_already_is_refused_not_overwritten(amal: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    run = amal.start("a")
    monkeypatch.setattr("falaj.tracking.runs.new_id", lambda now: run)
    with pytest.raises(Conflict):
        amal.start("b")
    assert amal.show(run).info.name == "a"
