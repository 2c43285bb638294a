"""The first thing that runs inside the walls: gives up the rights that are left, sets the bounds, then runs the program."""

import contextlib
import ctypes
import json
import os
import resource
import runpy
import signal
import sys

PR_SET_DUMPABLE = 4


def main() -> None:
    said = json.loads(sys.argv[1])
    # Where memory runs out, this is what should end first.
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")
    if said["user"]:
        become(said["user"])
    limits = {
        resource.RLIMIT_AS: said["memory_bytes"],
        resource.RLIMIT_NPROC: said["processes"],
        resource.RLIMIT_NOFILE: at_most(resource.RLIMIT_NOFILE, said["files"]),
        resource.RLIMIT_CORE: 0,
    }
    if said["file_bytes"]:
        limits[resource.RLIMIT_FSIZE] = said["file_bytes"]
    for kind, most in limits.items():
        resource.setrlimit(kind, (most, most))
    sys.argv = [said["program"], *said["arguments"]]
    sys.path.insert(0, said["programs"])
    try:
        runpy.run_module(said["program"], run_name="__main__", alter_sys=True)
    finally:
        end_others()


def at_most(kind: int, wanted: int) -> int:
    """Nobody but root may have more than there is already."""
    most = resource.getrlimit(kind)[1]
    return wanted if most == resource.RLIM_INFINITY else min(wanted, most)


def become(user: int) -> None:
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    # Else what is below /proc/self stays root's, which libraries read.
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)


def end_others() -> None:
    """What the model started and left running would keep the walls standing."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(-1, signal.SIGKILL)


if __name__ == "__main__":
    main()
