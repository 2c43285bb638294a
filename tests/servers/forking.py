"""Imports the command line and the platform once, opens a platform once, and forks itself for each command: see
`tests.servers.warm`.

Each command becomes a process of its own, with the environment, the directory, the limits and the standard streams that it was
given, and a child of whoever started this. What it then does is what `python -m falaj.cli.main` does.
"""

import atexit
import ctypes
import gc
import importlib
import json
import os
import pkgutil
import re
import resource
import signal
import socket
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path
from typing import Any

import pydantic

from falaj.app.home import Home
from falaj.app.platform import OPERATIONS, open_platform
from falaj.app.settings import Settings
from falaj.base.clock import SystemClock
from falaj.base.operation import Download
from falaj.database import opening
from falaj.database.opening import Location
from falaj.operations.messages import adapter
from tests.servers.migrating import migrate_as_before

LARGEST = 1 << 20
PR_SET_PDEATHSIG = 1
PLATFORM = ("falaj.app.platform", "falaj.app.server", "falaj.app.up", "uvicorn.loops.uvloop", "uvicorn.lifespan.off", "uvloop")
DATABASES = ("alembic.command", "alembic.config", "psycopg", "sqlalchemy.ext.compiler", "sqlite3")
CLIENT = ("falaj.client.http", "httpx", "httpcore", "h2.connection", "pydantic.dataclasses", "encodings.idna")
# What the parts themselves put off until it is needed is here, too: nearly every command comes to need it.
PRELOADED = ("falaj.cli.main", *PLATFORM, *DATABASES, *CLIENT)


def serve(channel: socket.socket) -> dict[str, Any]:
    """Returns in the forked processes alone, with what each was asked for."""
    starter = os.getppid()
    while True:
        message, streams, _, _ = socket.recv_fds(channel, LARGEST, 3)
        if not message:
            os._exit(0)  # whoever started this has gone
        inbox, outbox = os.pipe()
        if (between := os.fork()) == 0:
            # Whose parent ends is given to the next ancestor that takes such: the starter, who can then wait for it.
            if (child := os.fork()) != 0:
                os.write(outbox, str(child).encode())
                os._exit(0)
            for descriptor in (channel.fileno(), inbox, outbox):
                os.close(descriptor)
            while os.getppid() != starter:
                time.sleep(0.0005)
            for target, stream in enumerate(streams):
                os.dup2(stream, target)
                os.close(stream)
            return dict(json.loads(message))
        os.waitpid(between, 0)
        channel.send(os.read(inbox, 32))
        for descriptor in (inbox, outbox, *streams):
            os.close(descriptor)


def open_once() -> None:
    """What each process would find out about its own code: how types are read and written, what the routes are, and what the
    migrations of a new database come to."""
    re._MAXCACHE = 10_000  # type: ignore[attr-defined]  # or the last routes would drive out the first
    with tempfile.TemporaryDirectory() as folder:
        with open_platform(
            Home(path=Path(folder) / "home"), Settings(), clock=SystemClock(), url="http://127.0.0.1"
        ) as platform:
            platform.application(hosts=set(), tls=False)
        opening.migrate = migrate_as_before
        Location(url="", file=Path(folder) / "falaj.db").migrate()
    for operation in OPERATIONS:
        for kind in (operation.request, operation.result):
            if kind is not Download:
                adapter(kind)


def become(asked: dict[str, Any]) -> None:
    """As if this process had been started with all that."""
    if asked["deathly"]:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    for name, limits in asked["limits"].items():
        if resource.getrlimit(getattr(resource, name)) != tuple(limits):
            resource.setrlimit(getattr(resource, name), tuple(limits))
    os.environ.clear()
    os.environ.update(asked["environment"])
    os.chdir(asked["directory"])
    sys.stdin, sys.stdout = open(0, encoding="utf-8"), open(1, "w", encoding="utf-8")  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1)  # noqa: SIM115
    importlib.reload(sys.modules["falaj.base.failpoints"])  # it reads the environment when it is imported


def end(status: int) -> None:
    """As the interpreter does, less the freeing of memory."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            status = status or 120  # what Python answers when nobody reads any more
    os._exit(status)


def main() -> None:
    channel = socket.socket(fileno=int(sys.argv[1]))
    for name in PRELOADED:
        importlib.import_module(name)
    for module in pkgutil.iter_modules(importlib.import_module("falaj.cli.commands").__path__, "falaj.cli.commands."):
        importlib.import_module(module.name)
    pydantic.TypeAdapter(int)  # with its first type it looks through everything installed for plugins
    open_once()
    gc.collect()
    gc.freeze()
    asked = serve(channel)
    become(asked)
    command = sys.modules["falaj.cli.main"]
    sys.argv = [str(command.__file__), *asked["arguments"]]
    try:
        command.main()
    except SystemExit as leaving:
        end(leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None))
    except BaseException:  # noqa: BLE001
        traceback.print_exc()
        end(1)
    end(0)


if __name__ == "__main__":
    main()
