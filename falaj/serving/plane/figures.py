"""What the workers of a host did, put together: since the last report for the control plane, since the start for Prometheus."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from falaj.serving.latencies import BOUNDS, quantile
from falaj.serving.latencies import added as latencies_added
from falaj.serving.operations.loads import PlaneLoad
from falaj.serving.operations.planes import CallReport, PinnedReport, RevisionReport, RungReport
from falaj.serving.states import Endpoint

_IDLE: Final = PlaneLoad()
ENOUGH: Final = 20  # calls, for a p99 to say something
MOST_CALLS: Final = 5000  # that wait to be told of; of more, the oldest are dropped
_CALLS_OF_A_REPORT: Final = 128 * 1024  # characters; escaped they take six times as much, and a request may have one MiB
_BESIDES: Final = 500  # what a call takes beside those
_COUNTS: Final = ("requests", "errors", "shed", "rows", "batches", "compared", "differed", "aside", "unlogged")
_HELP: Final = {
    "requests": "Predictions that were asked for.",
    "errors": "Predictions that failed.",
    "shed": "Predictions that were refused early, for want of time.",
    "rows": "Rows that were predicted.",
    "batches": "Times that the model ran.",
    "compared": "Answers of a shadow that were held against the live ones.",
    "differed": "Answers of a shadow that differed.",
    "aside": "Predictions that went to a second place with the same model, because the first was behind.",
    "unlogged": "Predictions that were to be logged and were not, because too many waited.",
}


def added(before: RevisionReport | None, more: RevisionReport) -> RevisionReport:
    """Two stretches of one revision as one; what is no count is as the later one says."""
    if before is None:
        return more
    return replace(
        more,
        cold_start_ms=more.cold_start_ms or before.cold_start_ms,
        rungs=_rungs_added(before.rungs, more.rungs),
        pinned=_pinned_added(before.pinned, more.pinned),
        **_sums(before, more),
    )


def whole(one: RevisionReport) -> RevisionReport:
    """All calls that it had, whoever chose the revision."""
    return one if one.pinned is None else replace(one, **_sums(one, one.pinned))


def _pinned_added(before: PinnedReport | None, more: PinnedReport | None) -> PinnedReport | None:
    return before or more if before is None or more is None else PinnedReport(**_sums(before, more))


def _sums(one: RevisionReport | PinnedReport, other: RevisionReport | PinnedReport) -> dict[str, Any]:
    longer, shorter = sorted((one.latencies, other.latencies), key=len, reverse=True)
    latencies = tuple(a + b for a, b in zip(longer, (*shorter, *[0] * (len(longer) - len(shorter))), strict=True))
    return {"latencies": latencies} | {name: getattr(one, name) + getattr(other, name) for name in _COUNTS}


def _rungs_added(before: tuple[RungReport, ...], more: tuple[RungReport, ...]) -> tuple[RungReport, ...]:
    """What one worker remarks another need not: whoever has something to say is heard."""
    known = {one.name: one for one in before}
    return tuple(
        replace(
            one,
            requests=one.requests + known[one.name].requests,
            falls=one.falls + known[one.name].falls,
            latency=one.latency or known[one.name].latency,
            remark=one.remark or known[one.name].remark,
        )
        if one.name in known
        else one
        for one in more
    )


class Figures:
    """Gathers. `take` gives what was gathered for the control plane away; the totals stay."""

    def __init__(self) -> None:
        self._since: dict[tuple[str, int], RevisionReport] = {}
        self._total: dict[tuple[str, int], RevisionReport] = {}
        self._lately: dict[tuple[str, int], tuple[int, ...]] = {}  # latencies
        self._calls: list[CallReport] = []
        self._taps: dict[str, tuple[int, int, int]] = {}  # batches seen and missed, and failures

    def gather(
        self, revisions: Iterable[RevisionReport], calls: Iterable[CallReport], taps: Mapping[str, tuple[int, int, int]] = {}
    ) -> None:
        for one in revisions:
            key = one.endpoint, one.revision
            self._since[key] = added(self._since.get(key), one)
            self._total[key] = added(self._total.get(key), one)
            self._lately[key] = latencies_added([self._lately.get(key, ()), whole(one).latencies])
        waiting = [*self._calls, *calls]
        dropped, self._calls = waiting[:-MOST_CALLS], waiting[-MOST_CALLS:]
        for (endpoint, revision), count in Counter((one.endpoint, one.revision) for one in dropped).items():
            for gathered in (self._since, self._total):
                one = gathered.get((endpoint, revision)) or RevisionReport(endpoint=endpoint, revision=revision, ready=False)
                gathered[endpoint, revision] = replace(one, unlogged=one.unlogged + count)
        for name, (seen, missed, failed) in taps.items():
            before = self._taps.get(name, (0, 0, 0))
            self._taps[name] = before[0] + seen, before[1] + missed, before[2] + failed

    def take(self) -> tuple[list[RevisionReport], tuple[CallReport, ...]]:
        """What one report has room for; calls beyond that are in the next ones."""
        gathered, fits = list(self._since.values()), _fitting(self._calls)
        calls, self._since, self._calls = tuple(self._calls[:fits]), {}, self._calls[fits:]
        return gathered, calls

    @property
    def calls(self) -> int:
        """That wait to be told of."""
        return len(self._calls)

    def shed(self) -> int:
        """So far, over all endpoints."""
        return sum(whole(one).shed for one in self._total.values())

    def late(self, endpoints: Iterable[Endpoint]) -> float:
        """The p99 since this was last asked over the objective, of the endpoint that does worst by that."""
        lately, self._lately, worst = self._lately, {}, 0.0
        for endpoint in endpoints:
            live = [arm.revision for arm in endpoint.arms if arm.role == "live"]
            counts = latencies_added(lately.get((endpoint.id, revision), ()) for revision in live)
            if sum(counts) >= ENOUGH:
                worst = max(worst, quantile(counts, 0.99) / (endpoint.latency_ms / 1000))
        return worst

    def text(
        self,
        seen: Iterable[Endpoint],
        *,
        workers: int,
        serial: int,
        load: PlaneLoad = _IDLE,
        waiting: Mapping[tuple[str, int], int] = {},
        standing: Mapping[tuple[str, int, str], int] = {},
    ) -> str:
        """About the host, and about the endpoints that the reader may see. `waiting` are rows by endpoint and revision;
        `standing` counts the workers that answer by a rung of a ladder, by endpoint, revision and the rung's name."""
        endpoints = {endpoint.id: endpoint for endpoint in seen}
        known = [(endpoints[id], whole(one)) for (id, _), one in sorted(self._total.items()) if id in endpoints]
        lines = [
            "# HELP falaj_plane_workers Worker processes of this host.",
            "# TYPE falaj_plane_workers gauge",
            f"falaj_plane_workers {workers}",
            "# HELP falaj_plane_state_serial The state that this host serves by.",
            "# TYPE falaj_plane_state_serial gauge",
            f"falaj_plane_state_serial {serial}",
        ]
        lines += _load_shown(load)
        lines += _taps_shown(self._taps)
        for name in _COUNTS:
            lines += [f"# HELP falaj_serving_{name}_total {_HELP[name]}", f"# TYPE falaj_serving_{name}_total counter"]
            lines += [f"falaj_serving_{name}_total{{{_labels(of, one)}}} {getattr(one, name)}" for of, one in known]
        lines += [
            "# HELP falaj_serving_pinned_total Predictions, of all that were asked for, whose caller chose the revision.",
            "# TYPE falaj_serving_pinned_total counter",
        ]
        pinned = [(_labels(of, one), one.pinned.requests if one.pinned else 0) for of, one in known]
        lines += [f"falaj_serving_pinned_total{{{labels}}} {count}" for labels, count in pinned]
        lines += [
            "# HELP falaj_serving_cold_start_seconds How long it took to load the model the last time.",
            "# TYPE falaj_serving_cold_start_seconds gauge",
        ]
        loaded = [(_labels(of, one), one.cold_start_ms / 1000) for of, one in known if one.cold_start_ms]
        lines += [f"falaj_serving_cold_start_seconds{{{labels}}} {seconds:.6g}" for labels, seconds in loaded]
        lines += _waiting_shown(endpoints, waiting)
        lines += _rungs_shown(known, standing)
        lines += ["# HELP falaj_serving_seconds How long callers waited.", "# TYPE falaj_serving_seconds histogram"]
        for of, one in known:
            lines += _histogram(_labels(of, one), one.latencies)
        return "\n".join(lines) + "\n"


