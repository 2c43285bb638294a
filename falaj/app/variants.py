"""What `optimisation` made and certified, as `serving` takes it: the two are siblings and do not know each other."""

from collections.abc import Sequence

from falaj.database.work import Context
from falaj.optimisation.certifying import Served
from falaj.optimisation.deployable import Deployable
from falaj.registry.sources import SourceFile
from falaj.registry.store.tables import Found
from falaj.serving.forms import Form, columns_of
from falaj.serving.variants import VariantForm


class OptimisedVariants:
    """Implements serving's `Variants`."""

    def __init__(self, deployable: Deployable) -> None:
        self._deployable = deployable

    def named(self, context: Context, version: Found, name: str) -> VariantForm:
        return _form(self._deployable.named(context, version, name), version)

    def certified(self, context: Context, version: Found) -> Sequence[VariantForm]:
        return tuple(_form(one, version) for one in self._deployable.certified(context, version))


def _form(one: Served, version: Found) -> VariantForm:
    files = tuple(SourceFile(name=file.name, blob=file.blob, size=file.size, digest=file.digest) for file in one.files)
    latency, original = (one.document.get("latency", {}).get(whose, {}) for whose in ("variant", "original"))
    single, single_original = float(latency.get("p50_ms", 0.0)), float(original.get("p50_ms", 0.0))
    limits = one.document.get("limits", {})
    return VariantForm(
        id=one.row.id,
        name=one.row.name,
        form=Form(
            runtime=one.made["runtime"], file=one.made["file"], files=files, columns=columns_of(version.inputs), remarks=()
        ),
        settings=one.made["settings"],
        certified=bool(one.certificate),
        problem=one.problem,
        host=one.document.get("host", {}).get("kind", ""),
        host_shown=one.document.get("host", {}).get("shown", ""),
        latency_ms=single,
        latency_limit_ms=float(limits.get("latency_ms", 0.0)),
        throughput=one.times,
        single_row=single_original / single if single > 0 else 1.0,
        certificate=one.certificate,
        max_drop=float(limits.get("max_drop", 1.0)),
        max_slice_drop=float(limits.get("max_slice_drop", 1.0)),
        truth_known=bool(one.document.get("task", {}).get("label")),
    )
