"""Checking the keys that heads are signed with: which of them may be believed, and which somebody planted."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from falaj.governance.ledger.reports import Findings, Found
from falaj.keys.endorsements import Endorsement
from falaj.keys.signatures import PublicKey, chained, vouched_for

PURPOSE = "ledger"


def check_stored_keys(keys: Sequence[PublicKey], findings: Findings) -> dict[str, bytes]:
    """The ledger's keys that chain to its first one. Keys of other purposes are checked along with them: they sign tokens."""
    believed: dict[str, bytes] = {}
    for purpose, group in groupby(sorted(keys, key=lambda key: (key.purpose, key.id)), key=lambda key: key.purpose):
        of_purpose = list(group)
        genuine = chained(of_purpose)
        for key in of_purpose:
            if key.id not in genuine:
                message = (
                    f"The key {key.id!r} for {purpose!r}, dated {key.created}, is not endorsed by the one before it:"
                    " somebody planted it, or took away what it followed."
                )
                findings.add(Found.KEY_UNENDORSED, message, at=key.created)
        if purpose == PURPOSE:
            believed = genuine
    return believed


def check_exported_keys(
    exported: Mapping[str, bytes],
    endorsements: Sequence[Endorsement],
    trusted: Mapping[str, bytes] | None,
    findings: Findings,
) -> dict[str, bytes]:
    """The keys to believe: the trusted ones, or without any the file's first, and what chains to them; the rest is named."""
    if trusted is None:
        trusted = _first(exported, endorsements)
    believed = vouched_for(PURPOSE, trusted=trusted, offered=exported, endorsements=endorsements)
    for key, public in exported.items():
        if believed.get(key) != public:
            message = f"The export offers the key {key!r}, and no chain of endorsements leads to it from a trusted one."
            findings.add(Found.KEY_UNENDORSED, message)
    return believed


def _first(exported: Mapping[str, bytes], endorsements: Iterable[Endorsement]) -> dict[str, bytes]:
    followers = {endorsement.key for endorsement in endorsements}
    first = min((key for key in exported if key not in followers), default=None)
    return {} if first is None else {first: exported[first]}
