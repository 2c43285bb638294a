"""How variants and certificates look to people in a terminal."""

import math
import shlex
from collections.abc import Sequence
from string import ascii_lowercase, ascii_uppercase
from typing import Any, Final

from falaj.cli.amounts import size_told
from falaj.cli.layout import Layout
from falaj.optimisation.judging import SCORES
from falaj.optimisation.operations.optimisations import Optimisation
from falaj.optimisation.operations.variants import Certificate, Variant, Variants
from falaj.optimisation.operations.words import RAN_ON, Measures

_RAN_ON: Final = RAN_ON | {"": "one thread", "cpu": "one thread"}
_WIDE: Final = 56
_HIGH: Final = 12
_LETTERS: Final = len(ascii_lowercase)
_COMPARED: Final = (
    "Drops are those of the rows that candidates are compared on; what held-out rows showed stands in each certificate."
)


def variants_listed(layout: Layout, page: Variants) -> None:
    columns = ("version", "name", "state", "times", "drop", "p50 ms", "p99 ms", "size", "memory", "runtime", "")
    layout.table(columns, (_row(one) for one in page.items))
    if not page.items:
        layout.line("There are none yet: `falaj optimise` makes them.")
    elif any(one.measures is not None for one in page.items):
        layout.line(_COMPARED)


def outcome(layout: Layout, found: Optimisation, project: str) -> None:
    """What a search came to: the table, the chart, and what to do next."""
    if found.baseline is not None:
        one = found.baseline
        layout.line(
            f"The original: {one.rows_per_s:,.0f} rows/s, {one.p50_ms:.3g} ms a row, {size_told(one.size)}, on "
            f"{_RAN_ON[one.device]}{_costs(one.cost)}."
        )
    columns = ("name", "state", "times", "drop", "p50 ms", "p99 ms", "size", "memory", "mJ each", "cost/million", "")
    layout.table(columns, (_outcome_row(one) for one in found.variants))
    for line in chart(found.variants):
        layout.line(line)
    if any(one.measures is not None for one in found.variants):
        layout.line(_COMPARED)
    for remark in found.remarks:
        layout.line(remark)
    if told := _elsewhere(found):
        layout.line(told)
    best = next((one for one in found.variants if one.best), None)
    if best is None:
        layout.line("No variant was certified; the original serves as before.")
        return
    layout.line(
        f"Certified: {', '.join(one.name for one in found.variants if one.state == 'certified')}. The fastest is {best.name}."
    )
    version, where = f"{found.model}:{found.version}", ("--project", project)
    layout.line("  " + shlex.join(["falaj", "model", "certificate", found.model, str(found.version), best.name, *where]))
    layout.line("  " + shlex.join(["falaj", "deploy", version, "--variant", best.name, *where]))
    ladder = shlex.join(["falaj", "deploy", version, "--ladder", *where])
    layout.line(f"  {ladder}    # the original, and faster variants while it is overloaded")


def _costs(cost: float) -> str:
    return f", {cost:.4g} for a million predictions" if cost else ""


def _elsewhere(found: Optimisation) -> str:
    """Where not all ran on the same: times as fast compares two machines then."""
    ran = [("the original", found.baseline), *((one.name, one.measures) for one in found.variants)]
    on = {name: of.device for name, of in ran if of is not None and of.device}
    if len(set(on.values())) < 2:
        return ""
    told = (f"{', '.join(name for name in on if on[name] == device)} on {RAN_ON[device]}" for device in ("gpu", "cpu"))
    return f"Measured: {'; '.join(told)}."


def chart(variants: Sequence[Variant]) -> list[str]:
    """Speed to the right, what is lost downward; what nothing beats is a letter of its own, and the letters are told below.
    What no letter is left for is a point."""
    points = [one for one in variants if one.measures is not None and one.state != "dropped"]
    points.sort(key=lambda one: not one.on_front)
    if len(points) < 2:
        return []
    measured = [one.measures for one in points if one.measures is not None]
    fastest, most = max(one.times for one in measured), max(max(one.drop for one in measured), 1e-4)
    least = min(min(one.drop for one in measured), 0.0)
    grid = [[" "] * _WIDE for _ in range(_HIGH)]
    told = list[str]()
    for number, (one, of) in reversed([*enumerate(zip(points, measured, strict=True))]):
        letter = (ascii_uppercase if one.on_front else ascii_lowercase)[number] if number < _LETTERS else "."
        across = min(_WIDE - 1, int(of.times / fastest * (_WIDE - 1)))
        down = min(_HIGH - 1, int((of.drop - least) / (most - least) * (_HIGH - 1)))
        grid[down][across] = letter
        if number < _LETTERS:
            told.insert(0, f"{letter} {one.name}")
    if len(points) > _LETTERS:
        told.append(f". {len(points) - _LETTERS} more")
    lines = [f"{_axis(row, least, most):>8} |{''.join(cells).rstrip()}" for row, cells in enumerate(grid)]
    ticks = f"{'':8} +{'-' * _WIDE}\n{'drop':>8}  0{'':{_WIDE - 10}}{fastest:.1f} times as fast"
    return [
        "",
        *lines,
        *ticks.split("\n"),
        "  " + "   ".join(told),
        "  Capital letters: nothing else is as fast, as good and as small.",
        "",
    ]


