"""The later chapters: what pipelines did with it, who let it into production, where it answers, how it did, its cost. Pure."""

from collections.abc import Sequence
from typing import Final

from markupsafe import Markup

from falaj.base.clock import Moment
from falaj.jobs.operations.words import Usage
from falaj.lifecycle.operations.stories import AlertTold, Answer, Figure, PipelineTold, Served, Span, Story, TestTold, Thing
from falaj.registry.operations.promotions import Approval, Move
from falaj.serving.operations.words import WHOLE
from falaj.web.drawing.svg import element
from falaj.web.drawing.tenures import Lane, Mark, Stretch, tenures
from falaj.web.experiments.numbers import number_text
from falaj.web.jobs.amounts import money, span
from falaj.web.rendering import count
from falaj.web.serving.fields import percent
from falaj.web.stories.parts import (
    Links,
    Row,
    at,
    badge,
    body,
    chapter,
    facts,
    joined,
    named,
    nothing,
    outcome,
    own,
    paragraph,
    sub,
    table,
)

_ENDS: Final = {
    "rollback": "rolled back",
    "quarantine": "put away",
    "deleted": "its endpoint was deleted",
    "step": "the next step",
    "promote": "another got everything",
    "deploy": "another was deployed",
    "split": "the split was changed",
}
_SAID: Final = {
    "agreed": ("agreed", "good"),
    "refused": ("refused", "bad"),
    "waiting": ("nobody yet", "warn"),
    "nobody": ("nobody answered", ""),
}
_APPROVALS: Final = {"used": "good", "ready": "good", "waiting": "warn", "refused": "bad"}


def pipelines(story: Story, links: Links) -> Markup:
    if not story.pipelines:
        content = nothing(story, "No pipeline made it or handed it on: somebody did each step by hand.", "pipelines")
        return chapter("What pipelines did with it", content, id="pipelines")
    rows = [_pipeline(one, links) for one in reversed(story.pipelines)]
    heads = ("Run", "What it did", "Started by", "Asked, and answered", "State")
    return chapter("What pipelines did with it", table(heads, rows), id="pipelines", note="Runs, triggers and answers")


def _pipeline(one: PipelineTold, links: Links) -> Row:
    started = (Markup("the trigger ") + own(one.trigger) + sub("in the name of ", own(one.by))) if one.trigger else own(one.by)
    return (
        named(one.pipeline, Thing(kind="pipeline-run", id=one.run), links) + sub(f"version {one.version}"),
        "made it" if one.made else "handed it on",
        started + sub(at(one.started)) + (sub(own(one.why)) if one.why else Markup("")),
        Markup("").join(element("div", _answer(it)) for it in one.answers) or "nothing",
        outcome(one.state, {"done": "good", "failed": "bad"}.get(one.state, "")),
    )


def _answer(it: Answer) -> Markup:
    told = outcome(_SAID[it.said][0], _SAID[it.said][1])
    by = Markup(" by ") + own(it.by) + sub(at(it.at)) if it.by else Markup("")
    return told + by + sub(own(it.question)) + (sub(own(it.words)) if it.words else Markup(""))


def approvals(story: Story, links: Links) -> Markup:
    version = story.version.version
    content = []
    if story.approvals:
        rows = [
            (
                f"{one.alias} to v{one.version}" if one.version else f"remove {one.alias}",
                own(one.requested_by.name) + sub(at(one.requested)) + (sub(own(one.reason)) if one.reason else Markup("")),
                _votes(one),
                outcome(one.state, _APPROVALS.get(one.state, "")),
            )
            for one in reversed(story.approvals)
        ]
        content.append(table(("Wish", "Asked by", "Decided by", "State"), rows))
    if story.moves:
        moves = [_move(one, version) for one in reversed(story.moves)]
        content.append(table(("Alias", "Move", "By", "Approved by", "When, and why"), moves))
    if not content:
        content = [nothing(story, "No alias ever pointed at it, and nobody asked for one.", "approvals")]
    return chapter("Who let it into production", *content, id="approvals", note="Approvals and promotions")


