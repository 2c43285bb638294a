"""Names of artifacts: relative, taken literally, and never a way out of the run or model that holds them."""

import base64
import binascii
import re
from typing import Final

from falaj.base.errors import Invalid
from falaj.tracking.operations.artifacts import ARTIFACT_PATTERN

LONGEST: Final = 1000
MOST_BYTES: Final = 2000  # Postgres indexes no text that is much longer
_WELL_FORMED: Final = re.compile(ARTIFACT_PATTERN)
_RISKY: Final = re.compile(r"[^A-Za-z0-9._+()-]")
_SHOWN: Final = 100


def checked(name: str) -> str:
    """The name itself, or `Invalid` with what is wrong about it."""
    if len(name) > LONGEST:
        raise Invalid(f"The artifact name {name[:_SHOWN]!r}... has {len(name)} characters; at most {LONGEST} are kept.")
    if not _WELL_FORMED.fullmatch(name):
        raise Invalid(
            f"The artifact name {name[:_SHOWN]!r} is not acceptable: write a relative name such as model/data.bin, without a "
            "leading or trailing slash, empty parts, '.' or '..' as a part, backslashes and control characters."
        )
    if len(name.encode()) > MOST_BYTES:
        raise Invalid(f"The artifact name {name[:_SHOWN]!r}... has more than {MOST_BYTES} bytes in UTF-8.")
    return name


def checked_folder(folder: str) -> str:
    """Like a name; empty is the top."""
    return checked(folder) if folder else ""


def below(folder: str) -> tuple[str, str]:
    """The names below a folder are those from the first of these up to, and without, the second; empty is no bound.

    `0` is the character right behind the slash, and names are kept in the order of their characters.
    """
    return (f"{folder}/", f"{folder}0") if folder else ("", "")


def right_behind(entry: str) -> str:
    """The least name that may follow an entry of a listing; a folder is written with a slash at its end.

    No character of a name comes before the space, so nothing lies between a name and the same with a space at its end.
    """
    return below(entry[:-1])[1] if entry.endswith("/") else f"{entry} "


def folders_above(name: str) -> tuple[str, ...]:
    """All folders that a name lies in, the outermost first."""
    parts = name.split("/")
    return tuple("/".join(parts[:count]) for count in range(1, len(parts)))


_BEHIND: Final = "behind "  # no other listing's cursors begin like this


def saved_as(name: str) -> str:
    """What a client may call the file it downloads: plain ASCII that needs no quoting in a header."""
    return _RISKY.sub("_", name.rpartition("/")[2])[-200:]


def cursor_behind(name: str) -> str:
    return base64.urlsafe_b64encode(f"{_BEHIND}{name}".encode()).decode().rstrip("=")


def read_cursor(cursor: str) -> str:
    """The name to go on behind, empty at the beginning; the name of a folder ends with a slash."""
    if not cursor:
        return ""
    try:
        mark, behind, name = (
            base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode().partition(_BEHIND)
        )
        checked(name.removesuffix("/"))
    except (binascii.Error, ValueError, Invalid):
        mark, behind, name = "", "", ""
    if mark or not behind:
        raise Invalid("This cursor was not given out by this listing; start again without one.")
    return name
