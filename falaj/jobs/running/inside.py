"""The first thing that runs inside the walls: gives up the rights that are left, opens the way out, starts the tasks.

It is run as a file, by an interpreter that has nothing but its own library, and says what happens through the socket it is
given. Whatever it holds, the job could not use for more than it has: nobody inside may look into it all the same.
"""

import array
import contextlib
import ctypes
import importlib
import json
import os
import resource
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from typing import Any

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
GRACE = 10.0  # of tasks whose gang has broken
BACKLOG = 128
NOT_OURS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)  # a job that signals everybody does not mean this process
IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)


class Told:
    """The socket to the keeper: a line of JSON each."""

    def __init__(self, descriptor: int) -> None:
        os.set_inheritable(descriptor, False)
        self._socket = socket.socket(fileno=descriptor)
        self._rest = b""

    def fileno(self) -> int:
        return self._socket.fileno()

    def hear(self) -> Any:
        """The next line; None once nobody speaks any more."""
        while b"\n" not in self._rest:
            part = self._socket.recv(1 << 16)
            if not part:
                return None
            self._rest += part
        line, _, self._rest = self._rest.partition(b"\n")
        return json.loads(line)

    def say(self, **words: Any) -> None:
        self._socket.sendall(json.dumps(words).encode() + b"\n")

    def hand_over(self, descriptor: int, **words: Any) -> None:
        held = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [descriptor]))
        self._socket.sendmsg([json.dumps(words).encode() + b"\n"], [held])


def main() -> None:
    told = Told(int(sys.argv[1]))
    told.say(here=True)
    order = told.hear()
    if order is None:
        return
    # Whom it becomes may be nobody who can read these.
    source = os.open(order["source"], os.O_RDONLY | os.O_CLOEXEC) if order["source"] else None
    outputs = beside("outputs") if order["outputs"] else None
    give_up_rights(order)
    relay = listen(told) if order["relay"] else ""
    if source is not None and not unpacked(source, order, told):
        return
    os.chdir(order["directory"])
    tasks = Tasks(order, relay, told)
    outcome = tasks.run()
    if outputs is not None and not outcome["code"] and not tasks.were_stopped:
        outcome["unkept"] = problem_of(lambda: str(outputs.keep(order, relay)), "Keeping its outputs")
    told.say(ended=outcome | {"memory": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss << 10})
    while told.hear() is not None:  # until the keeper has counted what was used: that may go with us
        pass


def beside(name: str) -> Any:
    """A part of this program that few need, in a file beside this one."""
    sys.path.append(os.path.dirname(__file__))  # noqa: PTH120 - no more imports than needed
    return importlib.import_module(name)


def give_up_rights(order: dict[str, Any]) -> None:
    # Where memory runs out, this is what should end first.
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")
    if order["cores"]:
        with contextlib.suppress(OSError):  # a core that went away
            os.sched_setaffinity(0, order["cores"])
    if user := order["user"]:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    system = ctypes.CDLL(None)
    # Nobody inside may take over the socket. What is started from here can be looked into again.
    system.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    # Who becomes somebody else does not end with its parent any more, unless it says so again.
    system.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    os.umask(0o022)
    for name, most in order["limits"].items():
        kind = getattr(resource, name)
        _, hardest = resource.getrlimit(kind)
        most = most if hardest == resource.RLIM_INFINITY else min(most, hardest)
        resource.setrlimit(kind, (most, most))


def listen(told: Told) -> str:
    """The keeper takes the calls: a socket belongs to the network it was made in, whoever holds it."""
    server = socket.socket()
    server.bind(("127.0.0.1", 0))
    server.listen(BACKLOG)
    told.hand_over(server.fileno(), listening=True)
    return f"http://127.0.0.1:{server.getsockname()[1]}"


def problem_of(work: Callable[[], str], what: str) -> str:
    """What it says goes wrong, or nothing. Done by a process of its own, whose memory goes with it."""
    said, saying = os.pipe()
    child = os.fork()
    if not child:
        try:
            problem = work()
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is said
            problem = f"{type(error).__name__}: {error}"
        os.write(saying, problem[:1000].encode(errors="replace"))
        os._exit(0)
    os.close(saying)
    with open(said, "rb") as file:
        problem = file.read().decode(errors="replace")
    _, status = os.waitpid(child, 0)
    if status and not problem:
        problem = f"{what} ended by signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"{what} failed"
    return problem


def unpacked(source: int, order: dict[str, Any], told: Told) -> bool:
    problem = problem_of(lambda: unpack(source, order["directory"], order["most_files"]), "Unpacking")
    if problem:
        told.say(unusable=problem)
    os.close(source)
    return not problem


