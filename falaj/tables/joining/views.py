"""What a feature view takes from its rows: frozen values without a data library, for both sides of a data worker's walls.

A row is a candidate for a label of moment t iff its event <= t and its knowledge <= t (and event > t - time to live, where
there is one). A row or label whose key or time is null matches nothing.
"""

from typing import Annotated, Literal

from falaj.base.errors import Invalid
from falaj.base.values import Items, Message, Range, Text, value
from falaj.tables.schemas import listed

Function = Literal["last", "count", "sum", "mean", "min", "max", "distinct"]
LongEnough = Annotated[str, Text(shortest=1, longest=500)]
NameOrNone = Annotated[str, Text(longest=500)]
Period = Annotated[int, Range(least=1, most=2**62)]


@value
class Key(Message):
    """One column of an entity's key in the view's rows; `label` is what labels call it, where they call it otherwise."""

    column: LongEnough
    label: NameOrNone = ""

    @property
    def in_labels(self) -> str:
        return self.label or self.column


@value
class Feature(Message):
    """One column of the result. `period` are microseconds: of the candidates, those with an event in (t - period, t].

    last      the value of the candidate with the greatest (event, knowledge, position): null where that one is null
    count     how many candidates have a value, or without a `column` how many there are
    sum       exact, rounded once at the end, so that no order of rows can change a bit; of integers an int64
    mean      that exact sum as a float64, divided by the count
    min, max  NaN where one is among them, as for the sum; -0.0 is less than 0.0
    distinct  how many different values; every NaN is one and the same, and so are -0.0 and 0.0

    All but `last` skip nulls. Without any value counts are 0 and everything else is null.
    """

    name: LongEnough
    column: NameOrNone = ""
    function: Function = "last"
    period: Period | None = None


@value
class View(Message):
    """`known` is the column that says when a row became known; without one each piece of the rows says it for all of its own.
    `time_to_live` are microseconds."""

    name: LongEnough
    keys: Annotated[tuple[Key, ...], Items(least=1, most=50)]
    event: LongEnough
    known: NameOrNone = ""
    features: Annotated[tuple[Feature, ...], Items(least=1, most=5_000)]
    time_to_live: Period | None = None

    def period_of(self, feature: Feature) -> int | None:
        """No window reaches beyond the time to live."""
        return min((one for one in (feature.period, self.time_to_live) if one is not None), default=None)

    def columns(self) -> tuple[str, ...]:
        """What has to be read of its rows, each once."""
        features = [feature.column for feature in self.features]
        named = [*(key.column for key in self.keys), self.event, self.known, *features]
        return tuple(dict.fromkeys(name for name in named if name))


def checked(view: View) -> View:
    """Raises `Invalid` for what cannot be computed whatever the columns are."""
    names = [feature.name for feature in view.features]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise Invalid(f"View {view.name!r} has more than one feature called {listed(tuple(twice))}: rename them.")
    for feature in view.features:
        if not feature.column and feature.function != "count":
            raise Invalid(f"Feature {feature.name!r} is the {feature.function} of no column: name one. Only count needs none.")
    for what, period in [("time to live", view.time_to_live), *((feature.name, feature.period) for feature in view.features)]:
        if period is not None and period <= 0:
            raise Invalid(f"View {view.name!r} has for {what!r} the period {period} µs: it must be longer than nothing.")
    return view
