"""What every `OnlineStore` promises. Inherit and provide the fixture `store`."""

import os
import random
import threading
from collections.abc import Sequence

import pytest

from falaj.base.clock import Moment
from falaj.base.errors import Invalid, TooLarge
from falaj.datasets.online.stores import (
    MOST_BYTES,
    MOST_ROWS,
    PLACE_BYTES,
    VIEW_BYTES,
    Freshness,
    OnlineStore,
    Rank,
    Stored,
    pack_rank,
)

NEVER = Freshness(complete=None, newest=None, rows=0)
NOON = 1_750_000_000_000_000
# Neighbours where doubles can no longer tell them apart, both ends, before 1970, and none.
MOMENTS = [None, -(2**63) + 1, -(2**53) - 1, -(2**53), -1, 0, 1, NOON, NOON + 1, 2**53, 2**53 + 1, 2**63 - 2, 2**63 - 1]


def stored(place: bytes, rank: Rank, content: bytes = b"") -> Stored:
    return Stored(place, pack_rank(rank) + content)


def some_places(view: bytes, count: int) -> list[bytes]:
    return [view + os.urandom(PLACE_BYTES - VIEW_BYTES) for _ in range(count)]


def in_pieces(places: Sequence[bytes], rank: Rank) -> list[list[Stored]]:
    return [[stored(place, rank) for place in places[at : at + MOST_ROWS]] for at in range(0, len(places), MOST_ROWS)]