def _axis(row: int, least: float, most: float) -> str:
    return f"{(least + (most - least) * row / (_HIGH - 1)) * 100:.2f} %" if row in (0, _HIGH - 1) else ""


def _row(one: Variant) -> Sequence[Any]:
    return (one.version, one.name, one.state, *_figures(one.measures), one.runtime, _word(one))


def _outcome_row(one: Variant) -> Sequence[Any]:
    of = one.measures
    energy = (f"{of.joules:.3g}", f"{of.cost:.4g}" if of.cost else "-") if of is not None else ("", "")
    return (one.name, one.state, *_figures(of), *energy, _word(one))


def _figures(of: Measures | None) -> Sequence[Any]:
    if of is None:
        return ("", "", "", "", "", "")
    drop = f"{of.drop * 100:+.2f} %"
    return (f"{of.times:.2f}", drop, f"{of.p50_ms:.3g}", f"{of.p99_ms:.3g}", size_told(of.size), size_told(of.memory))


def _word(one: Variant) -> str:
    if one.reason:
        return one.reason if len(one.reason) < 120 else one.reason[:117] + "..."
    return "best" if one.best else "on the front" if one.on_front else ""


def certificate_shown(layout: Layout, it: Certificate) -> None:
    document: dict[str, Any] = it.document
    verdict = "fit" if it.fit else "NOT fit"
    holds = "valid" if it.valid else "not valid"
    layout.line(f"{it.variant.model} v{it.variant.version}, variant {it.variant.name}: {verdict}, {holds}.")
    for problem in (*it.problems, *it.reasons):
        layout.line(f"  {problem}")
    if not document:
        return
    quality, latency, data = document["quality"], document["latency"], document["data"]
    layout.pairs(_certificate_pairs(it, document, quality, latency, data))
    layout.table(
        ("rows of", "rows", "original", "variant", "drop", "at most", "allowed", "chance", ""),
        (_group(one, it.task) for one in (quality["overall"], *quality["slices"])),
    )
    if quality["scores"]:
        layout.line("What scores charge its probabilities, from 0, sure and right, to 1, sure and wrong:")
        layout.table(
            ("rows of", "rows", "original", "variant", "drop", "at most", "allowed", "chance", ""),
            (_group(one | {"name": f"{one['name']}, {SCORES[one['by']]}"}, "scores") for one in quality["scores"]),
        )


def _certificate_pairs(it: Certificate, document: Any, quality: Any, latency: Any, data: Any) -> list[tuple[str, Any]]:
    held, learnt, variant = data["held_out"], data["learnt_from"], latency["variant"]
    apart = " (three tenths, set apart)" if held["set_apart"] else ""
    return [
        ("issued", it.issued),
        (
            "original",
            f"converted from {made_from}" if (made_from := document["model"]["converted"]) else "as it was registered",
        ),
        ("steps", " -> ".join(document["variant"]["steps"])),
        ("what was done", "\n".join(document["variant"]["notes"]) or "-"),
        ("judged on", f"{held['dataset']}@{held['version']}{apart}, {held['rows']:,} rows, digest {held['digest'][:16]}"),
        ("learnt from", f"{learnt['dataset']}@{learnt['version']}, {learnt['rows']:,} rows, digest {learnt['digest'][:16]}"),
        ("judged before it", _before(document)),
        ("answers", document["task"]["read_as"]),
        ("agreement", f"{float(quality['agreement']):.2%} of the rows have the same answer"),
        ("worst slice", quality["worst_slice"] or "-"),
        ("calibration error", _calibration(quality["calibration"])),
        ("latency", _latency(variant)),
        ("original's", _latency(latency["original"])),
        ("ran on", " against ".join(RAN_ON[latency[side].get("device", "")] for side in ("variant", "original"))),
        ("rows a second", f"{variant['rows_per_s']} against {latency['original']['rows_per_s']}"),
        ("host", document["host"].get("shown", "-")),
        ("with", ", ".join(document["host"].get("libraries", ())) or "-"),
        ("confidence", f"{document['limits']['confidence']} over all that are tried, {document['sure']} for this one"),
        ("certificate", it.digest),
    ]


def _calibration(of: dict[str, Any]) -> str:
    """Below nothing where there are no probabilities, or nobody knows the truth."""
    known = float(of["original"]) >= 0 and float(of["variant"]) >= 0
    return f"{of['original']} -> {of['variant']}" if known else "-"


def _before(document: dict[str, Any]) -> str:
    return (
        f"{document['judged_before']} variants of this version on the same rows, {document['refused_before']} of them refused"
    )


def _latency(of: dict[str, Any]) -> str:
    half, nearly = (f"{of[f'{name}_ms']} ms ({of[f'{name}_low']} to {of[f'{name}_high']})" for name in ("p50", "p99"))
    return f"{half}, 99 of 100 within {nearly}"


def _group(one: dict[str, Any], task: str) -> Sequence[Any]:
    scale, unit = (100, " %") if task == "classes" else (1, "")
    shares = [f"{float(one[name]) * scale:.5g}{unit}" for name in ("original", "variant")]
    drops = [_share(float(one[name])) for name in ("drop", "high", "margin")]
    return (one["name"], one["rows"], *shares, *drops, one["chance"], "ok" if one["ok"] else "NOT SHOWN")


def _share(share: float) -> str:
    """Nothing where too few rows tell nothing, or where there is no error to have a share of."""
    return f"{share * 100:.2f} %" if math.isfinite(share) else "-"
