"""Rows as messages, and finding what a caller names: only ever within his project."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from falaj.base.clock import SECOND, Moment
from falaj.base.errors import NotFound
from falaj.database.work import Context
from falaj.datasets.operations.classes import PERSONAL
from falaj.datasets.operations.words import READ
from falaj.jobs.operations.jobs import REPORT
from falaj.jobs.store import attempts
from falaj.operations.messages import adapter
from falaj.optimisation.fronts import front
from falaj.optimisation.names import WITH_FILES, place
from falaj.optimisation.operations.optimisations import ColumnTaken, Optimisation, PlanOptimisation, Profile
from falaj.optimisation.operations.variants import Variant
from falaj.optimisation.operations.words import OPTIMISE, SEE, DataSeen, FileSeen, Host, Measures, Setting
from falaj.optimisation.store import optimisations as store
from falaj.optimisation.store import variants as variant_store
from falaj.optimisation.store.tables import Found
from falaj.registry.operations.versions import GET_VERSION_FILE
from falaj.registry.servable import STRICT
from falaj.registry.store import versions as version_store
from falaj.registry.views import required_version


def required_optimisation(context: Context, id: str, *, hold: bool = False) -> Found:
    found = store.find(context.work, context.required_project.id, id, hold=hold)
    if found is None:
        raise NotFound(f"There is no optimisation {id} here.")
    return found


def version_of(context: Context, optimisation: Found) -> Found:
    """The very version that is optimised, whatever its model is called today: another may have got its name since."""
    found = version_store.find_by_id(context.work, context.required_project.id, optimisation.version_id)
    if found is None:
        raise NotFound(f"Version {optimisation.version} of {optimisation.model_name!r}, which is optimised, was deleted.")
    return found


def student_of(context: Context, optimisation: Found) -> Found:
    """The very version that is taught."""
    pinned = json.loads(optimisation.pinned)
    found = version_store.find_by_id(context.work, context.required_project.id, pinned.get("student_version_id", ""))
    if found is None:
        raise NotFound(f"The student {pinned['student_of']}, which is taught, was deleted.")
    return found


def required_candidate(context: Context, optimisation: Found, name: str) -> Found:
    """Held: what it is and who has it is decided by whoever holds it."""
    found = variant_store.find(context.work, optimisation.id, name, hold=True)
    if found is None:
        raise NotFound(f"Optimisation {optimisation.id} has no candidate {name!r}.")
    return found


def required_variant(context: Context, model: str, version: int, name: str) -> Found:
    """Of those of that name, the one it means; see `names`."""
    of = required_version(context, model, version)
    rows = variant_store.named(context.work, of.id, name)
    chosen = in_place(row for row in rows if row.state in WITH_FILES)
    if not chosen:
        there = sorted({row.name for row in variant_store.of_version(context.work, of.id) if row.state in WITH_FILES})
        known = f"There are {', '.join(there)}." if there else "It has none yet: `falaj optimise` makes them."
        raise NotFound(f"Version {version} of {model!r} has no variant {name!r}. {known}")
    return chosen[0]


def in_place(rows: Iterable[Found]) -> list[Found]:
    """Those that names mean before others first; otherwise as they are."""
    return sorted(rows, key=lambda row: place(row.state, _max_drop(row)))


def _max_drop(row: Found) -> float:
    return float(json.loads(row.request)["limits"]["max_drop"])


def optimisation_shown(context: Context, row: Found) -> Optimisation:
    return optimisations_shown(context, [row])[0]


def optimisations_shown(context: Context, rows: Sequence[Found]) -> tuple[Optimisation, ...]:
    """A fixed number of queries, however many there are."""
    variants = variant_store.of_optimisations(context.work, [row.id for row in rows])
    shown = variants_shown(context, variants)
    by_owner: dict[str, list[Variant]] = {}
    for one in shown:
        by_owner.setdefault(one.optimisation, []).append(one)
    spent, refused = _spent(context, rows), variant_store.refused_on(context.work, {row.version_id for row in rows})
    return tuple(
        _shown(row, tuple(by_owner.get(row.id, ())), spent[row.id], refused.get((row.version_id, row.held_out), 0))
        for row in rows
    )


def _spent(context: Context, rows: Sequence[Found]) -> dict[str, float]:
    """Seconds that the tries of its jobs took that are over."""
    jobs = {row.id: json.loads(row.found).get("jobs", []) for row in rows}
    took = attempts.took(context.work, context.required_project.id, {job for mine in jobs.values() for job in mine})
    return {id: sum(took.get(job, 0) for job in mine) / SECOND for id, mine in jobs.items()}


def _shown(row: Found, variants: tuple[Variant, ...], spent: float, refused: int) -> Optimisation:
    asked: PlanOptimisation = adapter(PlanOptimisation).validate_json(row.request)
    pinned, found = json.loads(row.pinned), json.loads(row.found)
    needed = (OPTIMISE.name, SEE.name, READ.name, REPORT.name, GET_VERSION_FILE.permission.name)
    return Optimisation(
        id=row.id,
        model=row.model_name,
        version=row.version,
        version_id=row.version_id,
        on=_data(pinned["on"]),
        held_out=_data(pinned["held_out"]),
        label=asked.label,
        slices=asked.slices,
        target=asked.target,
        limits=asked.limits,
        only=asked.only,
        certify=asked.certify,
        seconds=asked.seconds,
        runtime=pinned["runtime"],
        file=pinned["file"],
        columns=tuple(ColumnTaken(**one) for one in pinned["columns"]),
        files=tuple(_file(one) for one in pinned["files"]),
        student=tuple(_file(one) for one in pinned["student"]),
        student_file=pinned["student_file"],
        price=pinned["price"] / 1e6,
        gpu_price=pinned.get("gpu_price", 0) / 1e6,
        permissions=(*needed, PERSONAL.name) if row.classified else needed,
        spent=spent,
        refused_before=refused,
        state=row.state,
        created=Moment(row.created),
        created_by=row.created_by,
        ended=None if row.ended is None else Moment(row.ended),
        host=_read(Host, found.get("host")),
        profile=_read(Profile, found.get("profile")),
        baseline=_read(Measures, found.get("baseline")),
        task=found.get("task", "classes"),
        rows=tuple(found.get("rows", ())),
        remarks=tuple(found.get("remarks", ())),
        variants=variants,
    )


def _read(kind: Any, told: Any) -> Any:
    return None if told is None else adapter(kind).validate_json(json.dumps(told))


def _data(one: dict[str, Any]) -> DataSeen:
    return DataSeen(dataset=one["dataset"], version=one["version"], digest=one["digest"])


def _file(one: dict[str, Any]) -> FileSeen:
    return FileSeen(name=one["name"], size=one["size"], digest=one["digest"])


def variants_shown(context: Context, rows: Sequence[Found], *, of_versions: bool = False) -> tuple[Variant, ...]:
    """Rows as `store.variants` reads them, with what their certificates say. The best is that of each search, or by
    `of_versions` of each version, however often that was searched."""
    files = variant_store.files_of(context.work, [row.id for row in rows])
    measures = {row.id: adapter(Measures).validate_json(row.measures) for row in rows if row.measures}
    on_front, best = set[str](), set[str]()
    sizes = store.sizes(context.work, {row.optimisation for row in rows})
    for optimisation, size in sizes.items():
        mine = [row for row in rows if row.optimisation == optimisation and row.id in measures]
        on_front |= front(
            {row.id: measures[row.id] for row in mine if row.state in WITH_FILES and row.state != "refused"}, size
        )
    certified: dict[str, list[Found]] = {}
    for row in rows:
        if row.state == "certified" and row.id in measures:
            certified.setdefault(row.version_id if of_versions else row.optimisation, []).append(row)
    for those in certified.values():  # what was proven closely goes first, as where something is to be served
        best.add(max(those, key=lambda row: (_max_drop(row) <= STRICT, measures[row.id].times, row.id)).id)
    return tuple(
        _variant(row, files.get(row.id, ()), measures.get(row.id), on_front=row.id in on_front, best=row.id in best)
        for row in rows
    )


def _variant(row: Found, files: Sequence[Found], measures: Measures | None, *, on_front: bool, best: bool) -> Variant:
    made = json.loads(row.made)
    return Variant(
        id=row.id,
        name=row.name,
        optimisation=row.optimisation,
        model=row.model_name,
        version=row.version,
        steps=tuple(json.loads(row.steps)),
        why=row.why,
        state=row.state,
        reason=row.reason,
        runtime=made.get("runtime", ""),
        file=made.get("file", ""),
        files=tuple(FileSeen(name=file.name, size=file.size, digest=file.digest) for file in files),
        settings=tuple(Setting(name=name, value=value) for name, value in sorted(made.get("settings", {}).items())),
        notes=tuple(made.get("notes", ())),
        measures=measures,
        max_drop=_max_drop(row),
        certificate=row.certificate if row.fit else "",
        on_front=on_front,
        best=best,
        settled=None if row.settled is None else Moment(row.settled),
    )
