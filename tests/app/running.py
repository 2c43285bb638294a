"""A real platform: `falaj up` in a process of its own, in a home of its own, spoken to over the wire."""

import json
import os
import signal
import socket
import ssl
import subprocess
import threading
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from falaj.app.home import Home, read_document
from falaj.base.operation import Operation
from falaj.client.http import Client
from falaj.governance.identity.member_operations import ADD_MEMBER, ADD_PLATFORM_MEMBER, AddMember, PlatformMember
from falaj.governance.identity.operations import CREATE_USER, CreateUser
from falaj.governance.roles import Role
from falaj.governance.sessions.operations import OPEN_SESSION, OpenSession
from tests.servers.processes import ALONE, NO_TLS
from tests.servers.warm import start_falaj

# Pieces of the environment that would lead the command elsewhere.
LEADING = "FALAJ_"
KEPT = "FALAJ_TEST_SESSION"


class DidNotStart(Exception):
    """The command ended before it announced an address; the message is what it said."""


class RunningPlatform:
    """One control plane. `settings` is the text of its `falaj.toml`; `environment` is laid over this process's own."""

    def __init__(self, path: Path, *arguments: str, settings: str = "", **environment: str) -> None:
        self.home = Home(path=path)
        self._arguments = arguments
        self._environment = environment
        if settings:
            path.mkdir(parents=True, exist_ok=True)
            self.home.settings.write_text(settings)
        self.start()

    def start(self, **environment: str) -> None:
        """Returns when it serves. `environment` holds for this start alone; raises `DidNotStart` where it ends instead."""
        inherited = {name: text for name, text in os.environ.items() if not name.startswith(LEADING) or name == KEPT}
        self.process = start_falaj(
            "up",
            "--home",
            str(self.home.path),
            "--port",
            "0",
            "--json",
            *self._arguments,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=inherited | ALONE | self._environment | environment,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise DidNotStart(self.process.communicate(timeout=30)[1])
        self.announced: dict[str, Any] = json.loads(line)
        # Nobody else reads what it says, and a full pipe would stop it.
        for pipe in (self.process.stdout, self.process.stderr):
            threading.Thread(target=_drain, args=(pipe,), daemon=True).start()

    @property
    def url(self) -> str:
        return str(self.announced["url"])

    @property
    def port(self) -> int:
        port = urlsplit(self.url).port
        assert port is not None
        return port

    @property
    def token(self) -> str:
        """The owner's."""
        return str(read_document(self.home.credentials)["token"])

    @property
    def certificate(self) -> str:
        return str(read_document(self.home.credentials).get("certificate", ""))

    def verify(self) -> ssl.SSLContext | bool:
        return ssl.create_default_context(cafile=self.certificate) if self.certificate else NO_TLS

    def stop(self) -> int:
        """Ask it to end; how it ended."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=60)

    def kill(self) -> None:
        """As the power going out."""
        self.process.kill()
        self.process.wait(timeout=60)

    def close(self) -> None:
        if self.process.poll() is None:
            self.stop()

    # Speaking to it

    def client(self, token: str | None = None) -> Client:
        return Client(self.url, token or self.token, verify=self.verify())

    def http(self, token: str | None = None, **headers: str) -> httpx.Client:
        """Plain HTTP; without a token, as a stranger."""
        named = {"authorization": f"Bearer {token}"} if token else {}
        return httpx.Client(base_url=self.url, headers=named | headers, verify=self.verify(), trust_env=False, timeout=60)

    def call(self, operation: Operation[Any, Any], request: Any, *, token: str | None = None, data: bytes | None = None) -> Any:
        with self.client(token) as client:
            return client.call(operation, request, chunks=None if data is None else iter((data,)), retry=False)

    def person(self, name: str, *, roles: dict[str, Role] | None = None, platform: Role | None = None, zone: str = "") -> str:
        """Invite somebody, give roles, and sign in: the session's token."""
        invited = self.call(CREATE_USER, CreateUser(name=name, zone=zone))
        for project, role in (roles or {}).items():
            self.call(ADD_MEMBER, AddMember(project=project, member=name, role=role))
        if platform is not None:
            self.call(ADD_PLATFORM_MEMBER, PlatformMember(member=name, role=platform))
        return str(self.call(OPEN_SESSION, OpenSession(code=invited.code)).token)

    def connect(self, *, timeout: float = 30) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=timeout)

    def raw(self, request: bytes, *, timeout: float = 30) -> bytes:
        """Send these very bytes, and read until the server closes."""
        with self.connect(timeout=timeout) as connection:
            connection.sendall(request)
            return read_to_end(connection)


def read_to_end(connection: socket.socket) -> bytes:
    received = bytearray()
    while True:
        try:
            part = connection.recv(65536)
        except ConnectionResetError:
            break
        if not part:
            break
        received += part
    return bytes(received)


def _drain(pipe: Any) -> None:
    with pipe:
        for _ in pipe:
            pass
