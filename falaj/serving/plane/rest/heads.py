"""Heads of requests: read strictly by llhttp once, then known by their exact bytes.

A client that keeps its connection repeats its head, so that most requests cost one look into a dictionary. What two parsers
could read differently is refused before anything is made of it: such heads are how requests are smuggled.
"""

import re
from collections.abc import Callable
from typing import Any, Final, Protocol, TypeAlias
from urllib.parse import unquote

import httptools

from falaj.base.errors import FalajError, Invalid, PermanentError, TooLarge
from falaj.base.values import value
from falaj.serving.plane.rest.limits import Limits

CHUNKED: Final = -1  # as a length: the body says itself where it ends
_TOKEN: Final = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_STRICT: Final = re.compile(
    rb"[A-Z]{1,20} [!-~]{1,8192} HTTP/1\.[01]\r\n(?:" + _TOKEN + rb":[\t -~\x80-\xff]*\r\n)*\r\n", re.DOTALL
)
_NUMBER: Final = re.compile(r"[0-9]{1,15}")
_LINES_MOST: Final = 200
_ONCE: Final = frozenset(
    (
        "host",
        "content-length",
        "transfer-encoding",
        "content-encoding",
        "inference-header-content-length",
        "authorization",
        "expect",
        "x-falaj-key",
        "x-falaj-revision",
        "x-falaj-deadline-ms",
        "x-falaj-callback",
        "x-falaj-id",
    )
)


class Malformed(Invalid):
    """Not HTTP/1.1 as everybody reads it; nothing that follows on the connection can be trusted."""


class NotAllowed(PermanentError):
    """The path is there, the method is not; `allowed` names those that are."""

    def __init__(self, message: str, *, allowed: str) -> None:
        super().__init__(message)
        self.allowed = allowed


class HeadTooLarge(PermanentError):
    """More lines, or longer ones, than are taken."""


class TooSlow(PermanentError):
    """The request did not arrive in time."""


class ExpectationFailed(PermanentError):
    """The client waits for something that is never done here."""


Call: TypeAlias = Callable[[Any, "Head", "bytes | bytearray | memoryview", float], None]


@value
class Route:
    """What a path and a method lead to. `vet` is asked before a large body is received, with the caller's address; it gives
    the caller's project, and raises where the body need not come. `cached` says whether heads of this are worth keeping."""

    call: Call
    name: str = ""
    version: str = ""
    vet: Callable[["Head", str], str] | None = None
    cached: bool = False


class Find(Protocol):
    """Gives the route, or raises an error of `base.errors`, or `NotAllowed`."""

    def __call__(self, method: str, path: str) -> Route: ...


class Head:
    """A request before its body; the same object serves all requests that begin with the same bytes."""

    __slots__ = (
        "accepts",
        "call",
        "callback",
        "deferred",
        "encoding",
        "ending",
        "expects",
        "header_length",
        "id",
        "is_head",
        "keep",
        "key",
        "length",
        "name",
        "override",
        "patience",
        "raw",
        "refused",
        "token",
        "version",
        "vet",
    )

    raw: bytes  # itself, until it is known or where it is not to be; then empty
    refused: Exception | None  # what is wrong with it, though where its body ends is clear
    call: Call
    vet: Callable[["Head", str], str] | None
    name: str
    version: str
    length: int  # of the body, or CHUNKED
    header_length: int  # of the JSON before binary tensors; -1 where there are none
    encoding: str  # of the body
    accepts: str  # the encoding an answer may have
    token: str
    key: str
    id: str  # of the call, where its body has none
    override: str
    patience: float | None  # seconds
    deferred: bool
    callback: str
    keep: bool
    ending: bytes  # of the answer's head, while the connection is kept
    expects: bool
    is_head: bool


class _Lines:
    """What llhttp calls back with."""

    __slots__ = ("complete", "fields", "lines", "url")

    def __init__(self) -> None:
        self.url = b""
        self.fields: dict[str, str] = {}
        self.lines = 0
        self.complete = False

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_header(self, name: bytes, content: bytes) -> None:
        self.lines += 1
        if self.lines > _LINES_MOST:
            raise HeadTooLarge(f"the head has more than the {_LINES_MOST} lines that are taken")
        field, text = name.decode("ascii").lower(), content.decode("latin-1").strip(" \t")
        before = self.fields.get(field)
        if before is not None:
            if field in _ONCE:
                raise Malformed(f"the head says {field} twice")
            text = f"{before}, {text}"
        self.fields[field] = text

    def on_headers_complete(self) -> None:
        self.complete = True


def read_head(raw: bytes, find: Find) -> Head:
    """Raises `Malformed` where the connection cannot go on, other errors of `base.errors` where only this request cannot."""
    if _STRICT.fullmatch(raw) is None:
        raise Malformed("the request is not HTTP/1.1: each line ends with CR LF, names have no spaces, values no folds")
    lines = _Lines()
    parser = httptools.HttpRequestParser(lines)
    try:
        parser.feed_data(raw)
    except httptools.HttpParserUpgrade:
        pass  # nobody is upgraded here: the request is answered as if it had not asked
    except httptools.HttpParserError as error:
        cause = error.__context__
        raise cause if isinstance(cause, FalajError) else Malformed(f"the request is not HTTP/1.1: {error}") from None
    if not lines.complete:
        raise Malformed("the request is not HTTP/1.1: the head does not end where it seems to")
    method, modern = parser.get_method().decode("ascii"), parser.get_http_version() == "1.1"
    head = Head()
    head.raw, head.refused, head.is_head = b"", None, method == "HEAD"
    _read_framing(head, lines.fields, modern)
    try:
        _read_wishes(head, lines.fields)
        route = find(method, _path_of(lines.url))
    except Malformed:
        raise
    except FalajError as error:
        head.refused = error
        return head
    head.call, head.vet, head.name, head.version = route.call, route.vet, route.name, route.version
    if route.cached:
        head.raw = raw
    return head


