"""Datasets and their versions: tags, going back, renaming, deleting, and what lineage and the ledger know of them."""

from typing import Any

import pytest

from falaj.base.errors import Conflict, Invalid, NotFound
from falaj.datasets.operations import datasets, versions
from falaj.lineage.graph import Node, ancestors
from tests.datasets.platform import CSV, PROJECT, Platform, arrow

MORE = b"id,name,score\n4,dam,3.5\n"
ROWS = [(1, "well", 0.5), (2, "channel", 1.5), (3, "field", 2.5)]


def listed(platform: Platform, **fields: Any) -> versions.Versions:
    return platform.call(versions.LIST_VERSIONS, versions.ListVersions(project=PROJECT, dataset="flights", **fields))


def test_a_dataset_is_made_once(platform: Platform) -> None:
    made = platform.call(datasets.CREATE_DATASET, datasets.CreateDataset(project=PROJECT, dataset="flights", description="all"))
    assert (made.name, made.description, made.zone, made.current) == ("flights", "all", "home", 0)
    with pytest.raises(Conflict, match="already"):
        platform.call(datasets.CREATE_DATASET, datasets.CreateDataset(project=PROJECT, dataset="flights"))
    with pytest.raises(NotFound, match="no version yet"):
        platform.version()


def test_datasets_are_listed_by_name_in_pages_and_only_those_of_the_project(platform: Platform) -> None:
    for name in ("b", "a", "c"):
        platform.write(CSV, dataset=name)
    platform.project("other")
    platform.open(dataset="d", project="other")
    first = platform.call(datasets.LIST_DATASETS, datasets.ListDatasets(project=PROJECT, limit=2))
    assert [(one.name, one.rows, one.versions) for one in first.items] == [("a", 3, 1), ("b", 3, 1)]
    second = platform.call(datasets.LIST_DATASETS, datasets.ListDatasets(project=PROJECT, limit=2, cursor=first.next))
    assert ([one.name for one in second.items], second.next) == (["c"], "")


def test_history_is_newest_first_and_in_pages(platform: Platform) -> None:
    for _ in range(3):
        platform.write(CSV)
    first = listed(platform, limit=2)
    assert [one.version for one in first.items] == [3, 2]
    assert [one.version for one in listed(platform, limit=2, cursor=first.next).items] == [1]


def test_a_tag_means_a_version_until_it_is_moved_or_taken_away(platform: Platform) -> None:
    platform.write(CSV)
    platform.write(MORE)
    assert platform.tag("audited", "1").tags == (datasets.DatasetTag(tag="audited", version=1),)
    assert platform.rows("audited") == ROWS
    assert platform.version("1").tags == ("audited",)
    platform.tag("audited")
    assert platform.version("audited").version == 2
    untag = datasets.UntagVersion(project=PROJECT, dataset="flights", tag="audited")
    platform.call(datasets.UNTAG_VERSION, untag)
    for attempt in (lambda: platform.version("audited"), lambda: platform.call(datasets.UNTAG_VERSION, untag)):
        with pytest.raises(NotFound, match="audited"):
            attempt()
    with pytest.raises(Invalid, match="no tag"):
        platform.tag("latest")


def test_going_back_makes_a_new_version_that_equals_the_earlier_one(platform: Platform) -> None:
    first = platform.write(CSV)
    platform.write(arrow(place=["Al Ain"]), mode="overwrite")
    back = platform.restore("1")
    assert (back.version, back.parent, back.mode, back.digest) == (3, 2, "restore", first.digest)
    assert platform.rows() == ROWS
    assert platform.rows("2") == [("Al Ain",)]
    platform.write(MORE)
    assert platform.rows() == [*ROWS, (4, "dam", 3.5)]
    with pytest.raises(Conflict, match="current one"):
        platform.restore("current")


def test_columns_are_called_otherwise_from_a_version_on_and_nothing_is_rewritten(platform: Platform) -> None:
    platform.write(CSV)
    objects = platform.objects()
    renamed = platform.rename(score="name", name="score")
    assert [column.name for column in renamed.columns] == ["id", "score", "name"]
    platform.rename(name="points")
    assert platform.query("SELECT score, points FROM flights WHERE id = 1").rows == (("well", 0.5),)
    assert platform.query('SELECT name FROM "flights@1" WHERE id = 1').rows == (("well",),)
    assert platform.objects() == objects
    platform.write(b"id,score,points\n4,dam,3.5\n")
    assert platform.query("SELECT points FROM flights ORDER BY id").rows == ((0.5,), (1.5,), (2.5,), (3.5,))


def test_a_renaming_to_a_name_that_is_taken_or_of_a_column_that_is_none_is_refused(platform: Platform) -> None:
    platform.write(CSV)
    with pytest.raises(Invalid, match="two columns called 'id'"):
        platform.rename(score="id")
    with pytest.raises(Invalid, match="no column 'depth'"):
        platform.rename(depth="id")
    assert platform.dataset().versions == 1


def test_what_is_deleted_is_gone_and_shredded_and_its_name_is_free(platform: Platform) -> None:
    platform.write(CSV, MORE)
    platform.send(platform.open(), CSV)
    grant = platform.grant()
    platform.delete()
    for attempt in (platform.dataset, platform.grant, lambda: platform.part(grant.parts[0].id)):
        with pytest.raises(NotFound):
            attempt()
    platform.clock.forward(3 * 3_600_000_000)
    platform.collector.step(platform.clock.now())
    assert platform.objects() == set()
    assert platform.write(MORE).version == 1


def test_lineage_knows_a_version_by_its_content(platform: Platform) -> None:
    first, second = platform.write(CSV), platform.write(MORE)
    assert second.lineage == f"flights@{second.digest[:32]}"
    project = platform.leaves("dataset.commit")[0]["project"]
    walk = platform.database.read(lambda work: ancestors(work, project, Node(kind="dataset", id=second.lineage)))
    assert [node.id for node in walk.nodes] == [first.lineage]
    assert [edge.relation for edge in walk.edges] == ["append"]


def test_other_projects_know_nothing_of_a_dataset(small: Platform) -> None:
    small.write(CSV)
    small.project("other")
    with pytest.raises(NotFound):
        small.call(datasets.SHOW_DATASET, datasets.OneDataset(project="other", dataset="flights"))


def test_a_description_is_set_and_read(small: Platform) -> None:
    small.write(CSV)
    request = datasets.DescribeDataset(project=PROJECT, dataset="flights", description="of the north")
    assert small.call(datasets.DESCRIBE_DATASET, request).description == "of the north"
