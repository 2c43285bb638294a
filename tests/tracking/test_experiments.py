"""Experiments: numbered by project, named once, hidden with their runs and brought back with exactly those."""

import threading

import pytest

from falaj.base.clock import Moment
from falaj.base.errors import Conflict, Invalid, NotFound
from falaj.tracking.operations import experiments as declared
from falaj.tracking.operations import runs
from falaj.tracking.operations.words import Tag
from tests.tracking.room import EARLY, Caller, Room


def test_every_project_has_the_first_experiment_before_anything_is_written(amal: Caller) -> None:
    first = amal.experiment(0)
    assert (first.id, first.name, first.deleted, first.tags) == (0, "Default", False, ())
    assert amal.call(declared.FIND_EXPERIMENT, name="Default") == first
    assert amal.experiments() == ["Default"]


def test_experiments_are_numbered_within_their_project(room: Room, amal: Caller) -> None:
    assert [amal.new_experiment(name) for name in ("a", "b", "c")] == [1, 2, 3]
    assert room.caller("beta").new_experiment("a") == 1
    shown = amal.experiment(2)
    assert (shown.name, shown.created, shown.changed, shown.created_by) == ("b", EARLY, EARLY, amal.identity.principal)


def test_a_name_is_given_once_among_all_even_deleted_ones(amal: Caller) -> None:
    number = amal.new_experiment("churn")
    for name in ("churn", "Default"):
        with pytest.raises(Conflict, match=f"named '{name}' already exists"):
            amal.new_experiment(name)
    amal.call(declared.DELETE_EXPERIMENT, experiment=number)
    with pytest.raises(Conflict, match="is deleted: restore it"):
        amal.new_experiment("churn")


