"""A certificate's page: for a manager the verdict in a sentence, for an auditor what it rests on and how to check it alone."""

import math
import shlex
from typing import Any, Final

from falaj.base.operation import Download
from falaj.base.values import value
from falaj.optimisation.judging import SCORES
from falaj.optimisation.names import meant
from falaj.optimisation.operations.variants import Certificate
from falaj.optimisation.operations.words import RAN_ON
from falaj.web.drawing.intervals import Line, intervals
from falaj.web.optimisation.amounts import (
    FORMATS,
    chance,
    comparison_of,
    lost,
    milliseconds,
    optimisation_of,
    points,
    rate,
    unit,
)
from falaj.web.optimisation.listing import variants_of
from falaj.web.visits import Visit

MOST_DRAWN: Final = 40
FILE: Final = "certificate.json"
KEY: Final = "certificate.pem"
# What a stranger needs to check the signature: what was signed is the envelope's payload in DSSE's own framing.
_CHECK: Final = (
    'python3 -c "\n'
    "import base64, json\n"
    f"e = json.load(open('{FILE}'))['dsseEnvelope']\n"
    "p, t = base64.b64decode(e['payload']), e['payloadType'].encode()\n"
    "open('signed', 'wb').write(b'DSSEv1 %d %s %d %s' % (len(t), t, len(p), p))\n"
    "open('signature', 'wb').write(base64.b64decode(e['signatures'][0]['sig']))\n"
    f'" && openssl dgst -sha256 -verify {KEY} -signature signature signed'
)


@value
class Judged:
    """A group of rows as the table tells it."""

    name: str
    rows: int
    original: str
    variant: str
    drop: str
    high: str
    margin: str
    chance: str
    ok: bool
    worst: bool


# What is asked for


def variants(visit: Visit) -> Any:
    found = visit.loaded["certificate"].variant
    return variants_of(visit, found.model, found.version)


def bundle(found: Certificate) -> Download:
    return _download(found.bundle, FILE, "application/json")


def key(found: Certificate) -> Download:
    return _download(found.key, KEY, "application/x-pem-file")


def _download(text: str, name: str, kind: str) -> Download:
    content = text.encode()
    return Download(chunks=iter((content,)), size=len(content), name=name, media_type=kind)


# What is made of it


def story(visit: Visit) -> dict[str, Any]:
    found: Certificate = visit.loaded["certificate"]
    variant, document = found.variant, found.document
    named = _named(visit, found)
    told = {
        "address": {"model": variant.model, "version": variant.version, "variant": variant.id},
        "search": optimisation_of(visit.project, variant.optimisation),
        "comparison": comparison_of(visit.project, variant.model, variant.version, _others(visit, found)),
        "verdict": verdict(found),
        "commands": _commands(visit.project, found, named),
        "judged": [],
        "scores": [],
        "unit": unit(found.task),
        "drawing": "",
        "document": document,
        **FORMATS,
    }
    if document:
        told |= {
            "judged": judged(found),
            "scores": scores(document),
            "drawing": _drawing(found),
            "facts": _facts(document),
            **_measured(document),
        }
    return told


def verdict(found: Certificate) -> str:
    """The certificate in one sentence."""
    variant = found.variant
    it = f"{variant.name}, made of {variant.model} v{variant.version},"
    if found.problems:
        return f"{it} has no certificate that holds: {' '.join(found.problems)}"
    if not found.fit:
        return f"{it} is not shown to be as good as the original: {' '.join(found.reasons)}"
    overall, limits = found.document["quality"]["overall"], found.document["limits"]
    slices = found.document["quality"]["slices"]
    everywhere = f", and in each of {len(slices)} slices within what is allowed there" if slices else ""
    most = points(_number(overall["high"]), found.task)
    sure = f"{_number(limits['confidence']) * 100:g} %"
    return (
        f"{it} may stand in for the original: with {sure} confidence it is worse by at most {most}, where "
        f"{points(_number(overall['margin']), found.task)} are allowed, on {overall['rows']:,} rows that it never "
        f"saw{everywhere}. {_faster(found.document)}"
    )


def _faster(document: dict[str, Any]) -> str:
    ours, theirs = document["latency"]["variant"], document["latency"]["original"]
    many = _number(ours["rows_per_s"]) / (_number(theirs["rows_per_s"]) or math.nan)
    shown = document["host"].get("shown", "the host that measured it")
    return f"It answers {many:.2f} times as many rows a second as the original on {shown}."


def judged(found: Certificate) -> list[Judged]:
    """All rows first, then the slices as they were counted."""
    quality = found.document["quality"]
    return [_judged(one, found.task, quality["worst_slice"]) for one in (quality["overall"], *quality["slices"])]


def scores(document: dict[str, Any]) -> list[Judged]:
    """Of the probabilities, by each score: all rows first."""
    return [
        _judged(one | {"name": f"{one['name']}, {SCORES[one['by']]}"}, "scores", "") for one in document["quality"]["scores"]
    ]


