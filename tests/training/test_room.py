"""What a process may still take, read off files as kernels write them."""

from falaj.training import room


def _written(folder, files):
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return room.left(folder / "sys", folder / "proc")


def test_the_machine_s_own_counts_where_no_group_bounds_it(tmp_path):
    assert _written(tmp_path, {"proc/meminfo": "MemTotal: 9 kB\nMemAvailable:   100 kB\n"}) == 100 << 10
    assert room.left(tmp_path / "none", tmp_path / "none") is None


def test_the_narrowest_group_counts_and_files_that_may_go_do_not(tmp_path):
    files = {
        "proc/meminfo": "MemAvailable: 100 kB",
        "proc/self/cgroup": "0::/jobs/one",
        "sys/fs/cgroup/jobs/memory.max": "60000",
        "sys/fs/cgroup/jobs/memory.current": "50000",
        "sys/fs/cgroup/jobs/memory.stat": "anon 9000\ninactive_file 8000\n",
        "sys/fs/cgroup/jobs/one/memory.max": "max",
        "sys/fs/cgroup/jobs/one/memory.current": "4000",
    }
    assert _written(tmp_path, files) == 18000


def test_groups_of_the_first_version_are_read_as_well(tmp_path):
    files = {
        "proc/self/cgroup": "4:memory:/one\n2:cpu:/other",
        "sys/fs/cgroup/memory/one/memory.limit_in_bytes": "5000",
        "sys/fs/cgroup/memory/one/memory.usage_in_bytes": "7000",
    }
    assert _written(tmp_path, files) == 0


def test_what_this_process_has_taken_is_known():
    assert room.taken() > 0
