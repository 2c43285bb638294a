"""Writes: piece by piece, found again after whatever ended them, and one version out of each or none."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

from falaj.base.clock import DAY, HOUR
from falaj.base.errors import Conflict, FalajError, Forbidden, Invalid, NotFound
from falaj.datasets.operations import writing
from falaj.governance.roles import Role
from falaj.operations.messages import adapter
from falaj.tables.forms import Form
from tests.datasets.platform import CSV, PROJECT, Platform, arrow

MORE = b"id,name,score\n4,dam,3.5\n"
ROWS = [(1, "well", 0.5), (2, "channel", 1.5), (3, "field", 2.5)]
FOURTH = (4, "dam", 3.5)


def test_a_write_of_several_pieces_becomes_one_version_in_their_order(platform: Platform) -> None:
    write = platform.open(origin="flights.csv")
    platform.send(write, CSV)
    platform.send(write, b"id,name,score\n9,last,0\n", 3)
    platform.send(write, MORE, 2)
    version = platform.commit(write, 3)
    assert (version.version, version.parent, version.mode, version.origin) == (1, 0, "append", "flights.csv")
    assert (version.rows, version.parts, version.zone, version.current) == (5, 3, "home", True)
    assert [(column.name, column.type) for column in version.columns] == [
        ("id", "int64"),
        ("name", "text"),
        ("score", "float64"),
    ]
    assert platform.rows() == [*ROWS, FOURTH, (9, "last", 0.0)]
    assert platform.dataset().current == 1


def test_nothing_is_seen_of_a_write_before_it_is_committed(platform: Platform) -> None:
    platform.write(CSV)
    platform.send(platform.open(), MORE)
    assert platform.rows() == ROWS
    assert platform.dataset().versions == 1


def test_an_append_goes_behind_whatever_is_current_when_it_is_committed(platform: Platform) -> None:
    platform.write(CSV)
    slow = platform.open()
    platform.send(slow, b"id,name,score\n7,slow,0\n")
    platform.write(MORE)
    assert platform.commit(slow).parent == 2
    assert platform.rows() == [*ROWS, FOURTH, (7, "slow", 0.0)]


def test_an_overwrite_that_something_came_before_is_a_conflict_and_changes_nothing(platform: Platform) -> None:
    platform.write(CSV)
    slow = platform.open("overwrite")
    platform.send(slow, MORE)
    platform.write(MORE)
    with pytest.raises(Conflict, match="came between"):
        platform.commit(slow)
    assert platform.rows() == [*ROWS, FOURTH]
    assert platform.shown(slow).state == "open"


def test_an_append_to_a_version_that_is_no_longer_current_is_refused(platform: Platform) -> None:
    platform.write(CSV)
    write = platform.open(parent=1)
    platform.send(write, MORE)
    platform.write(MORE)
    with pytest.raises(Conflict, match="Version 2"):
        platform.commit(write)
    with pytest.raises(Conflict, match="knows 1"):
        platform.open(parent=1)


def test_an_overwrite_may_have_other_columns_and_leaves_the_earlier_version_as_it_was(platform: Platform) -> None:
    platform.write(CSV)
    version = platform.write(arrow(place=["Al Ain"]), mode="overwrite")
    assert (version.version, version.rows, [column.name for column in version.columns]) == (2, 1, ["place"])
    assert platform.rows() == [("Al Ain",)]
    assert platform.rows("1") == ROWS


def test_a_piece_that_is_sent_again_changes_nothing(platform: Platform) -> None:
    write = platform.open()
    first = platform.send(write, CSV)
    assert platform.send(write, CSV) == first
    assert platform.commit(write).rows == 3


def test_the_same_piece_with_other_bytes_is_refused(platform: Platform) -> None:
    write = platform.open()
    platform.send(write, CSV)
    with pytest.raises(Conflict, match="other bytes"):
        platform.send(write, MORE)


def test_a_commit_that_is_done_again_answers_the_same(platform: Platform) -> None:
    write = platform.open()
    platform.send(write, CSV)
    first = platform.commit(write)
    assert platform.commit(write) == first
    assert platform.dataset().versions == 1


def test_a_write_that_lacks_a_piece_or_has_one_too_many_is_not_committed(platform: Platform) -> None:
    write = platform.open()
    platform.send(write, CSV)
    platform.send(write, MORE, 3)
    with pytest.raises(Conflict, match="not come: 2"):
        platform.commit(write, 3)
    with pytest.raises(Conflict, match="Piece 3 came as well"):
        platform.commit(write, 2)
    with pytest.raises(Invalid, match="nothing in it to make a version of"):
        platform.commit(platform.open(), 0)


def test_a_write_is_found_again_by_its_key_with_the_pieces_it_has(platform: Platform) -> None:
    write = platform.open(key="nightly")
    piece = platform.send(write, CSV)
    again = platform.open(key="nightly")
    assert (again.id, again.pieces) == (write.id, (piece,))
    with pytest.raises(Conflict, match="meant otherwise"):
        platform.open(key="nightly", form=Form(delimiter=";"))


def test_what_was_committed_under_a_key_is_not_written_twice_and_after_a_day_the_key_is_free(platform: Platform) -> None:
    write = platform.open(key="nightly")
    platform.send(write, CSV)
    platform.commit(write)
    again = platform.open(key="nightly")
    assert (again.id, again.state, again.version) == (write.id, "committed", 1)
    platform.clock.forward(DAY + HOUR)
    assert platform.open(key="nightly").id != write.id


def test_the_key_of_one_person_does_not_find_the_write_of_another(platform: Platform) -> None:
    other = platform.person("badr", Role.SCIENTIST)
    assert platform.open(key="nightly").id != platform.open(key="nightly", token=other).id


def test_what_was_given_up_takes_nothing_and_is_shredded(platform: Platform) -> None:
    write = platform.open()
    platform.send(write, CSV)
    platform.abandon(write)
    for attempt in (lambda: platform.send(write, MORE, 2), lambda: platform.commit(write)):
        with pytest.raises(Conflict, match="given up"):
            attempt()
    platform.clock.forward(DAY)
    platform.collector.step(platform.clock.now())
    assert platform.objects() == set()


def test_a_committed_write_cannot_be_given_up(platform: Platform) -> None:
    write = platform.open()
    platform.send(write, CSV)
    platform.commit(write)
    with pytest.raises(Conflict, match="became version 1"):
        platform.abandon(write)
    assert platform.rows() == ROWS


def test_a_write_that_nobody_goes_on_with_is_given_up_after_a_day(platform: Platform) -> None:
    left, busy = platform.open(dataset="left"), platform.open(dataset="busy")
    platform.send(left, CSV)
    platform.clock.forward(DAY - HOUR)
    platform.send(busy, CSV)
    platform.clock.forward(2 * HOUR)
    platform.room.step(platform.clock.now())
    assert (platform.shown(left).state, platform.shown(left).pieces) == ("abandoned", ())
    assert platform.commit(busy).rows == 3


def test_rows_that_do_not_fit_are_refused_and_leave_the_write_open(platform: Platform) -> None:
    platform.write(CSV)
    write = platform.open()
    with pytest.raises(Invalid, match="not expected: depth"):
        platform.send(write, b"id,name,score,depth\n4,dam,1,2\n")
    with pytest.raises(Invalid):
        platform.send(write, b"id,name,score\nfour,dam,1\n")
    platform.send(write, MORE)
    assert platform.commit(write).rows == 4


def test_columns_may_be_added_and_widened_where_that_is_said(platform: Platform) -> None:
    platform.write(arrow(id=pa.array([1, 2], pa.int32())))
    version = platform.write(arrow(id=[1 << 40], depth=[7]), evolve=True)
    assert [(column.name, column.type) for column in version.columns] == [("id", "int64"), ("depth", "int64")]
    assert platform.query("SELECT id, depth FROM flights").rows == ((1, None), (2, None), (1 << 40, 7))
    assert platform.query('SELECT * FROM "flights@1"').rows == ((1,), (2,))


def test_types_that_hold_each_other_in_no_way_are_a_conflict(platform: Platform) -> None:
    platform.write(arrow(id=[1]))
    write = platform.open(evolve=True)
    platform.send(write, arrow(id=["one"]))
    with pytest.raises(Conflict, match="without loss"):
        platform.commit(write)


def test_an_append_that_a_renaming_overtook_is_a_clear_conflict(platform: Platform) -> None:
    platform.write(CSV)
    write = platform.open()
    platform.send(write, MORE)
    platform.rename(score="points")
    with pytest.raises(Conflict, match="score"):
        platform.commit(write)


def test_where_the_columns_are_not_known_piece_1_comes_first_and_decides_them(platform: Platform) -> None:
    write = platform.open()
    with pytest.raises(Conflict, match="piece 1 first"):
        platform.send(write, CSV, 2)
    platform.send(write, CSV)
    with pytest.raises(Invalid, match="not expected: other"):
        platform.send(write, b"id,other\n1,2\n", 2)


def test_of_many_appends_at_once_none_is_lost(platform: Platform) -> None:
    platform.write(CSV)
    start = threading.Barrier(6)

    def append(number: int) -> int:
        write = platform.open()
        platform.send(write, f"id,name,score\n{number},many,0\n".encode())
        start.wait()
        return platform.commit(write).version

    with ThreadPoolExecutor(6) as pool:
        numbers = list(pool.map(append, range(100, 106)))
    assert sorted(numbers) == list(range(2, 8))
    assert sorted(row[0] for row in platform.rows()) == [1, 2, 3, *range(100, 106)]


def test_of_overwrites_at_once_one_wins(platform: Platform) -> None:
    platform.write(CSV)
    start = threading.Barrier(4)

    def overwrite(number: int) -> int | str:
        write = platform.open("overwrite")
        platform.send(write, f"id\n{number}\n".encode())
        start.wait()
        try:
            return platform.commit(write).version and number
        except Conflict as error:
            return str(error)

    with ThreadPoolExecutor(4) as pool:
        ends = list(pool.map(overwrite, range(4)))
    (winner,) = (end for end in ends if isinstance(end, int))
    assert platform.rows() == [(winner,)]
    assert platform.dataset().versions == 2


def test_the_same_key_twice_at_once_opens_one_write(platform: Platform) -> None:
    platform.write(CSV)
    start = threading.Barrier(4)

    def open_one(_: int) -> str:
        start.wait()
        return platform.open(key="same").id

    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(open_one, range(4)))) == 1


def test_every_step_of_a_write_is_in_the_ledger_with_what_it_made(platform: Platform) -> None:
    version = platform.write(CSV)
    (opened,), (sent,), (committed,) = (platform.leaves(f"dataset.{name}") for name in ("write", "write-part", "commit"))
    assert opened["facts"]["write"] == committed["facts"]["write"]
    assert sent["facts"]["digest"]
    assert (committed["facts"]["version"], committed["facts"]["digest"]) == (version.id, version.digest)


def test_the_same_rows_have_the_same_digest_and_others_another(platform: Platform) -> None:
    versions = [platform.write(content, dataset=name) for name, content in (("a", CSV), ("b", CSV), ("c", MORE))]
    assert versions[0].digest == versions[1].digest != versions[2].digest


def test_rows_that_are_those_of_the_current_version_make_no_other_where_that_is_said(platform: Platform) -> None:
    first, objects = platform.write(CSV, mode="overwrite"), platform.objects()
    again = platform.write(CSV, mode="overwrite", unless_same=True, key="again")
    assert again == first
    known = platform.open("overwrite", unless_same=True, key="again")
    assert (known.state, known.version) == ("committed", 1)
    platform.room.step(platform.clock.now())
    platform.clock.forward(DAY)
    platform.collector.step(platform.clock.now())
    assert platform.objects() == objects  # what was sent is let go
    assert platform.write(CSV, mode="overwrite").version == 2
    other = CSV.replace(b"2.5", b"2.25")
    assert platform.write(other, mode="overwrite", unless_same=True).version == 3
    assert platform.write(CSV, mode="overwrite", unless_same=True).version == 4  # it is held against the current one alone
    assert platform.write(CSV.replace(b"score", b"mark"), mode="overwrite", unless_same=True).version == 5


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"mode": "merge"}, "tell rows apart"),
        ({"keys": ("id",)}, "tell rows apart"),
        ({"unless_same": True}, "where they overwrite them"),
        ({"mode": "delete"}, "where"),
        ({"where": "id = 1"}, "where"),
        ({"mode": "merge", "keys": ("id", "id")}, "twice"),
        ({"mode": "delete", "where": "true"}, "no version yet"),
        ({"zone": "nowhere"}, "target-zone"),
    ],
)
def test_what_contradicts_itself_is_refused_before_anything_is_sent(small: Platform, fields: dict[str, str], said: str) -> None:
    with pytest.raises(FalajError, match=said):
        small.open(**fields)


def test_a_dataset_is_made_only_where_that_is_said(small: Platform) -> None:
    with pytest.raises(NotFound, match="create"):
        small.call(writing.OPEN_WRITE, writing.OpenWrite(project=PROJECT, dataset="flights"))


def test_who_may_only_read_writes_nothing(small: Platform) -> None:
    small.write(CSV)
    reader = small.person("rim", Role.VIEWER)
    attempts: list[Callable[[], object]] = [
        lambda: small.open(token=reader),
        lambda: small.call(writing.SHOW_WRITE, writing.OneWrite(project=PROJECT, dataset="flights", write="0" * 32), reader),
    ]
    for attempt in attempts:
        with pytest.raises(Forbidden):
            attempt()


def test_more_pieces_than_there_can_be_are_refused_and_those_that_lack_are_named(small: Platform) -> None:
    write = small.open()
    small.send(write, CSV)
    small.send(write, MORE, 4)
    with pytest.raises(Conflict, match=r"not come: 2, 3, 5, 6, 7\."):
        small.commit(write, writing.MOST_PIECES)
    message = {"project": PROJECT, "dataset": "flights", "write": write.id, "pieces": writing.MOST_PIECES + 1}
    with pytest.raises(ValueError, match="pieces"):
        adapter(writing.CommitWrite).validate_python(message)


def test_a_commit_takes_the_pieces_it_names_in_their_order_and_the_others_are_shredded(platform: Platform) -> None:
    """As of workers that send beside each other, some of whom are tried again."""
    write = platform.open()
    platform.send(write, arrow(id=pa.array([], pa.int64())))
    before = platform.objects()
    attempts = {writing.HIGHEST_PIECE: [5, 6], 1 << 40: [7], 70_000: [5], 200_000: [8]}
    for number, ids in attempts.items():
        platform.send(write, arrow(id=ids), number)
    for only, pieces, said in (((1 << 40, 3), 2, r"not come: 3\."), ((1 << 40,), 2, "named"), ((1 << 40,) * 2, 2, "twice")):
        with pytest.raises((Conflict, Invalid), match=said):
            platform.commit(write, pieces, only)
    version = platform.commit(write, 2, (writing.HIGHEST_PIECE, 1 << 40))
    assert (version.rows, version.parts, platform.rows()) == (3, 2, [(5,), (6,), (7,)])
    assert platform.commit(write, 2, (writing.HIGHEST_PIECE, 1 << 40)) == version
    platform.room.step(platform.clock.now())
    platform.clock.forward(DAY)
    platform.collector.step(platform.clock.now())
    assert not before & platform.objects()  # the piece that only said the columns, and what was sent in vain
    assert platform.rows() == [(5,), (6,), (7,)]


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"x" * 300: [1]}, "at most 255 characters"),
        ({"a\u202eb": [1]}, "nobody sees"),
        ({"email": [1], "Email": [2]}, "differ in case"),
        ({f"c{number}": [1] for number in range(10_001)}, "at most 10000"),
    ],
)
def test_columns_that_cannot_be_kept_are_refused_with_the_first_piece(
    small: Platform, columns: dict[str, list[int]], said: str
) -> None:
    write = small.open()
    with pytest.raises(Invalid, match=said):
        small.send(write, arrow(**columns))
    small.send(write, CSV)
    assert small.commit(write).columns[0].name == "id"
    for name, words in (("NAME", "differ in case"), ("a\nb", "nobody sees")):
        with pytest.raises(Invalid, match=words):
            small.rename(id=name)
