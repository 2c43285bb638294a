"""The serving plane beside a control plane: started by it, not its child, found again by the next, stopped by `falaj down`."""

import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable

from falaj import __version__
from falaj.app.home import Home, read_document
from falaj.base.errors import Conflict, FalajError
from falaj.serving.plane.joining import Join, write_join
from falaj.serving.plane.places import PlaneHome
from falaj.serving.plane.supervisor import is_held

log = logging.getLogger(__name__)
LONGEST_STOP = 40.0
USUAL_PORT = 8500
_LOOKS = 0.2
_RENEWS = 3600.0
_STARTS_WITHIN = 10.0
_TRIES_AGAIN = 2.0


def plane_of(home: Home) -> PlaneHome:
    return PlaneHome(path=home.path / "serving", keys=home.keys / "serving")


def start(home: Home) -> bool:
    """Start the plane of this home, as a process of its own; False where it runs already."""
    plane = plane_of(home)
    plane.prepare()
    if is_held(plane):
        return False
    with open(plane.log, "ab") as out:
        command = [sys.executable, "-P", "-m", "falaj.cli.main", "serve", "--home", str(home.path)]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True)
    # Until it holds its place nobody would find it there, and `falaj down` would leave it behind.
    deadline = time.monotonic() + _STARTS_WITHIN
    while not is_held(plane) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    return True


def running(home: Home) -> str:
    """Where this home's plane answers; empty where none runs."""
    plane = plane_of(home)
    return str(read_document(plane.running).get("url", "")) if is_held(plane) else ""


def is_outdated(home: Home) -> bool:
    """Whether the plane that runs is of another version: its workers would be born from this one's code."""
    plane = plane_of(home)
    told = read_document(plane.running).get("version", __version__)
    return is_held(plane) and told != __version__


def stop(home: Home) -> bool:
    """Ask the plane to end, and wait until what was under way is answered; False where none runs."""
    plane = plane_of(home)
    if not is_held(plane):
        return False
    pid = _pid(plane)
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + LONGEST_STOP
    while is_held(plane):
        if time.monotonic() > deadline:
            raise Conflict(f"The serving plane (process {pid}) does not end; look at {plane.log}.")
        time.sleep(0.05)
    return True


def _pid(plane: PlaneHome) -> int:
    """It says who it is a moment after it took the lock."""
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        pid = read_document(plane.running).get("pid")
        if isinstance(pid, int):
            return pid
        time.sleep(0.05)
    raise Conflict(f"Something holds {plane.path}, but it is not a running plane; try again shortly.")


class PlaneKeeper:
    """Sees to it, while the control plane runs, that the home's own plane runs too once there is something to answer for, and
    that its token is renewed in time and it hears of news at once. The plane is left running when this ends."""

    def __init__(
        self, home: Home, *, wanted: Callable[[], bool], serial: Callable[[], int], credentials: Callable[[], Join]
    ) -> None:
        self._home, self._wanted, self._serial, self._credentials = home, wanted, serial, credentials
        self._told = -1
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="plane keeper", daemon=True)
        self._renewed = 0.0

    def start(self) -> None:
        self._renew()
        self._thread.start()

    def stop(self) -> None:
        self._ending.set()
        if self._thread.ident is not None:
            self._thread.join()
            plane_of(self._home).news.unlink(missing_ok=True)

    def _keep(self) -> None:
        while not self._ending.wait(_LOOKS):
            try:
                if time.monotonic() - self._renewed > _RENEWS:
                    self._renew()
                self._tell()
                if is_outdated(self._home):
                    log.warning("the serving plane is of another version and is started anew")
                    stop(self._home)
                if not is_held(plane_of(self._home)) and self._wanted() and start(self._home):
                    log.info("the serving plane was started")
                    self._ending.wait(_TRIES_AGAIN)
            except (FalajError, OSError) as error:
                log.warning("the serving plane: %s", error)
                self._ending.wait(_TRIES_AGAIN)

    def _tell(self) -> None:
        """Let the plane know that there is something to ask for."""
        if (serial := self._serial()) != self._told:
            plane_of(self._home).news.write_text(str(serial))
            self._told = serial

    def _renew(self) -> None:
        plane = plane_of(self._home)
        plane.prepare()
        write_join(plane.join, self._credentials())
        self._renewed = time.monotonic()


def listen_for_predictions(host: str, port: int, *, last: int = 0) -> socket.socket:
    """One socket for all workers: whoever is free takes the next connection. Port 0 is the one of the `last` run, for callers
    know that one; else the usual one, or any that is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    for wish in (port,) if port else (last or USUAL_PORT, USUAL_PORT, 0):
        try:
            listener.bind((host, wish))
            listener.listen(4096)
            listener.setblocking(False)
            return listener
        except OSError as error:
            refused = error
    listener.close()
    raise Conflict(f"Cannot listen on {host}:{port}: {refused.strerror}. Choose another with [serving] port.")
