"""A version as arrays for trainings, over a grant: in row groups, and in several threads."""

import pickle
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from falaj.base.errors import Invalid, Misconfigured
from falaj.client.datasets import dataset, save_dataset
from falaj.tables.arrays import GroupArrays
from tests.datasets.platform import PROJECT, Platform

ROWS = 300_000


@pytest.fixture
def flights(small: Platform) -> Any:
    line: Any = small
    numbers = np.arange(ROWS)
    save_dataset("flights", pa.table({"id": numbers, "delay": numbers / 4}), project=PROJECT, client=line)
    return dataset("flights", project=PROJECT, client=line)


def test_groups_are_read_by_grant_in_several_threads(flights: Any) -> None:
    arrays = GroupArrays(flights.schema, flights._table().parts)
    assert sum(arrays.rows) == ROWS
    assert len(arrays.rows) > 1
    with ThreadPoolExecutor(4) as several:
        found = list(several.map(lambda group: arrays.read(group, ["delay", "id"]), range(len(arrays.rows))))
    assert np.array_equal(np.concatenate([one["id"] for one in found]), np.arange(ROWS))
    assert np.array_equal(np.concatenate([one["delay"] for one in found]), np.arange(ROWS) / 4)


def test_it_is_not_sent_to_other_processes_and_says_what_to_do(flights: Any) -> None:
    arrays = GroupArrays(flights.schema, flights._table().parts)
    with pytest.raises(Invalid, match="multiprocessing_context='fork'"):
        pickle.dumps(arrays)


def test_a_missing_library_is_named(flights: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)  # as if it were not there
    with pytest.raises(Misconfigured, match=r"no torch here: pip install 'falaj\[train\]'"):
        flights.torch(columns=["id"])
