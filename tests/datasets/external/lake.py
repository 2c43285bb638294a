"""What the tests of external datasets do over and over: places declared, tables registered, files in a folder."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from falaj.datasets.operations.datasets import OneDataset
from falaj.datasets.operations.external import REFRESH_TABLE, REGISTER_TABLE, RegisterTable, Registration
from falaj.datasets.operations.places import SET_PLACE, Address, PlaceView, SetPlace
from falaj.datasets.operations.versions import Version
from tests.datasets.platform import PROJECT, Platform


def declare(platform: Platform, place: str = "lake", kind: str = "folder", **fields: Any) -> PlaceView:
    fields = {"zone": "home", "projects": (PROJECT,), **fields}
    return platform.call(SET_PLACE, SetPlace(place=place, kind=kind, **fields))  # type: ignore[arg-type]


def folder_place(platform: Platform, root: Path) -> Path:
    """A folder with a place in it."""
    folder = root / "lake"
    folder.mkdir()
    declare(platform, address=Address(folder=str(folder)))
    return folder


def step(platform: Platform, dataset: str = "orders", token: str = "", **fields: Any) -> Registration:
    fields = {"place": "lake", "table": "sales/orders", "kind": "parquet", "project": PROJECT, **fields}
    return platform.call(REGISTER_TABLE, RegisterTable(dataset=dataset, **fields), token)


def register(platform: Platform, dataset: str = "orders", **fields: Any) -> Version:
    while (told := step(platform, dataset, **fields)).version is None:
        assert told.done < told.of
    return told.version


def refresh(platform: Platform, dataset: str = "orders") -> Version:
    told = platform.call(REFRESH_TABLE, OneDataset(project=PROJECT, dataset=dataset))
    assert told.version is not None
    return told.version


def write_file(path: Path, **columns: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)
