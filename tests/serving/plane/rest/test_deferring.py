"""Asynchronous predictions: taken at once, found later by the caller who asked and by nobody else."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from falaj.base.clock import SECOND, Moment, SystemClock
from falaj.base.errors import Forbidden, NotFound, Unavailable
from falaj.serving.plane.rest.deferring import Patience
from falaj.serving.plane.rest.stores import FolderStore, Kept, Store, new_id
from tests.serving.plane.rest.arithmetic import Arithmetic, Server
from tests.serving.plane.rest.memory import MemoryStore
from tests.serving.plane.rest.wires import Wire, get, post, sum_request, wait_until

INFER = "/v2/models/sum/infer"
ASYNC = "prefer: respond-async"
KEPT = Kept(status=200, kind=b"application/json", lines=b"", body=b"{}")


class Hand:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.at = 1_700_000_000 * SECOND

    def now(self) -> Moment:
        return Moment(self.at)


class Outbox:
    def __init__(self) -> None:
        self.sent: list[tuple[str, str, str, Kept]] = []

    def permit(self, token: str, endpoint: str, url: str) -> str:
        if not url.startswith("https://ours/"):
            raise Forbidden(f"answers of {endpoint!r} do not go to {url!r}")
        return f"the id of {endpoint}"

    async def send(self, *, url: str, endpoint: str, id: str, kept: Kept) -> None:
        self.sent.append((url, endpoint, id, kept))


def test_an_answer_is_fetched_by_the_location_that_was_given(server: Server, core: Arithmetic) -> None:
    core.hold = True
    with Wire(server) as wire:
        wire.send(post(INFER, sum_request([1, 2, 3]), ASYNC))
        reply = wire.reply()
        assert reply.status == 202
        where = reply.fields["location"]
        assert where == f"/v2/requests/{reply.said['id']}"
        wait_until(lambda: core.held)
        wire.send(get(where))
        reply = wire.reply()
        assert (reply.status, reply.said["state"]) == (202, "running")
        server.call(core.release)
        wire.send(get(where, token="good2"))  # the same caller, with a newer token
        reply = wire.reply()
        assert (reply.status, reply.said["outputs"][0]["data"]) == (200, [6.0])
        assert reply.fields["x-falaj-revision"] == "3"
        for token, status in (("other", 404), ("bad", 401)):
            wire.send(get(where, token=token))
            assert wire.reply().status == status
        wire.send(get("/v2/requests/" + "0" * 32))
        assert wire.reply().status == 404


def test_records_and_binary_answers_keep_their_form(server: Server) -> None:
    body = b'{"inputs":[{"name":"x","datatype":"FP32","shape":[1],"data":[5]}],"parameters":{"binary_data_output":true}}'
    with Wire(server) as wire:
        wire.send(post("/v2/models/echo/infer", body, ASYNC))
        where = wire.reply().fields["location"]
        wire.send(get(where))
        reply = wire.reply()
        assert reply.body.endswith(b"\0\0\xa0\x40")
        assert int(reply.fields["inference-header-content-length"]) == len(reply.body) - 4
        wire.send(post("/v2/endpoints/sum/predict", b'{"rows":[[1,2,3]]}', ASYNC))
        wire.send(get(wire.reply().fields["location"]))
        assert wire.reply().said["predictions"] == [6.0]


@pytest.mark.parametrize(
    ("path", "token", "status"), [(INFER, "bad", 401), ("/v2/models/none/infer", "good", 404), (INFER, "elsewhere", 403)]
)
def test_who_may_not_ask_is_told_at_once(server: Server, path: str, token: str, status: int) -> None:
    with Wire(server) as wire:
        wire.send(post(path, sum_request([1, 2, 3]), ASYNC, token=token))
        assert wire.reply().status == status
        wire.send(post(INFER, b"{", ASYNC))
        assert wire.reply().status == 400


def test_an_error_of_the_model_is_what_is_fetched(server: Server) -> None:
    with Wire(server) as wire:
        wire.send(post(INFER, sum_request([1, 2, 3]).replace(b'"x"', b'"y"'), ASYNC))
        wire.send(get(wire.reply().fields["location"]))
        reply = wire.reply()
        assert (reply.status, "'x'" in reply.said["error"]) == (400, True)


def test_a_busy_endpoint_is_asked_again(server: Server, core: Arithmetic) -> None:
    core.busy = 3
    with Wire(server) as wire:
        wire.send(post(INFER, sum_request([1, 2, 3]), ASYNC))
        where = wire.reply().fields["location"]
        wait_until(lambda: len(core.asks) == 4)
        wire.send(get(where))
        assert wire.reply().status == 200


def test_patience_ends_and_the_number_under_way_is_bounded(core: Arithmetic) -> None:
    core.busy = 1_000
    with Server(core, patience=Patience(running=0.2, waiting=1)) as server, Wire(server) as wire:
        wire.send(post(INFER, sum_request([1, 2, 3]), ASYNC))
        where = wire.reply().fields["location"]
        wire.send(post(INFER, sum_request([1, 2, 3]), ASYNC))
        assert wire.reply().status == 503
        server.call(lambda: server.deferrals.drain(5))
        wire.send(get(where))
        assert wire.reply().status == 503


def test_an_answer_goes_to_a_callback_that_is_permitted(core: Arithmetic) -> None:
    outbox = Outbox()
    with Server(core, callbacks=outbox) as server, Wire(server) as wire:
        wire.send(post(INFER, sum_request([1, 2, 3]), "x-falaj-callback: https://ours/hook"))
        reply = wire.reply()
        assert reply.status == 202
        wait_until(lambda: outbox.sent)
        [(url, endpoint, id, kept)] = outbox.sent
        assert (url, endpoint, id, kept.status) == ("https://ours/hook", "the id of sum", reply.said["id"], 200)
        assert b"[6.0]" in kept.body
        wire.send(post(INFER, sum_request([1, 2, 3]), "x-falaj-callback: http://169.254.169.254/"))
        assert wire.reply().status == 403


def test_workers_of_a_host_answer_for_each_other(core: Arithmetic, tmp_path: Path) -> None:
    key, clock = os.urandom(32), Hand()
    stores = [FolderStore(tmp_path, key, clock) for _ in range(2)]
    with Server(core, store=stores[0]) as first, Server(core, store=stores[1]) as second:
        with Wire(first) as wire:
            wire.send(post(INFER, sum_request([1, 2, 3]), ASYNC))
            where = wire.reply().fields["location"]
        first.call(lambda: first.deferrals.drain(5))
        with Wire(second) as wire:
            wire.send(get(where))
            assert wire.reply().said["outputs"][0]["data"] == [6.0]


MakeStore = Callable[[Hand], Store]


@pytest.fixture(params=["memory", "folder"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> MakeStore:
    if request.param == "memory":
        return lambda clock: MemoryStore(clock, entries=3)
    return lambda clock: FolderStore(tmp_path, b"k" * 32, clock, entries=3)


def run(story: Any) -> None:
    asyncio.run(story)


def test_a_store_keeps_what_it_is_given_until_it_expires(make: MakeStore) -> None:
    async def story() -> None:
        clock = Hand()
        store, id = make(clock), "a" * 32
        await store.open(id, "me", clock.at + 10)
        assert await store.read(id, "me") is None
        await store.finish(id, "me", clock.at + 20, KEPT)
        assert await store.read(id, "me") == KEPT
        with pytest.raises(NotFound):
            await store.read(id, "you")
        with pytest.raises(NotFound):
            await store.read("b" * 32, "me")
        with pytest.raises(NotFound):
            await store.read("../" + "a" * 32, "me")
        clock.at += 20
        with pytest.raises(NotFound):
            await store.read(id, "me")

    run(story())


def test_a_store_is_bounded_and_makes_room_by_forgetting_what_expired(make: MakeStore) -> None:
    async def story() -> None:
        clock = Hand()
        store = make(clock)
        for letter in "abc":
            await store.open(letter * 32, "me", clock.at + 10 * SECOND)
        with pytest.raises(Unavailable):
            await store.open("d" * 32, "me", clock.at + 10 * SECOND)
        clock.at += 11 * SECOND
        await asyncio.sleep(1.05)
        await store.open("d" * 32, "me", clock.at + 10 * SECOND)
        assert await store.read("d" * 32, "me") is None

    run(story())


def test_sealed_answers_cannot_be_read_swapped_or_changed(tmp_path: Path) -> None:
    async def story() -> None:
        clock = Hand()
        store = FolderStore(tmp_path, b"k" * 32, clock)
        secret = Kept(status=200, kind=b"application/json", lines=b"", body=b"the diagnosis")
        await store.finish("a" * 32, "me", clock.at + 10, secret)
        file = tmp_path / ("a" * 32)
        sealed = file.read_bytes()
        assert b"diagnosis" not in sealed
        assert file.stat().st_mode & 0o077 == 0
        (tmp_path / ("b" * 32)).write_bytes(sealed)
        for id, other in (("b" * 32, store), ("a" * 32, FolderStore(tmp_path, b"x" * 32, clock))):
            with pytest.raises(NotFound):
                await other.read(id, "me")
        file.write_bytes(sealed[:-1] + bytes([sealed[-1] ^ 1]))
        with pytest.raises(NotFound):
            await store.read("a" * 32, "me")

    run(story())


def test_one_project_cannot_take_the_room_of_all_others(tmp_path):
    store, expires = FolderStore(tmp_path, b"k" * 32, SystemClock(), entries=40), 2**62 // 1000
    greedy, modest = "1" * 32 + ":" + "a" * 32, "2" * 32 + ":" + "a" * 32

    async def story() -> None:
        for _ in range(10):
            await store.open(new_id(greedy), greedy, expires)
        with pytest.raises(Unavailable):
            await store.open(new_id(greedy.replace("a", "b")), greedy, expires)
        await store.open(new_id(modest), modest, expires)

    asyncio.run(story())
