"""Idempotency keys: one effect and one answer, however often and however concurrently the same call comes."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import select

from falaj.base.errors import Conflict, FalajError, Forbidden, Invalid, Unauthenticated
from falaj.governance.identity.member_operations import REMOVE_MEMBER, RemoveMember
from falaj.governance.identity.operations import CREATE_USER, LIST_USERS, CreateUser, ListUsers
from falaj.governance.roles import Role
from falaj.governance.sessions.operations import OPEN_SESSION, OpenSession
from falaj.operations.store import replays, withdraw
from falaj.storage.operations import BLOB_GET, BLOB_PUT, GetBlob, PutBlob
from tests.operations.conftest import BREAK, PEEK, PING, PREPARED, PUT, SECRET, UPLOAD, Bench, OfProject, PutNote

HELLO = PutNote(project="default", text="hello")


def test_the_same_call_under_the_same_key_has_one_effect_and_one_answer(bench: Bench):
    first = bench.put(key="k")
    assert [bench.put(key="k") for _ in range(3)] == [first] * 3
    assert bench.notes() == ["hello"]
    assert len(bench.leaves("note.put")) == 1
    assert bench.put(key="other") != first
    assert bench.notes() == ["hello", "hello"]


def test_without_a_key_every_call_counts(bench: Bench):
    assert bench.put() != bench.put()
    assert len(bench.notes()) == 2


def test_the_same_call_at_once_has_one_effect(bench: Bench):
    def call(_: int) -> str:
        try:
            return str(bench.put(key="k").id)
        except FalajError as error:  # on Postgres the loser of the race may be told to try again
            return type(error).__name__

    with ThreadPoolExecutor(12) as pool:
        answers = set(pool.map(call, range(24)))
    assert len(answers) == 1, answers
    assert bench.notes() == ["hello"]
    assert len(bench.leaves("note.put")) == 1


@pytest.mark.parametrize("operation", [PREPARED, PING], ids=lambda operation: operation.name)
def test_keys_hold_for_every_kind_of_change(bench: Bench, operation):
    first = bench.call(operation, HELLO, key="k")
    assert bench.call(operation, HELLO, key="k") == first
    assert len(bench.notes()) <= 1


def test_a_prepared_call_is_not_even_prepared_again(bench: Bench):
    prepared = []
    bench.service.between = lambda _context: prepared.append(1)
    for _ in range(3):
        bench.call(PREPARED, HELLO, key="k")
    assert len(prepared) == 1


def test_an_upload_repeated_under_its_key_is_kept_once(bench: Bench):
    first = bench.call(UPLOAD, HELLO, key="k", chunks=iter((b"bytes",)))
    assert bench.call(UPLOAD, HELLO, key="k", chunks=iter((b"bytes",))) == first
    assert bench.notes() == ["bytes"]


def test_telemetry_under_a_key_is_counted_once(bench: Bench):
    for _ in range(3):
        bench.call(PING, HELLO, key="k")
    bench.clock.move(11)
    bench.platform.sequencer.step()
    assert [leaf.facts["count"] for leaf in bench.leaves("note.ping")] == [1]


def test_another_request_under_a_used_key_is_refused(bench: Bench):
    bench.put(key="k")
    with pytest.raises(Conflict, match="different request"):
        bench.put("something else", key="k")
    with pytest.raises(Conflict, match="different request"):
        bench.call(PREPARED, HELLO, key="k")
    assert bench.notes() == ["hello"]


def test_a_secret_is_not_shown_twice_and_not_kept(bench: Bench):
    assert bench.call(SECRET, HELLO, key="k").password == "once"
    with pytest.raises(Conflict, match="only once"):
        bench.call(SECRET, HELLO, key="k")
    assert bench.notes() == ["hello"]
    kept = bench.platform.database.read(lambda work: [tuple(row) for row in work.execute(select(replays))])
    assert [row.count(None) for row in kept] == [1]
    assert "once" not in repr(kept)


def test_every_result_with_a_secret_of_the_platform_is_kept_without_it(bench: Bench):
    invited = bench.call(CREATE_USER, CreateUser(name="new"), key="k")
    kept = bench.platform.database.read(lambda work: repr([tuple(row) for row in work.execute(select(replays))]))
    assert invited.code not in kept
    assert invited.id not in kept


def test_keys_of_different_people_are_different_keys(bench: Bench):
    one, other = bench.person("one", Role.SCIENTIST), bench.person("other", Role.SCIENTIST)
    first = bench.put(key="k", token=one)
    assert bench.put("quite different", key="k", token=other) != first
    assert bench.put(key="k", token=one) == first
    assert bench.notes() == ["hello", "quite different"]


def test_strangers_share_no_keys(bench: Bench):
    """All strangers are one principal; a key that one used must not stand in the way of the next."""
    codes = [bench.call(CREATE_USER, CreateUser(name=name)).code for name in ("one", "other")]
    tokens = {bench.call(OPEN_SESSION, OpenSession(code=code), token=None, key="k").token for code in codes}
    assert len(tokens) == 2
    with pytest.raises(Unauthenticated):
        bench.call(OPEN_SESSION, OpenSession(code=codes[0]), token=None, key="k")


def test_a_failed_call_keeps_no_answer(bench: Bench):
    with pytest.raises(Conflict):
        bench.call(BREAK, HELLO, key="k")
    bench.put(key="k")
    assert bench.notes() == ["hello"]


def test_what_is_withdrawn_is_refused_from_then_on_and_what_was_done_cannot_be(bench: Bench):
    writer = bench.person("writer", Role.SCIENTIST)
    who = next(one.id for one in bench.call(LIST_USERS, ListUsers()).items if one.name == "writer")

    def withdrawn(key: str) -> bool:
        return bench.platform.database.write(lambda work: withdraw(work, who, key, bench.clock.now()))

    bench.put(key="done", token=writer)
    assert [withdrawn(key) for key in ("done", "late", "late")] == [False, True, True]
    for operation in (PUT, PREPARED):
        with pytest.raises(Conflict):
            bench.call(operation, HELLO, key="late", token=writer)
    assert bench.notes() == ["hello"]


def test_an_answer_is_given_again_only_to_who_may_still_ask(bench: Bench):
    writer = bench.person("writer", Role.SCIENTIST)
    bench.put(key="k", token=writer)
    viewer_role = RemoveMember(project="default", member="writer", role=Role.SCIENTIST)
    bench.call(REMOVE_MEMBER, viewer_role)
    with pytest.raises(FalajError) as refused:
        bench.put(key="k", token=writer)
    assert not isinstance(refused.value, Conflict)


@pytest.mark.parametrize("key", ["x" * 201, "é", "a\nb", "\x7f"])
def test_a_key_that_cannot_be_kept_is_refused(bench: Bench, key: str):
    with pytest.raises(Invalid):
        bench.put(key=key)
    assert bench.notes() == []


def test_keys_are_forgotten_after_their_time(bench: Bench):
    first = bench.put(key="k")
    bench.clock.move(3 * 86_400)
    bench.put(key="another")
    assert bench.put(key="k") != first


def test_a_key_on_a_read_means_nothing(bench: Bench):
    """A read is repeated as it is; a download's bytes could not be kept, and a kept answer would be an old one."""
    request = OfProject(project="default")
    assert bench.call(PEEK, request, key="k").items == ()
    bench.put()
    assert bench.call(PEEK, request, key="k").items == ("hello",)
    blob = bench.call(BLOB_PUT, PutBlob(project="default"), chunks=iter((b"content",)))
    for _ in range(2):
        got = bench.call(BLOB_GET, GetBlob(project="default", blob=blob.id), key="download")
        assert b"".join(got.chunks) == b"content"
    assert len(bench.leaves("blob.get")) == 2


def test_a_refusal_is_not_an_answer_to_keep(bench: Bench):
    viewer = bench.person("viewer", Role.VIEWER)
    for _ in range(2):
        with pytest.raises(Forbidden):
            bench.put(key="k", token=viewer)
    assert len(bench.leaves("note.put")) == 2
    assert PUT.name == "note.put"
