"""A process with all below it, and the memory they take, read from /proc."""

import os


def tree(pid: int) -> list[int]:
    """A process and all below it."""
    found, waiting = [], [pid]
    while waiting:
        pid = waiting.pop()
        found.append(pid)
        try:
            for task in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - many times a second
                with open(f"/proc/{pid}/task/{task}/children") as children:
                    waiting += [int(child) for child in children.read().split()]
        except OSError:
            continue  # it ended meanwhile
    return found


def resident(pids: list[int]) -> int:
    """Bytes that go with them; not what the kernel has cached of files. What processes share counts for each of them."""
    return sum(_summed(f"/proc/{pid}/status", ("RssAnon:", "RssShmem:"), "VmRSS:") for pid in pids)


def proportional(pids: list[int]) -> int:
    """The same, but what processes share is divided among them, which takes longer to tell."""
    return sum(_summed(f"/proc/{pid}/smaps_rollup", ("Pss_Anon:", "Pss_Shmem:"), "Pss:") for pid in pids)


def _summed(file: str, names: tuple[str, ...], instead: str) -> int:
    """Bytes; `instead` is what kernels have that tell no parts of it. Nothing where the process ended meanwhile."""
    try:
        with open(file) as lines:
            found = {(parts := line.split())[0]: int(parts[1]) for line in lines if line.startswith((*names, instead))}
    except (OSError, ValueError):
        return 0
    return sum(found.get(name, 0) for name in (names if names[0] in found else (instead,))) << 10
