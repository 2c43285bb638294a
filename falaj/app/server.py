"""The running server: uvicorn with guarded connections, TLS 1.3 or nothing, and an orderly end."""

import logging
import resource
import signal
import socket
import ssl
import sys
from collections.abc import Callable
from typing import Any

import uvicorn

from falaj.api.protocol import GuardedProtocol
from falaj.base.errors import Conflict

log = logging.getLogger(__name__)
MOST_CONNECTIONS = 2000


def listen(host: str, port: int) -> socket.socket:
    """Bind first, so that the address is known (and ours) before anything is announced."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise Conflict(f"Cannot listen on {host}:{port}: {error.strerror}. Choose another port with --port.") from None
    return listener


def allow_files(wanted: int) -> None:
    """Connections are files, and many systems start a process with room for 1,024; ask for more, as far as we may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))


class Server(uvicorn.Server):
    """Calls `ready` once connections are accepted."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        self._ready()


def serve(app: Any, listener: socket.socket, *, certificate: str, private_key: str, ready: Callable[[], None]) -> None:
    """Serve until SIGTERM or SIGINT; requests under way are finished, new ones are not taken."""
    config = uvicorn.Config(
        app,
        http=GuardedProtocol,
        loop="uvloop",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=20,
        limit_concurrency=MOST_CONNECTIONS,
        backlog=512,
        ssl_certfile=certificate or None,
        ssl_keyfile=private_key or None,
    )
    # Database drivers let go of the interpreter at every call; at the default of 5 ms, threads that want it back wait in a row.
    sys.setswitchinterval(0.0005)
    allow_files(2 * MOST_CONNECTIONS)
    config.load()
    if config.ssl is not None:
        config.ssl.minimum_version = ssl.TLSVersion.TLSv1_3
    # uvicorn raises the signal that ended it once more, which by default would end us before anything is closed.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    Server(config, ready).run(sockets=[listener])
