"""TLS 1.3 for a worker's connections, by two PEM files that are renewed while it runs."""

import logging
import re
import ssl
from pathlib import Path
from typing import Final, TypeAlias

log = logging.getLogger(__name__)
_FIRST: Final = re.compile(r"-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----")
_Stamp: TypeAlias = tuple[tuple[int, int], ...]


class Certificate:
    """`context` is for the next connection; those that are open keep theirs."""

    def __init__(self, certificate: str, private_key: str) -> None:
        self._files = Path(certificate), Path(private_key)
        self._seen = self._stamp()
        self.context = self._read()

    def look_again(self) -> None:
        """Take over what was renewed. Two files are never replaced in one step: what does not fit together is not used."""
        try:
            stamp = self._stamp()
            if stamp == self._seen:
                return
            self._seen = stamp
            self.context = self._read()
        except OSError as error:
            log.error("the renewed certificate is not used, the one before is: %s", error)

    def _stamp(self) -> _Stamp:
        found = [file.stat() for file in self._files]
        return tuple((one.st_mtime_ns, one.st_ino) for one in found)

    def _read(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.load_cert_chain(*self._files)
        # Over HTTP/2 there is gRPC alone, whose clients offer nothing else; who offers both, like curl, wants REST.
        context.set_alpn_protocols(["http/1.1", "h2"])
        return context


def shown_certificate(file: str) -> str:
    """The host's own certificate, first of the chain in the file, for those who know nobody that signed it. Nothing else of
    the file: the key may lie in the same one. Empty where there is none."""
    try:
        found = _FIRST.search(Path(file).read_text()) if file else None
    except (OSError, UnicodeDecodeError):
        return ""
    return found.group() if found else ""
