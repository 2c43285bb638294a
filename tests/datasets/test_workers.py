"""Data workers for real, inside real walls: what they make and answer, what SQL cannot do, and what is left when one dies."""

import contextlib
import io
import itertools
import os
import shutil
import sys
import threading
import time
import venv

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from falaj.base.errors import Invalid, Misconfigured, TooLarge
from falaj.datasets.workers import DataWorkers, WorkerFailed
from falaj.datasets.working import processes
from falaj.runtimes import bubblewrap
from falaj.tables.errors import Altered
from falaj.tables.forms import Form
from falaj.tables.orders import PartToRead, QueryLimits, TableToRead
from falaj.tables.parts import PartReader
from falaj.tables.schemas import Column, Schema

KEY = bytes(range(32))
SALES = b"id,name,price\n1,Ann,1.5\n2,Bob,2.5\n3,Cem,\n"
FOREVER = "SELECT count(*) FROM range(100000000000000) WHERE hash(range) = 0"


@pytest.fixture
def make(workers):
    """Parts by their number, each with an id of its own."""
    with contextlib.ExitStack() as stack:
        numbers = itertools.count(1)

        def made(content, schema=None, **form):
            object_id = f"{next(numbers):032x}"
            part = workers.make_part([content], form=Form(**form), schema=schema, key=KEY, object_id=object_id)
            stack.enter_context(part.file)
            return part, object_id

        yield made


def table(*parts, schema=None, masked=(), renamed=None):
    read = tuple(PartToRead(file=part.file.fileno(), key=KEY, object_id=name, renamed=renamed) for part, name in parts)
    return TableToRead(schema=schema or parts[0][0].facts.schema, parts=read, masked=masked)


def schema(**words):
    return Schema(columns=tuple(Column(name=name, type=word) for name, word in words.items()))


def test_a_part_is_made_of_chunks_and_of_a_file(workers, make, tmp_path):
    part, name = make(SALES)
    assert (part.facts.rows, part.facts.size) == (3, os.fstat(part.file.fileno()).st_size)
    assert part.facts.schema == schema(id="int64", name="text", price="float64")
    found = PartReader(part.file.fileno(), key=KEY, object_id=name).read()
    assert found["name"].to_pylist() == ["Ann", "Bob", "Cem"]
    (tmp_path / "sales.csv").write_bytes(SALES)
    with (tmp_path / "sales.csv").open("rb") as file:
        again = workers.make_part(file.fileno(), form=Form(), schema=None, key=bytes(32), object_id="f" * 32)
    with again.file:
        assert again.facts.digest == part.facts.digest


def test_somebody_who_is_not_root_has_workers_too(monkeypatch, tmp_path):
    monkeypatch.setattr(bubblewrap, "own_user", lambda first: 0)
    workers = DataWorkers(workers=1, memory_bytes=2 << 30, folder=tmp_path)
    try:
        part = workers.make_part([SALES], form=Form(), schema=None, key=KEY, object_id="a" * 32)
        with part.file:
            assert not list(tmp_path.iterdir())  # it has no name
            assert workers.query_rows({"s": table((part, "a" * 32))}, "SELECT max(name) FROM s").rows == (("Cem",),)
    finally:
        workers.close()


def test_what_is_wrong_is_said_with_its_words(workers):
    def make(chunks, wanted=None, **form):
        workers.make_part(chunks, form=Form(**form), schema=wanted, key=KEY, object_id="a" * 32)

    with pytest.raises(Invalid, match="Line 3 has 1 fields where 2 are expected"):
        make([b"a,b\n1,2\n3\n"])
    with pytest.raises(Invalid, match="columns that are not expected: b"):
        make([b"a,b\n1,2\n"], schema(a="int64"))
    with pytest.raises(Invalid, match="The source is empty"):
        make([])
    long = itertools.repeat(b"x" * (1 << 20), 40)
    with pytest.raises(Invalid, match="more than 32 MiB"):
        make(long, format="csv")


def test_whoever_stops_sending_stops_the_order_and_nothing_else(workers, make):
    def breaking():
        yield b"a,b\n" + b"1,2\n" * 3_000_000
        raise ConnectionResetError("the client went away")

    with pytest.raises(ConnectionResetError):
        workers.make_part(breaking(), form=Form(), schema=None, key=KEY, object_id="a" * 32)
    assert make(SALES)[0].facts.rows == 3


