"""Training sets through operations: what the join makes of the same rows, as a version of its own, with nothing leaked."""

import io
from typing import Any

import pyarrow as pa
import pytest

from falaj.base.clock import HOUR
from falaj.base.errors import Conflict, Forbidden, Invalid, NotFound
from falaj.datasets.operations import checks, classes, features
from falaj.datasets.operations.datasets import OneDataset
from falaj.datasets.operations.tidying import COMPACT, PRUNE_VERSIONS, PruneVersions
from falaj.governance.projects.operations import SHOW_PROJECT, OneProject
from falaj.governance.roles import Role
from falaj.lineage.graph import Node, ancestors
from falaj.tables.joining.rows import Held, Piece
from falaj.tables.joining.training_sets import Source, training_set
from falaj.tables.joining.views import Feature, Key, View
from tests.datasets.features.stories import FEATURES, applied, clicks, joined, labels, told
from tests.datasets.platform import PROJECT, Platform
from tests.tables.joining.oracle import bits


def test_a_training_set_is_what_the_join_makes_of_the_same_rows(platform: Platform) -> None:
    told(platform)
    made = applied(platform, time_to_live=40 * 3600 * 1_000_000)
    found = joined(platform)
    expected = in_memory(
        View(
            name="by-user",
            keys=made.keys,
            event=made.event,
            known=made.known,
            features=made.features,
            time_to_live=made.time_to_live,
        )
    )
    assert [column.name for column in found.version.columns] == expected.column_names
    rows = platform.rows(name="training")
    assert [tuple(map(bits, row)) for row in rows] == [tuple(map(bits, row.values())) for row in expected.to_pylist()]
    assert (found.views, found.sources, found.labels) == (("by-user@1",), ("clicks@1",), "labels@1")


def in_memory(view: View) -> pa.Table:
    rows, asked = (pa.ipc.open_stream(io.BytesIO(content)).read_all() for content in (clicks(), labels()))
    source = Source(view=view, pieces=(Piece(rows=Held(rows)),))
    return pa.concat_tables(training_set(asked, time="asked", sources=[source]))


def test_a_backfill_does_not_leak_into_labels_before_it_was_known(small: Platform) -> None:
    """Without a column that says it, rows are known from when they were published: at the tests' start, and later."""
    small.write(clicks({"user": [1], "happened": [-20], "amount": [1.0]}), dataset="clicks")
    small.clock.forward(100 * HOUR)
    late = {"user": [1], "happened": [-10], "amount": [99.0]}
    small.write(clicks(late), dataset="clicks")
    small.write(labels({"user": [1, 1, 1], "asked": [-5, 50, 150]}), dataset="labels")
    applied(small, known="", features=(Feature(name="last_amount", column="amount"),))
    joined(small)
    assert [row[-1] for row in small.rows(name="training")] == [None, 1.0, 99.0]
    applied(small, known="happened", features=(Feature(name="last_amount", column="amount"),))
    joined(small)
    assert [row[-1] for row in small.rows(name="training")] == [99.0, 99.0, 99.0]  # as it would be with that ignored


def test_rows_that_are_rewritten_stay_known_since_they_were_first_published(small: Platform) -> None:
    rows = {"user": [1, 2], "happened": [-20, -20], "amount": [1.0, 2.0]}
    small.write(clicks(rows), dataset="clicks")
    small.clock.forward(100 * HOUR)
    small.commit(small.open("delete", "clicks", where="user = 2"), 0)
    small.clock.forward(100 * HOUR)
    small.write(clicks({"user": [3], "happened": [-20], "amount": [3.0]}), dataset="clicks")
    small.write(labels({"user": [1, 2, 3, 3], "asked": [50, 250, 150, 250]}), dataset="labels")
    applied(small, known="", features=(Feature(name="last_amount", column="amount"),))
    joined(small)
    assert [row[-1] for row in small.rows(name="training")] == [1.0, None, None, 3.0]
    small.call(COMPACT, OneDataset(project=PROJECT, dataset="clicks"))
    joined(small)
    assert [row[-1] for row in small.rows(name="training")] == [None, None, None, 3.0]  # never earlier than it was known


def test_a_training_set_is_linked_to_its_labels_and_to_what_its_views_read(small: Platform) -> None:
    read, about = told(small)
    applied(small)
    found = joined(small)
    node = Node(kind="dataset", id=found.version.lineage)
    project = small.leaves("feature.training-set")[-1]
    walk = small.database.read(lambda work: ancestors(work, _project(small), node))
    assert {one.id for one in walk.nodes} == {read.lineage, about.lineage}
    assert {edge.relation for edge in walk.edges} == {"labels", "features"}
    assert project["facts"]["version"] == found.version.id


def _project(platform: Platform) -> str:
    found: str = platform.call(SHOW_PROJECT, OneProject(project=PROJECT)).id
    return found


def test_features_can_be_chosen_from_several_views_and_a_training_set_made_again(small: Platform) -> None:
    told(small)
    applied(small)
    applied(small, view="again", features=(Feature(name="most", column="amount", function="max"),), keys=(Key(column="user"),))
    found = joined(small, "by-user:clicks", "again", "by-user:recent")
    assert [column.name for column in found.version.columns] == ["user", "asked", "bought", "clicks", "recent", "most"]
    again = joined(small, "by-user:clicks", "again", "by-user:recent")
    assert (again.version.version, again.cached) == (1, True)
    again = joined(small, "by-user:clicks", "again", "by-user:recent", anew=True)
    assert (again.version.version, again.cached, again.version.digest) == (2, False, found.version.digest)
    assert not joined(small, "by-user:clicks").cached
    small.write(clicks(), dataset="clicks")
    assert not joined(small, "by-user:clicks").cached


