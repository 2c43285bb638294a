"""What `Prepared` promises, on both engines."""

import pytest
from sqlalchemy import bindparam, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite

from falaj.base.errors import Conflict
from falaj.database.prepared import Prepared
from tests.database.conftest import notes, read_notes

ADD = Prepared(insert(notes).values(id=bindparam("id"), text=bindparam("text")))
FIND = Prepared(select(notes.c.id, notes.c.text).where(notes.c.id == bindparam("its_id")))
CHANGE = Prepared(update(notes).where(notes.c.text == bindparam("old")).values(text=bindparam("new")))
ADD_OR_SKIP = Prepared(
    {
        dialect.__name__.rpartition(".")[2]: dialect.insert(notes)
        .values(id=bindparam("id"), text=bindparam("text"))
        .on_conflict_do_nothing()
        for dialect in (postgresql, sqlite)
    }
)


def test_parameters_find_their_places_by_name(database):
    database.write(lambda work: ADD.run(work, text="b", id=2))
    assert database.read(lambda work: tuple(FIND.first(work, its_id=2))) == (2, "b")
    assert database.read(lambda work: FIND.first(work, its_id=3)) is None
    assert database.write(lambda work: CHANGE.run(work, new="c", old="b")) == 1
    assert database.write(lambda work: CHANGE.run(work, new="c", old="b")) == 0


def test_many_rows_go_in_at_once(database):
    database.write(lambda work: ADD.run_many(work, [{"text": str(number), "id": number} for number in range(5)]))
    assert database.read(read_notes) == ["0", "1", "2", "3", "4"]


def test_each_engine_may_have_its_own_wording(database):
    database.write(lambda work: ADD.run(work, id=1, text="first"))
    database.write(lambda work: ADD_OR_SKIP.run(work, id=1, text="second"))
    assert database.read(read_notes) == ["first"]


def test_a_text_is_never_read_as_sql(database):
    text = "'); DROP TABLE notes; -- %s ? :x %(id)s"
    database.write(lambda work: ADD.run(work, id=1, text=text))
    assert database.read(lambda work: FIND.all(work, its_id=1))[0][1] == text


def test_a_driver_error_is_translated_like_any_other(database):
    database.write(lambda work: ADD.run(work, id=1, text="first"))
    with pytest.raises(Conflict):
        database.write(lambda work: ADD.run(work, id=1, text="again"))
    with pytest.raises(Conflict):
        database.write(lambda work: ADD.run_many(work, [{"id": 2, "text": "x"}, {"id": 1, "text": "again"}]))
    assert database.read(read_notes) == ["first"]
