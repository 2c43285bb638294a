"""A job's only way out: HTTP to the platform, and to hosts that it declared, through a socket that listens inside its walls.

Requests for the socket itself go to the platform; `CONNECT` and whole addresses, as proxies are asked, go to declared hosts. A
name is resolved here, once, and what it means is looked at before anything is connected to: no declared name leads to the
host's own loopback or to a cloud's metadata, unless that very address was declared.
"""

import contextlib
import ipaddress
import re
import select
import socket
import threading
from typing import Any, Final, NamedTuple

_LONGEST_HEAD: Final = 64 << 10
_PIECE: Final = 256 << 10
_PATIENCE: Final = 30.0  # for a connection to be made
_IDLE: Final = 3600.0  # after which a connection that says nothing is given up
_AT_ONCE: Final = 128
_PORTS: Final = {"http": 80, "https": 443}
# Numbers in requests: digits alone, and no more of them than make sense.
_LENGTH: Final = re.compile(r"[0-9]{1,15}")
_CHUNK: Final = re.compile(rb"[0-9A-Fa-f]{1,12}")
_PORT: Final = re.compile(r"[0-9]{1,5}")
# Where clouds answer about the machine itself, where that is not link-local.
_METADATA: Final = ("fd00:ec2::254", "100.100.100.200", "168.63.129.16", "192.0.0.192")


class Refused(Exception):
    """A request that is not passed on: `status` and one line for whoever reads the job's log."""

    def __init__(self, status: str, words: str) -> None:
        super().__init__(words)
        self.status = status


class Url(NamedTuple):
    scheme: str
    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> "Url":
        scheme, _, rest = text.partition("://")
        host, port = _host_and_port(rest.partition("/")[0], _PORTS.get(scheme, 0))
        if scheme not in _PORTS or not host or not port:
            raise ValueError(f"{text[:200]!r} is no address such as https://host:port")
        return cls(scheme, host, port)

    @property
    def authority(self) -> str:
        name = f"[{self.host}]" if ":" in self.host else self.host
        return name if self.port == _PORTS[self.scheme] else f"{name}:{self.port}"


class Head(NamedTuple):
    """Of a request. `rest` is what came after it already."""

    method: str
    target: str
    version: str
    fields: list[tuple[str, str]]
    rest: bytes

    def field(self, name: str) -> str:
        return next((text for found, text in self.fields if found.lower() == name), "")


class Relay:
    """Serves until it is closed, each connection in a thread of its own. `platform` is empty where there is none."""

    def __init__(self, server: socket.socket, platform: str, hosts: tuple[str, ...], certificates: str = "") -> None:
        self._server = server
        self._platform = Url.parse(platform) if platform else None
        self._hosts = frozenset(host.lower() for host in hosts)
        self._trust = _trust(certificates) if self._platform and self._platform.scheme == "https" else None
        self._room = threading.BoundedSemaphore(_AT_ONCE)
        self._closed = threading.Event()
        threading.Thread(target=self._accept, name="relay", daemon=True).start()

    def close(self) -> None:
        self._closed.set()
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()

    def _accept(self) -> None:
        while not self._closed.is_set():
            self._room.acquire()
            try:
                caller, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(caller,), name="relayed", daemon=True).start()

    def _serve(self, caller: socket.socket) -> None:
        try:
            with caller, contextlib.suppress(OSError):
                caller.settimeout(_IDLE)
                try:
                    head = _read_head(caller, b"")
                    if head is not None:
                        self._pass_on(caller, head)
                except Refused as refused:
                    caller.sendall(_refusal(refused))
        finally:
            self._room.release()

    def _pass_on(self, caller: socket.socket, head: Head) -> None:
        if head.method == "CONNECT":
            try:
                host, port = _host_and_port(head.target, 443)
            except ValueError as error:
                raise Refused("400 Bad Request", str(error)) from None
            with self._connect_declared(host, port) as other:
                caller.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                other.sendall(head.rest)
                _join(caller, other)
        elif "://" in head.target:
            self._pass_on_to_declared(caller, head)
        elif self._platform is None:
            raise Refused("403 Forbidden", "There is no platform to be reached from here.")
        else:
            with self._connect_platform(self._platform) as other:
                _pass_requests(caller, other, head, self._platform.authority)

    def _pass_on_to_declared(self, caller: socket.socket, head: Head) -> None:
        """Plain HTTP, as it is asked of proxies: one request, for the next one may be for another host."""
        try:
            url = Url.parse(head.target)
        except ValueError as error:
            raise Refused("400 Bad Request", str(error)) from None
        if url.scheme != "http":
            raise Refused("400 Bad Request", f"{head.target[:200]} is asked for with CONNECT.")
        path = "/" + head.target.partition("://")[2].partition("/")[2]
        kept = [(name, text) for name, text in head.fields if name.lower() not in ("connection", "proxy-connection", "host")]
        alone = head._replace(target=path, fields=[*kept, ("Connection", "close")])
        with self._connect_declared(url.host, url.port) as other:
            _pass_requests(caller, other, alone, url.authority, only_one=True)

    def _connect_platform(self, platform: Url) -> Any:
        try:
            made = socket.create_connection((platform.host, platform.port), timeout=_PATIENCE)
            _settle(made)
            if self._trust is None:
                return made
            return _Sealed(self._trust.wrap_socket(made, server_hostname=platform.host))
        except OSError as error:
            raise Refused("502 Bad Gateway", f"The platform at {platform.authority} does not answer: {error}") from None

    def _connect_declared(self, host: str, port: int) -> socket.socket:
        declared = f"{host}:{port}".lower() in self._hosts
        if not declared and "*" not in self._hosts:
            what = ", ".join(sorted(self._hosts)) or "none"
            raise Refused("403 Forbidden", f"{host}:{port} was not declared by this job (hosts: {what}).")
        try:
            addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, ValueError) as error:
            raise Refused("502 Bad Gateway", f"{host} has no address: {error}") from None
        literal = declared and (_is_address(host) or host.lower() == "localhost")
        allowed = [found for found in addresses if literal or may_be_reached(str(found[4][0]))]
        if not allowed:
            raise Refused("403 Forbidden", f"{host} leads to the host itself or to its network alone, which was not declared.")
        problem: OSError | None = None
        for family, kind, protocol, _, address in allowed:
            made = socket.socket(family, kind, protocol)
            try:
                made.settimeout(_PATIENCE)
                made.connect(address)
            except OSError as error:
                made.close()
                problem = error
            else:
                _settle(made)
                return made
        raise Refused("502 Bad Gateway", f"{host}:{port} does not answer: {problem}")


