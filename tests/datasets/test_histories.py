"""Whatever was done to a dataset, in whatever order: each version has the rows that a list in Python would have, as ordered."""

import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from falaj.base.errors import Conflict
from falaj.client.datasets import dataset
from falaj.datasets.operations import tidying
from falaj.datasets.operations.datasets import OneDataset
from falaj.datasets.operations.versions import Version
from tests.datasets.platform import PROJECT, Platform, arrow
from tests.datasets.test_client import Line

Row = tuple[int | None, ...]
IDS = [None, *range(12)]


class History:
    """`versions` are what those that can be read should be: columns and rows."""

    def __init__(self, platform: Platform, seed: int) -> None:
        self.platform, self.draw = platform, random.Random(seed)
        self.versions: dict[int, tuple[list[str], list[Row]]] = {}
        self.current, self.fresh = 0, 0

    @property
    def names(self) -> list[str]:
        return self.versions[self.current][0]

    @property
    def rows(self) -> list[Row]:
        return self.versions[self.current][1]

    def some(self, names: list[str], ids: list[int | None] | None = None) -> list[Row]:
        chosen = ids if ids is not None else self.draw.choices(IDS, k=self.draw.randint(1, 4))
        return [(one, *(self.draw.choice([None, -1, 0, 1]) for _ in names[1:])) for one in chosen]

    def named(self) -> str:
        self.fresh += 1
        return f"c{self.fresh}"

    def made(self, version: Version, names: list[str], rows: list[Row]) -> None:
        self.current = version.version
        self.versions[self.current] = names, rows

    def append(self) -> None:
        pieces = [self.some(self.names) for _ in range(self.draw.randint(1, 3))]
        version = self.platform.write(*(stream(self.names, piece) for piece in pieces))
        self.made(version, self.names, [*self.rows, *(row for piece in pieces for row in piece)])

    def overwrite(self) -> None:
        names = ["id", self.named(), self.named()]
        rows = self.some(names)
        self.made(self.platform.write(stream(names, rows), mode="overwrite"), names, rows)

    def merge(self) -> None:
        ids = self.draw.sample(IDS, 3)
        given = self.some(self.names, ids)
        version = self.platform.write(stream(self.names, given), mode="merge", keys=("id",))
        self.made(version, self.names, [*(row for row in self.rows if row[0] not in ids), *given])

    def delete(self) -> None:
        place = self.draw.randrange(len(self.names))
        version = self.platform.write(mode="delete", where=f'"{self.names[place]}" = 1')
        self.made(version, self.names, [row for row in self.rows if row[place] != 1])

    def rename(self) -> None:
        old = self.draw.choice(self.names[1:])
        new = self.named()
        names = [new if name == old else name for name in self.names]
        self.made(self.platform.rename(**{old: new}), names, self.rows)

    def evolve(self) -> None:
        names = [*self.names, self.named()]
        given = self.some(names)
        version = self.platform.write(stream(names, given), evolve=True)
        self.made(version, names, [*((*row, None) for row in self.rows), *given])

    def compact(self) -> None:
        version = self.platform.call(tidying.COMPACT, OneDataset(project=PROJECT, dataset="flights"))
        self.made(version, self.names, self.rows)

    def restore(self) -> None:
        wanted = self.draw.choice(list(self.versions))
        version = self.platform.restore(str(wanted))
        self.made(version, *self.versions[wanted])

    def prune(self) -> None:
        request = tidying.PruneVersions(project=PROJECT, dataset="flights", keep=3)
        for number in self.platform.call(tidying.PRUNE_VERSIONS, request).versions:
            del self.versions[number]


def stream(names: list[str], rows: list[Row]) -> bytes:
    return arrow(**{name: pa.array([row[place] for row in rows], pa.int64()) for place, name in enumerate(names)})


def read(platform: Platform, number: int) -> tuple[list[str], list[Row]]:
    line: Any = Line(platform)
    table = dataset(f"flights@{number}", project=PROJECT, client=line).arrow()
    return table.column_names, [tuple(row.values()) for row in table.to_pylist()]


@pytest.mark.parametrize("seed", [1, 7])
def test_every_version_has_the_rows_that_its_history_gave_it(small: Platform, seed: int) -> None:
    history = History(small, seed)
    history.overwrite()
    steps: list[Callable[[], None]] = [
        *[history.append, history.merge, history.delete, history.evolve, history.compact] * 2,
        history.overwrite,
        history.rename,
        history.restore,
        history.prune,
    ]
    done = []
    for step in history.draw.choices(steps, k=16):
        done.append(step.__name__)
        try:
            step()
        except Conflict as error:  # as nothing to compact, or what is current already
            done[-1] += f" ({error})"
        assert read(small, history.current) == history.versions[history.current], done
    for number, expected in history.versions.items():
        assert read(small, number) == expected, (number, done)
        assert sorted(small.query(f'SELECT * FROM "flights@{number}"').rows, key=str) == sorted(expected[1], key=str)
