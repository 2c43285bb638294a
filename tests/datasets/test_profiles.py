"""Profiles of versions, from those of their parts, and how far columns moved between two."""

from typing import Any

import pytest

from falaj.base.clock import DAY
from falaj.base.errors import NotFound
from falaj.datasets.operations import comparing, datasets, profiles, tidying, versions
from tests.datasets.platform import CSV, PROJECT, Platform, arrow


def profile(platform: Platform, word: str = "current", token: str = "") -> profiles.Profile:
    request = versions.OneVersion(project=PROJECT, dataset="flights", version=word)
    return platform.call(profiles.PROFILE_VERSION, request, token)


def column(found: profiles.Profile, name: str) -> dict[str, Any]:
    return next(one for one in found.columns if one["name"] == name)


def test_a_version_of_several_parts_has_one_profile(platform: Platform) -> None:
    platform.write(CSV)
    platform.write(b"id,name,score\n4,,9.5\n5,well,\n")
    found = profile(platform)
    assert (found.version, found.rows, [one["name"] for one in found.columns]) == (2, 5, ["id", "name", "score"])
    name, score = column(found, "name"), column(found, "score")
    assert (name["nulls"], name["distinct"], name["top"][0]) == (1, 3, ["well", 2])
    assert (score["nulls"], score["min"], score["max"], score["mean"]) == (1, 0.5, 9.5, 3.5)
    assert all("state" not in one for one in found.columns)
    assert profile(platform, "1").rows == 3
    assert platform.leaves("dataset.profile")[0]["facts"]["number"] == 2


def test_columns_are_called_as_they_are_now_and_what_was_deleted_does_not_count(small: Platform) -> None:
    small.write(CSV, b"id,name,score\n4,dam,3.5\n")
    small.rename(score="points")
    small.write(mode="delete", where="id >= 3")
    found = profile(small)
    assert (found.rows, column(found, "points")["max"]) == (2, 1.5)
    small.write(mode="delete", where="true")
    assert (profile(small).rows, len(profile(small).columns)) == (0, 3)
    with pytest.raises(NotFound, match="no version 9"):
        profile(small, "9")


def test_what_was_merged_once_is_kept_and_shredded_with_its_version(platform: Platform) -> None:
    platform.write(CSV)
    platform.write(b"id,name,score\n4,,9.5\n5,well,\n")
    stored = platform.objects()
    first = profile(platform)
    assert len(platform.objects() - stored) == 1
    kept = platform.objects()
    assert (profile(platform), profile(platform, "1").rows, platform.objects()) == (first, 3, kept)
    request = comparing.CompareVersions(project=PROJECT, dataset="flights", version="1", other="2")
    assert {one.name for one in platform.call(comparing.COMPARE_VERSIONS, request).shifts} == {"id", "name", "score"}
    platform.write(b"id,name,score\n9,last,1\n", mode="overwrite")
    platform.call(tidying.PRUNE_VERSIONS, tidying.PruneVersions(project=PROJECT, dataset="flights", keep=1))
    platform.room.step(platform.clock.now())
    platform.clock.forward(DAY)
    platform.collector.step(platform.clock.now())
    assert not platform.objects() & kept


def test_a_profile_goes_with_its_dataset(small: Platform) -> None:
    small.write(CSV)
    small.write(CSV)
    profile(small)
    small.call(datasets.DELETE_DATASET, datasets.DeleteDataset(project=PROJECT, dataset="flights"))
    small.room.step(small.clock.now())
    small.clock.forward(DAY)
    small.collector.step(small.clock.now())
    assert small.objects() == set()


def test_a_difference_says_how_far_each_column_moved(small: Platform) -> None:
    small.write(arrow(id=list(range(100)), flow=[float(one) for one in range(100)], town=["a", "b"] * 50))
    small.write(
        arrow(id=list(range(100)), flow=[float(one + 50) for one in range(100)], town=["a", None] * 50), mode="overwrite"
    )
    request = comparing.CompareVersions(project=PROJECT, dataset="flights", version="1", other="2")
    shifts = {one.name: one for one in small.call(comparing.COMPARE_VERSIONS, request).shifts}
    assert set(shifts) == {"flow", "town"}
    assert shifts["flow"].distance == pytest.approx(0.5, abs=0.02)
    assert shifts["flow"].mean == (49.5, 99.5)
    assert (shifts["town"].distance, shifts["town"].nulls) == (0.5, (0.0, 0.5))
