"""The first chapters: what it is, the data it came from, how it was made, what was found of it before it was used. Pure."""

import json
from collections.abc import Sequence
from typing import Any, Final

from markupsafe import Markup

from falaj.lifecycle.operations.stories import DataTold, Story, Thing, Training
from falaj.web.experiments.numbers import duration_text, number_text
from falaj.web.rendering import count, size
from falaj.web.stories.parts import (
    Links,
    Row,
    at,
    badge,
    body,
    chapter,
    digest,
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

_STATES: Final = {
    "published": ("no check was broken", "good"),
    "quarantined": ("in quarantine", "bad"),
    "pruned": ("pruned since: its rows are gone", "warn"),
    "deleted": ("deleted since", "warn"),
    "elsewhere": ("not kept in Falaj: as its client described it", ""),
}


def itself(story: Story, links: Links) -> Markup:
    version = story.version
    signed = outcome("signed when it was registered", "good") if version.signed else outcome("not signed", "warn")
    told = facts(
        (
            ("Model", own(f"{version.model} v{version.version}")),
            ("Description", own(version.description[:2000]) if version.description else ""),
            ("Aliases", joined(badge(alias, "good" if alias == "champion" else "accent") for alias in version.aliases)),
            ("Stage", version.stage if version.stage != "None" else ""),
            ("Registered", joined((at(version.created), Markup("by ") + own(story.registered_by)), " ")),
            ("Framework", ", ".join(version.flavors)),
            ("Runtime", version.runtime or ("converted when deployed" if version.convertible else "not servable")),
            ("Files", f"{count(version.files)}, {size(version.size)}, immutable" if version.files else "elsewhere"),
            ("Signature", signed),
            ("Digest", digest(version.digest)),
            ("Bill of materials", digest(f"sha256:{story.sbom}") if story.sbom else ""),
            ("Takes", _ports(version.inputs)),
            ("Gives", _ports(version.outputs)),
        )
    )
    return chapter("What it is", body(told), id="itself")


def _ports(text: str) -> Markup | str:
    """Names and types of a signature, as far as it can be read."""
    try:
        found = json.loads(text) if text else []
    except (ValueError, RecursionError):
        return ""
    ports = [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
    told = [_port(one) for one in ports[:30]]
    return joined((*told, *([f"{len(ports) - 30} more"] if len(ports) > 30 else [])))


def _port(one: dict[str, Any]) -> Markup:
    kind = one.get("type") or f"{one.get('dtype', '')} {one.get('shape', '')}"
    return Markup("{} {}").format(own(str(one.get("name", ""))), Markup("<code>{}</code>").format(kind))


def data(story: Story, links: Links) -> Markup:
    if not story.data:
        words = "No data is known: what a run reads is known once it is logged with mlflow.log_input, or read by a grant."
        return chapter("The data it came from", nothing(story, words, "data"), id="data")
    derived = any(one.derivation for one in story.data)
    heads = ("Version", "Rows#", "Checks", "Zone", "Made", *(("From",) if derived else ()))
    rows = [_datum(one, links)[: len(heads)] for one in sorted(story.data, key=lambda one: (one.distance, one.name))]
    content = [table(heads, rows)]
    if story.features:
        content.append(body(paragraph("Features of: ", joined(own(name) for name in story.features), ".")))
    return chapter("The data it came from", *content, id="data", note="The nearest first")


def _datum(one: DataTold, links: Links) -> Row:
    name = f"{one.name}@{one.version}" if one.version else one.name
    there = one.version and one.state != "deleted"
    thing = Thing(kind="dataset", id=one.name, part=str(one.version)) if there else Thing()
    words, tone = _STATES[one.state]
    if one.state == "published" and one.findings:
        words, tone = "published in spite of findings", "warn"
    checks = [outcome(words, tone) if tone else Markup("<span>{}</span>").format(words)]
    checks += [sub(own(f"{finding.check}: {finding.says}")) for finding in one.findings]
    derived = joined((sub(own(one.derivation[:300])), joined(map(own, one.inputs))), " ") if one.derivation else ""
    by = sub("by ", own(one.made_by)) if one.made_by else Markup("")
    return (
        named(name, thing, links) + sub(digest(one.digest[:16])),
        count(one.rows) if one.version else "",
        Markup("").join(checks),
        own(one.zone),
        at(one.made) + by,
        derived,
    )


def training(story: Story, links: Links) -> Markup:
    run = story.training
    if run is None:
        words = "No run is known that made it: it was registered from files that somebody brought."
        return chapter("How it was made", nothing(story, words, "training"), id="training")
    jobs = [one for one in story.jobs if one.purpose == "training"]
    experiment = own(f"{run.experiment} ({run.experiment_number})") if run.experiment else str(run.experiment_number)
    told = facts(
        (
            ("Run", named(run.name, Thing(kind="run", id=run.run), links) + (_deleted() if run.deleted else Markup(""))),
            ("Experiment", experiment),
            ("By", own(run.by)),
            ("Began", at(run.created)),
            ("Took", duration_text(run.ended - run.started) if run.ended is not None else "it has not ended"),
            ("Ended as", run.status.lower()),
            ("Job", joined(named(one.name, Thing(kind="job", id=one.id), links) for one in jobs)),
        )
    )
    return chapter("How it was made", body(told), *_logged(run), id="training")


def _deleted() -> Markup:
    return Markup(" ") + badge("deleted since", "warn")


def _logged(run: Training) -> Sequence[Markup]:
    tables = []
    if run.metrics:
        tables.append(table(("Metric", "Last value#"), [(own(one.name), number_text(one.value)) for one in run.metrics]))
    if run.params:
        tables.append(table(("Parameter", "Value"), [(own(one.name), own(one.value[:500])) for one in run.params]))
    return [Markup('<div class="story-pair">{}</div>').format(Markup("").join(tables))] if tables else []


def evaluation(story: Story, links: Links) -> Markup:
    content = []
    if story.gates:
        rows = [
            (
                named(one.gate, Thing(kind="job" if one.job else "", id=one.job), links),
                outcome("passed" if one.passed else "not passed", "good" if one.passed else "bad"),
                own(one.words) + (sub(f"held against version {one.against}") if one.against else Markup("")),
                "counts" if one.counts else "counts no more",
                at(one.at) + (sub("by ", own(one.by)) if one.by else Markup("")),
            )
            for one in reversed(story.gates)
        ]
        content.append(table(("Gate", "Result", "What it found", "For a promotion", "When"), rows))
    if story.variants:
        content.append(_variants(story, links))
    if not content:
        words = "No gate was run, and no variant was made of it. `falaj ci` runs gates; what they find stays with it."
        content = [nothing(story, words, "evaluation")]
    return chapter("What was found before it was used", *content, id="evaluation", note="Gates and certificates")


def _variants(story: Story, links: Links) -> Markup:
    rows = [
        (
            named(one.name, Thing(kind="variant", id=one.id, part=one.name), links) + (_best() if one.best else Markup("")),
            outcome(one.state, {"certified": "good", "refused": "bad"}.get(one.state, "warn")),
            own(one.reason) if one.reason else f"loses at most {one.max_drop * 100:g} %" if one.certificate else "",
            f"{one.times:.2g}" if one.times is not None else "",
            digest(one.certificate[:16]),
        )
        for one in story.variants
    ]
    return table(("Variant", "State", "Why", "Times as fast#", "Certificate"), rows)


def _best() -> Markup:
    return Markup(" ") + badge("fastest that is fit", "good")
