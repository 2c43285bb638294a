"""Where bins lie, and how many rows they hold: bins about equally full, counts exact, memory that does not grow with rows."""

import itertools
import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from falaj.tables.counting import ORDERS, ParquetRows, TableRows, counted, surveyed
from falaj.tables.orders import Bins, PartToRead, TableToRead
from falaj.tables.schemas import Column, Schema
from falaj.tables.telling import told_table
from tests.tables.test_parts import KEY, sealed

RANKS = [place / 20 for place in range(21)]


class Held:
    def __init__(self, table, rows=1000):
        self._table, self.rows, self._at_once = table, table.num_rows, rows

    def batches(self, columns):
        yield from self._table.select(columns).combine_chunks().to_batches(self._at_once)


@pytest.fixture
def part(tmp_path):
    numbers, opened = itertools.count(), []

    def made(table):
        object_id = f"{next(numbers):032x}"
        place = tmp_path / object_id
        place.write_bytes(sealed(table, object_id=object_id)[0])
        opened.append(os.open(place, os.O_RDONLY))
        return PartToRead(file=opened[-1], key=KEY, object_id=object_id)

    yield made
    for file in opened:
        os.close(file)


def test_bins_are_about_equally_full_whatever_order_rows_come_in():
    numbers = np.sort(np.random.default_rng(5).lognormal(size=200_000))
    found = surveyed(Held(pa.table({"price": numbers})), ["price"], ranks=RANKS)["price"]
    assert (found.quantiles[0], found.quantiles[-1]) == (numbers[0], numbers[-1])
    shares = np.diff(np.searchsorted(numbers, found.quantiles)) / len(numbers)
    assert shares == pytest.approx(np.full(20, 0.05), abs=0.01)


def test_what_is_not_finite_has_no_place_among_quantiles_and_is_counted():
    table = pa.table({"x": pa.array([1.0, 2.0, float("inf"), float("-inf"), float("nan"), None])})
    assert surveyed(Held(table), ["x"], ranks=[0, 0.5, 1])["x"].quantiles == (1.0, 1.0, 2.0)
    assert counted(Held(table), [Bins(name="x", edges=(0.0, 1.5))]) == {"x": {"": [1, 1, 2, 2]}}


def test_a_column_without_a_number_has_no_quantiles():
    table = pa.table({"x": pa.array([None, None], pa.float64()), "y": [float("nan"), float("inf")]})
    found = surveyed(Held(table), ["x", "y"], ranks=RANKS)
    assert (found["x"].quantiles, found["y"].quantiles) == ((), ())
    assert surveyed(Held(table.slice(0, 0)), ["x"], ranks=RANKS)["x"].quantiles == ()


def test_the_commonest_kinds_are_found_and_all_others_and_what_is_missing_counted():
    table = pa.table({"city": ["Abu Dhabi"] * 5 + ["Dubai"] * 3 + ["Ajman", "", None]})
    assert surveyed(Held(table), ["city"], kinds=2)["city"].kinds == ("Abu Dhabi", "Dubai")
    assert counted(Held(table, rows=4), [Bins(name="city", kinds=("Dubai", "Abu Dhabi"))]) == {"city": {"": [3, 5, 1, 2]}}


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint64(), pa.float32(), pa.decimal128(10, 2), pa.bool_()])
def test_every_kind_of_number_is_counted(kind):
    table = pa.table({"n": pa.array([0, 1, 1, None], pa.int8()).cast(kind)})
    assert counted(Held(table), [Bins(name="n", edges=(0.5,))]) == {"n": {"": [1, 2, 1]}}


def test_sampled_rows_are_the_same_of_each_column():
    numbers = np.arange(50_000)
    table = pa.table({f"x{place}": numbers + place for place in range(9)} | {"text": [str(one) for one in numbers]})
    found = surveyed(Held(table), table.column_names, sampled=100)
    first = np.array(found["x0"].sampled)
    assert len(set(first)) == 100
    assert np.array(found["x8"].sampled).tolist() == (first + 8).tolist()
    assert [int(one) for one in found["text"].sampled] == first.tolist()


def test_rows_of_sealed_parts_are_counted_by_the_hour_of_their_place(part):
    def rows(count, hour):
        moments = pa.array([hour * 3_600_000_000] * count, pa.timestamp("us", "UTC"))
        return part(pa.table({"at": moments, "x": [1.0] * count, "kind": ["a"] * count}))

    lost = part(pa.table({"at": pa.array([None], pa.timestamp("us", "UTC")), "x": [1.0], "kind": ["a"]}))
    columns = (Column(name="at", type="moment"), Column(name="x", type="float64"), Column(name="kind", type="text"))
    table = TableToRead(schema=Schema(columns=columns), parts=(rows(3, 7), rows(2, 22), lost))
    files = []
    told = {
        "table": told_table(table, files),
        "bins": [["x", [0.0], []], ["kind", [], ["b"]]],
        "slot": "strftime(timezone('Asia/Dubai', \"at\"), '%H')",
        "memory_bytes": 256 << 20,
        "threads": 1,
        "seconds": 60.0,
    }
    by_hour = {one["name"]: one["counts"] for one in ORDERS["count"](told, files)["columns"]}
    assert by_hour == {"x": {"11": [0, 3, 0], "02": [0, 2, 0]}, "kind": {"11": [0, 3, 0], "02": [0, 2, 0]}}
    assert counted(TableRows(table), [Bins(name="x", edges=(0.0,))]) == {"x": {"": [0, 6, 0]}}


def test_memory_does_not_grow_with_rows(tmp_path):
    """Of a process of its own, as a data worker is one."""
    program = (
        "import resource, sys\n"
        "from falaj.tables.counting import ParquetRows, counted, surveyed\n"
        "from falaj.tables.orders import Bins\n"
        "source = ParquetRows(sys.argv[1])\n"
        "names = source.schema.names\n"
        "found = surveyed(source, names, ranks=[0, 0.5, 1])\n"
        "counted(source, [Bins(name=name, edges=found[name].quantiles) for name in names])\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )

    def peak(groups):
        file = tmp_path / f"{groups}.parquet"
        numbers = pa.table({f"x{place}": np.random.default_rng(place).normal(size=50_000) for place in range(8)})
        with pq.ParquetWriter(file, numbers.schema, use_dictionary=False) as writer:
            for _ in range(groups):
                writer.write_table(numbers)
        return int(subprocess.run([sys.executable, "-c", program, file], check=True, capture_output=True, text=True).stdout)

    assert peak(16) - peak(2) < 16 << 10  # the rows themselves take 45 MiB more


def test_a_plain_file_is_counted_as_it_is(tmp_path):
    pq.write_table(pa.table({"x": [1.0, 2.0, None]}), tmp_path / "rows.parquet")
    assert counted(ParquetRows(tmp_path / "rows.parquet"), [Bins(name="x", edges=(1.0,))]) == {"x": {"": [1, 1, 1]}}