def _fitting(calls: list[CallReport]) -> int:
    room = _CALLS_OF_A_REPORT
    for count, call in enumerate(calls):
        room -= len(call.inputs) + len(call.outputs) + len(call.looked) + _BESIDES
        if room < 0:
            return count
    return len(calls)


def _load_shown(load: PlaneLoad) -> list[str]:
    """Of GPUs as many as there are, by their number; how busy one is only where it says so."""
    cards = [(f'{{card="{number}"}}', card) for number, card in enumerate(load.cards)]
    shown: list[tuple[str, str, list[tuple[str, float | None]]]] = [
        ("busy_share", "How much of a core each worker used of late, on average.", [("", load.busy)]),
        ("calls_in_hand", "Calls that were let in and not answered yet.", [("", load.calls)]),
        ("rows_waiting", "Rows that wait for a model, or are in it.", [("", load.rows)]),
        ("gpu_busy_share", "How much of the time the GPU computes.", [(which, card.busy) for which, card in cards]),
        ("gpu_memory_bytes", "Memory of the GPU.", [(which, card.memory_mib << 20) for which, card in cards]),
        ("gpu_memory_used_bytes", "What is taken of it.", [(which, card.memory_used_mib << 20) for which, card in cards]),
    ]
    lines = []
    for name, words, told in shown:
        if told:
            lines += [f"# HELP falaj_plane_{name} {words}", f"# TYPE falaj_plane_{name} gauge"]
            lines += [f"falaj_plane_{name}{which} {number}" for which, number in told if number is not None]
    return lines


