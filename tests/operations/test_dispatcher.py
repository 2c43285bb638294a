"""The laws of the one way in: no effect without a leaf, no leaf without an effect, and nothing without a grant that holds."""

import hashlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import select

from falaj.base.encoding import canonical
from falaj.base.errors import (
    Conflict,
    FalajError,
    Forbidden,
    Invalid,
    NotFound,
    OutOfSpace,
    TooLarge,
    Unauthenticated,
    Unavailable,
)
from falaj.base.values import Nothing
from falaj.database.binding import bind
from falaj.database.work import Context
from falaj.governance.gate import ANONYMOUS
from falaj.governance.identity.member_operations import REMOVE_MEMBER, RemoveMember
from falaj.governance.identity.operations import (
    CREATE_TOKEN,
    DISABLE_USER,
    LIST_TOKENS,
    REVOKE_TOKEN,
    WHOAMI,
    CreateToken,
    ListTokens,
    OneUser,
    RevokeToken,
)
from falaj.governance.ledger.leaves import commitment
from falaj.governance.ledger.store import salts
from falaj.governance.projects.operations import DELETE_PROJECT, OneProject
from falaj.governance.roles import Role
from falaj.operations import dispatcher
from falaj.operations.dispatcher import Dispatcher
from falaj.storage.operations import BLOB_LIST, BLOB_PUT, ListBlobs, PutBlob
from tests.operations.conftest import BREAK, PEEK, PING, PREPARED, PUT, READ, UPLOAD, Bench, OfProject, PutNote

HELLO = PutNote(project="default", text="hello")


# Effect and leaf


def test_a_change_leaves_one_leaf_with_its_effect(bench: Bench):
    made = bench.put()
    (leaf,) = bench.leaves("note.put")
    assert bench.notes() == ["hello"]
    assert (leaf.outcome, leaf.facts, leaf.record) == ("done", {"note": made.id}, "change")
    me = bench.call(WHOAMI, Nothing())
    assert leaf.principal == me.id


def test_a_personal_value_enters_the_leaf_as_a_commitment_that_its_salt_opens(bench: Bench):
    bench.put()
    (leaf,) = bench.leaves("note.put")
    assert "hello" not in leaf.encoded().decode()
    query = select(salts.c.salt).where(salts.c.leaf == leaf.id, salts.c.field == "text")
    salt = bench.platform.database.read(lambda work: bytes(work.execute(query).scalar_one()))
    assert leaf.request["text"] == {"commitment": commitment(salt, "hello")}


def test_where_the_leaf_cannot_be_written_there_is_no_effect(bench: Bench):
    bench.refuse_leaves()
    with pytest.raises(Exception) as refused:
        bench.put()
    assert "no more" in str(refused.value) or isinstance(refused.value, FalajError)
    with pytest.raises(Exception):  # noqa: B017  whatever it is, it is no answer
        bench.call(PEEK, OfProject(project="default"))
    assert bench.notes() == []
    assert bench.call(READ, OfProject(project="default")).items == ()
    bench.take_leaves()
    bench.put()
    assert bench.notes() == ["hello"]
    assert len(bench.leaves("note.put")) == 1


def test_a_refusal_stands_where_its_leaf_cannot_be_written(bench: Bench):
    stranger = bench.person("stranger")
    bench.refuse_leaves()
    with pytest.raises(NotFound):
        bench.put(token=stranger)


@pytest.mark.parametrize("failure", [Conflict("no"), Unavailable("no"), KeyError("no"), ZeroDivisionError()], ids=repr)
def test_a_handler_that_raises_leaves_neither_effect_nor_leaf(bench: Bench, failure: Exception):
    bench.service.failure = failure
    before = len(bench.leaves())
    with pytest.raises(type(failure)):
        bench.call(BREAK, HELLO)
    assert bench.notes() == []
    assert len(bench.leaves()) == before


def test_one_that_fails_leaves_those_beside_it_alone(bench: Bench):
    """They share a commit on SQLite, and still each is whole or not there."""

    def one(number: int) -> bool:
        request = PutNote(project="default", text=str(number))
        try:
            bench.call(BREAK if number % 3 == 0 else PUT, request)
        except Conflict:
            return False
        return True

    with ThreadPoolExecutor(16) as pool:
        done = list(pool.map(one, range(60)))
    assert sorted(bench.notes(), key=int) == [str(number) for number in range(60) if done[number]]
    assert len(bench.leaves("note.put")) == sum(done) == 40
    assert bench.leaves("note.break") == []


# Reads


def test_a_plain_read_leaves_no_leaf_and_a_sensitive_one_does(bench: Bench):
    before = len(bench.leaves())
    bench.call(READ, OfProject(project="default"))
    bench.call(LIST_TOKENS, ListTokens())
    assert len(bench.leaves()) == before
    bench.call(PEEK, OfProject(project="default"))
    (leaf,) = bench.leaves("note.peek")
    assert (leaf.record, leaf.outcome) == ("sensitive-read", "done")
    assert len(bench.leaves()) == before + 1


