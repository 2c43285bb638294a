"""Views in a store: who can read what, what gives way to what, what is too old, and what damage does."""

import os
import subprocess
import sys

import pytest

from falaj.base.clock import HOUR, Moment
from falaj.base.errors import Corrupt, Invalid
from falaj.base.ids import ProjectId
from falaj.datasets.online.errors import OtherFeatures, RowAltered
from falaj.datasets.online.lmdb import LmdbStore
from falaj.datasets.online.redis import RedisStore
from falaj.datasets.online.rows import Field
from falaj.datasets.online.sealing import Secrets
from falaj.datasets.online.stores import MOST_ROWS, Freshness, Stored
from falaj.datasets.online.views import Asked, Found, Given, OnlineView, ViewShape, read_together
from falaj.keys.errors import KeyDestroyed

NOON = Moment(1_750_000_000_000_000)
SECRETS = Secrets(places=os.urandom(32), rows={3: os.urandom(32)})
SHAPE = {
    "project": ProjectId("a" * 32),
    "name": "payments",
    "entity": (Field(name="customer", type="text"), Field(name="shop", type="int64")),
    "features": (Field(name="spent", type="float64"), Field(name="city", type="text")),
}
ALI = ("ali", 7)


@pytest.fixture(params=["lmdb", "redis"])
def store(request, tmp_path):
    opened = LmdbStore(tmp_path) if request.param == "lmdb" else RedisStore(request.getfixturevalue("redis_url"))
    yield opened
    opened.close()


@pytest.fixture
def folder_store(tmp_path):
    opened = LmdbStore(tmp_path)
    yield opened
    opened.close()


def view(store, secrets=SECRETS, **changed):
    return OnlineView(store, secrets, ViewShape(**SHAPE | changed))


def test_values_are_found_with_their_times(store):
    payments = view(store)
    assert payments.get(ALI, now=NOON) is None
    event, known = Moment(NOON - HOUR), Moment(NOON - 5)
    assert payments.write([Given(ALI, (-0.0, None), event, known), Given(("ali", 8), (2.5, "Al Ain"))], of=NOON) == 2
    assert payments.get(ALI, now=NOON) == Found((-0.0, None), event, known, NOON)
    assert str(payments.get(ALI, now=NOON).values[0]) == "-0.0"
    assert payments.get(("ali", 8), now=NOON) == Found((2.5, "Al Ain"), None, None, NOON)
    assert payments.freshness() == Freshness(complete=None, newest=NOON, rows=2)
    payments.complete(NOON)
    assert payments.freshness() == Freshness(complete=NOON, newest=NOON, rows=2)
    assert payments.verify() == 2


def test_the_same_again_changes_nothing_and_an_older_one_neither(store):
    payments = view(store)
    place = payments.place(ALI)
    newest = Given(ALI, (1.0, "new"), NOON - 5, NOON - 3)
    assert payments.write([newest], of=NOON) == 1
    before = store.read([place])
    older = [Given(ALI, (0.0, "old"), event, known) for event, known in ((NOON - 6, NOON), (NOON - 5, NOON - 4), (None, None))]
    for row in (newest, *older):
        assert payments.write([row], of=NOON) == 0
    assert payments.write([Given(ALI, (0.0, "old"), NOON, NOON)], of=Moment(NOON - 1)) == 0, "of an earlier materialisation"
    assert store.read([place]) == before
    assert payments.write([Given(ALI, (2.0, "corrected"), NOON - 5, NOON - 2)], of=NOON) == 1
    assert payments.get(ALI, now=NOON).values == (2.0, "corrected")


def test_a_later_materialisation_replaces_even_by_what_is_older_or_nothing(store):
    payments = view(store)
    payments.write([Given(ALI, (1.0, "deleted since"), NOON, NOON)], of=NOON)
    payments.write([Given(ALI, (0.5, "what was before"), NOON - 9, NOON - 9)], of=Moment(NOON + 1))
    assert payments.get(ALI, now=NOON).values == (0.5, "what was before")
    payments.write([Given(ALI, None)], of=Moment(NOON + 2))
    assert payments.get(ALI, now=NOON) is None