def test_of_those_who_create_the_same_name_at_once_one_wins(room: Room) -> None:
    people = [room.caller(person=f"p{number}") for number in range(6)]
    together, made, refused = threading.Barrier(6), [], []

    def create(caller: Caller, own: str) -> None:
        together.wait()
        made.append(caller.new_experiment(own))
        try:
            made.append(caller.new_experiment("shared"))
        except Conflict as refusal:
            refused.append(str(refusal))

    threads = [threading.Thread(target=create, args=(person, f"own {place}")) for place, person in enumerate(people)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(made) == list(range(1, 8))
    assert len(refused) == 5
    assert all("already exists" in refusal for refusal in refused)


def test_another_projects_experiment_is_as_unknown_as_none(room: Room, amal: Caller) -> None:
    amal.new_experiment("ours")
    badr = room.caller("beta")
    unknown = []
    for number in (1, 99):
        for operation in (declared.SHOW_EXPERIMENT, declared.DELETE_EXPERIMENT, declared.RESTORE_EXPERIMENT):
            with pytest.raises(NotFound) as refusal:
                badr.call(operation, experiment=number)
            unknown.append(str(refusal.value).replace(str(number), "N"))
        with pytest.raises(NotFound):
            badr.start(experiment=number)
    assert unknown[:3] == unknown[3:]
    with pytest.raises(NotFound):
        badr.call(declared.FIND_EXPERIMENT, name="ours")


def test_an_experiment_gets_another_name(room: Room, amal: Caller) -> None:
    number = amal.new_experiment("a")
    amal.new_experiment("b")
    room.now = Moment(EARLY + 5)
    renamed = amal.call(declared.RENAME_EXPERIMENT, experiment=number, name="z")
    assert (renamed.name, renamed.created, renamed.changed) == ("z", EARLY, EARLY + 5)
    with pytest.raises(Conflict, match="already exists"):
        amal.call(declared.RENAME_EXPERIMENT, experiment=number, name="b")
    assert amal.call(declared.RENAME_EXPERIMENT, experiment=number, name="z").name == "z"


def test_the_first_experiment_can_be_renamed_tagged_deleted_and_restored(amal: Caller) -> None:
    amal.call(declared.RENAME_EXPERIMENT, experiment=0, name="Scratch")
    assert amal.new_experiment("Default") == 1
    amal.call(declared.TAG_EXPERIMENT, experiment=0, key="team", value="risk")
    assert amal.experiment(0).tags == (Tag(key="team", value="risk"),)
    run = amal.start()
    amal.call(declared.DELETE_EXPERIMENT, experiment=0)
    assert amal.experiments() == ["Default"]
    with pytest.raises(Invalid, match="'active' state"):
        amal.start()
    amal.call(declared.RESTORE_EXPERIMENT, experiment=0)
    assert amal.show(run).info.deleted is False


def test_tags_are_set_again_and_removed(amal: Caller) -> None:
    number = amal.new_experiment("a", team="risk", stage="early")
    amal.call(declared.TAG_EXPERIMENT, experiment=number, key="stage", value="late")
    assert amal.experiment(number).tags == (Tag(key="stage", value="late"), Tag(key="team", value="risk"))
    amal.call(declared.UNTAG_EXPERIMENT, experiment=number, key="stage")
    with pytest.raises(NotFound, match="no tag 'stage'"):
        amal.call(declared.UNTAG_EXPERIMENT, experiment=number, key="stage")
    assert amal.experiment(number).tags == (Tag(key="team", value="risk"),)


def test_restoring_brings_back_exactly_the_runs_that_went_with_the_experiment(amal: Caller) -> None:
    number = amal.new_experiment("a")
    gone, stays = amal.start("gone", experiment=number), amal.start("stays", experiment=number)
    amal.call(runs.DELETE_RUN, run=gone)
    amal.call(declared.DELETE_EXPERIMENT, experiment=number)
    assert amal.search(experiments=(number,)) == []
    assert amal.show(stays).info.deleted is True
    with pytest.raises(Conflict, match=f"experiment {number} is deleted"):
        amal.call(runs.RESTORE_RUN, run=stays)
    amal.call(declared.RESTORE_EXPERIMENT, experiment=number)
    assert amal.search(experiments=(number,)) == ["stays"]
    assert amal.search(experiments=(number,), state="deleted") == ["gone"]


def test_a_deleted_experiment_takes_nothing_and_is_deleted_once(amal: Caller) -> None:
    number = amal.new_experiment("a")
    with pytest.raises(NotFound, match="no deleted experiment"):
        amal.call(declared.RESTORE_EXPERIMENT, experiment=number)
    amal.call(declared.DELETE_EXPERIMENT, experiment=number)
    with pytest.raises(NotFound, match="no active experiment"):
        amal.call(declared.DELETE_EXPERIMENT, experiment=number)
    for operation, fields in (
        (declared.RENAME_EXPERIMENT, {"name": "b"}),
        (declared.TAG_EXPERIMENT, {"key": "k", "value": "v"}),
        (declared.UNTAG_EXPERIMENT, {"key": "k"}),
        (runs.CREATE_RUN, {}),
    ):
        with pytest.raises(Invalid, match="'active' state"):
            amal.call(operation, experiment=number, **fields)
    assert amal.experiment(number).deleted is True


def test_experiments_are_found_by_name_tag_time_and_number(room: Room, amal: Caller) -> None:
    for place, (name, team) in enumerate([("fraud-eu", "risk"), ("Fraud-us", "risk"), ("churn", "crm")]):
        room.now = Moment(EARLY + place * 1000)
        amal.new_experiment(name, team=team)
    assert amal.experiments() == ["churn", "Fraud-us", "fraud-eu", "Default"]
    assert amal.experiments("name LIKE 'fraud%'") == ["fraud-eu"]
    assert amal.experiments("name ILIKE 'fraud%'", "name ASC") == ["Fraud-us", "fraud-eu"]
    assert amal.experiments("attribute.name != 'churn' AND tags.team = 'risk'", "experiment_id DESC") == [
        "Fraud-us",
        "fraud-eu",
    ]
    assert amal.experiments("tags.team IS NULL") == ["Default"]
    assert amal.experiments("tags.team IS NOT NULL", "name") == ["Fraud-us", "churn", "fraud-eu"]
    assert amal.experiments(f"creation_time >= {EARLY // 1000 + 1}") == ["churn", "Fraud-us"]
    assert amal.experiments(f"last_update_time < {EARLY // 1000}.5") == ["fraud-eu", "Default"]
    assert amal.experiments("experiment_id IN ('0', '2')", "name") == ["Default", "Fraud-us"]
    assert amal.experiments("experiment_id = '3'") == ["churn"]
    amal.call(declared.DELETE_EXPERIMENT, experiment=3)
    assert amal.experiments(state="deleted") == ["churn"]
    assert len(amal.experiments(state="all")) == 4


def test_a_search_that_means_nothing_is_refused(amal: Caller) -> None:
    for filter, order, says in (
        ("experiment_id = 'x'", (), "no experiment_id"),
        ("experiment_id LIKE '1%'", (), "compared by =, !=, IN or NOT IN"),
        ("metrics.auc > 1", (), "expected one of"),
        ("", ("tags.team",), "not by the tag 'team'"),
        ("", ("size",), "one of the attributes"),
    ):
        with pytest.raises(Invalid, match=says):
            amal.experiments(filter, *order)


def test_pages_of_experiments_meet(amal: Caller) -> None:
    for number in range(7):
        amal.new_experiment(f"e{number}")
    found, cursor = [], ""
    while True:
        page = amal.call(declared.SEARCH_EXPERIMENTS, order=("name DESC",), limit=3, cursor=cursor)
        found += [one.name for one in page.items]
        if not (cursor := page.next):
            break
    assert found == ["e6", "e5", "e4", "e3", "e2", "e1", "e0", "Default"]
    first = amal.call(declared.SEARCH_EXPERIMENTS, limit=3)
    with pytest.raises(Invalid, match="another search"):
        amal.call(declared.SEARCH_EXPERIMENTS, filter="name = 'e1'", limit=3, cursor=first.next)
