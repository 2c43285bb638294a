"""`falaj` as a process of its own that need not wait for Python's imports, which take longer than most commands do.

Only the imports are shared: a helper has done them and forks. Where a test changes what is imported, or what is loaded into the
process, the command is started in the ordinary way; so do the tests of the wheel, of the help and of upgrades.
"""

import ctypes
import json
import os
import resource
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

COMMAND = (sys.executable, "-m", "falaj.cli.main")
# With one of these in its environment, Python or the loader does something else at the start.
COLD = ("LD_", "PYTHON", "LANG", "LC_", "MALLOC_", "SSL_CERT")
PR_SET_CHILD_SUBREAPER = 36
LIMITS = [name for name in dir(resource) if name.startswith("RLIMIT_")]


class _Helper:
    def __init__(self) -> None:
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # what it forks becomes our own child
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-m", "tests.servers.forking", str(theirs.fileno())]
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()])
        theirs.close()
        self._one_at_a_time = threading.Lock()

    def fork(self, asked: Mapping[str, Any], streams: Sequence[int]) -> int:
        with self._one_at_a_time:
            socket.send_fds(self._channel, [json.dumps(asked).encode()], streams)
            return int(self._channel.recv(32))

    def close(self) -> None:
        self._channel.close()
        self._process.wait()


_helper: list[_Helper] = []


@pytest.fixture(scope="session", autouse=True)
def warm_commands(no_process_survives: None) -> Iterator[None]:
    """The helper starts with the first command and ends with the tests."""
    yield
    while _helper:
        _helper.pop().close()


class _Warm(subprocess.Popen[Any]):
    """As any process that is started, but for the start."""

    deathly = False

    def _execute_child(self, args: Any, *rest: Any) -> None:
        directory, environment = rest[4], rest[5]
        theirs_in, ours_in, ours_out, theirs_out, ours_error, theirs_error = rest[9:15]
        asked = {
            "arguments": args[len(COMMAND) :],
            "environment": dict(os.environ) if environment is None else dict(environment),
            "directory": str(directory or Path.cwd()),
            "limits": {name: resource.getrlimit(getattr(resource, name)) for name in LIMITS},
            "deathly": self.deathly,
        }
        if not _helper:
            _helper.append(_Helper())
        streams = [given if given != -1 else own for own, given in enumerate((theirs_in, theirs_out, theirs_error))]
        self.pid = _helper[0].fork(asked, streams)
        self._child_created = True
        self._close_pipe_fds(theirs_in, ours_in, ours_out, theirs_out, ours_error, theirs_error)  # type: ignore[attr-defined]


class _Deathly(_Warm):
    deathly = True


def start_falaj(*arguments: str, env: Mapping[str, str], ends_with_us: bool = False, **options: Any) -> "subprocess.Popen[Any]":
    """`falaj` with these arguments. `ends_with_us`: the kernel kills it should the tests end without having done so."""
    own = {name: text for name, text in os.environ.items() if name.startswith(COLD)}
    if {name: text for name, text in env.items() if name.startswith(COLD)} != own:
        guard = ("setpriv", "--pdeathsig", "KILL", "--") if ends_with_us else ()
        return subprocess.Popen([*guard, *COMMAND, *arguments], env=env, **options)
    return (_Deathly if ends_with_us else _Warm)([*COMMAND, *arguments], env=env, **options)


def run_falaj(
    *arguments: str, env: Mapping[str, str], input: Any = None, timeout: float = 120, **options: Any
) -> "subprocess.CompletedProcess[Any]":
    """The same to its end, with what it printed."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with start_falaj(*arguments, env=env, **pipes, **options) as process:
        try:
            output, error = process.communicate(input, timeout=timeout)
        except BaseException:
            process.kill()
            raise
        return subprocess.CompletedProcess(process.args, process.returncode, output, error)