def test_a_view_that_is_applied_again_is_a_new_version_only_where_it_differs(platform: Platform) -> None:
    told(platform)
    first = applied(platform)
    assert applied(platform, description="of users").version == 1
    second = applied(platform, features=FEATURES[:1])
    assert (first.version, second.version) == (1, 2)
    assert [column.type for column in first.columns] == ["int64", "float64", "int64", "float64", "int64"]
    listed = platform.call(features.LIST_VIEWS, features.ListViews(project=PROJECT))
    assert [(one.view, one.version) for one in listed.items] == [("by-user", 2)]
    shown = platform.call(features.SHOW_VIEW, features.OneView(project=PROJECT, view="by-user@1"))
    assert (shown.features, shown.description) == (FEATURES, "of users")
    assert joined(platform, "by-user@1").views == ("by-user@1",)


def test_another_project_neither_sees_nor_joins(small: Platform) -> None:
    told(small)
    applied(small)
    small.project("other")
    stranger = small.person("zayd", Role.SCIENTIST, project="other")
    with pytest.raises((Forbidden, NotFound)):
        joined(small, token=stranger)
    with pytest.raises(NotFound, match="no dataset 'clicks' here"):
        applied(small, token=stranger, project="other")
    with pytest.raises(NotFound, match="no dataset 'labels' here"):
        joined(small, token=stranger, project="other")
    assert not small.call(features.LIST_VIEWS, features.ListViews(project="other"), stranger).items
    with pytest.raises(NotFound, match="no feature view 'by-user' here"):
        small.call(features.SHOW_VIEW, features.OneView(project="other", view="by-user"), stranger)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"event": "when"}, "needs a column 'when'.*There are user, happened"),
        ({"event": "amount"}, "'amount'"),
        ({"known": "user"}, "'user'"),
        ({"keys": (Key(column="who"),)}, "needs a column 'who'"),
        ({"features": (Feature(name="a", column="b"),)}, "needs a column 'b'"),
        ({"features": (Feature(name="a", function="sum"),)}, "is the sum of no column"),
        ({"features": (Feature(name="a", column="happened", function="mean"),)}, "'a'"),
        ({"features": (FEATURES[0], FEATURES[0])}, "more than one feature called last_amount"),
        ({"features": (Feature(name="user", column="amount"),)}, "more than one column called user"),
        ({"dataset": "clicks@7"}, "no version 7"),
    ],
)
def test_a_view_that_cannot_be_is_refused_with_what_is_wrong(small: Platform, fields: dict[str, Any], says: str) -> None:
    told(small)
    with pytest.raises((Invalid, NotFound), match=says):
        applied(small, **fields)


@pytest.mark.parametrize(
    ("references", "fields", "says"),
    [
        (("by-user:nothing",), {}, "no feature nothing. There are last_amount"),
        (("by-user", "by-user@1"), {}, "more than one version"),
        (("else",), {}, "no feature view 'else'"),
        (("by-user",), {"time": "when"}, "no column 'when'. There are user, asked"),
        (("by-user",), {"time": "bought"}, "'bought'"),
        (("by-user",), {"into": "labels"}, "name another"),
        (("by-user",), {"into": "clicks"}, "name another"),
        (("by-user",), {"labels": "clicks"}, "no column 'asked'"),
    ],
)
def test_a_training_set_that_cannot_be_is_refused_with_what_is_wrong(
    small: Platform, references: tuple[str, ...], fields: dict[str, Any], says: str
) -> None:
    told(small)
    applied(small)
    with pytest.raises((Invalid, NotFound), match=says):
        joined(small, *references, **fields)


def test_what_is_classified_stays_so_in_a_training_set(small: Platform) -> None:
    told(small)
    applied(small)
    for dataset, column, kind in (("clicks", "amount", "sensitive"), ("labels", "user", "personal")):
        hidden = (classes.Classified(column=column, kind=kind),)
        small.call(classes.CLASSIFY_COLUMNS, classes.ClassifyColumns(project=PROJECT, dataset=dataset, columns=hidden))
    joined(small)
    found = small.call(classes.SHOW_CLASSES, OneDataset(project=PROJECT, dataset="training")).columns
    kinds = {one.column: one.kind for one in found}
    assert kinds == {"user": "personal", "last_amount": "sensitive", "spent": "sensitive"}


def test_labels_with_a_column_like_a_feature_are_refused(small: Platform) -> None:
    told(small)
    small.write(labels(clicks=[1, 2, 3, 4, 5]), dataset="labels", mode="overwrite")
    applied(small)
    with pytest.raises(Invalid, match="more than one column called clicks"):
        joined(small)


def test_a_training_set_does_not_go_past_the_checks_of_a_dataset(small: Platform) -> None:
    told(small)
    applied(small)
    joined(small)
    rule = checks.Check(name="few", kind="sql", sql="SELECT 1 FROM training")
    small.call(checks.SET_CHECKS, checks.SetChecks(project=PROJECT, dataset="training", checks=(rule,)))
    with pytest.raises(Conflict, match="has checks"):
        joined(small)
    assert small.dataset("training").current == 1


def test_versions_that_a_view_is_pinned_to_are_not_pruned(small: Platform) -> None:
    told(small)
    for _ in range(3):
        small.write(clicks(), dataset="clicks", mode="overwrite")
        small.write(clicks({"user": [1], "happened": [0], "seen": [0], "amount": [1.0]}), dataset="clicks")
    applied(small, dataset="clicks@2")
    applied(small, dataset="clicks@4")
    request = PruneVersions(project=PROJECT, dataset="clicks", keep=1)
    assert small.call(PRUNE_VERSIONS, request).versions == (1, 3, 5, 6)
    joined(small)
    joined(small, "by-user@1")