def test_a_query_over_parts_that_changed_with_time(workers, make):
    first = make(b"id,n\n1,5\n2,6\n", schema(id="int32", n="int64"))
    second = make(b'{"id": 3, "n": 7, "v": [1, 2]}\n{"id": 4}\n', schema(id="int64", n="int64", v="vector(float32, 2)"))
    now = schema(id="int64", amount="int64", v="vector(float32, 2)")
    asked = table(first, second, schema=now, renamed={"n": "amount"})
    answer = workers.query({"sales@2": asked}, 'SELECT * FROM "sales@2" ORDER BY id DESC')
    with answer.file:
        found = pa.ipc.open_stream(answer.file).read_all()
    assert found.to_pylist() == [
        {"id": 4, "amount": None, "v": None},
        {"id": 3, "amount": 7, "v": [1.0, 2.0]},
        {"id": 2, "amount": 6, "v": None},
        {"id": 1, "amount": 5, "v": None},
    ]
    assert (answer.rows, answer.more, answer.schema) == (4, False, now)
    rows = workers.query_rows(
        {"s": asked, "other": table(first)}, "SELECT sum(s.amount) t FROM s JOIN other USING (id) WHERE id > 1"
    )
    assert rows.rows == ((6,),)


def test_times_and_everything_that_json_has_not_are_text(workers, make):
    part = make(b"at,day,x,m\n2026-03-29T01:30:00+01:00,2026-01-02,inf,1.50\n", types={"m": "decimal(10, 2)"})
    rows = workers.preview(table(part)).rows
    assert rows == (("2026-03-29T00:30:00Z", "2026-01-02", "inf", "1.50"),)
    asked = "SELECT date_trunc('day', \"at\") d, \"at\" - TIMESTAMPTZ '2026-03-29 00:00:00+00' AS since FROM t"
    found = workers.query_rows({"t": table(part)}, asked)
    assert found.rows == (("2026-03-29T00:00:00Z", "0:30:00"),)
    assert [column.type for column in found.schema.columns] == ["moment", "duration"]


def test_masked_columns_are_null_in_answers_and_in_conditions(workers, make):
    part = make(SALES)
    asked = table(part, masked=("name",))
    assert workers.preview(asked).rows == ((1, None, 1.5), (2, None, 2.5), (3, None, None))
    assert workers.query_rows({"s": asked}, "SELECT count(*), count(name) FROM s WHERE name IS NULL").rows == ((3, 0),)
    assert workers.query_rows({"s": asked}, "SELECT count(*) FROM s WHERE name = 'Ann'").rows == ((0,),)
    with pytest.raises(Invalid, match="'falaj 0 0' does not exist"):
        workers.query_rows({"s": asked}, 'SELECT * FROM "falaj 0 0"')
    everything = table(part, masked=("id", "name", "price"))
    assert workers.query_rows({"s": everything}, "SELECT * FROM s").rows == ((None, None, None),) * 3


