"""How a version's story reads in a terminal: the sentence first, then each chapter in a few lines."""

from falaj.cli.layout import Layout, brief, rounded
from falaj.lifecycle.operations.stories import DataTold, Event, JobTold, PipelineTold, Served, Span, Story

_MOST_EVENTS = 40
_MOST_PAIRS = 12


def summary(layout: Layout, story: Story) -> None:
    layout.line(story.summary.replace("`", ""), style="bold")
    layout.line(story.ledger.words)
    for kept in story.hidden:
        layout.line(f"Not visible to you ({kept.chapter}): {kept.words}")
    _made(layout, story)
    _found(layout, story)
    for one in story.served:
        _served(layout, one)
    if story.jobs:
        _title(layout, "What it cost")
        columns = ("job", "for", "state", "ran", "cpu seconds", "cost")
        layout.table(columns, map(_job, story.jobs))
    _title(layout, "Every event")
    layout.table(("when", "what", "who", "ledger"), map(_event, story.events[-_MOST_EVENTS:]))
    if story.cut or len(story.events) > _MOST_EVENTS:
        layout.line("There are more: --json and --out tell them.")


def _title(layout: Layout, text: str) -> None:
    layout.line()
    layout.line(text, style="bold")


def _made(layout: Layout, story: Story) -> None:
    version, run = story.version, story.training
    _title(layout, "What it is")
    layout.pairs(
        (
            ("model", f"{version.model} v{version.version}"),
            ("aliases", version.aliases),
            ("registered", f"{version.created} by {story.registered_by}"),
            ("runtime", version.runtime),
            ("signed", version.signed),
            ("digest", version.digest),
            ("bill of materials", story.sbom),
        )
    )
    if story.data:
        _title(layout, "The data it came from")
        layout.table(("version", "rows", "state", "zone", "made", "by"), map(_data, story.data))
    if run is not None:
        _title(layout, "How it was made")
        metrics = ", ".join(f"{one.name}={rounded(one.value)}" for one in run.metrics[:_MOST_PAIRS])
        params = ", ".join(f"{one.name}={one.value}" for one in run.params[:_MOST_PAIRS])
        layout.pairs((("run", f"{run.name} ({run.run})"), ("experiment", run.experiment), ("by", run.by)))
        layout.pairs((("metrics", metrics), ("parameters", params)))


def _data(one: DataTold) -> tuple[object, ...]:
    broken = f", {len(one.findings)} findings" if one.findings else ""
    name = f"{one.name}@{one.version}" if one.version else one.name
    return name, one.rows, one.state + broken, one.zone, brief(one.made), one.made_by


def _found(layout: Layout, story: Story) -> None:
    if story.gates:
        _title(layout, "What gates found")
        rows = ((one.gate, "passed" if one.passed else "not passed", one.counts, one.words) for one in story.gates)
        layout.table(("gate", "result", "counts", "words"), rows)
    if story.variants:
        _title(layout, "Variants")
        rows_of = ((one.name, one.state, one.certificate[:16], one.reason) for one in story.variants)
        layout.table(("variant", "state", "certificate", "reason"), rows_of)
    if story.pipelines:
        _title(layout, "What pipelines did with it")
        layout.table(("when", "pipeline", "did", "started by", "asked, and answered", "state"), map(_pipeline, story.pipelines))
    if story.moves:
        _title(layout, "Who let it into production")
        moves = (
            (
                brief(one.at),
                one.alias,
                one.kind,
                f"v{one.before} to v{one.version}" if one.before else f"to v{one.version}",
                one.by.name,
                [it.name for it in one.approvers],
            )
            for one in story.moves
        )
        layout.table(("when", "alias", "kind", "move", "by", "approved by"), moves)


def _pipeline(one: PipelineTold) -> tuple[object, ...]:
    started = f"{one.trigger}, in the name of {one.by}" if one.trigger else one.by
    answers = [f"{it.question} {it.said}{f' by {it.by}' if it.by else ''}" for it in one.answers]
    return brief(one.started), one.pipeline, "made it" if one.made else "handed it on", started, answers, one.state


def _served(layout: Layout, one: Served) -> None:
    _title(layout, f"At {one.endpoint}{' (deleted)' if one.deleted is not None else ''}")
    layout.table(("from", "until", "share", "by", "how it ended"), map(_span, one.spans))
    if (traffic := one.traffic) is not None:
        layout.line(f"{traffic.requests:,} calls in {traffic.days} days, {traffic.errors:,} errors, p99 {traffic.p99:.3g} ms.")
    for figure in one.quality:
        between = f"between {rounded(figure.low)} and {rounded(figure.high)}"
        layout.line(f"{figure.name} {rounded(figure.at)}, {between}, of {figure.rows:,} rows.")
    for alert in one.alerts:
        over = "open" if alert.resolved is None else f"over {brief(alert.resolved)}"
        layout.line(f"{alert.severity}: {alert.title}, raised {brief(alert.raised)}, {over}. {alert.sentence}")
    for test in one.abtests:
        layout.line(f"A/B test {test.name}: {test.word}. {test.sentence}")


def _span(one: Span) -> tuple[object, ...]:
    copies = " of copies" if one.role == "shadow" else ""
    ended = ": ".join(part for part in (one.end, one.end_reason) if part)
    return brief(one.since), brief(one.until) or "now", f"{one.share / 100:g} %{copies}", one.by or "the platform", ended


def _job(one: JobTold) -> tuple[object, ...]:
    cost = f"{one.usage.cost / 1_000_000:.2f}" if one.usage.cost else ""
    return one.name, one.purpose, one.state, f"{one.seconds:,.0f} s", f"{one.usage.cpu_seconds:,.0f}", cost


def _event(one: Event) -> tuple[object, ...]:
    told = ""
    if one.recorded is not None:
        told = f"{one.recorded.index} {one.recorded.state}" if one.recorded.index is not None else one.recorded.state
    return brief(one.at), one.words, one.by or "the platform", told
