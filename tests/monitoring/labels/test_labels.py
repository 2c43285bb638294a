"""Labels find the predictions they mean, count once, and contradict nobody."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import Engine, delete, event, func, select

from falaj.base.clock import DAY, HOUR, SECOND, Moment
from falaj.base.errors import Conflict, Forbidden, Invalid, NotFound, Unavailable
from falaj.base.ids import earliest_id
from falaj.governance.roles import Role
from falaj.keys.file import FileKeyRing
from falaj.monitoring import finding
from falaj.monitoring.joined import Said
from falaj.monitoring.operations.labels import ADD_LABELS, Added, AddLabels, Label
from falaj.monitoring.store import labels as store
from falaj.monitoring.store.label_tables import indexed, predictions
from falaj.serving.operations.endpoints import (
    CONFIGURE,
    DELETE_ENDPOINT,
    READ_LOGS,
    Configure,
    OneEndpoint,
    Options,
    ReadLogs,
)
from falaj.serving.store.tables import logs
from falaj.storage.operations import BLOB_SHRED, OneBlob
from tests.monitoring.labels.labelled import Labelled
from tests.serving.control.platform import PROJECT


def test_a_label_finds_its_prediction_by_the_id_and_row_of_the_call(labelled: Labelled):
    made = labelled.clock.now()
    outputs = {"label": [0, 1], "probabilities": [[0.9, 0.1], [0.2, 0.8]]}
    labelled.log(labelled.call("order-17", outputs, {"x": [[1.0, 2.5], [3.0, 4.5]], "city": [["Sur"], ["Nizwa"]]}, at=made))
    added = labelled.add(Label(id="order-17", row=1, truth=1, values={"spent": 12.5}))
    assert (added.taken, added.repeated, added.refused, added.unknown) == (1, 0, 0, 0)
    (row,) = labelled.rows()
    assert (row.revision, row.at, row.truth, row.values) == (1, made, 1.0, {"spent": 12.5})
    assert row.said == Said(answer=1, chances=(0.2, 0.8))
    assert row.groups["city"] == "Nizwa"
    assert "order-17" not in row.unit


def test_what_was_said_before_is_passed_over_and_what_contradicts_it_is_refused_label_by_label(labelled: Labelled):
    labelled.log(labelled.call("a", {"y": [1]}), labelled.call("b", {"y": [0]}))
    labelled.add(Label(id="a", truth=1))
    added = labelled.add(
        Label(id="a", truth="1"), Label(id="a", truth=0), Label(id="b", truth=0), Label(id="b", truth=0), Label(id="b", truth=1)
    )
    assert (added.taken, added.repeated, added.refused) == (1, 2, 2)
    assert added.refused_at == (1, 4)
    assert [row.truth for row in labelled.rows()] == [1.0, 0.0]


def test_what_comes_later_of_a_prediction_adds_to_what_is_known_and_does_not_count_twice(labelled: Labelled):
    labelled.log(labelled.call("a", {"y": [1]}))
    labelled.add(Label(id="a", truth=1))
    added = labelled.add(Label(id="a", truth=1, values={"spent": 3.0}))
    assert added.taken == 1
    assert [(row.truth, row.values) for row in labelled.rows()] == [(1.0, {}), (None, {"spent": 3.0})]


def test_unknown_predictions_are_told_with_the_reason(labelled: Labelled):
    labelled.log(labelled.call("a", {"y": [1]}), labelled.call("failed", {}, status="ModelFailed"))
    added = labelled.add(
        Label(id="b", truth=1), Label(id="a", truth=1), Label(id="a", row=1, truth=1), Label(id="failed", truth=1)
    )
    assert (added.taken, added.unknown, added.unknown_at) == (1, 3, (0, 2, 3))
    assert f"those since {str(labelled.clock.now())[:16]}Z are there" in added.remarks[0]
    options = Configure(project=PROJECT, endpoint="scores", options=Options(log_share=0))
    labelled.platform.call(CONFIGURE, options)
    assert "--log-percent" in labelled.add(Label(id="b", truth=1)).remarks[0]


def test_a_label_that_comes_before_its_call_was_logged_is_unknown_and_taken_when_it_is_sent_again(labelled: Labelled):
    call = labelled.call("a", {"y": [1]})
    assert labelled.add(Label(id="a", truth=1)).unknown == 1
    labelled.log(call)
    assert labelled.add(Label(id="a", truth=1)).taken == 1


def test_a_label_by_entity_means_the_last_prediction_for_it_before_the_moment(labelled: Labelled):
    start = labelled.clock.now()
    for hour, answer in enumerate((0, 1, 2)):
        inputs = {"x": [[1.5]], "entities": {"customer": [17], "shop": ["Muttrah"]}}
        labelled.log(labelled.call("", {"y": [answer]}, inputs, at=Moment(start + hour * HOUR)))
        labelled.clock.forward(HOUR)
    entity = {"shop": "Muttrah", "customer": "17"}
    at = [Moment(start + 90 * 60 * SECOND), Moment(start - 1), Moment(start + 2 * HOUR + 1)]
    added = labelled.add(*(Label(entity=entity, at=one, truth=9) for one in at))
    assert (added.taken, added.unknown_at) == (2, (1,))
    assert [row.said.answer for row in labelled.rows()] == [1, 2]
    assert len({row.unit for row in labelled.rows()}) == 1
    assert labelled.add(Label(entity=entity, at=Moment(start + 2 * HOUR + 10 * SECOND), truth=1), within=5).unknown == 1


def test_an_id_that_was_used_again_means_the_newest_call_unless_the_label_says_when(labelled: Labelled):
    start = labelled.clock.now()
    labelled.log(labelled.call("again", {"y": [1]}, at=start))
    labelled.clock.forward(HOUR)
    labelled.log(labelled.call("again", {"y": [2]}))
    labelled.add(Label(id="again", truth=2), Label(id="again", at=Moment(start + 1), truth=1))
    assert sorted((row.said.answer, row.truth) for row in labelled.rows()) == [(1, 1.0), (2, 2.0)]


def test_an_id_that_several_callers_used_means_nobodys_call_unless_the_label_says_when(labelled: Labelled):
    start = labelled.clock.now()
    labelled.log(labelled.call("order-99", {"y": [1]}, at=start), labelled.call("mine", {"y": [1]}, at=start))
    labelled.clock.forward(HOUR)
    labelled.log(labelled.call("order-99", {"y": [0]}, caller="mallory"))
    added = labelled.add(Label(id="order-99", truth=1), Label(id="mine", truth=1))
    assert (added.taken, added.unknown, added.unknown_at) == (1, 1, (0,))
    (remark,) = added.remarks
    assert remark.startswith(
        "1 labels have an `id` that several callers used, so nobody knows whose prediction is meant: say `at`"
    )
    assert labelled.add(Label(id="order-99", truth=1, at=Moment(start + 1))).taken == 1
    assert [row.said.answer for row in labelled.rows()] == [1, 1]


def test_whoever_chose_the_revision_is_known_of_the_joined_row(small: Labelled):
    small.log(small.call("a", {"y": [1]}), small.call("b", {"y": [1]}, drawn=False))
    small.add(Label(id="a", truth=1), Label(id="b", truth=1))
    assert sorted(row.drawn for row in small.rows()) == [False, True]
    logged = small.platform.call(READ_LOGS, ReadLogs(project=PROJECT, endpoint="scores")).items
    assert {one.id: one.drawn for one in logged} == {"a": True, "b": False}


def test_a_prediction_counts_for_the_revision_that_made_it(labelled: Labelled):
    labelled.platform.deploy(labelled.platform.register().version)
    labelled.log(labelled.call("a", {"y": [1]}, revision=1), labelled.call("b", {"y": [1]}, revision=2))
    labelled.add(Label(id="b", truth=1), Label(id="a", truth=0))
    assert {row.revision: row.truth for row in labelled.rows()} == {1: 0.0, 2: 1.0}


def test_a_plane_whose_clock_is_ahead_makes_no_prediction_of_the_future(labelled: Labelled):
    labelled.log(labelled.call("a", {"y": [1]}, {"x": [[1]], "entities": {"c": ["1"]}}, at=Moment(labelled.clock.now() + DAY)))
    now = labelled.clock.now()
    assert labelled.add(Label(entity={"c": "1"}, at=now, truth=1)).taken == 1
    assert labelled.rows()[0].at <= now


def test_masked_calls_are_found_by_what_is_not_masked_and_tell_no_quality(labelled: Labelled):
    inputs = {"x": [[1.5, None]], "entities": {"customer": "masked"}}
    labelled.log(
        labelled.call("a", {"y": "masked"}, inputs),
        labelled.call("large", {"y": {"shape": [100_000]}}, {"x": {"shape": [9, 9]}}),
    )
    added = labelled.add(
        Label(id="a", values={"spent": 1.0}),
        Label(id="large", truth=1),
        Label(entity={"customer": "17"}, at=labelled.clock.now(), truth=1),
    )
    assert (added.taken, added.unknown_at) == (1, (1, 2))
    assert "masked" in added.remarks[0]
    assert labelled.rows()[0].said == Said()


@pytest.mark.parametrize(
    ("label", "words"),
    [
        (Label(truth=1), "must name its prediction"),
        (Label(id="a", entity={"c": "1"}, at=Moment(1), truth=1), "must name its prediction"),
        (Label(entity={"c": "1"}, truth=1), "say `at`"),
        (Label(id="a"), "says nothing"),
        (Label(id="a", values={str(number): 1.0 for number in range(51)}), "at most 50"),
        (Label(id="a", at=Moment.parse("2099-01-01T00:00:00Z"), truth=1), "of the future"),
    ],
)
def test_a_label_that_makes_no_sense_is_refused_and_nothing_changes(small: Labelled, label: Label, words: str):
    small.log(small.call("a", {"y": [1]}))
    with pytest.raises(Invalid, match=words):
        small.add(Label(id="a", truth=1), label)
    assert small.add(Label(id="a", truth=1)).taken == 1


def test_another_project_sees_neither_the_endpoint_nor_its_predictions(small: Labelled):
    small.log(small.call("a", {"y": [1]}))
    small.platform.project("other")
    outsider = small.platform.person("eve", Role.ENGINEER, project="other")
    with pytest.raises((NotFound, Forbidden)):
        small.add(Label(id="a", truth=0), token=outsider)
    with pytest.raises(NotFound):
        small.add(Label(id="a", truth=0), token=outsider, project="other")
    small.platform.deploy(small.platform.register(project="other").version, project="other", options=Options(log_share=10_000))
    assert small.add(Label(id="a", truth=0), token=outsider, project="other").unknown == 1
    assert small.add(Label(id="a", truth=1)).taken == 1


def test_a_reader_may_not_label(small: Labelled):
    small.log(small.call("a", {"y": [1]}))
    with pytest.raises(Forbidden):
        small.add(Label(id="a", truth=1), token=small.platform.person("rita", Role.VIEWER))


def test_so_many_logged_calls_are_looked_through_for_a_request_and_no_more(small: Labelled, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(finding, "BLOBS_AT_ONCE", 3)
    for number in range(8):
        small.log(small.call(f"call-{number}", {"y": [1]}))
    assert small.add(Label(id="call-7", truth=1)).taken == 1  # the newest are looked through first
    with pytest.raises(Unavailable, match="Send them again"):
        small.add(Label(id="call-0", truth=1), Label(id="call-6", truth=1))
    assert small.add(Label(id="call-0", truth=1), Label(id="call-6", truth=1)).taken == 2


def test_labels_of_one_moment_from_two_sides_count_once(labelled: Labelled):
    labelled.log(labelled.call("a", {"y": [1]}))
    request = AddLabels(project=PROJECT, endpoint="scores", labels=(Label(id="a", truth=1),))
    service, database = labelled.platform.app.monitoring.labels, labelled.platform.app.database
    prepared = service.prepare(database.read(labelled.context), request)
    labelled.add(*request.labels)
    with pytest.raises(Conflict, match="send these again"):
        database.write(lambda work: service.add(labelled.context(work), request, prepared))
    assert labelled.add(*request.labels).repeated == 1


def test_many_who_send_the_same_labels_at_once_are_all_answered_and_each_label_counts_once(labelled: Labelled):
    labelled.log(*(labelled.call(f"call-{number}", {"y": [1]}) for number in range(40)))
    labels = [Label(id=f"call-{number}", truth=1) for number in range(40)]

    def send(_: int) -> Added:
        while True:
            try:
                return labelled.add(*labels)
            except Conflict:
                continue

    with ThreadPoolExecutor(4) as senders:
        answers = list(senders.map(send, range(4)))
    assert sorted((one.taken, one.repeated) for one in answers) == [(0, 40), (0, 40), (0, 40), (40, 0)]
    assert len(labelled.rows()) == 40


def test_labels_leave_one_leaf_for_a_window_and_one_for_the_key_they_are_found_by_and_no_values_in_them(small: Labelled):
    small.log(small.call("a", {"y": [1]}))
    small.add(Label(id="a", truth="a secret truth"))
    small.add(Label(id="a", truth="a secret truth"))
    made, window = sorted(small.platform.leaves(ADD_LABELS.name), key=lambda one: "key" not in one.facts)
    assert "secret" not in str((made, window))
    row = small.platform.app.database.read(lambda work: store.labelling(work, small.endpoint.id))
    assert made.facts == {"endpoint": row.endpoint, "key": row.key}  # the key of digests, which the first labels made


def test_what_is_kept_of_labels_goes_with_its_endpoint(labelled: Labelled):
    labelled.log(labelled.call("a", {"y": [1]}))
    labelled.add(Label(id="a", truth=1))
    labelled.platform.call(DELETE_ENDPOINT, OneEndpoint(project=PROJECT, endpoint="scores"))
    monitoring, database = labelled.platform.app.monitoring, labelled.platform.app.database
    while monitoring.labels.clean(labelled.clock.now()):
        pass
    monitoring.labels.clean(labelled.clock.now())
    assert database.read(lambda work: store.labelling(work, labelled.endpoint.id)) is None
    assert not database.read(lambda work: store.batches_after(work, labelled.endpoint.id, 0, 1))


def test_an_endpoint_has_values_of_so_many_names_and_no_more(small: Labelled):
    small.log(small.call("a", {"y": [1]}))
    for start in (0, 50):
        small.add(Label(id="a", values={f"name {start + number}": 1.0 for number in range(50)}))
    with pytest.raises(Invalid, match="at most 100 are kept"):
        small.add(Label(id="a", values={"one more": 1.0}))
    assert small.add(Label(id="a", values={"name 3": 1.0}, truth=1)).taken == 1


def test_whoever_is_killed_while_calls_are_made_findable_goes_on_and_nothing_is_there_twice(labelled: Labelled):
    labelled.log(labelled.call("a", {"y": [1, 0]}))
    labelled.add(Label(id="a", truth=1))
    database = labelled.platform.app.database
    count = select(func.count()).select_from(predictions)
    before = database.read(lambda work: work.execute(count).scalar_one())
    database.write(lambda work: work.execute(delete(indexed)))  # the rows were entered, and that they were was not
    assert labelled.add(Label(id="a", row=1, truth=1)).taken == 1
    assert database.read(lambda work: work.execute(count).scalar_one()) == before == 2


def test_calls_that_cannot_be_read_for_a_while_are_found_afterwards(small: Labelled, monkeypatch: pytest.MonkeyPatch):
    small.log(small.call("a", {"y": [1]}))
    small.add(Label(id="nobody", truth=1))  # the key of digests is there
    small.log(small.call("b", {"y": [1]}))

    def silent(*_: object) -> None:
        raise Unavailable("The key ring does not answer.")

    with monkeypatch.context() as patch:
        patch.setattr(FileKeyRing, "unwrap", silent)
        with pytest.raises(Unavailable, match="does not answer"):
            small.add(Label(id="b", truth=1))
    assert small.add(Label(id="b", truth=1)).taken == 1
    assert small.add(Label(id="a", truth=1)).taken == 1


def test_shredded_calls_are_unknown_and_other_labels_are_taken(labelled: Labelled):
    labelled.log(labelled.call("a", {"y": [1]}))
    labelled.add(Label(id="nobody", truth=1))  # it is findable from now on
    labelled.log(labelled.call("b", {"y": [1]}))
    database = labelled.platform.app.database
    (blob, *_) = database.read(lambda work: work.execute(select(logs.c.blob).order_by(logs.c.id)).scalars().all())
    labelled.platform.call(BLOB_SHRED, OneBlob(project=PROJECT, blob=blob))
    added = labelled.add(Label(id="a", truth=1), Label(id="b", truth=1))
    assert (added.taken, added.unknown_at) == (1, (0,))


def test_predictions_of_many_labels_are_found_by_few_statements(small: Labelled):
    said: list[str] = []

    def hear(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        said.append(statement)

    calls = [small.call(f"c{place}", {"y": [place]}) for place in range(120)]
    small.log(*calls)
    event.listen(Engine, "before_cursor_execute", hear)
    try:
        added = small.add(*(Label(id=one.id, truth=place) for place, one in enumerate(calls)), Label(id="unknown", truth=1))
    finally:
        event.remove(Engine, "before_cursor_execute", hear)
    assert (added.taken, added.unknown_at) == (120, (120,))
    assert {row.truth == row.said.answer for row in small.rows()} == {True}
    assert 0 < len([one for one in said if one.startswith("SELECT") and "monitoring_predictions" in one]) <= 3


def test_that_calls_had_no_room_in_the_log_is_said_where_labels_find_nothing(small: Labelled):
    small.log(small.call("a", {"y": [1]}))
    assert len(small.add(Label(id="b", truth=1)).remarks) == 1
    small.plane.did(small.endpoint, 1, 3000, unlogged=1234)
    small.clock.forward(6 * DAY)
    found = small.add(Label(id="a", truth=1), Label(id="b", truth=1))
    assert found.remarks[1].startswith("1,234 calls of the last seven days were to be logged and were not")
    small.clock.forward(2 * DAY)
    assert len(small.add(Label(id="b", truth=1)).remarks) == 1


def put_together(labelled: Labelled) -> None:
    labelled.clock.forward(2 * HOUR)
    while labelled.platform.app.serving.clean(labelled.clock.now()):
        pass


@pytest.mark.parametrize("known", [False, True])
def test_labels_of_the_next_day_find_their_calls_wherever_these_were_put_and_are_known_when_they_come_again(
    labelled: Labelled, known: bool
):
    for number in range(12):
        labelled.log(*(labelled.call(f"{number}-{row}", {"y": [number]}, caller=f"c{row}") for row in range(2)))
    labels = [Label(id=f"{number}-{row}", truth=number) for number in range(12) for row in range(2)]
    if known:
        assert labelled.add(*labels[:8]).taken == 8
    put_together(labelled)
    count = select(func.count(logs.c.blob.distinct()))
    assert labelled.platform.app.database.read(lambda work: work.execute(count).scalar_one()) == 1
    added = labelled.add(*labels)
    assert (added.taken, added.repeated) == ((16, 8) if known else (24, 0))
    assert [row.said.answer == row.truth for row in labelled.rows()] == [True] * 24
    assert labelled.add(*labels).repeated == 24
    labelled.log(labelled.call("late", {"y": [1]}))
    assert labelled.add(Label(id="late", truth=1)).taken == 1


@pytest.mark.parametrize("indexed_before", [False, True])
def test_calls_that_are_put_elsewhere_while_their_labels_come_are_found(
    small: Labelled, monkeypatch: pytest.MonkeyPatch, indexed_before: bool
):
    for number in range(3):
        small.log(small.call(f"call-{number}", {"y": [1]}))
    small.add(Label(id="nobody" if not indexed_before else "call-2", truth=1))
    if not indexed_before:
        small.platform.app.database.write(lambda work: work.execute(delete(indexed)))
        small.platform.app.database.write(lambda work: work.execute(delete(predictions)))
    calls, once = finding.Predictions.calls, [True]

    def moved(*given: Any) -> Any:
        if once:
            once.clear()
            put_together(small)
        return calls(*given)

    monkeypatch.setattr(finding.Predictions, "calls", moved)
    while True:
        try:
            added = small.add(Label(id="call-0", truth=1), Label(id="call-1", truth=1))
            break
        except Unavailable:
            continue
    assert (added.taken, added.unknown) == (2, 0)


def test_batches_that_were_looked_through_are_not_looked_for_again(small: Labelled):
    for number in range(3):
        small.log(small.call(f"call-{number}", {"y": [1]}))
    small.add(Label(id="call-0", truth=1))
    database = small.platform.app.database
    assert database.read(lambda work: store.labelling(work, small.endpoint.id)).gathered == earliest_id(
        Moment((small.clock.now() - HOUR) // HOUR * HOUR)
    )
    newest = database.read(lambda work: work.execute(select(func.max(logs.c.id))).scalar_one())
    database.write(lambda work: store.change_labelling(work, small.endpoint.id, gathered=newest))
    database.write(lambda work: work.execute(delete(indexed)))
    small.add(Label(id="call-0", truth=1))
    assert database.read(lambda work: work.execute(select(indexed.c.batch)).scalars().all()) == [newest]