def _votes(one: Approval) -> Markup:
    cast = (
        outcome("approved" if vote.approves else "refused", "good" if vote.approves else "bad")
        + Markup(" by ")
        + own(vote.by.name)
        + sub(at(vote.at))
        + (sub(own(vote.note)) if vote.note else Markup(""))
        for vote in one.votes
    )
    return Markup("").join(element("div", vote) for vote in cast) or Markup("nobody yet")


def _move(one: Move, version: int) -> Row:
    return (
        badge(one.alias, "good" if one.alias == "champion" else "accent"),
        _moved(one, version),
        own(one.by.name),
        joined(own(person.name) for person in one.approvers) or "nobody had to",
        at(one.at) + (sub(own(one.reason)) if one.reason else Markup("")),
    )


def _moved(one: Move, version: int) -> str:
    if one.kind == "stage":
        return f"to the stage {one.alias}"
    back = " (rolled back)" if one.kind == "rollback" else ""
    if one.version == version:
        return f"here, from v{one.before}{back}" if one.before else f"here{back}"
    return f"on to v{one.version}{back}" if one.version else "removed"


def serving(story: Story, links: Links) -> Markup:
    if not story.served:
        return chapter("Where it answers", nothing(story, "It was never deployed.", "serving"), id="serving")
    rows = [_tenure(one, it, links) for one in story.served for it in reversed(one.spans)]
    drawn = element("div", _drawn(story), class_="drawing", tabindex="0", role="group", aria_label="Share over time")
    heads = ("Endpoint", "Share", "From", "Until", "How it ended")
    return chapter("Where it answers", drawn, table(heads, rows), id="serving", note="Shares of traffic over time")


def _tenure(one: Served, it: Span, links: Links) -> Row:
    thing = Thing(kind="endpoint", id=one.endpoint) if one.deleted is None else Thing()
    copies = " of copies, as a shadow" if it.role == "shadow" else ""
    revision = next(mine for mine in one.revisions if mine.number == it.revision)
    form = f"revision {it.revision}, {revision.variant or 'the original'}"
    began = [at(it.since), sub("by ", own(it.by)) if it.by else sub("by the platform")]
    began += [sub(own(it.reason))] if it.reason else []
    ended = outcome("answers", "good") if it.until is None else Markup("<span>{}</span>").format(_ENDS.get(it.end, it.end))
    if it.until is not None:
        ended += sub("by ", own(it.end_by) if it.end_by else "the platform") if it.end != "deleted" else Markup("")
        ended += sub(own(it.end_reason)) if it.end_reason else Markup("")
    return (
        named(one.endpoint, thing, links) + sub(form),
        f"{percent(it.share)}{copies}",
        Markup("").join(began),
        at(it.until) if it.until is not None else "now",
        ended,
    )


def _drawn(story: Story) -> Markup:
    lanes = []
    for one in story.served:
        stretches = [
            Stretch(
                start=float(it.since),
                end=float(it.until if it.until is not None else story.asked),
                share=it.share / WHOLE,
                words=f"Revision {it.revision}: {percent(it.share)} from {_minute(it.since)} until "
                f"{_minute(it.until) if it.until is not None else 'now'}",
                faint=it.role == "shadow",
            )
            for it in one.spans
        ]
        marks = [
            Mark(at=float(alert.raised), kind=alert.severity, words=f"{_minute(alert.raised)}: {alert.title}")
            for alert in one.alerts
        ]
        note = "deleted" if one.deleted is not None else f"{percent(one.share)} now"
        lanes.append(Lane(name=one.endpoint, note=note, stretches=tuple(stretches), marks=tuple(marks)))
    first = min((it.since for one in story.served for it in one.spans), default=story.asked)
    said = "; ".join(f"{lane.name}: {lane.note}" for lane in lanes)
    return tenures(lanes, ends=(_minute(first), _minute(story.asked)), label=f"Share of traffic over time. {said}.")