def _waiting_shown(endpoints: Mapping[str, Endpoint], waiting: Mapping[tuple[str, int], int]) -> list[str]:
    lines = [
        "# HELP falaj_serving_rows_waiting Rows that wait for the model, or are in it.",
        "# TYPE falaj_serving_rows_waiting gauge",
    ]
    for (id, revision), rows in sorted(waiting.items()):
        labels = f'project="{endpoints[id].project_name}",endpoint="{endpoints[id].name}",revision="{revision}"'
        lines.append(f"falaj_serving_rows_waiting{{{labels}}} {rows}")
    return lines


def _taps_shown(taps: Mapping[str, tuple[int, int, int]]) -> list[str]:
    lines = []
    kinds = (("seen", "Batches that a tap saw."), ("missed", "Batches it was too slow for."), ("failed", "Times it failed."))
    for place, (kind, words) in enumerate(kinds if taps else ()):
        lines += [f"# HELP falaj_plane_tap_{kind}_total {words}", f"# TYPE falaj_plane_tap_{kind}_total counter"]
        lines += [f'falaj_plane_tap_{kind}_total{{tap="{name}"}} {counts[place]}' for name, counts in sorted(taps.items())]
    return lines


def _rungs_shown(known: Sequence[tuple[Endpoint, RevisionReport]], standing: Mapping[tuple[str, int, str], int]) -> list[str]:
    rungs = [(f'{_labels(of, one)},variant="{rung.name}"', of, one, rung) for of, one in known for rung in one.rungs]
    if not rungs:
        return []
    lines = []
    for name, words in (("requests", "Predictions answered by a form of a revision."), ("falls", "Times a worker fell to it.")):
        lines += [f"# HELP falaj_serving_rung_{name}_total {words}", f"# TYPE falaj_serving_rung_{name}_total counter"]
        lines += [f"falaj_serving_rung_{name}_total{{{labels}}} {getattr(rung, name)}" for labels, _, _, rung in rungs]
    lines += [
        "# HELP falaj_serving_rung_workers Workers that answer by it now.",
        "# TYPE falaj_serving_rung_workers gauge",
    ]
    lines += [
        f"falaj_serving_rung_workers{{{labels}}} {standing[of.id, one.revision, rung.name]}"
        for labels, of, one, rung in rungs
        if (of.id, one.revision, rung.name) in standing
    ]
    return lines


def _labels(endpoint: Endpoint, one: RevisionReport) -> str:
    return f'project="{endpoint.project_name}",endpoint="{endpoint.name}",revision="{one.revision}"'


def _histogram(labels: str, counts: tuple[int, ...]) -> list[str]:
    lines, so_far = [], 0
    for bound, count in zip(BOUNDS, counts, strict=False):
        so_far += count
        lines.append(f'falaj_serving_seconds_bucket{{{labels},le="{bound:.6g}"}} {so_far}')
    total = sum(counts)
    return [
        *lines,
        f'falaj_serving_seconds_bucket{{{labels},le="+Inf"}} {total}',
        f"falaj_serving_seconds_count{{{labels}}} {total}",
    ]
