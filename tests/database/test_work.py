"""What `Database` promises, on both engines."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import insert, text
from sqlalchemy.exc import DBAPIError, ProgrammingError

from falaj.base.errors import Conflict, FalajError, Invalid, Unavailable
from tests.database.conftest import note, notes, read_notes


def test_what_was_written_is_there_for_another_process(database, place):
    database.write(note("kept"))
    other = place.open()
    assert other.read(read_notes) == ["kept"]
    other.close()


def test_write_returns_what_the_function_returned(database):
    assert database.write(lambda work: 42) == 42


def test_an_exception_leaves_nothing(database):
    def fails(work):
        note("half")(work)
        raise Invalid("no")

    with pytest.raises(Invalid, match="no"):
        database.write(fails)
    assert database.read(read_notes) == []


def test_a_failing_writer_leaves_those_beside_it_alone(database):
    together = threading.Barrier(12)

    def one(number):
        def act(work):
            note(f"note {number}")(work)
            if number % 3 == 0:
                raise Invalid(f"{number} fails")

        together.wait()
        try:
            database.write(act)
        except Invalid as error:
            return str(error)
        return "done"

    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(one, range(12)))
    assert answers == [f"{number} fails" if number % 3 == 0 else "done" for number in range(12)]
    assert sorted(database.read(read_notes)) == sorted(f"note {number}" for number in range(12) if number % 3)


def test_a_statement_that_fails_leaves_those_beside_it_alone(database):
    database.write(lambda work: work.execute(insert(notes).values(id=1, text="first")) and None)
    with pytest.raises(Conflict):
        database.write(lambda work: work.execute(insert(notes).values(id=1, text="second")))
    database.write(lambda work: work.execute(insert(notes).values(id=2, text="third")) and None)
    assert database.read(read_notes) == ["first", "third"]


def test_a_read_cannot_write(database):
    with pytest.raises((FalajError, DBAPIError), match=r"(?i)read.?only"):
        database.read(note("sneaked in"))
    assert database.read(read_notes) == []


def test_a_read_sees_one_snapshot(database):
    database.write(note("before"))

    def look_twice(work):
        first = read_notes(work)
        writer = threading.Thread(target=database.write, args=[note("after")])
        writer.start()
        writer.join()
        return first, read_notes(work)

    assert database.read(look_twice) == (["before"], ["before"])
    assert database.read(read_notes) == ["before", "after"]


def test_a_write_within_a_write_is_refused(database):
    with pytest.raises(RuntimeError, match="within a write"):
        database.write(lambda work: database.write(note("inner")))
    database.write(note("later"))
    assert database.read(read_notes) == ["later"]


def test_a_mistake_in_the_statement_is_not_hidden(database):
    with pytest.raises((ProgrammingError, Unavailable)):
        database.read(lambda work: work.execute(text("select * from no_such_table")))


def test_many_writers_at_once_all_count(database):
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda number: database.write(note(str(number))), range(200)))
    assert sorted(map(int, database.read(read_notes))) == list(range(200))
