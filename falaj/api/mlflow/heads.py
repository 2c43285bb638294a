"""What a request's head says, read once from the raw headers: who asks, for which project, and how we were reached."""

import base64
import binascii
from collections.abc import Iterable
from urllib.parse import unquote_to_bytes

from falaj.base.errors import Unauthenticated
from falaj.base.values import value


@value
class Head:
    authorization: tuple[bytes, ...] = ()
    workspace: str = ""
    host: str = ""
    kind: bytes = b""


def head_of(headers: Iterable[tuple[bytes, bytes]]) -> Head:
    authorization: tuple[bytes, ...] = ()
    workspace = host = kind = b""
    for name, content in headers:
        if name == b"authorization":
            authorization += (content,)
        elif name == b"x-mlflow-workspace":
            workspace = content
        elif name == b"host":
            host = content
        elif name == b"content-type":
            kind = content
    return Head(
        authorization=authorization,
        workspace=workspace.decode("latin-1").strip(),
        host=host.decode("latin-1"),
        kind=kind.partition(b";")[0].strip().lower(),
    )


def credentials_of(authorization: tuple[bytes, ...]) -> str | None:
    """The token: as a bearer, or as the password beside any user name, which is all that some clients can send."""
    if not authorization:
        return None
    kind, _, content = authorization[0].partition(b" ")
    content = content.strip()
    if len(authorization) > 1 or not content:
        raise _unreadable()
    if kind.lower() == b"bearer":
        return content.decode("latin-1")
    if kind.lower() != b"basic":
        raise _unreadable()
    try:
        _, colon, password = base64.b64decode(content, validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        raise _unreadable() from None
    if not colon or not password:
        raise _unreadable()
    return password


def _unreadable() -> Unauthenticated:
    return Unauthenticated(
        "Send one header, Authorization: Bearer TOKEN, or Basic with the token as the password: "
        "set MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_PASSWORD."
    )


def segments_of(raw: bytes) -> tuple[str, ...]:
    """A path's parts, split before they are decoded: an encoded slash stays within its part, where it can be refused.

    What is not UTF-8 becomes a character that no name has.
    """
    return tuple(unquote_to_bytes(part).decode(errors="replace").replace("\ufffd", "\x00") for part in raw.split(b"/"))