def _read_framing(head: Head, fields: dict[str, str], modern: bool) -> None:
    if modern and "host" not in fields:
        raise Malformed("the head names no host")
    length, transfer = fields.get("content-length"), fields.get("transfer-encoding")
    if transfer is not None:
        if length is not None:
            raise Malformed("the head gives both content-length and transfer-encoding: where the body ends is not clear")
        if transfer.lower() != "chunked" or not modern:
            raise Malformed(f"transfer-encoding is {transfer!r}: only chunked is taken, and only with HTTP/1.1")
        head.length = CHUNKED
    elif length is not None:
        if _NUMBER.fullmatch(length) is None:
            raise Malformed(f"content-length is {length!r}, not a number of bytes")
        head.length = int(length)
    else:
        head.length = 0
    said = {word.strip().lower() for word in fields.get("connection", "").split(",")}
    head.keep = "close" not in said and (modern or "keep-alive" in said)
    head.ending = b"\r\n" if modern else b"connection: keep-alive\r\n\r\n"
    head.expects = False
    if "expect" in fields and modern:
        if fields["expect"].lower() != "100-continue":
            raise ExpectationFailed(f"expect is {fields['expect']!r}: only 100-continue is understood")
        head.expects = True


def _read_wishes(head: Head, fields: dict[str, str]) -> None:
    head.header_length = _whole(fields, "inference-header-content-length", -1)
    patience = _whole(fields, "x-falaj-deadline-ms", -1)
    head.patience = patience / 1000 if patience >= 0 else None
    kind, _, token = fields.get("authorization", "").partition(" ")
    head.token = token.strip() if kind.lower() == "bearer" else ""
    head.key = fields.get("x-falaj-key", "")
    head.override = fields.get("x-falaj-revision", "")
    head.id = fields.get("x-falaj-id", "")
    encoding = fields.get("content-encoding", "").lower()
    head.encoding = "" if encoding == "identity" else encoding
    head.accepts = _accepted(fields.get("accept-encoding", ""))
    head.callback = fields.get("x-falaj-callback", "")
    wishes = {wish.partition(";")[0].strip().lower() for wish in fields.get("prefer", "").split(",")}
    head.deferred = bool(head.callback) or "respond-async" in wishes


def _whole(fields: dict[str, str], name: str, missing: int) -> int:
    text = fields.get(name)
    if text is None:
        return missing
    if _NUMBER.fullmatch(text) is None:
        raise Invalid(f"{name} is {text!r}, not a whole number")
    return int(text)


def _accepted(said: str) -> str:
    """The first of gzip and deflate that is not ruled out by a quality of nothing."""
    if not said:
        return ""
    for offer in said.lower().split(","):
        coding, _, quality = offer.partition(";")
        if coding.strip() in ("gzip", "deflate") and not re.fullmatch(r"\s*q\s*=\s*0(\.0*)?\s*", quality):
            return coding.strip()
    return ""


def _path_of(url: bytes) -> str:
    """Without query and, where a proxy's form is used, without the host."""
    text = url.decode("ascii")
    if not text.startswith(("/", "*")):
        _, colons, rest = text.partition("://")
        if not colons:
            raise Malformed("the request names no path")
        text = rest[rest.find("/") :] if "/" in rest else "/"
    return text.partition("?")[0]


def segments_of(path: str) -> list[str]:
    """A path's parts, each unquoted by itself: a quoted slash is part of a name."""
    try:
        return [unquote(part, errors="strict") for part in path.strip("/").split("/")]
    except UnicodeDecodeError:
        raise Invalid("the path is not UTF-8") from None


class Heads:
    """Heads by their bytes, in two generations: what the elder holds and is asked for moves to the younger, and when that is
    full the elder is forgotten. Ever-changing heads so push out each other, not those that are used. An unknown head costs its
    parsing, a known one a look or two; both generations together hold at most `entries` and `size` bytes.
    """

    def __init__(self, find: Find, limits: Limits, *, entries: int = 8_192, size: int = 16 * 1024 * 1024) -> None:
        self._find = find
        self._limits = limits
        self._entries = entries // 2
        self._size = size // 2
        self._young: dict[bytes, Head] = {}
        self._old: dict[bytes, Head] = {}
        self._held = 0

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def read(self, raw: bytes) -> Head:
        head = self._young.get(raw)
        if head is not None:
            return head
        head = self._old.get(raw)
        if head is None:
            if len(raw) > self._limits.head:
                raise HeadTooLarge(f"the head has {len(raw)} bytes; at most {self._limits.head} are taken")
            head = read_head(raw, self._find)
            if head.length > self._limits.body:
                raise TooLarge(f"the body has {head.length} bytes; at most {self._limits.body} are taken")
            return head
        self._add(raw, head)
        return head

    def learn(self, head: Head) -> None:
        """To be called when a request was answered well: who is not let in leaves no trace."""
        raw, head.raw = head.raw, b""
        if raw and raw not in self._young:
            self._add(raw, head)

    def _add(self, raw: bytes, head: Head) -> None:
        weight = len(raw) * 2 + 512
        if len(self._young) >= self._entries or self._held + weight > self._size:
            self._old, self._young, self._held = self._young, {}, 0
        self._young[raw] = head
        self._held += weight
