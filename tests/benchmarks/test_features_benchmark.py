"""The benchmark of datasets and features measures the same join three ways: ours and the hand-written SQL agree to the bit."""

import json
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.append(str(BENCHMARKS))  # where its modules find each other

import features  # noqa: E402
import features_data  # noqa: E402
import features_import  # noqa: E402
import features_online  # noqa: E402
import features_pit  # noqa: E402


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("features")
    features_data.KEYS.update(dict.fromkeys(features_data.KEYS, 300))
    features_data.make(folder, labels=5_000, rows=20_000, keys=features.KEYS)
    for who in (features_pit.falaj, features_pit.careless, features_pit.limit):
        pq.write_table(who(folder, features.KEYS), folder / f"{who.__name__}.result.parquet")
    return folder


def test_sealed_parts_and_sql_over_plain_ones_give_the_same_rows(folder):
    features.must_agree(folder)
    found = pq.read_table(folder / "falaj.result.parquet")
    assert found.column("id").to_pylist() == list(range(5_000))
    assert found.column("customer_amount").null_count < 500


def test_what_differs_is_told(folder):
    table = pq.read_table(folder / "limit.result.parquet")
    pq.write_table(table.take([1, 0, *range(2, table.num_rows)]), folder / "limit.result.parquet")
    with pytest.raises(SystemExit, match=r"differ in .*'id'"):
        features.must_agree(folder)


def test_leaks_and_lost_rows_of_a_join_by_event_time_are_counted(folder):
    careless = pq.read_table(folder / "careless.result.parquet")
    pq.write_table(careless.slice(10), folder / "feast.result.parquet")
    counted = features.beside_feast(folder)
    assert counted["feast_lost_rows"] == 10
    assert counted["feast_leaked_rows"] > 50
    assert counted["feast_other_rows"] == 0


def test_what_is_imported_holds_the_same_rows_for_the_limit(tmp_path):
    features_import.make(tmp_path, 1_000)
    features_import.limit(tmp_path)
    found = pq.read_table(tmp_path / "limit.parquet")
    assert found.column("id").to_pylist() == list(range(1_000))
    assert 50 < found.column("rating").null_count < 200
    assert str(found.schema.field("began").type).startswith("timestamp")


def test_values_are_compared_while_reading_one_entity_is_timed(tmp_path, capsys):
    features_online.main(tmp_path, 50)
    assert json.loads(capsys.readouterr().out)["online_get_us"] > 0
