"""What a table is called in its place, and nothing that leads out of it."""

import re
from typing import Final
from urllib.parse import unquote, urlsplit

from falaj.base.errors import Invalid
from falaj.datasets.operations.places import Address

_TABLE: Final = re.compile(r"[^.\x00-\x1f]{1,63}(\.[^.\x00-\x1f]{1,63})?")
_OWN: Final = ("pg_", "information_schema.")
_CONTROL: Final = re.compile(r"[\x00-\x1f\\]")


def inside(path: str) -> str:
    """A path below a prefix, as it is. Raises `Invalid` where it leads anywhere else."""
    steps = path.removesuffix("/").split("/")
    if _CONTROL.search(path) or any(step in ("", ".", "..") for step in steps):
        raise Invalid(f"{path[:200]!r} is no folder in the place: write it like sales/orders, below the place's own prefix.")
    return "/".join(steps)


def table_name(table: str) -> str:
    """Of a database. Raises `Invalid`."""
    if not _TABLE.fullmatch(table):
        raise Invalid(f"{table[:200]!r} is no table: write it like orders, or like sales.orders with its schema.")
    if table.lower().startswith(_OWN):
        raise Invalid(f"{table[:200]!r} is the database's own, and no table of anybody's.")
    return table


def below(address: Address, uri: str) -> str:
    """The path in the place of a file that a table names by its whole address. Raises `Invalid` where it is in no such place:
    what a table says is followed no further than the operator said."""
    if address.bucket:
        parts = urlsplit(uri)
        prefix = f"{address.prefix.strip('/')}/" if address.prefix.strip("/") else ""
        path = unquote(parts.path).lstrip("/") if parts.query or parts.fragment else uri.split("://", 1)[-1].partition("/")[2]
        if parts.scheme in ("s3", "s3a", "s3n") and parts.netloc == address.bucket and path.startswith(prefix):
            return inside(path.removeprefix(prefix))
    elif address.folder:
        path, root = uri.removeprefix("file://"), address.folder.rstrip("/") + "/"
        if path.startswith(root):
            return inside(path.removeprefix(root))
    raise Invalid("The table has files outside of its place, which are not followed: declare a place that holds all of it.")
