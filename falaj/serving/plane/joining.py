"""How a plane came to belong to a platform: where that is, what it shows there, and whose signature it believes."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import msgspec

from falaj.base.clock import Moment
from falaj.base.errors import Invalid
from falaj.base.files import write_durably
from falaj.base.values import value
from falaj.serving.operations.planes import Report, SignedState


@value
class Join:
    """`keys` are pinned: public keys in hex by their id. `certificate` is one that the platform signed itself, or empty.

    Without `url` there is no platform to ask: the plane serves by what lies beside this. From `renew_at` on the plane asks for
    a new token by itself; where that is 0, somebody else sees to it."""

    name: str
    zone: str
    url: str
    token: str
    keys: dict[str, str]
    certificate: str = ""
    renew_at: int = 0

    def trusted(self) -> dict[str, bytes]:
        return {id: bytes.fromhex(public) for id, public in self.keys.items()}


class Control(Protocol):
    """The control plane as a plane asks for it; implemented over the client. Blocking; raises the errors of `base.errors`."""

    def state(self, after: int) -> SignedState: ...

    def file(self, revision: str, file: str) -> Iterator[bytes]: ...

    def report(self, report: Report) -> None: ...


def renewal_of(now: Moment, expires: Moment) -> int:
    """When a token is to be renewed: early enough that a control plane which is down for long costs nothing."""
    return now + (expires - now) * 2 // 3


def read_join(file: Path) -> Join:
    try:
        join = msgspec.json.decode(file.read_bytes(), type=Join)
        join.trusted()
    except FileNotFoundError:
        raise Invalid(f"{file} is not there: this plane has not joined a platform. Use `falaj plane create NAME`.") from None
    except (msgspec.DecodeError, ValueError) as error:
        raise Invalid(f"{file} is not a join document: {error}") from None
    return join


def write_join(file: Path, join: Join) -> None:
    document = {name: getattr(join, name) for name in Join.__dataclass_fields__}
    write_durably(file, json.dumps(document, indent=2).encode())
