"""Starting and stopping the control plane of one home."""

import gc
import logging
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from urllib.parse import urlsplit

from falaj.app.addresses import is_everywhere, is_loopback
from falaj.app.backends import SHARE_STORAGE, unshared_storage
from falaj.app.backups import sweep
from falaj.app.certificates import self_signed
from falaj.app.home import Home, is_running, locked, read_document, write_private
from falaj.app.logs import log_to
from falaj.app.planes import PlaneKeeper
from falaj.app.platform import open_platform
from falaj.app.server import listen, serve
from falaj.app.settings import ServerSettings, Settings
from falaj.base.clock import SystemClock
from falaj.base.errors import Conflict, FalajError, Forbidden, Invalid
from falaj.base.failpoints import failpoint
from falaj.base.values import value
from falaj.governance.profiles import PROFILES

log = logging.getLogger(__name__)
LONGEST_START = 30.0
LONGEST_STOP = 30.0


@value
class Announcement:
    """What whoever started the platform should be told."""

    url: str
    console: str
    recovery_kit: str  # where it lies; empty once it was put away
    first_start: bool
    warning: str = ""  # about settings that will hurt later


def run(home: Home, settings: Settings, *, tls: bool, announce: Callable[[Announcement], None]) -> None:
    """Serve this home until a signal ends it. Everything is written down before the address is announced."""
    os.umask(0o077)
    home.prepare()
    with locked(home, wait=2):
        if home.restoring.exists():
            raise Conflict(
                f"The restoring of {home.path} was cut off, so it is not whole. Remove it and restore the backup again."
            )
        log_to(home.log)
        sweep(home)
        server = settings.server
        check_exposure(server, settings.platform.profile, tls=tls)
        certificate, private_key = server.certificate, server.private_key
        if tls and not certificate:
            made = self_signed(home.path / "tls", sorted(host_names(server)))
            certificate, private_key = (str(file) for file in made)
        first_start = not home.credentials.exists()
        if warning := storage_warning(home, settings):
            log.warning(warning)
        with ExitStack() as stack:
            listener = stack.enter_context(listen(server.host, server.port))
            url = server.url or _url(server.host, listener.getsockname()[1], tls=bool(certificate))
            platform = stack.enter_context(open_platform(home, settings, clock=SystemClock(), url=url))
            app = platform.application(hosts=host_names(server), tls=bool(certificate))
            token = platform.owner_token()
            failpoint("up.before-credentials")
            trusted = certificate if tls and not server.certificate else ""
            write_private(home.credentials, {"url": url, "token": token, "certificate": trusted})
            write_private(home.server, {"pid": os.getpid(), "url": url})

            keeper = PlaneKeeper(
                home,
                wanted=platform.serving.wants_plane,
                serial=lambda: platform.serving.serial(settings.platform.zone),
                credentials=lambda: replace(platform.plane_credentials(), certificate=trusted),
            )

            def ready() -> None:
                platform.start_loops()
                if settings.serving.enabled:
                    keeper.start()
                gc.freeze()  # what is there now stays: nothing of it need ever be looked through again
                gc.enable()
                announce(
                    Announcement(
                        url=url,
                        console=f"{url}/sign-in?code={platform.sign_in_code(token)}",
                        recovery_kit=platform.recovery_kit(),
                        first_start=first_start,
                        warning=warning,
                    )
                )

            try:
                serve(app, listener, certificate=certificate, private_key=private_key, ready=ready)
            finally:
                keeper.stop()
                home.server.unlink(missing_ok=True)


def start_detached(home: Home, arguments: Sequence[str]) -> str:
    """Start a control plane that outlives this process, and wait until it serves. Its address."""
    home.prepare()
    if is_running(home):
        raise Conflict(f"Falaj runs on {home.path} already.")
    home.server.unlink(missing_ok=True)
    with open(home.log.with_name("start.log"), "wb") as log:
        # -P: Falaj is the one that is installed, and not a folder of that name where it happens to be started.
        command = [sys.executable, "-P", "-m", "falaj.cli.main", "up", "--home", str(home.path), *arguments]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    deadline = time.monotonic() + LONGEST_START
    while time.monotonic() < deadline:
        if url := read_document(home.server).get("url"):
            if _answers(url):
                return str(url)
        elif process.poll() is not None:
            break
        time.sleep(0.05)
    said = home.log.with_name("start.log").read_text(errors="replace").strip()
    why = said.splitlines()[-1].removeprefix("falaj: ") if said else "it said nothing"
    raise FalajError(f"Falaj did not start: {why}")


def stop(home: Home) -> bool:
    """Ask the control plane of this home to end, and wait until it has; False where none runs."""
    if not is_running(home):
        return False
    pid = read_document(home.server).get("pid")
    if not isinstance(pid, int):
        raise Conflict(f"Something holds {home.path}, but it is not a running server; try again shortly.")
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + LONGEST_STOP
    while is_running(home):
        if time.monotonic() > deadline:
            raise Conflict(f"Process {pid} does not end; it may be finishing long requests. Try again, or look at {home.log}.")
        time.sleep(0.05)
    return True


def storage_warning(home: Home, settings: Settings) -> str:
    told = unshared_storage(home, settings)
    return f"{told} To mend it: {SHARE_STORAGE}." if told else ""


def host_names(server: ServerSettings) -> set[str]:
    """The names this server answers to; any other Host header is refused, which is what stops DNS rebinding."""
    names = {"localhost", "127.0.0.1", "::1", server.host, *server.hosts}
    if server.url:
        names.add(urlsplit(server.url).hostname or "")
    return {name.lower() for name in names if name and not is_everywhere(name)}


def check_exposure(server: ServerSettings, profile: str, *, tls: bool) -> None:
    if bool(server.certificate) != bool(server.private_key):
        raise Invalid("[server] certificate and private_key belong together: give both or neither.")
    if PROFILES[profile].tls_required and not (tls or server.certificate or is_loopback(server.host)):
        raise Forbidden(
            f"Profile {profile} serves other machines only under TLS: set [server] certificate and private_key, "
            "or add --tls self-signed.",
            rule="profile.tls",
        )


def _url(host: str, port: int, *, tls: bool) -> str:
    name = ("::1" if ":" in host else "127.0.0.1") if is_everywhere(host) else host
    return f"{'https' if tls else 'http'}://{f'[{name}]' if ':' in name else name}:{port}"


def _answers(url: str) -> bool:
    parts = urlsplit(url)
    try:
        with socket.create_connection((parts.hostname or "", parts.port or 443), timeout=1):
            return True
    except OSError:
        return False
