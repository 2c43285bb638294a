"""Whether what a function raised may be over when the same is tried again: mostly the network's faults. Everything else is a
mistake, which stays one."""

import errno
import socket
import urllib.error
from typing import Final

from falaj.base.errors import TemporaryError

_KINDS: Final = (TemporaryError, ConnectionError, TimeoutError, socket.gaierror)
_OF_NETWORKS: Final = frozenset(
    {errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN, errno.EHOSTDOWN, errno.ETIMEDOUT, errno.ENETRESET}
)
_STATUSES: Final = (408, 425, 429, 500, 502, 503, 504)
# By the library's name and the class's: none of them has to be here for that.
_KNOWN: Final = {
    "requests": ("ConnectionError", "Timeout", "ChunkedEncodingError"),
    "httpx": ("TransportError",),
    "urllib3": ("ProtocolError", "TimeoutError", "MaxRetryError"),
    "aiohttp": ("ClientConnectionError",),
}


def is_temporary(error: BaseException) -> bool:
    """Also where it was raised from such a one."""
    one: BaseException | None = error
    while one is not None:
        if _is_itself(one):
            return True
        one = one.__cause__
    return False


def _is_itself(error: BaseException) -> bool:
    if isinstance(error, _KINDS):
        return True
    if isinstance(error, urllib.error.HTTPError):
        return error.code in _STATUSES
    if isinstance(error, urllib.error.URLError):
        return isinstance(error.reason, OSError) and _is_itself(error.reason)
    if isinstance(error, OSError) and error.errno in _OF_NETWORKS:
        return True
    return any(one.__name__ in _KNOWN.get(one.__module__.split(".")[0], ()) for one in type(error).__mro__)