class _Sealed:
    """A TLS connection that one thread reads while another writes, which the library leaves to whoever uses it."""

    def __init__(self, sealed: Any) -> None:
        sealed.settimeout(0)
        self._sealed = sealed
        self._lock = threading.Lock()

    def __enter__(self) -> "_Sealed":
        return self

    def __exit__(self, *_: object) -> None:
        self._sealed.close()

    def recv(self, most: int) -> bytes:
        return self._turn(lambda: self._sealed.recv(most))  # type: ignore[no-any-return]

    def sendall(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            left = left[self._turn(lambda left=left: self._sealed.send(left)) :]

    def shutdown(self, how: int) -> None:
        """The other side is told, and may still answer, only where nothing is sealed."""
        if how == socket.SHUT_RDWR:
            socket.socket.shutdown(self._sealed, how)

    def _turn(self, step: Any) -> Any:
        import ssl  # there already

        while True:
            with self._lock:
                try:
                    return step()
                except ssl.SSLWantReadError:
                    waits: tuple[list[Any], list[Any]] = ([self._sealed], [])
                except ssl.SSLWantWriteError:
                    waits = ([], [self._sealed])
            if not any(select.select(*waits, [], _IDLE)):
                raise TimeoutError


def may_be_reached(address: str) -> bool:
    """Whether a name may mean this address."""
    found = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(found, ipaddress.IPv6Address):
        within = found.ipv4_mapped or found.sixtofour or (found.teredo and found.teredo[1])
        if found in ipaddress.ip_network("64:ff9b::/96"):
            within = ipaddress.IPv4Address(int(found) & 0xFFFFFFFF)
        if within:
            return may_be_reached(str(within))
    apart = found.is_loopback or found.is_link_local or found.is_multicast or found.is_unspecified or _is_own(found)
    return not (apart or str(found) in _METADATA or (found.version == 4 and found in ipaddress.ip_network("0.0.0.0/8")))


def _is_own(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """Whether it is this host's: nobody else can listen there."""
    kind = socket.AF_INET if address.version == 4 else socket.AF_INET6
    try:
        with socket.socket(kind, socket.SOCK_DGRAM) as tried:
            tried.bind((str(address), 0))
    except OSError:
        return False
    return True


def _pass_requests(caller: socket.socket, other: Any, head: Head | None, authority: str, only_one: bool = False) -> None:
    """Requests are looked at one by one, for each has to name the host that it is for; answers pass as they are."""
    answers = threading.Thread(target=_pour, args=(other, caller), name="answers", daemon=True)
    answers.start()
    try:
        while head is not None:
            if head.method == "CONNECT" or "://" in head.target:
                raise Refused("400 Bad Request", "One connection is for one host.")
            length = _length(head)
            other.sendall(_written(head, authority))
            if head.field("upgrade"):
                other.sendall(head.rest)
                _pour(caller, other)
                break
            rest = _pass_chunks(caller, other, head.rest) if length is None else _pass_body(caller, other, length, head.rest)
            head = None if only_one else _read_head(caller, rest)
        if not only_one:
            other.shutdown(socket.SHUT_WR)  # the caller said that it will say no more
        answers.join(_IDLE)
    except Refused as refused:
        caller.sendall(_refusal(refused))  # before the end of answers closes its way
    finally:
        with contextlib.suppress(OSError):
            other.shutdown(socket.SHUT_RDWR)
        answers.join(1.0)


def _length(head: Head) -> int | None:
    """Of the body that follows; None where it comes in chunks."""
    if head.field("transfer-encoding"):
        if head.field("transfer-encoding").strip().lower() != "chunked" or head.field("content-length"):
            raise Refused("400 Bad Request", "A request is chunked or has a length.")
        return None
    length = head.field("content-length") or "0"
    if not _LENGTH.fullmatch(length):
        raise Refused("400 Bad Request", "Content-Length is no number of bytes that anybody sends.")
    return int(length)


def _pass_body(caller: socket.socket, other: Any, left: int, rest: bytes) -> bytes:
    """Returns what came after it."""
    while left > 0:
        piece, rest = (rest[:left], rest[left:]) if rest else (caller.recv(min(_PIECE, left)), b"")
        if not piece:
            raise ConnectionError("cut short")
        other.sendall(piece)
        left -= len(piece)
    return rest


def _pass_chunks(caller: socket.socket, other: Any, rest: bytes) -> bytes:
    """Sizes are read, and bytes passed on as they are, until the chunk of none and the lines after it."""
    while True:
        line, rest = _read_line(caller, rest)
        digits = line.partition(b";")[0].strip(b" \t")
        if not _CHUNK.fullmatch(digits):
            raise Refused("400 Bad Request", "A chunk has no size.")
        other.sendall(line + b"\r\n")
        size = int(digits, 16)
        if not size:
            while line:
                line, rest = _read_line(caller, rest)
                other.sendall(line + b"\r\n")
            return rest
        left = size + 2
        while left:
            piece, rest = (rest[:left], rest[left:]) if rest else (caller.recv(min(_PIECE, left)), b"")
            if not piece:
                raise ConnectionError("cut short")
            other.sendall(piece)
            left -= len(piece)


def _read_line(caller: socket.socket, rest: bytes) -> tuple[bytes, bytes]:
    while b"\r\n" not in rest:
        more = caller.recv(_PIECE)
        if not more or len(rest) > _LONGEST_HEAD:
            raise ConnectionError("cut short")
        rest += more
    line, _, rest = rest.partition(b"\r\n")
    return line, rest


def _read_head(caller: socket.socket, begun: bytes) -> Head | None:
    """None where the caller has nothing more to say."""
    while b"\r\n\r\n" not in begun:
        if len(begun) > _LONGEST_HEAD:
            raise Refused("431 Request Header Fields Too Large", f"A request's head may have {_LONGEST_HEAD >> 10} KiB.")
        more = caller.recv(_PIECE)
        if not more:
            return None
        begun += more
    text, _, rest = begun.partition(b"\r\n\r\n")
    first, *lines = text.decode("latin-1").split("\r\n")
    words = first.split(" ")
    fields = [(name, value.strip()) for name, colon, value in (line.partition(":") for line in lines) if colon]
    odd = "\n" in first + "".join(lines) or any(name != name.strip() for name, _ in fields)
    if len(words) != 3 or len(fields) != len(lines) or odd:
        raise Refused("400 Bad Request", "That is no HTTP request.")
    method, target, version = words
    return Head(method, target, version, fields, rest)


def _written(head: Head, authority: str) -> bytes:
    fields = [("Host", authority), *((name, text) for name, text in head.fields if name.lower() != "host")]
    lines = [f"{head.method} {head.target} {head.version}", *(f"{name}: {text}" for name, text in fields), "", ""]
    return "\r\n".join(lines).encode("latin-1")


def _refusal(refused: Refused) -> bytes:
    words = f"{refused}\n".encode()
    head = f"HTTP/1.1 {refused.status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {len(words)}\r\n"
    return f"{head}Connection: close\r\n\r\n".encode() + words


def _pour(source: Any, target: Any) -> None:
    """All that comes, until it ends; then the other side is told."""
    with contextlib.suppress(OSError, ValueError):
        while piece := source.recv(_PIECE):
            target.sendall(piece)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def _join(one: socket.socket, other: socket.socket) -> None:
    """Both ways, in one thread."""
    ways = {one: other, other: one}
    while ways:
        ready, _, _ = select.select(list(ways), [], [], _IDLE)
        if not ready:
            return
        for source in ready:
            piece = source.recv(_PIECE)
            if piece:
                ways[source].sendall(piece)
            else:
                with contextlib.suppress(OSError):
                    ways[source].shutdown(socket.SHUT_WR)
                del ways[source]


def _settle(made: socket.socket) -> None:
    made.settimeout(_IDLE)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _trust(certificates: str) -> Any:
    import ssl  # a third of a keeper's memory, where it is not needed

    return ssl.create_default_context(cafile=certificates or None)


def _host_and_port(authority: str, usual: int) -> tuple[str, int]:
    if authority.startswith("["):
        host, _, port = authority[1:].partition("]")
        port = port.removeprefix(":")
    else:
        host, _, port = authority.partition(":")
    if port and not (_PORT.fullmatch(port) and 0 < int(port) < 1 << 16):
        raise ValueError(f"{authority[:200]!r} is no address such as host:port")
    return host, int(port) if port else usual


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
