import re
import uuid
from concurrent.futures import ThreadPoolExecutor

from hypothesis import given
from hypothesis import strategies as st

from falaj.base.clock import SECOND, Moment
from falaj.base.ids import new_id
from falaj.base.values import ID_PATTERN

NOW = Moment(1_900_000_000 * SECOND)


def test_ids_made_within_one_moment_strictly_increase():
    ids = [new_id(NOW) for _ in range(5000)]
    assert ids == sorted(set(ids))


@given(st.lists(st.integers(0, 4_000_000_000 * SECOND).map(Moment), min_size=2, max_size=20))
def test_ids_strictly_increase_even_when_the_clock_does_not(moments):
    ids = [new_id(moment) for moment in moments]
    assert ids == sorted(set(ids))


def test_threads_never_get_the_same_id():
    with ThreadPoolExecutor(8) as pool:
        ids = [one for batch in pool.map(lambda _: [new_id(NOW) for _ in range(500)], range(8)) for one in batch]
    assert len(set(ids)) == len(ids)


def test_an_id_is_a_uuid_of_version_7():
    made = new_id(NOW)
    assert re.fullmatch(ID_PATTERN, made)
    assert uuid.UUID(made).version == 7
    assert uuid.UUID(made).variant == uuid.RFC_4122