def unpack(source: int, folder: str, most_files: int) -> str:
    """Files, folders, and links that stay within. Rights are the user's own; owners, devices and the like are nobody's."""
    import tarfile

    root = os.path.realpath(folder)

    def is_within(name: str) -> bool:
        place = os.path.realpath(os.path.join(root, name))  # noqa: PTH118 - no more imports than needed
        return place == root or place.startswith(root + os.sep)

    with tarfile.open(fileobj=open(source, "rb"), mode="r|*") as tar:
        for count, entry in enumerate(tar):
            if count >= most_files:
                raise ValueError(f"it holds more than {most_files} files")
            if os.path.normpath(entry.name) == ".":
                continue
            if not is_within(entry.name):
                raise ValueError(f"{entry.name!r} lies outside of it")
            if entry.islnk() and not is_within(entry.linkname):
                raise ValueError(f"{entry.name!r} links to {entry.linkname!r}, which lies outside of it")
            folder_of = os.path.dirname(entry.name)  # noqa: PTH120
            if entry.issym() and not is_within(os.path.join(folder_of, entry.linkname)):  # noqa: PTH118
                raise ValueError(f"{entry.name!r} links to {entry.linkname!r}, which lies outside of it")
            if not (entry.isreg() or entry.isdir() or entry.islnk() or entry.issym()):
                raise ValueError(f"{entry.name!r} is neither file nor folder nor link")
            entry.mode = (entry.mode & 0o755) | (0o700 if entry.isdir() else 0o600)
            entry.uid, entry.gid, entry.uname, entry.gname = os.getuid(), os.getgid(), "", ""
            tar.extract(entry, root, set_attrs=not entry.issym(), **FULLY_TRUSTED)
    return ""


# Each entry was looked at above; newer versions ask that one says so.
FULLY_TRUSTED: Any = {"filter": "fully_trusted"} if sys.version_info >= (3, 11, 4) else {}


class Tasks:
    """All of them, or none: where one fails the others are asked to end, and made to."""

    def __init__(self, order: dict[str, Any], relay: str, told: Told) -> None:
        self._order, self._told = order, told
        self._variables = with_relay(order, relay)
        self._going: dict[int, int] = {}
        self._kill_at = 0.0
        self._outcome: dict[str, Any] = {"code": 0, "words": ""}
        self.were_stopped = False

    def run(self) -> dict[str, Any]:
        woken, waking = os.pipe()
        os.set_blocking(waking, False)
        os.set_blocking(woken, False)
        for number in (signal.SIGCHLD, *NOT_OURS):
            signal.signal(number, lambda *_: None)
        signal.set_wakeup_fd(waking, warn_on_full_buffer=False)
        self._told.say(started=True)
        for rank, own in enumerate(self._order["tasks"]):
            if not self._start(rank, own):
                break
        poll = select.poll()
        poll.register(woken, select.POLLIN)
        poll.register(self._told, select.POLLIN)
        while self._going:
            for descriptor, _ in poll.poll(200 if self._kill_at else None):
                if descriptor == woken:
                    with contextlib.suppress(BlockingIOError):
                        os.read(woken, 1 << 12)
                elif self._told.hear() is None:
                    os._exit(1)
                else:
                    self.were_stopped = True
                    self._signal(signal.SIGTERM)
            self._reap()
            if self._kill_at and time.monotonic() > self._kill_at:
                self._signal(signal.SIGKILL)
        return self._outcome

    def _start(self, rank: int, own: dict[str, str]) -> bool:
        command, variables = self._order["command"], self._variables | own
        os.environ["PATH"] = variables["PATH"]  # where the command is looked for
        try:
            pid = os.posix_spawnp(command[0], command, variables, setsid=True, setsigdef=IGNORED_BY_PYTHON)
        except OSError as error:
            self._failed(126 if isinstance(error, PermissionError) else 127, f"{command[0]} cannot be run: {error.strerror}")
            return False
        self._going[pid] = rank
        return True

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    return
                rank = self._going.pop(pid, None)
                if rank is None or not status:
                    continue
                whom = f"task {rank}" if len(self._order["tasks"]) > 1 else "it"
                if os.WIFSIGNALED(status):
                    name = signal.strsignal(os.WTERMSIG(status)) or "a signal"
                    self._failed(128 + os.WTERMSIG(status), f"{whom} was ended by signal {os.WTERMSIG(status)} ({name})")
                else:
                    self._failed(os.WEXITSTATUS(status), f"{whom} ended with {os.WEXITSTATUS(status)}")

    def _failed(self, code: int, words: str) -> None:
        """The first one that fails says how all of them ended."""
        if not self._outcome["code"]:
            self._outcome = {"code": code, "words": words}
        if self._going and not self._kill_at:
            self._signal(signal.SIGTERM)
            self._kill_at = time.monotonic() + GRACE

    def _signal(self, number: int) -> None:
        for pid in self._going:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, number)


def with_relay(order: dict[str, Any], relay: str) -> dict[str, str]:
    """What names the platform names the relay instead; hosts that were declared are reached through it."""
    variables: dict[str, str] = dict(order["variables"])
    if not relay:
        return variables
    if platform := order["platform_url"].rstrip("/"):
        for name, text in variables.items():
            if text == platform or text.startswith(platform + "/"):
                variables[name] = relay + text[len(platform) :]
        variables = {"FALAJ_URL": relay, "MLFLOW_TRACKING_URI": relay} | variables
    if order["proxy"]:
        ways = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), relay)
        variables = ways | {"NO_PROXY": "localhost,127.0.0.1", "no_proxy": "localhost,127.0.0.1"} | variables
    return variables


if __name__ == "__main__":
    main()