def test_values_live_for_their_time_and_no_longer(store):
    payments = view(store, time_to_live=HOUR)
    payments.write([Given(ALI, (1.0, "a"), NOON), Given(("sara", 1), (2.0, "b"))], of=NOON)
    assert payments.get(ALI, now=Moment(NOON + HOUR - 1)) is not None
    assert payments.get(ALI, now=Moment(NOON + HOUR)) is None
    assert payments.get(("sara", 1), now=Moment(NOON + 99 * HOUR)) is not None, "without an event it never is too old"
    assert view(store).get(ALI, now=Moment(NOON + HOUR)) is not None
    with pytest.raises(Invalid, match="time to live"):
        view(store, time_to_live=0)


def test_many_rows_are_written_in_batches_and_what_vanished_is_dropped(store):
    payments = view(store)
    count = MOST_ROWS + 10
    assert payments.write((Given((f"c{number}", number), (1.0, "a")) for number in range(count)), of=NOON) == count
    assert payments.write((Given((f"c{number}", number), (2.0, "b")) for number in range(20)), of=Moment(NOON + 1)) == 20
    assert payments.drop(before=Moment(NOON + 1)) == count - 20
    assert payments.freshness().rows == payments.verify() == 20
    assert payments.drop() == 20
    assert payments.freshness() == Freshness(complete=None, newest=None, rows=0)


def test_several_views_are_read_together(store):
    payments, visits = view(store), view(store, name="visits", features=(Field(name="count", type="int64"),))
    payments.write([Given(("c", number), (float(number), "x")) for number in range(3)], of=NOON)
    visits.write([Given(("c", number), (number,)) for number in (2, 1)], of=NOON)
    asked = [("c", number) for number in (2, 9, 0)]
    found = read_together([Asked(payments, asked), Asked(visits, asked), Asked(visits, [])], now=NOON)
    assert [[None if one is None else one.values for one in some] for some in found] == [
        [(2.0, "x"), None, (0.0, "x")],
        [(2,), None, None],
        [],
    ]
    assert read_together([], now=NOON) == []


def test_without_a_projects_keys_nothing_can_be_read(folder_store, tmp_path):
    payments = view(folder_store)
    payments.write([Given(ALI, (1.0, "a city nobody else has"))], of=NOON)
    place = payments.place(ALI)
    stored = folder_store.read([place])[0]
    other_keys = Secrets(places=os.urandom(32), rows={3: os.urandom(32)})
    half_known = Secrets(places=SECRETS.places, rows={3: os.urandom(32)})
    for other in (
        view(folder_store, other_keys),
        view(folder_store, project=ProjectId("b" * 32)),
        view(folder_store, name="v"),
    ):
        assert other.place(ALI) != place
        assert other.get(ALI, now=NOON) is None
        assert other.freshness().rows == 0
        with pytest.raises(RowAltered):
            other.opened(place, stored, now=NOON)
    with pytest.raises(RowAltered):
        view(folder_store, half_known).get(ALI, now=NOON)
    file = (tmp_path / "data.mdb").read_bytes()
    assert not [secret for secret in (b"ali", b"a city nobody else has", b"payments", b"a" * 32) if secret in file]


def test_a_row_moved_to_another_entity_is_found_out(folder_store):
    payments = view(folder_store)
    payments.write([Given(ALI, (1.0, "rich"))], of=NOON)
    sara = ("sara", 7)
    folder_store.write(payments.place(sara)[:16], [Stored(payments.place(sara), folder_store.read([payments.place(ALI)])[0])])
    with pytest.raises(RowAltered, match=f"'payments'.*{payments.place(sara).hex()}"):
        payments.get(sara, now=NOON)
    with pytest.raises(RowAltered):
        payments.verify()


def test_every_flipped_bit_of_a_row_is_found_and_the_view_named(folder_store):
    payments = view(folder_store)
    payments.write([Given(ALI, (1.0, "a"), NOON, NOON)], of=NOON)
    place = payments.place(ALI)
    row = folder_store.read([place])[0]
    for bit in range(8 * len(row)):
        changed = bytearray(row)
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises((RowAltered, KeyDestroyed), match="'payments'"):
            payments.opened(place, bytes(changed), now=NOON)
    for length in range(len(row)):
        with pytest.raises(RowAltered, match="'payments'"):
            payments.opened(place, row[:length], now=NOON)


