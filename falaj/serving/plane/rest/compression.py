"""Bodies that come or go compressed, with a bound on what they may grow to."""

import asyncio
import zlib
from typing import Final

from falaj.base.errors import Invalid, TooLarge, UnsupportedMedia

SMALL: Final = 256 * 1024  # up to here it is done at once; beyond, a thread takes it, for everybody else would wait
WORTH: Final = 4 * 1024  # below, an answer is sent as it is
_GZIP: Final = 16 + zlib.MAX_WBITS
_LEVEL: Final = 1  # on a fast network the time counts, not the last tenth of the size


async def inflate(body: bytes, encoding: str, most: int) -> bytes:
    """Raises `Invalid` for what is not so encoded, `TooLarge`, and `UnsupportedMedia` for encodings that are not known."""
    if encoding not in ("gzip", "deflate"):
        raise UnsupportedMedia(f"content-encoding is {encoding[:40]!r}; gzip and deflate are taken")
    if len(body) <= SMALL // 16:  # even at its tightest this takes milliseconds
        return inflate_now(body, encoding, most)
    return await asyncio.get_running_loop().run_in_executor(None, inflate_now, body, encoding, most)


def inflate_now(body: bytes, encoding: str, most: int) -> bytes:
    bits = _GZIP if encoding == "gzip" else zlib.MAX_WBITS
    if encoding == "deflate" and not _is_zlib(body):
        bits = -zlib.MAX_WBITS  # some clients take the word at its letter and leave zlib's frame out
    machine = zlib.decompressobj(bits)
    try:
        whole = machine.decompress(body, most + 1)
    except zlib.error as error:
        raise Invalid(f"the body is not {encoding}: {error}") from None
    if len(whole) > most:
        raise TooLarge(f"the body inflates to more than the {most} bytes that are taken")
    if not machine.eof or machine.unused_data:
        raise Invalid(f"the body is {encoding} that ends too early or too late")
    return whole


def _is_zlib(body: bytes) -> bool:
    return len(body) >= 2 and body[0] & 0x0F == 8 and int.from_bytes(body[:2], "big") % 31 == 0


def deflate(parts: list[bytes | memoryview], encoding: str) -> bytes:
    machine = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP if encoding == "gzip" else zlib.MAX_WBITS)
    return b"".join([*[machine.compress(part) for part in parts], machine.flush()])
