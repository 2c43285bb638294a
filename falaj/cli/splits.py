"""Shares of traffic as people write and read them: per cent, where the platform counts hundredths of one."""

from falaj.base.errors import Invalid
from falaj.serving.operations.endpoints import Endpoint
from falaj.serving.operations.words import WHOLE, Arm

_HUNDREDTHS = WHOLE // 100


def share_of(percent: float | str) -> int:
    try:
        share = round(float(percent) * _HUNDREDTHS)
    except (ValueError, OverflowError):
        share = -1
    if not 0 <= share <= WHOLE:
        raise Invalid(f"{percent!r} is no share of the traffic; write per cent, from 0 to 100.")
    return share


def percent_of(share: int) -> str:
    return f"{share / _HUNDREDTHS:g} %"


def arm_of(text: str) -> Arm:
    """`3=90`, `4=10:challenger`, `5=100:shadow`."""
    revision, equals, rest = text.partition("=")
    percent, _, word = rest.partition(":")
    if not (equals and revision.isascii() and revision.isdigit()):
        raise Invalid(f"{text!r} is no share of a revision; write it like 3=90, 4=10:label or 5=100:shadow.")
    shadow = word == "shadow"
    return Arm(
        revision=int(revision), share=share_of(percent), role="shadow" if shadow else "live", label="" if shadow else word
    )


def described(endpoint: Endpoint) -> str:
    """Who gets what, in a few words."""
    versions = {
        one.number: f"{one.model} v{one.version}{f' as {one.variant}' if one.variant else ''}" for one in endpoint.revisions
    }
    parts = []
    for arm in endpoint.arms:
        name = versions.get(arm.revision, "?")
        kind = "copies of " if arm.role == "shadow" else ""
        parts.append(
            f"{kind}{percent_of(arm.share)} to revision {arm.revision} ({name}{f', {arm.label}' if arm.label else ''})"
        )
    return ", ".join(parts)
