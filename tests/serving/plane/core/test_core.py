"""Who may ask for what, and what faces are told."""

import time

import pytest

from falaj.base.clock import HOUR, Moment
from falaj.base.errors import Forbidden, Invalid, NotFound, TooMany, Unauthenticated
from falaj.serving.plane.asking import Given
from falaj.serving.states import Arm
from tests.serving.plane.core.worker import OTHER_PROJECT, Saved, Worker, endpoint, linear, played, played_both_ways, sums


@played_both_ways
async def test_an_answer_is_the_models_and_names_revision_and_version(worker: Worker):
    await worker.serve(endpoint("scores", [worker.revision(3, linear(2.0))]))
    reply = worker.ask("scores", [[1, 2, 3, 4]], id="abc")
    await worker.answered(reply)
    assert reply.first.tolist() == [[2, 4, 6, 8]]
    answer = reply.answers[0]
    assert (answer.endpoint, answer.revision, answer.version, answer.model, answer.id) == ("scores", 3, 13, "fraud", "abc")
    assert (tuple(answer.names), tuple(answer.datatypes)) == (("y",), ("FP32",))


@played()
async def test_without_a_good_token_nothing_is_answered(worker: Worker):
    await worker.serve(endpoint("scores", [worker.revision(1, linear())]))
    for token in ("", "nonsense", worker.token()[:-4] + "AAAA", Worker(clock=worker.clock).token()):
        assert isinstance(worker.ask("scores", [[1, 2, 3, 4]], token=token).error, Unauthenticated)
    assert worker.engines[0].runs == []


@played()
async def test_an_endpoint_of_another_project_looks_like_one_that_does_not_exist(worker: Worker):
    theirs = endpoint("theirs", [worker.revision(1, linear())], project=OTHER_PROJECT)
    await worker.serve(theirs)
    missing, hidden = worker.ask("nobody", [[1, 2, 3, 4]]).error, worker.ask("theirs", [[1, 2, 3, 4]]).error
    assert isinstance(missing, NotFound)
    assert isinstance(hidden, NotFound)
    assert str(hidden) == str(missing).replace("nobody", "theirs")
    with pytest.raises(NotFound):
        worker.core.describe(worker.token(), "theirs")


@played()
async def test_a_token_for_one_endpoint_is_not_for_another(worker: Worker):
    mine, other = (
        endpoint("mine", [worker.revision(1, linear())]),
        endpoint("other", [worker.revision(1, linear(), endpoint="f")]),
    )
    await worker.serve(mine, other)
    token = worker.token(mine.id)
    allowed, refused = worker.ask("mine", [[1, 2, 3, 4]], token=token), worker.ask("other", [[1, 2, 3, 4]], token=token)
    await worker.answered(allowed)
    assert allowed.answers
    assert isinstance(refused.error, Forbidden)
    assert [entry.name for entry in worker.core.index(token)] == ["mine"]


@played()
async def test_a_revoked_token_is_refused_as_soon_as_the_state_says_so(worker: Worker):
    one, token = endpoint("scores", [worker.revision(1, linear())]), worker.token(id="9" * 32)
    await worker.serve(one)
    reply = worker.ask("scores", [[1, 2, 3, 4]], token=token)
    await worker.answered(reply)
    await worker.serve(one, revoked=["9" * 32])
    assert isinstance(worker.ask("scores", [[1, 2, 3, 4]], token=token).error, Unauthenticated)


@played()
async def test_names_are_looked_up_in_the_tokens_own_project(worker: Worker):
    mine = endpoint("scores", [worker.revision(1, linear(2.0))])
    theirs = endpoint("scores", [worker.revision(1, linear(3.0), endpoint="f")], project=OTHER_PROJECT)
    await worker.serve(mine, theirs)
    one, other = (
        worker.ask("scores", [[1, 1, 1, 1]]),
        worker.ask("scores", [[1, 1, 1, 1]], token=worker.token(project=OTHER_PROJECT)),
    )
    await worker.answered(one, other)
    assert (one.first[0, 0], other.first[0, 0]) == (2, 3)


@played()
async def test_a_caller_that_asks_too_often_is_told_when_to_come_back(worker: Worker):
    await worker.serve(endpoint("scores", [worker.revision(1, linear())], calls_per_second=2))
    mine = [worker.ask("scores", [[1, 2, 3, 4]], token=worker.token(principal="5" * 32)) for _ in range(4)]
    other = worker.ask("scores", [[1, 2, 3, 4]], token=worker.token(principal="6" * 32))
    await worker.answered(*mine, other)
    refused = [reply.error for reply in mine if reply.errors]
    assert len(refused) == 2
    assert all(isinstance(error, TooMany) and 0 < error.delay <= 1 for error in refused)
    assert other.answers


@played()
async def test_a_version_or_an_override_picks_a_revision_that_is_listed(worker: Worker):
    revisions = [worker.revision(1, linear(2.0)), worker.revision(2, linear(3.0))]
    await worker.serve(endpoint("scores", revisions, [Arm(revision=2, share=10_000)], fallback=1))
    plain, old = worker.ask("scores", [[1, 1, 1, 1]]), worker.ask("scores", [[1, 1, 1, 1]], version="1")
    tested = worker.ask("scores", [[1, 1, 1, 1]], override="1")
    await worker.answered(plain, old, tested)
    assert [reply.answers[0].revision for reply in (plain, old, tested)] == [2, 1, 1]
    assert old.first[0, 0] == 2
    for version in ("3", "0", "latest", "9" * 5000, "-1", "²"):
        assert isinstance(worker.ask("scores", [[1, 1, 1, 1]], version=version).error, NotFound)
    assert isinstance(worker.ask("scores", [[1, 1, 1, 1]], override="newest").error, Invalid)