class OnlineStoreConformance:
    @pytest.fixture
    def store(self) -> OnlineStore:
        raise NotImplementedError("provide the store under test")

    @pytest.fixture
    def view(self) -> bytes:
        return os.urandom(VIEW_BYTES)

    def test_rows_are_read_in_the_order_asked_for_and_none_where_there_is_none(self, store: OnlineStore, view: bytes) -> None:
        other = os.urandom(VIEW_BYTES)
        mine, missing, theirs = *some_places(view, 2), *some_places(other, 1)
        row = stored(mine, Rank(1), b"\0mine\xff")
        assert store.write(view, [row]) == 1
        assert store.write(other, [stored(theirs, Rank(1), b"theirs")]) == 1
        found = store.read([theirs, missing, mine, theirs])
        assert found == [pack_rank(Rank(1)) + b"theirs", None, row.row, pack_rank(Rank(1)) + b"theirs"]
        assert store.read([]) == []
        assert store.write(view, []) == 0

    def test_a_row_gives_way_to_higher_ranks_only(self, store: OnlineStore, view: bytes) -> None:
        (place,) = some_places(view, 1)
        rising = [
            *(Rank(NOON), Rank(NOON, None, 5), Rank(NOON, -5), Rank(NOON, -5, 0), Rank(NOON, 7, -1), Rank(NOON, 7, 1)),
            *(Rank(NOON, 8, -9), Rank(NOON + 1), Rank(2**53, 2**53), Rank(2**53, 2**53 + 1), Rank(2**53 + 1, -1)),
        ]
        for index, rank in enumerate(rising):
            assert store.write(view, [stored(place, rank, b"%d" % index)]) == 1
            for lower in rising[: index + 1]:
                assert store.write(view, [stored(place, lower, b"older, or the same again")]) == 0
            assert store.read([place]) == [pack_rank(rank) + b"%d" % index]
        assert store.freshness(view) == Freshness(complete=None, newest=Moment(2**53 + 1), rows=1)

    def test_whatever_the_order_of_writing_the_highest_rank_remains(self, store: OnlineStore, view: bytes) -> None:
        chance = random.Random(7)  # nosec B311 - for playing, not for secrets
        places, best = some_places(view, 5), dict[bytes, tuple[bytes, bytes]]()
        for turn in range(60):
            rows = []
            for place in chance.choices(places, k=chance.randrange(6)):
                of, event, known = (chance.choice(MOMENTS) for _ in range(3))
                rows.append(stored(place, Rank(NOON if of is None else of, event, known), b"%d" % turn))
            put = 0
            for place, row in rows:
                if place not in best or best[place][0] < row[:24]:
                    best[place] = (row[:24], row)
                    put += 1
            assert store.write(view, rows) == put
            assert store.read(places) == [best[place][1] if place in best else None for place in places]
        assert store.freshness(view).rows == len(best)

    def test_a_write_that_is_refused_writes_nothing(self, store: OnlineStore, view: bytes) -> None:
        good, elsewhere = some_places(view, 1)[0], some_places(os.urandom(VIEW_BYTES), 1)[0]
        for bad in (stored(elsewhere, Rank(1)), stored(view, Rank(1)), stored(good + b"x", Rank(1)), Stored(good, bytes(23))):
            with pytest.raises(Invalid):
                store.write(view, [stored(good, Rank(1)), bad])
        with pytest.raises(TooLarge):
            store.write(view, [stored(place, Rank(1)) for place in some_places(view, MOST_ROWS + 1)])
        with pytest.raises(TooLarge):
            store.write(view, [stored(good, Rank(1), bytes(MOST_BYTES))])
        with pytest.raises(TooLarge):
            store.read([good] * (MOST_ROWS + 1))
        assert store.read([good]) == [None]
        assert store.freshness(view) == NEVER

    def test_as_much_as_a_call_may_hold_is_written_and_read(self, store: OnlineStore, view: bytes) -> None:
        places = some_places(view, MOST_ROWS)
        rows = [stored(place, Rank(1), os.urandom(8) * 300) for place in places]
        assert store.write(view, rows) == MOST_ROWS
        assert store.read(places) == [one.row for one in rows]
        large = stored(places[0], Rank(2), os.urandom(4 << 20))
        assert store.write(view, [large]) == 1
        assert store.read(places[:1]) == [large.row]
        assert store.freshness(view).rows == MOST_ROWS

    def test_freshness_never_goes_back(self, store: OnlineStore, view: bytes) -> None:
        assert store.freshness(view) == NEVER
        first, second = some_places(view, 2)
        store.write(view, [stored(first, Rank(NOON))])
        assert store.freshness(view) == Freshness(complete=None, newest=Moment(NOON), rows=1)
        store.complete(view, Moment(NOON))
        store.complete(view, Moment(NOON - 1))
        store.write(view, [stored(second, Rank(NOON - 1))])
        assert store.freshness(view) == Freshness(complete=Moment(NOON), newest=Moment(NOON), rows=2)
        assert store.freshness(os.urandom(VIEW_BYTES)) == NEVER

    def test_what_earlier_materialisations_wrote_is_dropped_and_stays_so(self, store: OnlineStore, view: bytes) -> None:
        old, new = some_places(view, MOST_ROWS + 500), some_places(view, 20)
        for rank, places in ((Rank(NOON - 1, NOON, NOON), old), (Rank(NOON), new)):
            for piece in in_pieces(places, rank):
                store.write(view, piece)
        store.complete(view, Moment(NOON))
        assert store.drop(view, before=Moment(NOON)) == len(old)
        assert store.drop(view, before=Moment(NOON - 5)) == 0
        assert store.read([old[0], new[0]]) == [None, pack_rank(Rank(NOON))]
        assert store.write(view, [stored(old[0], Rank(NOON - 1, NOON + 9))]) == 0, "it was overtaken"
        assert store.write(view, [stored(old[0], Rank(NOON))]) == 1
        assert store.freshness(view) == Freshness(complete=Moment(NOON), newest=Moment(NOON), rows=21)

    def test_a_dropped_view_leaves_nothing_and_takes_nothing_with_it(self, store: OnlineStore) -> None:
        # Next to each other, where places are ordered.
        views = [bytes(15) + bytes((last,)) for last in range(3)]
        places = [place for view in views for place in some_places(view, 5)]
        for view in views:
            store.write(view, [stored(place, Rank(NOON)) for place in places if place.startswith(view)])
            store.complete(view, Moment(NOON))
        assert store.drop(views[1]) == 5
        assert store.drop(views[1]) == 0
        assert [row is None for row in store.read(places)] == [False] * 5 + [True] * 5 + [False] * 5
        assert [store.freshness(view).rows for view in views] == [5, 0, 5]
        assert store.freshness(views[1]) == NEVER
        assert store.write(views[1], [stored(places[5], Rank(1))]) == 1, "a view that begins again may be of any moment"

    def test_all_rows_of_a_view_are_walked_through(self, store: OnlineStore, view: bytes) -> None:
        assert list(store.rows(view)) == []
        for one in (view, os.urandom(VIEW_BYTES)):
            for piece in in_pieces(some_places(one, MOST_ROWS + 700), Rank(NOON)):
                store.write(one, piece)
        store.complete(view, Moment(NOON))
        more = [stored(place, Rank(NOON), b"more") for place in some_places(view, 3)]
        store.write(view, more)
        walked = dict(store.rows(view))
        assert len(walked) == MOST_ROWS + 703
        assert all(place.startswith(view) for place in walked)
        assert [Stored(one.place, walked[one.place]) for one in more] == more

    def test_threads_write_and_read_side_by_side(self, store: OnlineStore, view: bytes) -> None:
        places, wrong = some_places(view, 50), list[object]()

        def write(start: int) -> None:
            for of in range(start, 60, 3):
                store.write(view, [stored(place, Rank(of), b"%02d" % of * 20) for place in places])

        def read() -> None:
            before = 0
            for _ in range(60):
                found = store.read(places)
                moments = {row[24:] for row in found if row is not None}
                if len(moments) > 1 or any(int(one[:2]) < before or one != one[:2] * 20 for one in moments):
                    wrong.append(moments)
                before = max((int(one[:2]) for one in moments), default=before)

        threads = [threading.Thread(target=write, args=(start,)) for start in (1, 2, 3)]
        threads += [threading.Thread(target=read) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong
        assert store.read(places) == [pack_rank(Rank(59)) + b"59" * 20] * 50

    def test_a_store_that_works_says_so(self, store: OnlineStore) -> None:
        store.probe()