# Refusals


def test_a_refused_call_leaves_a_leaf_that_names_the_rule(bench: Bench):
    viewer, stranger = bench.person("viewer", Role.VIEWER), bench.person("stranger")
    with pytest.raises(Forbidden) as refused:
        bench.put(token=viewer)
    with pytest.raises(NotFound):
        bench.put(token=stranger)
    with pytest.raises(NotFound):
        bench.call(READ, OfProject(project="default"), token=stranger)
    found = [(leaf.operation, leaf.outcome, leaf.rule) for leaf in bench.leaves() if leaf.outcome == "refused"]
    assert found == [
        ("note.put", "refused", refused.value.rule),
        ("note.put", "refused", "not-visible"),
        ("note.read", "refused", "not-visible"),
    ]
    assert refused.value.rule == "no-permit"
    assert bench.service.put_calls == 0


def test_what_a_handler_forbids_is_a_refusal_too_and_what_it_does_not_find_is_none(bench: Bench):
    bench.service.failure = Forbidden("not there", rule="some.rule")
    with pytest.raises(Forbidden):
        bench.call(BREAK, HELLO)
    bench.service.failure = NotFound("nothing")
    with pytest.raises(NotFound):
        bench.call(BREAK, HELLO)
    assert [(leaf.outcome, leaf.rule) for leaf in bench.leaves("note.break")] == [("refused", "some.rule")]
    assert bench.notes() == []


def test_whoever_is_refused_does_not_decide_how_much_room_that_takes(bench: Bench, monkeypatch: pytest.MonkeyPatch):
    stranger = bench.person("stranger")
    monkeypatch.setattr(dispatcher, "MOST_REFUSALS_A_MINUTE", 3)
    for _ in range(5):
        with pytest.raises(NotFound):
            bench.call(PUT, PutNote(project="p" * 100, text="x" * 1000), token=stranger)
    refused = [leaf for leaf in bench.leaves() if leaf.outcome == "refused"]
    assert 1 <= len(refused) <= 4, "three a minute, and the minute may have changed once"
    assert all(len(leaf.encoded()) <= 2048 for leaf in refused)


def test_a_refusal_takes_no_room_that_others_need(bench: Bench, monkeypatch: pytest.MonkeyPatch):
    def full() -> None:
        raise OutOfSpace("full")

    stranger = bench.person("stranger")
    before = len(bench.leaves())
    monkeypatch.setattr(bench.platform.dispatcher, "_check_room", full)
    with pytest.raises(NotFound):
        bench.put(token=stranger)
    assert len(bench.leaves()) == before


def test_a_stranger_leaves_no_leaf(bench: Bench):
    """Or anybody could fill the ledger without an account."""
    before = len(bench.leaves())
    for credentials in (None, "falaj_wrong", "a.b.c", "x" * 9000, "é"):
        with pytest.raises(Unauthenticated):
            bench.put(token=credentials)
    assert len(bench.leaves()) == before
    assert ANONYMOUS.token is None


# Between admission and transaction


def test_a_role_taken_between_admission_and_transaction_is_missed(bench: Bench):
    writer = bench.person("writer", Role.SCIENTIST)
    removal = RemoveMember(project="default", member="writer", role=Role.SCIENTIST)
    bench.service.between = lambda _context: bench.call(REMOVE_MEMBER, removal)
    with pytest.raises(NotFound):
        bench.call(PREPARED, HELLO, token=writer)
    assert bench.notes() == []
    assert [leaf.outcome for leaf in bench.leaves("note.prepared")] == ["refused"]


def test_an_account_disabled_between_admission_and_transaction_is_missed(bench: Bench):
    writer = bench.person("writer", Role.SCIENTIST)
    bench.service.between = lambda _context: bench.call(DISABLE_USER, OneUser(user="writer"))
    with pytest.raises(Unauthenticated):
        bench.call(PREPARED, HELLO, token=writer)
    assert bench.notes() == []


def test_a_token_revoked_between_admission_and_transaction_is_missed(bench: Bench):
    made = bench.call(CREATE_TOKEN, CreateToken())
    bench.service.between = lambda _context: bench.call(REVOKE_TOKEN, RevokeToken(token=made.id))
    with pytest.raises(Unauthenticated):
        bench.call(PREPARED, HELLO, token=made.token)
    assert bench.notes() == []


def test_a_project_archived_between_admission_and_transaction_takes_nothing_more(bench: Bench):
    bench.service.between = lambda _context: bench.call(DELETE_PROJECT, OneProject(project="default"))
    with pytest.raises(Forbidden) as refused:
        bench.call(PREPARED, HELLO)
    assert refused.value.rule == "project.archived"
    assert bench.notes() == []