@played_both_ways
async def test_outputs_are_chosen_by_name(worker: Worker):
    await worker.serve(endpoint("sums", [worker.revision(1, sums())]))
    given = [Given("b", "INT64", [1, 2], [10, 20]), Given("a", "INT64", [1, 2], [1, 2])]
    both, one = worker.ask_given("sums", given), worker.ask_given("sums", given, wanted=["same"])
    await worker.answered(both, one)
    assert [array.tolist() for array in both.answers[0].arrays] == [[[11, 22]], [[1, 2]]]
    assert tuple(one.answers[0].names) == ("same",)
    assert [array.tolist() for array in one.answers[0].arrays] == [[[1, 2]]]
    assert isinstance(worker.ask_given("sums", given, wanted=["same", "nothing"]).error, Invalid)
    assert isinstance(worker.ask_given("sums", given, wanted=["same", "same"]).error, Invalid)


@played()
async def test_whatever_a_face_hands_over_comes_back_as_an_error_and_never_as_an_exception(worker: Worker):
    await worker.serve(endpoint("scores", [worker.revision(1, linear())]))
    for given in (
        None,
        [None],
        [Given("x", "FP32", None, [])],
        [Given("x", "FP32", [1, 4], None)],
        [Given(None, None, [1, 4], [])],
    ):
        reply = Saved()
        worker.ask_given("scores", given, reply=reply)  # type: ignore[arg-type]
        assert reply.error
    good = worker.ask("scores", [[1, 2, 3, 4]])
    await worker.answered(good)
    assert good.answers


@played()
async def test_metadata_tells_what_the_newest_revision_takes(worker: Worker):
    revisions = [worker.revision(1, linear()), worker.revision(2, linear(), columns=("a", "b", "c", "d"))]
    await worker.serve(endpoint("scores", revisions, [Arm(revision=1, share=9000), Arm(revision=2, share=1000)]))
    described = worker.core.describe(worker.token(), "scores")
    assert (described.name, described.versions, described.columns) == ("scores", ("1", "2"), ("a", "b", "c", "d"))
    assert [(spec.name, spec.datatype, spec.shape) for spec in described.inputs] == [("x", "FP32", (-1, 4))]
    assert worker.core.describe(worker.token(), "scores", "1").columns == ()
    with pytest.raises(NotFound):
        worker.core.describe(worker.token(), "scores", "7")
    with pytest.raises(Unauthenticated):
        worker.core.describe("", "scores")


@played()
async def test_models_are_loaded_and_unloaded_by_those_who_may(worker: Worker):
    await worker.serve(endpoint("scores", [worker.revision(1, linear())]))
    manager, caller = worker.token(manage=True), worker.token(id="3" * 32)
    for forbidden in (worker.core.load(caller, "scores"), worker.core.unload(caller, "scores")):
        with pytest.raises(Forbidden):
            await forbidden
    await worker.core.unload(manager, "scores")
    assert not worker.core.is_model_ready(caller, "scores")
    assert [entry.state for entry in worker.core.index(caller)] == ["UNAVAILABLE"]
    await worker.core.load(manager, "scores")
    assert worker.core.is_model_ready(caller, "scores")
    assert [entry.state for entry in worker.core.index(caller)] == ["READY"]
    with pytest.raises(NotFound):
        await worker.core.load(manager, "nothing")


@played()
async def test_a_worker_is_ready_once_it_answers_for_its_state_and_until_it_drains(worker: Worker):
    assert not worker.core.is_ready()
    await worker.serve(endpoint("scores", [worker.revision(1, linear())]))
    assert worker.core.is_ready()
    assert await worker.core.drain(1.0)
    assert not worker.core.is_ready()


@played()
async def test_what_was_done_is_told_once(worker: Worker):
    await worker.serve(endpoint("scores", [worker.revision(1, linear())]))
    good = [worker.ask("scores", [[1, 2, 3, 4]] * rows) for rows in (1, 2)]
    worker.ask("scores", [[1, 2, 3]])
    await worker.answered(*good)
    (told,) = worker.core.drain_report().revisions
    assert (told.requests, told.errors, told.rows, told.batches, told.shed) == (2, 0, 3, 1, 0)
    assert sum(told.latencies) == 2
    assert told.ready
    assert told.batch_size == 32
    assert told.cold_start_ms > 0
    (again,) = worker.core.drain_report().revisions
    assert (again.requests, again.rows, again.latencies) == (0, 0, ())


@played()
async def test_a_token_that_ends_is_refused_from_then_on(worker: Worker):
    class Ahead:
        def __init__(self) -> None:
            self.moment = Moment(time.time_ns() // 1000)

        def now(self) -> Moment:
            return self.moment

    later = Worker(clock=(clock := Ahead()))
    await later.serve(endpoint("scores", [later.revision(1, linear())]))
    token = later.token()
    clock.moment = Moment(clock.moment + 2 * HOUR)
    assert isinstance(later.ask("scores", [[1, 2, 3, 4]], token=token).error, Unauthenticated)
    await later.core.close()
