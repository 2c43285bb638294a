"""Which form of a version is deployed: its own or a variant, and which faster variants stand behind it."""

from dataclasses import replace
from typing import Final

from falaj.base.errors import Conflict
from falaj.base.values import value
from falaj.database.work import Context
from falaj.registry.servable import STRICT
from falaj.registry.store.tables import Found
from falaj.serving.forms import Form, columns_of
from falaj.serving.operations.words import ORIGINAL
from falaj.serving.variants import BEST, VariantForm, Variants, best_of, rungs_of

_SLOWER: Final = 0.8  # of the original's speed, for single rows: whoever deploys it is told


@value
class Picked:
    """`variant` is None for the version's own form; `rungs` are faster ones, the fastest last. `remarks` are for whoever
    deploys."""

    variant: VariantForm | None = None
    rungs: tuple[VariantForm, ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def variants(self) -> tuple[VariantForm, ...]:
        return self.rungs if self.variant is None else (self.variant, *self.rungs)


class Choosing:
    """Thread-safe. Without `variants` there are none, and whoever asks for one is told so."""

    def __init__(self, variants: Variants | None) -> None:
        self._variants = variants

    def pick(self, context: Context, version: Found, name: str, *, ladder: bool) -> Picked:
        """By a variant's name, `best`, or nothing for the original. Raises `NotFound` and `Conflict` with what to do."""
        if name in ("", ORIGINAL) and not ladder:
            return Picked()
        if self._variants is None:
            raise Conflict(
                "This platform makes no variants of models; deploy the version as it is, without variant and ladder."
            )
        variant = None
        if name == BEST:
            variant = best_of(self._variants.certified(context, version))
            if variant is None:
                raise Conflict(_none(version))
        elif name not in ("", ORIGINAL):
            variant = self._variants.named(context, version, name)
        remarks = () if variant is None else _remarks(version, variant, chosen=name == BEST)
        if not ladder:
            return Picked(variant=variant, remarks=remarks)
        behind = [one for one in self._variants.certified(context, version) if variant is None or one.id != variant.id]
        first = 1.0 if variant is None else variant.throughput
        rungs = rungs_of([one for one in behind if one.strict], first)
        loose = () if rungs else rungs_of([one for one in behind if one.certified], first)
        return Picked(variant=variant, rungs=rungs, remarks=(*remarks, _about(version, variant, rungs, loose)))

    def check_again(self, context: Context, version: Found, picked: Picked) -> None:
        """In the transaction: what was picked before it is still there, and as well proven."""
        for one in picked.variants:
            now = None if self._variants is None else self._variants.named(context, version, one.id)
            if now != one:
                lost = now is not None and one.certified and not now.certified
                why = f"its certificate holds no more: {now.problem}" if lost and now is not None else "it is another one now."
                raise Conflict(f"The variant {one.name!r} changed while it was deployed, {why} Deploy again.")


def form_of(version: Found, variant: VariantForm) -> Form:
    form = variant.form
    return form if form.columns else replace(form, columns=columns_of(version.inputs))


def _none(version: Found) -> str:
    return (
        f"Version {version.number} of {version.model_name!r} has no certified variant: `falaj optimise "
        f"{version.model_name}:{version.number} --on DATASET` makes them."
    )


def _remarks(version: Found, variant: VariantForm, *, chosen: bool) -> tuple[str, ...]:
    """`chosen` by the platform, not by name."""
    if not variant.certified:
        return (_uncertified(version, variant),)
    told = []
    if chosen and not variant.strict:
        allows = f"its certificate allows {variant.max_drop:.2%} to be lost"
        closer = f"none of this version was certified for {STRICT:.0%} or less"
        told.append(f"{variant.name!r} is the fastest certified variant, but {allows}; {closer}.")
    if chosen and variant.throughput < 1:
        told.append(
            f"{variant.name!r} is the fastest certified variant, and slower than the original: it answered "
            f"{variant.throughput:.2f} times as many rows in the same time."
        )
    if variant.single_row < _SLOWER:
        told.append(
            f"Asked for one row at a time, {variant.name!r} takes {1 / variant.single_row:.1f} times as long as the original "
            f"({variant.latency_ms:.3g} ms): it is made for many rows at once."
        )
    return tuple(told)


def _uncertified(version: Found, variant: VariantForm) -> str:
    return (
        f"The variant {variant.name!r} of {version.model_name} version {version.number} has no certificate that holds: "
        f"{variant.problem or 'it was never certified.'} `falaj model certificate` shows what is proven of it, and "
        "`falaj optimise` makes variants with certificates."
    )


def _about(version: Found, variant: VariantForm | None, rungs: tuple[VariantForm, ...], loose: tuple[VariantForm, ...]) -> str:
    """`loose` are those that were left out because their certificates allow too much."""
    first = ORIGINAL if variant is None else variant.name
    if rungs:
        told = ", ".join(f"{one.name} ({one.throughput:.1f} times the original)" for one in rungs)
        return f"While {first} is overloaded, these answer, one after the other: {told}."
    if loose:
        told = ", ".join(f"{one.name} ({one.max_drop:.2%})" for one in loose)
        return (
            f"{first!r} has no ladder: what is faster, {told}, is certified for a larger loss than the {STRICT:.0%} that a "
            "ladder takes. `falaj optimise --max-drop 0.5%` certifies more closely."
        )
    advice = (
        "`falaj optimise` makes variants." if variant is None else "Without --variant, faster ones stand behind the original."
    )
    return (
        f"No certified variant of {version.model_name} version {version.number} is clearly faster than {first!r}, so it "
        f"has no ladder. {advice}"
    )
