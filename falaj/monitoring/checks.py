"""Checks of one dataset version against another: counted by data workers, judged by `checking`."""

from falaj.database.binding import Bound, bind_prepared
from falaj.database.work import Context
from falaj.datasets.reading import ReadService
from falaj.monitoring.binning import bins_of, countable, settled, with_bins
from falaj.monitoring.checking import Apart, Checked, checked, comparable, rows_apart, schema_changes
from falaj.monitoring.deciding import Rule
from falaj.monitoring.operations import checks as declared
from falaj.monitoring.operations.words import Told
from falaj.monitoring.references import ALWAYS, MOST_KINDS, RANKS, Reference


class CheckService:
    def __init__(self, reading: ReadService) -> None:
        self._reading = reading

    def bindings(self) -> list[Bound]:
        return [bind_prepared(declared.CHECK_VERSION, self.check, _told)]

    def check(self, context: Context, request: declared.CheckVersion) -> declared.Check:
        reading, sampled = self._reading, request.sampled
        reference, before = reading.columns(context, request.reference)
        dataset, after = reading.columns(context, request.dataset)
        names = [name for name in before.names if name not in request.ignore]
        found = reading.survey(context, reference, countable(before, names), ranks=RANKS, kinds=MOST_KINDS, sampled=sampled)
        shared = comparable(with_bins(before, found), before, after)
        columns = settled(shared, reading.count(context, reference, bins_of(shared)))
        counts = {name: some[ALWAYS] for name, some in reading.count(context, dataset, bins_of(columns)).items() if some}
        rule = Rule(floor=request.floor, one_in=request.one_in * (2 if sampled else 1))  # the columns' half, and the rows'
        verdicts = checked(Reference(key="", source=reference, columns=columns), counts, rule)
        together = None
        if sampled and columns:
            now = reading.survey(context, dataset, [one.name for one in columns], sampled=sampled)
            together = rows_apart(columns, found, now, rule)
        context.facts.update(reference=reference, dataset=dataset)
        drifting = [one.outcome.column for one in verdicts if one.outcome.drifting]
        return declared.Check(
            dataset=dataset,
            reference=reference,
            rows=max((sum(some) for some in counts.values()), default=0),
            reference_rows=max((one.rows for one in columns), default=0),
            columns=tuple(_column(one) for one in verdicts),
            changed=schema_changes(before, after, request.ignore),
            uncounted=tuple(name for name in names if name not in {one.outcome.column for one in verdicts}),
            together=None if together is None else _together(together),
            drifting=bool(drifting) or (together is not None and together.drifting),
            sentence=_sentence(verdicts, together),
        )


def _told(_: Context, __: object, found: declared.Check) -> declared.Check:
    return found


def _column(one: Checked) -> declared.CheckedColumn:
    outcome = one.outcome
    told = Told(
        column=outcome.column,
        effect=outcome.effect,
        evidence=outcome.evidence,
        missing=outcome.missing,
        outside=outcome.outside,
        drifting=outcome.drifting,
    )
    return declared.CheckedColumn(told=told, distances=one.distances)


def _together(apart: Apart) -> declared.RowsApart:
    columns = tuple(declared.ColumnWeight(column=name, weight=weight) for name, weight in apart.named)
    return declared.RowsApart(rows=apart.rows, area=apart.area, chance=apart.chance, columns=columns, drifting=apart.drifting)


def _sentence(verdicts: list[Checked], together: Apart | None) -> str:
    if not verdicts:
        return "There is no column that both have and that could be counted, or no row."
    drifting = [one.outcome for one in verdicts if one.outcome.drifting]
    if drifting:
        named = ", ".join(f"{one.column} ({one.effect:.2f})" for one in drifting[:5])
        more = f" and {len(drifting) - 5} more" if len(drifting) > 5 else ""
        return f"{len(drifting)} of {len(verdicts)} columns drifted: {named}{more}."
    if together is not None and together.drifting:
        named = ", ".join(name for name, _ in together.named)
        return f"No column drifted by itself, but rows are told apart by all of them together, most of all by {named}."
    furthest = verdicts[0].outcome
    return f"None of {len(verdicts)} columns drifted; the furthest is {furthest.column} ({furthest.effect:.2f})."