COUNT = 300
WHOLE = Freshness(complete=NOON, newest=NOON, rows=COUNT)
KEYS = Secrets(places=b"p" * 32, rows={1: b"r" * 32})


def flip_and_read(original, folder):
    """One bit after another of the file, each in a copy and a process of its own, which damage may end."""
    content = original.read_bytes()
    told, wrong = 0, []
    for turn in range(120):
        at = turn * 7919 % len(content)
        if (child := os.fork()) == 0:
            changed = bytearray(content)
            changed[at] ^= 1 << turn % 8
            (folder / "data.mdb").write_bytes(changed)
            os._exit(read_all(folder))
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        told += code == TOLD
        wrong += [at] if code not in (RIGHT, TOLD) and code > 0 else []
        (folder / "lock.mdb").unlink(missing_ok=True)
    print(told, *wrong)


RIGHT, TOLD, WRONG, HIDDEN = 0, 10, 11, 12


def read_all(folder):
    """What is missing `verify` tells, or the freshness does, where the whole store was set back to an earlier state."""
    try:
        payments = view(LmdbStore(folder), KEYS)
        rows = [payments.get(("c", number), now=NOON) for number in range(COUNT)]
        if any(row is not None and row.values != (float(number), "x") for number, row in enumerate(rows)):
            return WRONG
        if None in rows and payments.freshness() == WHOLE:
            payments.verify()
            return HIDDEN
    except (Corrupt, KeyDestroyed):
        return TOLD
    return RIGHT


def test_a_flipped_bit_anywhere_in_the_file_never_gives_a_wrong_value(folder_store, tmp_path):
    payments = view(folder_store, KEYS)
    payments.write([Given(("c", number), (float(number), "x")) for number in range(COUNT)], of=NOON)
    payments.complete(NOON)
    code = (
        "import sys; from pathlib import Path; from tests.datasets.online.test_views import flip_and_read\n"
        "flip_and_read(*map(Path, sys.argv[1:]))"
    )
    (tmp_path / "copies").mkdir()
    command = [sys.executable, "-c", code, str(tmp_path / "data.mdb"), str(tmp_path / "copies")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told, *wrong = map(int, done.stdout.split())
    assert wrong == []
    assert told > 30


def test_rows_of_other_features_are_told_and_can_be_written_anew(store):
    view(store).write([Given(ALI, (1.0, "a"))], of=NOON)
    changed = view(store, features=(Field(name="spent", type="float64"), Field(name="country", type="text")))
    with pytest.raises(OtherFeatures, match="materialise"):
        changed.get(ALI, now=NOON)
    changed.write([Given(ALI, (1.0, "UAE"))], of=Moment(NOON + 1))
    assert changed.get(ALI, now=NOON).values == (1.0, "UAE")


def test_keys_of_rows_are_turned_over_one_version_after_another(store):
    first, second = os.urandom(32), os.urandom(32)
    old, both, new = (Secrets(places=SECRETS.places, rows=rows) for rows in ({1: first}, {1: first, 2: second}, {2: second}))
    view(store, old).write([Given(ALI, (1.0, "a")), Given(("sara", 1), (2.0, "b"))], of=NOON)
    assert view(store, both).get(ALI, now=NOON).values == (1.0, "a")
    view(store, both).write([Given(ALI, (3.0, "c"))], of=Moment(NOON + 1))
    assert view(store, new).get(ALI, now=NOON).values == (3.0, "c")
    with pytest.raises(KeyDestroyed, match="version 1"):
        view(store, new).get(("sara", 1), now=NOON)


@pytest.mark.parametrize("rows", [{}, {256: bytes(32)}, {1: bytes(16)}])
def test_keys_that_are_none_are_refused(rows):
    with pytest.raises(Invalid):
        Secrets(places=bytes(32), rows=rows)


def test_a_row_that_does_not_fit_stops_the_materialisation(store):
    payments = view(store)
    with pytest.raises(Invalid, match="'spent'"):
        payments.write([Given(ALI, (1.0, "a")), Given(ALI, ("much", "a"))], of=NOON)
    with pytest.raises(Invalid, match="Moments"):
        payments.write([Given(ALI, (1.0, "a"), event=1.5)], of=NOON)
    assert payments.freshness().rows == 0