def watching(story: Story, links: Links) -> Markup:
    told = [_did(one, links) for one in story.served]
    content = [one for parts in told for one in parts]
    if not content:
        content = [nothing(story, "Nothing is known of any traffic, alert or label while it answered.", "serving", "watching")]
    return chapter("How it did there", *content, id="watching", note="Traffic, drift, quality, A/B tests")


def _did(one: Served, links: Links) -> list[Markup]:
    content = []
    if (traffic := one.traffic) is not None:
        failed = traffic.errors / traffic.requests if traffic.requests else 0.0
        pairs = (
            ("Endpoint", own(one.endpoint)),
            (f"Calls, last {traffic.days} days", f"{count(traffic.requests)}, {count(traffic.rows)} rows"),
            ("Errors", f"{count(traffic.errors)} ({failed:.2%}); {count(traffic.shed)} refused under load"),
            ("Slowest p99", f"{traffic.p99:.3g} ms"),
        )
        content.append(body(facts(pairs)))
    if one.quality:
        rows = [_figure(it) for it in one.quality]
        heads = ("Quality", "Of", "Measured#", "In 19 of 20 cases between#", "Rows#")
        content.append(table(heads, rows, caption=f"Quality at {one.endpoint}"))
    if one.alerts:
        content.append(table(("Alert", "What", "Raised", "Over", "What was done"), [_alert(it, links) for it in one.alerts]))
    if one.abtests:
        content.append(
            table(("A/B test", "Verdict on it", "How it stands", "Began", "Ended"), [_test(it, links) for it in one.abtests])
        )
    return content


def _figure(it: Figure) -> Row:
    between = f"{number_text(it.low)} to {number_text(it.high)}"
    return it.name, f"revision {it.revision}", number_text(it.at), between, count(it.rows)


def _test(it: TestTold, links: Links) -> Row:
    return (
        named(it.name, Thing(kind="abtest", id=it.id), links),
        outcome(it.word, {"winner": "good", "loser": "bad", "broken": "bad"}.get(it.word, "")),
        own(it.sentence),
        at(it.started),
        at(it.ended) if it.ended is not None else "running",
    )


def _alert(it: AlertTold, links: Links) -> Row:
    tone = {"critical": "bad", "warning": "warn"}.get(it.severity, "")
    return (
        named(it.title, Thing(kind="alert", id=it.id), links),
        outcome(it.severity, tone) + sub(own(it.sentence)),
        at(it.raised),
        at(it.resolved) if it.resolved is not None else "open",
        joined((own(words) for words in it.done), " ") or "nobody set an action",
    )


def cost(story: Story, links: Links) -> Markup:
    if not story.jobs:
        words = "No job of the platform went into it: it was trained elsewhere, and what that cost is not known here."
        return chapter("What it cost", nothing(story, words, "cost"), id="cost")
    rows = [
        (
            named(one.name, Thing(kind="job", id=one.id), links) + sub(f"{one.purpose}, {one.state}, {_tries(one.tries)}"),
            own(one.by) + sub(at(one.submitted)),
            span(one.seconds),
            *_used(one.usage),
        )
        for one in story.jobs
    ]
    heads = ("Job", "Submitted by", "Ran#", "CPU time#", "GPU time#", "Energy#", "Cost#")
    total = sum(one.usage.cost for one in story.jobs)
    said = f"All together: {money(total)}." if total else "No price is set for what they used, or they are not over yet."
    return chapter("What it cost", table(heads, rows), body(paragraph(said)), id="cost", note="What jobs used, as metered")


def _tries(tries: int) -> str:
    return "one try" if tries == 1 else f"{tries} tries"


def _used(usage: Usage) -> Sequence[str]:
    return (
        span(usage.cpu_seconds) if usage.cpu_seconds else "",
        span(usage.gpu_seconds) if usage.gpu_seconds else "",
        f"{usage.energy_joules / 3600:.3g} Wh" if usage.energy_joules else "",
        money(usage.cost),
    )


def _minute(moment: Moment) -> str:
    return f"{str(moment)[:10]} {str(moment)[11:16]} UTC"
