"""Kill -9 of the platform while a view is materialised, and while a dataset is compacted: what was current stays so or what is
new is complete, and whoever comes back gets exactly what he would have got.

In the middle of a round each entity's row is whole, of the moment before or of the new one; the view says the new moment only
at the end.
"""

import re
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import falaj.datasets
from falaj.base.clock import HOUR, Moment, SystemClock
from falaj.base.errors import Unavailable
from falaj.client import dataset_writes
from falaj.client.dataset_pieces import PieceToSend
from falaj.datasets.operations import features, tidying
from falaj.datasets.operations.datasets import SHOW_DATASET, OneDataset
from falaj.datasets.operations.reading import QUERY, Query
from falaj.datasets.operations.writing import OpenWrite
from falaj.tables.joining.views import Feature, Key
from tests.app.conftest import MakePlatform
from tests.app.effects import come_back
from tests.app.mortal import KILLED, MortalPlatform

PROJECT = "default"
USERS = 12_000  # three batches
ASKED = (0, 1, 5_000, 9_999, 11_999)
FAILPOINTS = ["features.round-begun", "features.batch-written@2", "features.rows-written", "features.round-completed"]


def test_every_failpoint_of_features_is_died_at() -> None:
    code = "".join(file.read_text() for file in Path(falaj.datasets.__file__).parent.rglob("*.py"))
    named = set(re.findall(r'failpoint\("(.*?)"\)', code))
    assert named == {name.partition("@")[0] for name in FAILPOINTS}


def clicks(amount: int) -> Iterator[PieceToSend]:
    at = Moment(SystemClock().now() - HOUR)
    rows = "".join(f"{user},{at},{amount}\n" for user in range(USERS))
    yield PieceToSend(number=1, content=f"user,at,amount\n{rows}".encode())


def write(platform: MortalPlatform, amount: int) -> None:
    with platform.client() as client:
        opening = OpenWrite(project=PROJECT, dataset="clicks", create=True, key=f"write-{amount}")
        dataset_writes.write(client, opening, clicks(amount))


def materialise(platform: MortalPlatform, **fields: Any) -> Any:
    with platform.client() as client:
        return client.call(features.MATERIALISE, features.Materialise(project=PROJECT, view="v", **fields), retry=False)


def got(platform: MortalPlatform, view: str = "v") -> Any:
    entities = tuple({"user": user} for user in ASKED)
    return platform.call(features.GET_FEATURES, features.GetFeatures(project=PROJECT, features=(view,), entities=entities))


def defined(platform: MortalPlatform) -> None:
    write(platform, 1)
    made = (Feature(name="last", column="amount"), Feature(name="count", function="count"))
    view = {"project": PROJECT, "dataset": "clicks", "keys": (Key(column="user"),), "event": "at", "features": made}
    platform.call(features.APPLY_VIEW, features.ApplyView(view="v", **view))


def test_a_platform_that_is_killed_while_it_materialises_serves_what_it_served_until_all_is_new(
    make_platform: MakePlatform,
) -> None:
    """Killed in the first round at one failpoint, and at each of the others in those that repeat it."""
    platform = make_platform().start()
    defined(platform)
    first = materialise(platform)
    assert got(platform).rows == ((1, 1),) * len(ASKED)
    write(platform, 2)
    platform.stop()
    for failpoint in FAILPOINTS:
        platform.start(FALAJ_FAILPOINT=failpoint)
        before = got(platform)
        with suppress(Unavailable):
            materialise(platform)
        assert platform.wait_until_dead() == KILLED
        assert before.views[0].moment == first.moment
        assert set(before.rows) <= {(1, 1), (2, 2)}  # each whole, of one round or the other
        if failpoint in FAILPOINTS[:2]:
            assert set(before.rows) == {(1, 1)}
    come_back(platform)
    assert got(platform).views[0].moment == first.moment
    again = materialise(platform)
    assert (again.read, again.entities, again.source) == ("everything", USERS, "clicks@2")
    after = got(platform)
    assert (after.rows, after.views[0].moment) == (((2, 2),) * len(ASKED), again.moment)


def test_a_platform_that_is_killed_while_it_compacts_has_the_version_before_or_the_whole_new_one(
    make_platform: MakePlatform,
) -> None:
    platform = make_platform().start()
    for number in range(4):
        write(platform, number)
    one = OneDataset(project=PROJECT, dataset="clicks")
    for delay in (0.02, 0.2):
        before = platform.call(SHOW_DATASET, one).current
        threading.Timer(delay, platform.kill).start()
        with platform.client() as client, suppress(Unavailable):
            client.call(tidying.COMPACT, one, retry=False)
        platform.wait_until_dead()
        come_back(platform)
        current = platform.call(SHOW_DATASET, one).current
        assert current in (before, before + 1)
        sql = "SELECT count(*), count(DISTINCT user), sum(amount) FROM clicks"
        assert platform.call(QUERY, Query(project=PROJECT, sql=sql)).rows[0] == (4 * USERS, USERS, 6 * USERS)
        if current > before:
            return
    assert platform.call(tidying.COMPACT, one).parts == 1