def _judged(one: dict[str, Any], task: str, worst: str) -> Judged:
    scale, mark = (100, " %") if task == "classes" else (1, "")
    original, variant = (f"{_number(one[name]) * scale:.5g}{mark}" for name in ("original", "variant"))
    drop, high, margin = (lost(_number(one[name])) for name in ("drop", "high", "margin"))
    return Judged(
        name=one["name"],
        rows=one["rows"],
        original=original,
        variant=variant,
        drop=drop,
        high=high,
        margin=margin,
        chance=chance(_number(one["chance"])),
        ok=one["ok"],
        worst=bool(worst) and one["name"] == worst,
    )


def _drawing(found: Certificate) -> Any:
    """All rows, then the slices that are nearest to what is allowed, or beyond it."""
    quality = found.document["quality"]
    nearest = sorted(quality["slices"], key=lambda one: _number(one["margin"]) - _number(one["high"]))
    lines = [_line(one, found.task) for one in (quality["overall"], *nearest[: MOST_DRAWN - 1])]
    told = f"What {found.variant.name} loses over all rows and in each slice, against what is allowed"
    return intervals(lines, unit=unit(found.task), label=told)


def _line(one: dict[str, Any], task: str) -> Line:
    drop, high, margin = (_number(one[name]) for name in ("drop", "high", "margin"))
    words = f"{one['name']}: lost {points(drop, task)}, at most {points(high, task)}, allowed {points(margin, task)}"
    return Line(name=one["name"], drop=drop * 100, high=high * 100, margin=margin * 100, ok=one["ok"], words=words)


def _interval(one: dict[str, Any], name: str) -> str:
    return f"{_number(one[f'{name}_low']):.3g} to {_number(one[f'{name}_high']):.3g} ms"


def _measured(document: dict[str, Any]) -> dict[str, Any]:
    """What was measured of both, side by side, and how the answers compare."""
    sides = [document["latency"][side] for side in ("variant", "original")]
    rows = [
        ("Half of the answers within", *(f"{milliseconds(_number(one['p50_ms']))}" for one in sides)),
        ("its interval of 95 %", *(_interval(one, "p50") for one in sides)),
        ("99 of 100 within", *(milliseconds(_number(one["p99_ms"])) for one in sides)),
        ("its interval of 95 %", *(_interval(one, "p99") for one in sides)),
        ("Ran on", *(RAN_ON[one.get("device", "")] for one in sides)),
        ("Rows a second", *(f"{rate(_number(one['rows_per_s']))}, in batches of {one['batch']}" for one in sides)),
    ]
    calibration = document["quality"]["calibration"]
    known = _number(calibration["variant"]) >= 0 and _number(calibration["original"]) >= 0
    return {
        "latencies": rows,
        "sizes": [(one["size"], one["memory"]) for one in sides],
        "agreement": f"{_number(document['quality']['agreement']):.2%}",
        "calibration": calibration if known else None,
    }


def _facts(document: dict[str, Any]) -> dict[str, Any]:
    """Digests by name: of the variant's files, the original's, and the data."""
    return {
        "variant_files": sorted(document["variant"]["files"].items()),
        "model_files": sorted(document["model"]["files"].items()),
    }


def _commands(project: str, found: Certificate, named: str) -> list[tuple[str, str]]:
    """What to type, and what it does."""
    variant = found.variant
    base = [variant.model, str(variant.version), named]
    lines = [
        ("Write it to a file, with the key that verifies it", ["falaj", "model", "certificate", *base, "--file", FILE]),
        ("Or take the files along, the certificate beside them", ["falaj", "model", "export", *base, "model"]),
    ]
    told = [(words, shlex.join([*line, "--project", project])) for words, line in lines]
    told.append(("Then, with no Falaj at hand: did that key sign it?", _CHECK))
    if found.document:
        digests = "".join(f"{digest}  {name}\\n" for name, digest in sorted(found.document["variant"]["files"].items()))
        told.append(("And are these the files that it speaks of?", f"printf '{digests}' | sha256sum --check"))
    return told


def _named(visit: Visit, found: Certificate) -> str:
    """The variant's name, or its id where the name means one of another search."""
    listed = visit.loaded["variants"].items if visit.loaded["variants"] is not None else ()
    first = meant(one for one in listed if one.name == found.variant.name and one.files)
    return found.variant.name if first is None or first.id == found.variant.id else found.variant.id


def _others(visit: Visit, found: Certificate) -> list[str]:
    """It and the others that were certified in the same search."""
    listed = visit.loaded["variants"].items if visit.loaded["variants"] is not None else ()
    mine = [one for one in listed if one.optimisation == found.variant.optimisation and one.state == "certified"]
    return list(dict.fromkeys([found.variant.id, *(one.id for one in mine)]))


def _number(text: Any) -> float:
    return float(text)
