"""How sightings become alerts, and when people are told of them. Pure: `raising` keeps what comes out, and sends it.

What is always told: that there is an alert, that it got worse (at most twice), that nobody saw to it (once). All other messages
are limited to a number a day for one key: an alert that comes and goes stays open once there is no more room to tell so. People
are thus never left with a state that is not so.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, Literal, TypeAlias, get_args

from falaj.base.clock import DAY, SECOND, Moment
from falaj.base.values import value
from falaj.monitoring.operations.monitors import Wishes
from falaj.monitoring.operations.words import Severity, ShownKind, Told

What: TypeAlias = Literal["raised", "worse", "escalated", "reminded", "resolved", "reopened"]
GRACE: Final = 20  # seconds: what planes counted is in within twelve, and looked at a moment later
SILENCE: Final = DAY  # so much longer an alert stays open of which nobody can say whether it is still so
_SEVERITIES: Final[tuple[Severity, ...]] = get_args(Severity)


@value
class Sighting:
    """Sightings of one key are one alert of a monitor. `sentences` explain it, the first by itself; `since` is when what was
    seen began, as far as is known."""

    key: str
    kind: ShownKind
    severity: Severity
    title: str
    sentences: tuple[str, ...]
    facts: Mapping[str, Any]
    columns: tuple[Told, ...] = ()
    since: Moment | None = None


@value
class Rules:
    """Times are seconds. `escalate_to` are told of what nobody acknowledged for `escalate_after`; a message is repeated after
    `remind_after`, or never where that is 0. What was not seen for `quiet` windows is over, `grace` after that: windows are not
    looked at the moment they end. It is the same alert if it comes back within `reopen_within`. `most_a_day` is at least 2: to
    tell that something is over, and that it is not."""

    channels: tuple[str, ...]
    escalate_to: tuple[str, ...] = ()
    escalate_after: int = 0
    remind_after: int = 86_400
    quiet: int = 5
    window: int = 60
    grace: int = 0
    reopen_within: int = 3600
    most_a_day: int = 10

    def __post_init__(self) -> None:
        if self.most_a_day < 2:
            raise ValueError(f"most_a_day is {self.most_a_day}, but to tell that an alert is over may take 2 messages")

    @property
    def over_after(self) -> int:
        """Microseconds without a sighting."""
        return (self.quiet * self.window + self.grace) * SECOND


@value
class Alert:
    """`severity` is the worst that was seen, `last` what was seen last. `opened` is when it was raised, or came back last;
    `notified` when people were told last, `posted` each time they were within a day."""

    last: Sighting
    severity: Severity
    raised: Moment
    opened: Moment
    seen: Moment
    sightings: int = 1
    acknowledged: Moment | None = None
    resolved: Moment | None = None
    notified: Moment | None = None
    escalated: Moment | None = None
    posted: tuple[Moment, ...] = ()


@value
class Post:
    """To be sent to all of `channels`, of which there may be none."""

    what: What
    channels: tuple[str, ...]


@value
class Change:
    """What the alert is now, and what is to be told of it."""

    alert: Alert | None
    posts: tuple[Post, ...] = ()
    over: str = ""  # why the alert is over now

    @property
    def is_new(self) -> bool:
        """Whether the alert is another one than it was before."""
        return any(post.what == "raised" for post in self.posts)


def rules_of(wishes: Wishes) -> Rules:
    return Rules(
        channels=wishes.channels,
        escalate_to=wishes.escalate_to,
        escalate_after=wishes.escalate_after,
        remind_after=wishes.remind_after,
        quiet=wishes.quiet,
        window=wishes.window,
        grace=GRACE,
    )


def revision_of(key: str) -> int:
    """Which an alert is of, by its key; 0 where it is of the endpoint as a whole."""
    number = key.partition("/")[2]
    return int(number) if number.isdecimal() else 0


def updated(alert: Alert | None, sighting: Sighting | None, rules: Rules, now: Moment, looked: int | None = None) -> Change:
    """`alert` is the last one of the key, be it over. Without a sighting time has passed, and `looked` windows were looked at
    since it was seen last; None where its kind is looked at all the time."""
    whats: list[What] = []
    if sighting is not None:
        alert, whats = _sighted(alert, sighting, rules, now)
    if alert is None or alert.resolved is not None:
        return Change(alert=alert)
    if over := _over(alert, rules, now, looked):
        if not _has_room(alert, 2, rules, now):
            return Change(alert=alert)
        alert, whats = replace(alert, resolved=now), ["resolved"]
    elif _needs_others(alert, rules, now):
        whats.append("escalated")
    elif not whats and _needs_reminder(alert, rules, now):
        whats.append("reminded")
    posts = tuple(Post(what=what, channels=_told(what, alert, rules)) for what in whats)
    return Change(alert=_noted(alert, posts, now), posts=posts, over=over)


def ended(alert: Alert, rules: Rules, now: Moment, why: str) -> Change:
    """Of what is not looked at any more: there is no later message that would need room, so that this one always has it."""
    post = Post(what="resolved", channels=_told("resolved", alert, rules))
    return Change(alert=_noted(replace(alert, resolved=now), (post,), now), posts=(post,), over=why)


def _over(alert: Alert, rules: Rules, now: Moment, looked: int | None) -> str:
    """Why it is over; empty where it is not. That nobody called, or that windows could not be looked at, is no sign of it."""
    quiet, since = now - alert.seen, f"{str(alert.seen)[:19]}Z"
    if quiet < rules.over_after:
        return ""
    if looked is None or looked >= rules.quiet:
        return f"It was not seen again since {since}."
    if quiet >= rules.over_after + SILENCE:
        return f"Too little was looked at since {since} to say whether it is still so: it is not kept open any longer."
    return ""


def _sighted(alert: Alert | None, sighting: Sighting, rules: Rules, now: Moment) -> tuple[Alert, list[What]]:
    is_over = alert is not None and alert.resolved is not None and now - alert.resolved > rules.reopen_within * SECOND
    if alert is None or is_over:
        posted = () if alert is None else alert.posted
        return Alert(last=sighting, severity=sighting.severity, raised=now, opened=now, seen=now, posted=posted), ["raised"]
    whats: list[What] = []
    if alert.resolved is not None:
        whats, alert = ["reopened"], replace(alert, opened=now)
    elif _rank(sighting.severity) > _rank(alert.severity):
        whats = ["worse"]
    severity = max(alert.severity, sighting.severity, key=_rank)
    seen = Moment(max(alert.seen, now))
    sightings = alert.sightings + 1
    return replace(alert, last=sighting, severity=severity, seen=seen, sightings=sightings, resolved=None), whats


def _needs_others(alert: Alert, rules: Rules, now: Moment) -> bool:
    is_done = alert.escalated is not None or alert.acknowledged is not None or not rules.escalate_to
    return not is_done and now - alert.raised >= rules.escalate_after * SECOND


def _needs_reminder(alert: Alert, rules: Rules, now: Moment) -> bool:
    if not rules.remind_after or alert.acknowledged is not None or not _has_room(alert, 1, rules, now):
        return False
    return alert.notified is None or now - alert.notified >= rules.remind_after * SECOND


def _has_room(alert: Alert, messages: int, rules: Rules, now: Moment) -> bool:
    return len(_lately(alert, now)) + messages <= rules.most_a_day


def _lately(alert: Alert, now: Moment) -> tuple[Moment, ...]:
    return tuple(at for at in alert.posted if at > now - DAY)


def _told(what: What, alert: Alert, rules: Rules) -> tuple[str, ...]:
    if what == "escalated":
        return rules.escalate_to
    return tuple(dict.fromkeys(rules.channels + (rules.escalate_to if alert.escalated is not None else ())))


def _noted(alert: Alert, posts: tuple[Post, ...], now: Moment) -> Alert:
    if not posts:
        return alert
    escalated = now if any(post.what == "escalated" for post in posts) else alert.escalated
    return replace(alert, notified=now, escalated=escalated, posted=(*_lately(alert, now), *(now for _ in posts)))


def _rank(severity: Severity) -> int:
    return _SEVERITIES.index(severity)
