"""The store on a real Redis: what it promises, and what it does when the server is full, gone, killed or set up wrongly."""

import secrets
import signal
import threading
import time
from contextlib import suppress

import pytest

from falaj.base.clock import Moment
from falaj.base.errors import Misconfigured, OutOfSpace
from falaj.datasets.online.errors import OnlineRefused, OnlineUnavailable
from falaj.datasets.online.redis import RedisStore
from falaj.datasets.online.stores import VIEW_BYTES, Freshness, Rank, pack_rank
from falaj.testing.online import OnlineStoreConformance, stored
from tests.servers.redis import DURABLE, SETTINGS, RedisServer

VIEW = bytes(range(VIEW_BYTES))
PLACES = [VIEW + number.to_bytes(16) for number in range(200)]


class TestRedis(OnlineStoreConformance):
    @pytest.fixture
    def store(self, redis_url):
        opened = RedisStore(redis_url, timeout=10)
        yield opened
        opened.close()


@pytest.fixture
def started(no_process_survives):
    """Servers of their own for tests that harm them."""
    servers: list[RedisServer] = []

    def start(**settings: str) -> RedisServer:
        servers.append(RedisServer(settings))
        servers[-1].start()
        return servers[-1]

    yield start
    for server in servers:
        server.remove()


def write_until_it_is_gone(store, said):
    with suppress(OnlineUnavailable):
        while True:
            store.write(VIEW, [stored(place, Rank(said[-1] + 1), bytes(50)) for place in PLACES])
            said.append(said[-1] + 1)


def test_a_server_killed_at_any_moment_comes_back_with_whole_materialisations(started):
    server = started(**DURABLE)
    done = 0
    for turn in range(4):
        store, said = RedisStore(server.url), [done]
        writing = threading.Thread(target=write_until_it_is_gone, args=(store, said))
        writing.start()
        while said[-1] == done:
            time.sleep(0.001)
        time.sleep(0.007 * turn)
        server.signal(signal.SIGKILL)
        writing.join()
        server.stop()
        server.start()
        freshness, found = store.freshness(VIEW), set(store.read(PLACES))
        store.close()
        done = freshness.newest
        assert done in (said[-1], said[-1] + 1), "what was acknowledged is there"
        assert found == {pack_rank(Rank(done)) + bytes(50)}
        assert freshness == Freshness(complete=None, newest=Moment(done), rows=len(PLACES))


def test_a_full_server_refuses_writes_whole_and_goes_on_reading(started):
    server = started(**SETTINGS, maxmemory="8mb")
    store = RedisStore(server.url)
    written, of, told = [], 0, ""
    while not told:
        of += 1
        refused = [VIEW + of.to_bytes(8) + number.to_bytes(8) for number in range(200)]
        try:
            store.write(VIEW, [stored(place, Rank(of), bytes(1000)) for place in refused])
            written += refused
        except OutOfSpace as error:
            told = str(error)
    assert "is full" in told
    assert of > 3
    assert store.read(refused) == [None] * 200
    assert None not in store.read(written)
    assert store.freshness(VIEW) == Freshness(complete=None, newest=Moment(of - 1), rows=len(written))
    with pytest.raises(OutOfSpace):
        store.complete(VIEW, Moment(of))
    assert store.drop(VIEW, before=Moment(3)) == 400
    assert store.write(VIEW, [stored(refused[0], Rank(2))]) == 0
    assert store.write(VIEW, [stored(refused[0], Rank(of))]) == 1
    with server.client() as client:
        client.config_set("maxmemory", "1mb")
    assert store.drop(VIEW) == len(written) - 399
    store.close()


def test_a_server_that_is_gone_is_told_and_found_again(started):
    server = started(**SETTINGS)
    store = RedisStore(server.url)
    store.write(VIEW, [stored(PLACES[0], Rank(1))])
    server.stop()
    for use in (
        lambda: store.read(PLACES),
        lambda: store.write(VIEW, [stored(PLACES[0], Rank(2))]),
        lambda: store.complete(VIEW, Moment(2)),
        lambda: store.drop(VIEW),
        lambda: store.freshness(VIEW),
        lambda: list(store.rows(VIEW)),
        store.probe,
    ):
        with pytest.raises(OnlineUnavailable, match="does not answer"):
            use()
    server.start()
    store.probe()
    assert store.write(VIEW, [stored(PLACES[0], Rank(2))]) == 1, "the new server has never seen the scripts"
    store.close()


def test_a_server_that_hangs_is_given_up(started):
    server = started(**SETTINGS)
    store = RedisStore(server.url, timeout=0.2)
    store.write(VIEW, [stored(PLACES[0], Rank(1))])
    server.signal(signal.SIGSTOP)
    with pytest.raises(OnlineUnavailable):
        store.read(PLACES)
    server.signal(signal.SIGCONT)
    assert store.read(PLACES[:1]) == [pack_rank(Rank(1))]
    store.close()


def test_a_wrong_password_is_told_without_showing_it(started):
    right, wrong = secrets.token_hex(8), secrets.token_hex(8)
    server = started(**SETTINGS, requirepass=right)
    good, bad = (RedisStore(f"unix://:{word}@{server.folder}/socket") for word in (right, wrong))
    good.probe()
    with pytest.raises(OnlineRefused, match="user or password") as told:
        bad.read(PLACES)
    assert wrong not in str(told.value)
    nobody = RedisStore(server.url)
    with pytest.raises(OnlineRefused):
        nobody.write(VIEW, [stored(PLACES[0], Rank(1))])
    for store in (good, bad, nobody):
        store.close()


@pytest.mark.parametrize(("policy", "refused"), [("allkeys-lru", True), ("noeviction", False), ("volatile-lru", False)])
def test_a_server_that_would_throw_rows_away_is_refused(started, policy, refused):
    server = started(**SETTINGS, maxmemory="100mb", **{"maxmemory-policy": policy})
    store = RedisStore(server.url)
    if refused:
        with pytest.raises(OnlineRefused, match=f"{policy}.*noeviction"):
            store.probe()
    else:
        store.probe()
    store.close()


@pytest.mark.parametrize("url", ["", "online", "http://host:1", "redis://:sec/ret@host:1"])
def test_what_is_no_address_is_told_without_showing_it(url):
    with pytest.raises(Misconfigured, match="no address of a Redis") as told:
        RedisStore(url)
    assert "sec" not in str(told.value)
