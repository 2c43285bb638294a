"""Variants of versions, as serving takes them: optimised forms, each with what was proven of it. Others make them."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from itertools import pairwise
from typing import Final, Protocol

from falaj.base.values import value
from falaj.database.work import Context
from falaj.registry.servable import STRICT
from falaj.registry.store.tables import Found
from falaj.serving.forms import Form

BEST: Final = "best"  # asks for the fastest certified variant, whatever it is called
MOST_RUNGS: Final = 3  # each is kept in memory beside the model
_WORTH: Final = 1.2  # so much faster than the rung above must one be


@value
class VariantForm:
    """A variant of a version, ready to be served.

    `certified` says whether it has a certificate that holds now, `certificate` is that one's digest, and `problem` says why it
    has none. `settings` are how it is to be run. `latency_ms`, the median of a single row, was certified on a host of the kind
    `host` (`falaj.runtimes.hosts`), which is `host_shown` for people; `latency_limit_ms` is what 99 of 100 rows had to keep to
    there (0: nothing was asked for). `throughput` is in that of the original, so that 2.5 is two and a half times as many rows
    in the same time, and `single_row` the same for one row at a time. The certificate allows the share `max_drop` to be lost
    over all, `max_slice_drop` in a slice (1: nothing is bounded); with `truth_known` it was judged by what is true, not by what
    the original said."""

    id: str
    name: str
    form: Form
    settings: Mapping[str, str] = field(default_factory=dict)
    certified: bool
    problem: str = ""
    host: str = ""
    host_shown: str = ""
    latency_ms: float = 0.0
    latency_limit_ms: float = 0.0
    throughput: float = 1.0
    single_row: float = 1.0
    certificate: str = ""
    max_drop: float = 1.0
    max_slice_drop: float = 1.0
    truth_known: bool = False

    @property
    def strict(self) -> bool:
        """Proven closely enough to be chosen by nobody in particular."""
        return self.certified and self.max_drop <= STRICT


class Variants(Protocol):
    """Looks variants up. Thread-safe; reads by the context's unit of work and of its project alone, opens no file and changes
    nothing. It is asked twice, before the transaction that deploys and in it, and says both times what holds then: whether a
    certificate's signature, files and versions still go together is decided here."""

    def named(self, context: Context, version: Found, name: str) -> VariantForm:
        """By its name, or its id. Raises `NotFound`, with the names there are."""
        ...

    def certified(self, context: Context, version: Found) -> Sequence[VariantForm]:
        """Those whose certificate holds now, one of each name: the newest strict one, or else the newest."""
        ...


def best_of(certified: Sequence[VariantForm]) -> VariantForm | None:
    """The fastest of those that were proven closely; where there are none, of all that have a certificate."""
    found = [one for one in certified if one.certified]
    return max([one for one in found if one.strict] or found, key=lambda one: (one.throughput, one.id), default=None)


def rungs_of(faster: Sequence[VariantForm], first: float) -> tuple[VariantForm, ...]:
    """Those that are worth a place in memory: each clearly faster than the one above it, the first of which has the throughput
    `first`; and where they are too many, without those that gain least."""
    found: list[VariantForm] = []
    for one in sorted(faster, key=lambda one: one.throughput):
        if one.throughput >= _WORTH * (found[-1].throughput if found else first):
            found.append(one)
    while len(found) > MOST_RUNGS:
        gains = [after / before for before, after in pairwise([first, *(one.throughput for one in found[:-1])])]
        found.pop(gains.index(min(gains)))  # never the last: when it is worst, the fastest is what is wanted
    return tuple(found)
