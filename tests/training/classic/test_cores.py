"""How many threads a process computes with."""

from pathlib import Path

import pytest

from falaj.training.classic.cores import available


def machine(folder: Path, siblings: dict[int, str], groups: dict[str, dict[str, str]], own: str) -> dict[str, Path]:
    for cpu, named in siblings.items():
        place = folder / "sys/devices/system/cpu" / f"cpu{cpu}" / "topology"
        place.mkdir(parents=True)
        (place / "thread_siblings_list").write_text(named + "\n")
    for group, files in groups.items():
        place = folder / "sys/fs/cgroup" / group
        place.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (place / name).write_text(text + "\n")
    (folder / "proc").mkdir()
    (folder / "proc/cgroup").write_text(own)
    return {"system": folder / "sys", "process": folder / "proc"}


FOUR_CORES = {0: "0,4", 1: "1,5", 2: "2,6", 3: "3,7", 4: "0,4", 5: "1,5", 6: "2,6", 7: "3,7"}


def test_two_threads_of_one_core_count_once(tmp_path):
    places = machine(tmp_path, FOUR_CORES, {}, "")
    assert available({}, range(8), **places) == 4
    assert available({}, [0, 4, 1], **places) == 2


@pytest.mark.parametrize(("quota", "expected"), [("250000 100000", 2), ("50000 100000", 1), ("max 100000", 4)])
def test_a_control_group_bounds_them_from_any_height(tmp_path, quota, expected):
    groups = {"jobs": {"cpu.max": quota}, "jobs/one": {"cpu.max": "max 100000"}}
    assert available({}, range(8), **machine(tmp_path, FOUR_CORES, groups, "0::/jobs/one\n")) == expected


def test_control_groups_of_the_first_version_bound_them_too(tmp_path):
    groups = {"cpu,cpuacct/job": {"cpu.cfs_quota_us": "300000", "cpu.cfs_period_us": "100000"}}
    own = "5:memory:/elsewhere\n4:cpu,cpuacct:/job\n0::/\n"
    assert available({}, range(8), **machine(tmp_path, FOUR_CORES, groups, own)) == 3


def test_a_job_says_how_many_it_was_given(tmp_path):
    places = machine(tmp_path, FOUR_CORES, {}, "")
    assert available({"OMP_NUM_THREADS": "2"}, range(8), **places) == 2
    assert available({"OMP_NUM_THREADS": "2,1"}, range(8), **places) == 2
    assert available({"OMP_NUM_THREADS": "many"}, range(8), **places) == 4


def test_where_nothing_is_known_every_processor_counts(tmp_path):
    assert available({}, range(3), system=tmp_path / "no", process=tmp_path / "no") == 3
    assert available() >= 1