def test_limits_cut_the_answer_and_say_so(workers, make):
    asked = {"s": table(make(SALES))}
    some = workers.query_rows(asked, "SELECT id FROM s ORDER BY id", limits=QueryLimits(rows=2))
    assert (some.rows, some.more) == (((1,), (2,)), True)
    assert workers.preview(asked["s"], rows=1, columns=("name",)).rows == (("Ann",),)
    assert not workers.preview(asked["s"], rows=3).more
    with pytest.raises(TooLarge, match="more than 64 MiB as JSON"):
        workers.query_rows(asked, "SELECT repeat('\"', 10000) FROM range(5000)")
    with pytest.raises(TooLarge, match="more than 1 MiB"):
        workers.query(asked, "SELECT repeat('x', 1000) FROM range(10000)", limits=QueryLimits(bytes=1 << 20)).file.close()


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT * FROM read_csv('/etc/passwd')", "function read_csv is not allowed"),
        ("SELECT * FROM read_text('/proc/self/environ')", "function read_text is not allowed"),
        ("SELECT * FROM read_parquet('https://example.com/x.parquet')", "function read_parquet is not allowed"),
        ("SELECT * FROM '/etc/passwd'", "does not exist"),
        ("SELECT * FROM glob('/*')", "function glob is not allowed"),
        ("SELECT getenv('HOME')", "function getenv is not allowed"),
        ("SELECT json_serialize_plan('SELECT id FROM s') FROM s", "function json_serialize_plan is not allowed"),
        ("SELECT * FROM json_execute_serialized_sql('{}')", "function json_execute_serialized_sql is not allowed"),
        ("SELECT * FROM arrow_scan(1, 2, 3)", "function arrow_scan is not allowed"),
        ("COPY s TO '/tmp/x.csv'", "one SELECT"),
        ("COPY (SELECT * FROM s) TO '/dev/stdout'", "one SELECT"),
        ("ATTACH '/tmp/x.db'", "one SELECT"),
        ("INSTALL httpfs", "one SELECT"),
        ("LOAD httpfs", "one SELECT"),
        ("PRAGMA database_list", "one SELECT"),
        ("SET memory_limit = '100GB'", "one SELECT"),
        ("SET enable_external_access = true", "one SELECT"),
        ("RESET lock_configuration", "one SELECT"),
        ("CALL pragma_version()", "one SELECT"),
        ("EXPORT DATABASE '/tmp/x'", "one SELECT"),
        ("CREATE TABLE x AS SELECT 1", "one SELECT"),
        ("DROP VIEW s", "one SELECT"),
        ("INSERT INTO s VALUES (1)", "one SELECT"),
        ("SELECT 1; SELECT 2", "2 statements"),
        ("SELECT 1; COPY s TO '/tmp/x'", "2 statements"),
        ("", "0 statements"),
        ("SELEC 1", "syntax error"),
        ("SELECT nothing FROM s", "nothing"),
        ("SELECT * FROM elsewhere", "does not exist"),
        ("SELECT * FROM told", "does not exist"),
        ("SELECT id, id FROM s", "two columns called"),
        ("SELECT error('planted')", "planted"),
        ("SELECT INTERVAL 1 MONTH AS m", "span of months"),
    ],
)
def test_sql_reaches_the_tables_and_nothing_else(workers, make, sql, said):
    with pytest.raises(Invalid, match=f"(?i){said}"):
        workers.query_rows({"s": table(make(SALES))}, sql)


def test_a_query_that_takes_too_long_is_ended_and_the_next_one_answered(workers):
    with pytest.raises(WorkerFailed, match="took more than 1 seconds"):
        workers.query_rows({}, FOREVER, limits=QueryLimits(seconds=1))
    assert workers.query_rows({}, "SELECT 1").rows == ((1,),)


def test_a_query_that_takes_too_much_memory_is_refused_and_spills_nothing(workers):
    huge = "SELECT list(hash(range)) FROM range(10000000000)"
    with pytest.raises(TooLarge, match="more than 1228 MiB of memory, and nothing may be spilled"):
        workers.query_rows({}, huge)
    crossed = "SELECT count(*) FROM range(1000000000) a, range(1000000000) b WHERE a.range + b.range < 0"
    with pytest.raises((TooLarge, WorkerFailed), match=r"MiB of memory|more than 3 seconds"):
        workers.query_rows({}, crossed, limits=QueryLimits(seconds=3))
    assert workers.query_rows({}, "SELECT 1").rows == ((1,),)


