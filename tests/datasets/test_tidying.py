"""Compacting and pruning: the same rows in fewer parts, and nothing that is referred to is ever lost."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from falaj.base.clock import DAY
from falaj.base.errors import Conflict, NotFound
from falaj.database.work import UnitOfWork
from falaj.datasets.operations import tidying
from falaj.datasets.operations.datasets import OneDataset
from falaj.datasets.operations.versions import Version
from falaj.lineage.graph import Node, link
from tests.datasets.features.stories import applied, joined, told
from tests.datasets.platform import PROJECT, START, Platform, arrow


def compact(platform: Platform) -> Version:
    return platform.call(tidying.COMPACT, OneDataset(project=PROJECT, dataset="flights"))


def prune(platform: Platform, keep: int = 1) -> tuple[int, ...]:
    request = tidying.PruneVersions(project=PROJECT, dataset="flights", keep=keep)
    return platform.call(tidying.PRUNE_VERSIONS, request).versions


def append(platform: Platform, *numbers: int) -> None:
    for number in numbers:
        platform.write(arrow(id=[number, -number]))


def test_many_small_parts_become_one_and_rows_and_order_stay(platform: Platform) -> None:
    append(platform, 1, 2, 3)
    platform.rename(id="number")
    before = platform.rows()
    version = compact(platform)
    assert (version.mode, version.parts, version.rows, version.parent) == ("compact", 1, 6, 4)
    assert platform.rows() == before == [(1,), (-1,), (2,), (-2,), (3,), (-3,)]
    assert platform.rows("3") == before
    platform.write(arrow(number=[4]))
    assert platform.rows()[-1] == (4,)
    platform.write(arrow(number=[5]), mode="overwrite")
    with pytest.raises(Conflict, match="nothing to compact"):
        compact(platform)


def test_parts_whose_columns_take_turns_stay_in_their_order(small: Platform) -> None:
    small.write(arrow(id=[1, 2]), arrow(id=[3]))
    small.write(arrow(id=[4], flow=[7]), evolve=True)
    small.write(mode="delete", where="id = 2")  # the first part is made anew with all columns, and the second has not both
    small.write(arrow(id=[5]))
    before = small.rows()
    assert before == [(1, None), (3, None), (4, 7), (5, None)]
    assert list(small.query("SELECT * FROM flights").rows) == before
    assert (compact(small).parts, small.rows()) == (1, before)


def test_what_is_appended_while_a_dataset_is_compacted_is_not_lost(platform: Platform) -> None:
    append(platform, 1, 2)
    start = threading.Barrier(2)

    def tidy() -> None:
        start.wait()
        compact(platform)

    def write() -> None:
        start.wait()
        append(platform, 3, 4)

    with ThreadPoolExecutor(2) as pool:
        for one in [pool.submit(tidy), pool.submit(write)]:
            one.result()
    assert sorted(platform.rows()) == sorted((sign * number,) for number in (1, 2, 3, 4) for sign in (1, -1))


def test_old_versions_go_and_what_the_others_need_stays(platform: Platform) -> None:
    append(platform, 1, 2)
    platform.write(arrow(id=[9]), mode="overwrite")
    platform.write(arrow(id=[10]))
    assert prune(platform, keep=2) == (1, 2)
    assert platform.rows() == [(9,), (10,)]
    assert platform.rows("3") == [(9,)]
    with pytest.raises(NotFound, match="pruned"):
        platform.rows("1")
    for attempt in (lambda: platform.restore("2"), lambda: platform.query('SELECT * FROM "flights@2"')):
        with pytest.raises(NotFound, match="pruned"):
            attempt()
    assert platform.version("1").pruned is not None
    platform.clock.forward(DAY)
    platform.collector.step(platform.clock.now())
    held = {part.object for part in platform.grant().parts}
    assert held <= platform.objects()
    assert len(platform.objects()) <= 2 * len(held)  # each with its profile
    assert prune(platform, keep=2) == ()


def test_an_append_needs_the_parts_of_the_version_before_it(platform: Platform) -> None:
    append(platform, 1, 2, 3)
    assert prune(platform) == (1, 2)
    assert platform.rows() == [(1,), (-1,), (2,), (-2,), (3,), (-3,)]


def test_what_a_tag_a_run_or_the_present_refers_to_stays(platform: Platform) -> None:
    first, used = platform.write(arrow(id=[1])), platform.write(arrow(id=[2]), mode="overwrite")
    platform.write(arrow(id=[3]), mode="overwrite")
    platform.write(arrow(id=[4]), mode="overwrite")
    platform.tag("audited", "1")
    project = platform.leaves("dataset.commit")[0]["project"]
    source, run = Node(kind="dataset", id=used.lineage), Node(kind="run", id="0" * 32)
    platform.database.write(
        lambda work: link(work, project=project, source=source, target=run, relation="input", now=platform.clock.now())
    )
    assert prune(platform) == (3,)
    assert [platform.rows(word) for word in ("audited", "2", "4")] == [[(1,)], [(2,)], [(4,)]]
    assert first.version == 1


def test_the_pieces_of_a_write_that_is_under_way_stay(small: Platform) -> None:
    append(small, 1)
    write = small.open()
    small.send(write, arrow(id=[7]))
    small.write(arrow(id=[2]), mode="overwrite")
    assert prune(small) == (1,)
    small.room.step(small.clock.now())
    assert small.commit(write).rows == 2


def test_a_dataset_that_something_was_made_of_is_deleted_only_where_that_is_said(platform: Platform) -> None:
    told(platform)
    applied(platform)
    platform.write(b"id\n1\n")
    platform.delete(even_if_needed=False)  # nobody needs this one
    with pytest.raises(Conflict, match="'clicks' is needed: feature view by-user"):
        platform.delete("clicks", even_if_needed=False)
    joined(platform)
    with pytest.raises(Conflict, match="'labels' is needed: dataset training v1"):
        platform.delete("labels", even_if_needed=False)
    project = platform.leaves("feature.training-set")[-1]["project"]
    made = platform.version(name="training").lineage

    def train(work: UnitOfWork) -> None:
        run, model = Node(kind="run", id="r" * 32, label="calm-river"), Node(kind="version", id="v" * 32, label="fraud v3")
        link(work, project=project, source=Node(kind="dataset", id=made), target=run, relation="input", now=START)
        link(work, project=project, source=run, target=model, relation="trained", now=START)

    platform.database.write(train)
    with pytest.raises(Conflict, match="'training' is needed: model version fraud v3, run calm-river"):
        platform.delete("training", even_if_needed=False)
    platform.delete("training")
    platform.delete("labels", even_if_needed=False)  # what was made of it is gone