def test_a_token_that_runs_out_between_admission_and_transaction_is_refused(bench: Bench):
    """The preparation took a day longer than the token lives; something else changed meanwhile, so it is looked at again."""
    made = bench.call(CREATE_TOKEN, CreateToken(days=1))

    def wait(_context: Context) -> None:
        bench.person("somebody")
        bench.clock.move(2 * 86_400)

    bench.service.between = wait
    with pytest.raises(Unauthenticated):
        bench.call(PREPARED, HELLO, token=made.token)
    assert bench.notes() == []


def test_nothing_in_between_changes_nothing(bench: Bench):
    writer = bench.person("writer", Role.SCIENTIST)
    bench.call(PREPARED, HELLO, token=writer)
    assert bench.notes() == ["hello"]


def test_what_prepares_has_no_transaction_to_use(bench: Bench):
    bench.service.between = lambda context: context.work.execute(select(salts))
    with pytest.raises(RuntimeError, match="no transaction"):
        bench.call(PREPARED, HELLO)
    assert bench.notes() == []


# Telemetry


def test_telemetry_leaves_one_leaf_for_each_window_with_its_count_and_digest(bench: Bench):
    writer = bench.person("writer", Role.SCIENTIST)
    requests = [PutNote(project="default", text=f"measured {number}") for number in range(25)]
    for request in requests:
        bench.call(PING, request, token=writer)
    bench.call(PING, requests[0])  # somebody else's are another window
    assert bench.leaves("note.ping") == []
    bench.platform.sequencer.step()
    assert bench.leaves("note.ping") == [], "the window is still open"
    bench.clock.move(11)
    bench.platform.sequencer.step()
    found = {leaf.facts["count"]: leaf for leaf in bench.leaves("note.ping")}
    assert sorted(found) == [1, 25]
    leaf = found[25]
    query = select(salts.c.salt).where(salts.c.leaf == leaf.id, salts.c.field == "seed")
    digest = bench.platform.database.read(lambda work: bytes(work.execute(query).scalar_one()))
    for request in requests:
        digest = hashlib.sha256(digest + canonical({"project": request.project, "text": request.text})).digest()
    assert leaf.facts["digest"] == digest.hex()
    assert (leaf.record, leaf.outcome) == ("telemetry", "done")
    bench.call(PING, requests[0], token=writer)
    bench.clock.move(11)
    bench.platform.sequencer.step()
    assert len(bench.leaves("note.ping")) == 3, "what comes later is a window of its own"


def test_telemetry_at_once_is_counted_whole(bench: Bench):
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: bench.call(PING, HELLO), range(64)))
    bench.clock.move(11)
    bench.platform.sequencer.step()
    assert [leaf.facts["count"] for leaf in bench.leaves("note.ping")] == [64]


def test_refused_telemetry_leaves_a_leaf_of_its_own(bench: Bench):
    viewer = bench.person("viewer", Role.VIEWER)
    with pytest.raises(Forbidden):
        bench.call(PING, HELLO, token=viewer)
    assert [leaf.outcome for leaf in bench.leaves("note.ping")] == ["refused"]


# Uploads


def breaking(error: Exception) -> Iterator[bytes]:
    yield b"begun"
    raise error


@pytest.mark.parametrize("error", [Invalid("gone"), TooLarge("much"), OSError("cut")], ids=repr)
def test_an_upload_that_is_cut_leaves_nothing_visible(bench: Bench, error: Exception):
    before = len(bench.leaves())
    with pytest.raises(type(error)):
        bench.call(UPLOAD, HELLO, chunks=breaking(error))
    with pytest.raises(type(error)):
        bench.call(BLOB_PUT, PutBlob(project="default"), chunks=breaking(error))
    assert bench.notes() == []
    assert bench.call(BLOB_LIST, ListBlobs(project="default")).items == ()
    assert len(bench.leaves()) == before


def test_nothing_of_an_upload_is_read_for_who_is_refused(bench: Bench):
    """Bytes are slow and dear: whoever may not store them is told before the first one."""

    def never() -> Iterator[bytes]:
        pytest.fail("the bytes were read")
        yield b""

    with pytest.raises(NotFound):
        bench.call(UPLOAD, HELLO, token=bench.person("stranger"), chunks=never())
    with pytest.raises(Unauthenticated):
        bench.call(UPLOAD, HELLO, token=None, chunks=never())


def test_an_upload_that_arrives_is_kept(bench: Bench):
    bench.call(UPLOAD, HELLO, chunks=iter((b"up", b"load")))
    assert bench.notes() == ["upload"]
    assert len(bench.leaves("note.upload")) == 1


# Construction


def test_an_operation_is_bound_once(bench: Bench):
    twice = [*bench.service.bindings(), bind(PUT, bench.service.put)]
    with pytest.raises(ValueError, match="bound twice"):
        Dispatcher(database=bench.platform.database, gate=bench.platform.gate, clock=bench.clock, bindings=twice)