def test_a_flipped_part_is_named_by_query_and_preview_whatever_else_is_there(workers, make, tmp_path):
    good, bad = make(SALES), make(b"id,name,price\n" + b"7,Zed,8.5\n" * 5000)
    content = bytearray(bad[0].file.read())
    content[len(content) // 4] ^= 1
    (tmp_path / "flipped").write_bytes(content)
    with (tmp_path / "flipped").open("rb") as file:
        parts = (
            PartToRead(file=good[0].file.fileno(), key=KEY, object_id=good[1]),
            PartToRead(file=file.fileno(), key=KEY, object_id=bad[1]),
        )
        asked = TableToRead(schema=good[0].facts.schema, parts=parts)
        with pytest.raises(Altered, match=f"Part {bad[1]} is not what was sealed"):
            workers.query_rows({"s": asked}, "SELECT max(id), max(name), max(price) FROM s")
        with pytest.raises(Altered, match=bad[1]):
            workers.preview(asked)
    swapped = TableToRead(
        schema=good[0].facts.schema, parts=(PartToRead(file=good[0].file.fileno(), key=KEY, object_id=bad[1]),)
    )
    with pytest.raises(Altered, match=bad[1]):
        workers.query_rows({"s": swapped}, "SELECT 1 FROM s")


def test_what_a_query_finds_is_sealed_without_leaving_the_walls(workers, make):
    part = make(SALES)
    asked = {"s": table(part)}
    made = workers.make_part_of(
        asked, "SELECT * FROM s WHERE id <> 2", schema=part[0].facts.schema, key=KEY, object_id="e" * 32
    )
    with made.file:
        found = PartReader(made.file.fileno(), key=KEY, object_id="e" * 32).read()
    assert found["name"].to_pylist() == ["Ann", "Cem"]
    same, _ = make(b"id,name,price\n1,Ann,1.5\n3,Cem,\n")
    assert (made.facts.digest, made.facts.schema, made.facts.profile) == (
        same.facts.digest,
        same.facts.schema,
        same.facts.profile,
    )
    with pytest.raises(Invalid, match="one SELECT"):
        workers.make_part_of(asked, "DROP VIEW s", schema=None, key=KEY, object_id="e" * 32)


def test_profiles_of_parts_are_merged_to_that_of_a_version(workers, make):
    facts = [make(f"n,t\n{number},x\n".encode())[0].facts for number in range(5)]
    assert facts[3].profile["columns"][0]["max"] == 3
    now = schema(amount="int64", t="text")
    whole = workers.merge_profiles([one.profile for one in facts * 20], now, [{"n": "amount"}] * 100)
    assert (whole["rows"], whole["columns"][0]["max"], whole["columns"][0]["distinct"]) == (100, 4, 5)
    assert whole["columns"][1]["top"] == [["x", 100]]
    first = workers.merge_profiles([facts[0].profile], now, [{"n": "amount"}])
    (amount, text) = workers.compare_profiles(first, whole)
    assert (amount["name"], amount["distinct"], text["distance"]) == ("amount", [1, 5], 0.0)
    assert amount["distance"] > 0.5


HOSTILE = """
import os, socket, stat, time

def lives(pid):
    try:
        return open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False

def done(told, files):
    found = []
    for place in ("/tmp/left", "/dev/shm/left"):
        if os.path.exists(place):
            found.append(place)
        open(place, "w").write("of the order before")
    for pid in filter(str.isdigit, os.listdir("/proc")):
        for name in ("mem", "environ", "maps"):
            try:
                if int(pid) != os.getpid() and open(f"/proc/{pid}/{name}", "rb").read(1):
                    found.append(f"{name} of another")
            except OSError:
                pass
    sockets = [one for one in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{one}")
               and stat.S_ISSOCK(os.stat(f"/proc/self/fd/{one}").st_mode)]
    found += ["another socket"] * (len(sockets) - 1)
    found += ["somebody who was left"] * (sum(map(lives, filter(str.isdigit, os.listdir("/proc")))) - 3)
    if os.fork() == 0:
        os.setsid()
        time.sleep(1000)
    return {"found": found}
"""


def test_a_hostile_order_reaches_no_other(tmp_path, monkeypatch):
    """As if what it read had taken over the process that read it, again and again."""
    tables = tmp_path / "tables"
    shutil.copytree(processes.OURS["falaj.tables"], tables, ignore=shutil.ignore_patterns("__pycache__"))
    (tables / "doing.py").write_text(HOSTILE)
    tmp_path.chmod(0o755)
    monkeypatch.setitem(processes.OURS, "falaj.tables", tables)
    workers = DataWorkers(workers=1, memory_bytes=2 << 30)
    try:
        assert [workers.do({}, [], seconds=20)["found"] for _ in range(3)] == [[], [], []]
    finally:
        workers.close()


def test_nonsense_is_not_believed(tmp_path, monkeypatch):
    tables = tmp_path / "tables"
    shutil.copytree(processes.OURS["falaj.tables"], tables, ignore=shutil.ignore_patterns("__pycache__"))
    (tables / "doing.py").write_text(
        "def done(told, files):\n    return {'rows': -1, 'schema': [['a', 'int65', 1]], 'size': 'x'}\n"
    )
    monkeypatch.setitem(processes.OURS, "falaj.tables", tables)
    workers = DataWorkers(workers=1, memory_bytes=2 << 30)
    try:
        for ask in (
            lambda: workers.query_rows({}, "SELECT 1"),
            lambda: workers.query({}, "SELECT 1"),
            lambda: workers.make_part([SALES], form=Form(), schema=None, key=KEY, object_id="a" * 32),
            lambda: workers.merge_profiles([{}], schema(a="int64")),
        ):
            with pytest.raises(WorkerFailed, match="something that cannot be"):
                ask()
    finally:
        workers.close()


def test_more_parts_than_go_in_one_message(workers, make):
    part = make(SALES)
    many = table(*[part] * 450)
    assert workers.query_rows({"s": many}, "SELECT count(*), sum(id)::BIGINT FROM s").rows == ((1350, 2700),)


def walls_of(before):
    """The first process of each data worker that was started since."""
    started = (one for one in psutil.Process().children() if one not in before and one.is_running())
    return [one for one in started if one.status() != psutil.STATUS_ZOMBIE]  # which whoever made this process a reaper collects


def programs_in(walls):
    """What runs inside, oldest first: the one that waits for orders, then what does one."""
    found = []
    for one in (inside for wall in walls for inside in wall.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            if "bwrap" not in one.name():
                found.append(one)
    return sorted(found, key=lambda one: one.pid)


@pytest.mark.parametrize("which", ["what does the order", "the one that waits for orders"])
def test_kill_9_fails_the_order_and_the_next_one_is_done(which):
    before = psutil.Process().children()
    workers, failed = DataWorkers(workers=1, memory_bytes=2 << 30), []
    try:
        workers.query_rows({}, "SELECT 1")
        walls = walls_of(before)

        def ask():
            try:
                workers.query_rows({}, FOREVER, limits=QueryLimits(seconds=100))
            except WorkerFailed as error:
                failed.append(str(error))

        asking = threading.Thread(target=ask)
        asking.start()
        deadline = time.monotonic() + 30
        while len(inside := programs_in(walls)) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        (inside[-1] if which == "what does the order" else inside[0]).kill()
        asking.join(30)
        assert len(failed) == 1
        assert "killed" in failed[0]
        assert workers.query_rows({}, "SELECT 2").rows == ((2,),)
        assert not {one.pid for one in walls} & {one.pid for one in walls_of(before)}  # it is another one
    finally:
        workers.close()
    deadline = time.monotonic() + 10
    while left := walls_of(before):  # what was inside dies a moment after, and is ours where this process is a reaper
        assert time.monotonic() < deadline, left
        time.sleep(0.05)


def test_a_source_that_crashes_its_reader_fails_alone(workers, make):
    nested = b'{"a": ' + b"[" * 200_000 + b"]" * 200_000 + b"}\n"
    with pytest.raises((WorkerFailed, Invalid)):
        make(nested)
    assert make(SALES)[0].facts.rows == 3


def test_a_small_file_that_unfolds_to_more_than_all_memory_is_refused(workers, make):
    text = pa.DictionaryArray.from_arrays(pa.array([0] * 2000, pa.int32()), pa.array(["x" * 10_000_000]))
    bomb = io.BytesIO()
    pq.write_table(pa.table({"a": text}), bomb, compression="zstd")
    assert len(bomb.getvalue()) < 100_000
    with pytest.raises((TooLarge, WorkerFailed), match="memory"):
        make(bomb.getvalue())
    assert make(SALES)[0].facts.rows == 3


def test_orders_from_many_threads_wait_for_their_turn(workers, make):
    asked, found = {"s": table(make(SALES))}, []
    threads = [
        threading.Thread(target=lambda n=n: found.append(workers.query_rows(asked, f"SELECT {n} + min(id) FROM s").rows[0][0]))
        for n in range(8)
    ]
    for one in threads:
        one.start()
    for one in threads:
        one.join(60)
    assert sorted(found) == list(range(1, 9))


def test_without_walls_or_libraries_whoever_set_it_up_is_told(tmp_path, monkeypatch):
    venv.create(tmp_path / "bare", symlinks=sys.platform != "win32")
    bare = DataWorkers(interpreter=str(tmp_path / "bare" / "bin" / "python"))
    with pytest.raises(Misconfigured, match=r"pip install falaj"):
        bare.query_rows({}, "SELECT 1")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(Misconfigured, match="apt-get install bubblewrap"):
        DataWorkers().query_rows({}, "SELECT 1")
