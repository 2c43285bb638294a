"""How feature views and audits look on a terminal."""

from typing import Any

from falaj.cli.layout import Layout, brief
from falaj.datasets.operations import features


def freshness(fresh: features.Freshness | None) -> list[tuple[str, Any]]:
    if fresh is None:
        return [("fresh as of", None)]
    behind = f"{fresh.behind} versions since {fresh.behind_since}; {fresh.current} is current" if fresh.behind else "nothing"
    return [
        ("fresh as of", fresh.moment),
        ("read", fresh.source),
        ("entities", f"{fresh.entities:,}"),
        ("newest event", fresh.newest_event),
        ("behind by", behind),
    ]


def logged(share: float) -> str | None:
    return f"{share:.4%} of what is served".replace(".0000%", "%") if share else None


def audit(layout: Layout, found: features.FeatureAudit) -> None:
    rows = (
        [brief(one.at), _whose(one.entity), one.feature, *_both(one), one.cause, f"{one.source} of {brief(one.moment)}"]
        for one in found.differences
    )
    if found.differences:
        layout.table(["served at", "entity", "feature", "served", "offline", "cause", "materialised"], rows)
    told = ", ".join(f"{count:,} {cause}" for cause, count in sorted(found.causes.items())) or "none"
    layout.line(f"{found.view}: {found.entities:,} entities of {found.calls:,} calls, differences: {told}.")
    if not found.calls:
        layout.line("Nothing was kept of what was served: the view's definition says how much is (log = 0.1).")
    if found.more:
        layout.line("There is more that was served: narrow it down with --since and --until, or raise --limit.")


def _whose(entity: dict[str, Any]) -> str:
    return ",".join(f"{name}={'(masked)' if key is None else key}" for name, key in entity.items())


def _both(one: features.Difference) -> list[str]:
    return ["(masked)", "(masked)"] if one.masked else [_told(one.served), _told(one.offline)]


def _told(one: Any) -> str:
    return "null" if one is None else str(one)
