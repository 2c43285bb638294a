"""Views that are deleted: gone at once, with what was served of them, and their numbers mean nothing else afterwards."""

import pytest

from falaj.base.clock import HOUR
from falaj.base.errors import Conflict, Forbidden, NotFound
from falaj.datasets.features.deleting import DeleteService
from falaj.datasets.operations import features
from falaj.datasets.store import kept_features
from falaj.governance.roles import Role
from tests.datasets.features.stories import FEATURES, applied, joined, told
from tests.datasets.features.test_serving import got, materialised
from tests.datasets.platform import PROJECT, Platform


def deleted(platform: Platform, view: str, token: str = "") -> tuple[str, ...]:
    return platform.call(features.DELETE_VIEW, features.DeleteView(project=PROJECT, view=view), token).views


def stored_rows(platform: Platform) -> int:
    """Of all views, in the online store."""
    store = platform.room._features._online._opened()
    return store._looked(lambda transaction: sum(len(key) > 16 for key, _ in transaction.cursor()))  # type: ignore[attr-defined, no-any-return]


def places(platform: Platform) -> int:
    query = kept_features.materialised.select()
    return len(platform.database.read(lambda work: work.execute(query).all()))


def test_a_view_goes_with_all_its_versions_and_its_values_and_its_numbers_are_not_given_again(platform: Platform) -> None:
    told(platform)
    platform.clock.forward(50 * HOUR)
    applied(platform)
    materialised(platform)
    applied(platform, features=FEATURES[:1])
    assert stored_rows(platform) == 2
    assert deleted(platform, "by-user") == ("by-user@2", "by-user@1")
    for attempt in (
        lambda: got(platform, 1),
        lambda: joined(platform),
        lambda: materialised(platform),
        lambda: deleted(platform, "by-user"),
    ):
        with pytest.raises(NotFound, match="no feature view 'by-user' here"):
            attempt()
    assert not platform.call(features.LIST_VIEWS, features.ListViews(project=PROJECT)).items
    platform.room.step(platform.clock.now())
    assert (stored_rows(platform), places(platform)) == (0, 0)
    assert applied(platform).version == 3
    with pytest.raises(NotFound, match="by-user@1"):
        got(platform, 1, of=("by-user@1",))
    (leaf,) = platform.leaves("feature.delete")
    assert len(leaf["facts"]["views"]) == 2


def test_one_version_goes_and_the_others_stay(small: Platform) -> None:
    told(small)
    small.clock.forward(50 * HOUR)
    applied(small)
    materialised(small)
    applied(small, features=FEATURES[:1])
    materialised(small)
    assert deleted(small, "by-user@2") == ("by-user@2",)
    assert got(small, 1).views[0].view == "by-user@1"
    small.room.step(small.clock.now())
    assert (stored_rows(small), got(small, 1).rows) == (2, ((2.5, 2, 4.0, 0),))
    assert applied(small, features=FEATURES[:2]).version == 3


def test_what_was_served_of_a_deleted_dataset_is_forgotten_and_one_of_the_same_name_is_served(small: Platform) -> None:
    told(small)
    small.clock.forward(50 * HOUR)
    applied(small)
    materialised(small)
    small.delete("clicks")
    small.room.step(small.clock.now())
    assert (stored_rows(small), places(small)) == (0, 0)
    told(small)
    materialised(small)
    assert got(small, 1).rows == ((2.5, 2, 4.0, 0),)


def test_only_who_may_write_deletes_and_not_what_somebody_needs(small: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    told(small)
    applied(small)
    viewer = small.person("amal", Role.VIEWER)
    with pytest.raises(Forbidden):
        deleted(small, "by-user", viewer)
    (service,) = [one for one in small.room._features._services if isinstance(one, DeleteService)]
    monkeypatch.setattr(service, "_users", lambda _work, _views: ["endpoint 'scores'"])
    with pytest.raises(Conflict, match="is needed by endpoint 'scores'"):
        deleted(small, "by-user")
    assert applied(small).version == 1
