"""An optimisation for the pages to show: planned by the platform's own operation, what its job would tell put where it would be
put, and certificates judged and signed as any."""

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from falaj.base.ids import new_id
from falaj.database.work import Context, UnitOfWork
from falaj.lineage.graph import Node, link
from falaj.operations.messages import adapter
from falaj.optimisation.certifying import Certifier
from falaj.optimisation.operations import optimisations, variants
from falaj.optimisation.operations.words import Host, Measures
from falaj.optimisation.store import optimisations as store
from falaj.optimisation.store import variants as variant_store
from falaj.registry.views import required_version
from falaj.storage.operations import BLOB_PUT, PutBlob
from tests.web import stored, tracked
from tests.web.conftest import Site

MODEL = "card-fraud"
JOB = "d" * 32
Res = TypeVar("Res")


def data(site: Site) -> None:
    """Rows to learn from, and rows to judge on."""
    for name, last in (("train", 1.0), ("test", 2.0)):
        stored.write(site, f"age,n,s,late,origin\n1.5,2,{last},0,JFK\n2.5,3,{last},1,LGA\n".encode(), name)


def register(site: Site, model: str = MODEL) -> Any:
    """A version that is served as it is, and data for it."""
    data(site)
    return tracked.register(site, tracked.run(site, 0, "trained"), model)


def plan(site: Site, version: Any, **more: Any) -> optimisations.Optimisation:
    given: dict[str, Any] = {"on": "train@1", "held_out": "test@1", "label": "late", "slices": ("origin",)}
    request = optimisations.PlanOptimisation(project="fraud", model=version.model, version=version.version, **(given | more))
    planned: optimisations.Optimisation = site.call(optimisations.PLAN_OPTIMISATION, request)
    return planned


def measures(times: float = 1.0, drop: float = 0.0, size: int = 400_000) -> Measures:
    return Measures(
        drop=drop,
        times=times,
        rows_per_s=20_000 * times,
        batch=64,
        p50_ms=0.42 / times,
        p50_low=0.40 / times,
        p50_high=0.45 / times,
        p99_ms=0.81 / times,
        p99_low=0.77 / times,
        p99_high=0.93 / times,
        size=size,
        memory=9_000_000,
        joules=1.75 / times,
        energy="estimated from CPU seconds",
        cost=0.02 / times,
    )


def within(site: Site, do: Callable[[Context], Res]) -> Res:
    """In a transaction, as the owner in his project."""
    gate, clock = site.platform.gate, site.platform.clock

    def run(work: UnitOfWork) -> Res:
        who = gate.authenticate(work, site.owner, clock.now())
        asked = variants.ListVariants(project="fraud", model=MODEL)
        grant = gate.authorise(work, who, variants.LIST_VARIANTS, asked)
        now = clock.now()
        return do(Context(work=work, identity=who, project=grant.project, now=now, request_id="r", facts={}))

    return site.platform.database.write(run)


def describe(
    site: Site,
    planned: optimisations.Optimisation,
    *,
    remarks: tuple[str, ...] = (),
    host: str = "Xeon, AVX2",
    task: str = "classes",
) -> None:
    """What its job finds before it makes anything."""
    profile = optimisations.Profile(family="trees", parameters=1200, opset=0, operators=("300 trees",))
    told = {
        name: adapter(type(one)).dump_python(one, mode="json")
        for name, one in (("host", Host(kind="x86", shown=host)), ("profile", profile), ("baseline", measures()))
    }
    told |= {"task": task, "rows": [8000, 2000, 10_000], "remarks": list(remarks)}
    within(site, lambda context: store.describe(context.work, planned.id, json.dumps(told)))


def candidate(
    site: Site,
    planned: optimisations.Optimisation,
    name: str,
    *,
    state: str = "planned",
    steps: tuple[str, ...] = ("int8",),
    why: str = "",
    reason: str = "",
    of: Measures | None = None,
    notes: tuple[str, ...] = (),
    file: bytes = b"",
) -> str:
    """A candidate as its job would have left it; its id."""
    id = new_id(site.platform.clock.now())
    blob = site.call(BLOB_PUT, PutBlob(project="fraud", name="model.onnx"), data=file) if file else None
    made = {"runtime": "onnx", "file": "model.onnx", "settings": {"threads": "1"}, "notes": list(notes)} if of else {}

    def add(context: Context) -> None:
        row = {
            "id": id,
            "project": context.required_project.id,
            "optimisation": planned.id,
            "version_id": planned.version_id,
            "place": len(variant_store.of_optimisations(context.work, [planned.id])),
            "name": name,
            "steps": json.dumps(list(steps)),
            "why": why,
            "state": state,
            "reason": reason,
            "made": json.dumps(made),
            "measures": adapter(Measures).dump_json(of).decode() if of else "",
            "job": JOB,
            "tries": 1,
            "settled": context.now,
        }
        variant_store.add(context.work, [row])
        if blob is not None:
            kept = {"name": "model.onnx", "blob": blob.id, "size": blob.size, "digest": blob.digest}
            variant_store.put_file(context.work, {"variant": id, **kept})
            label = f"{planned.model} v{planned.version}"
            link(
                context.work,
                project=context.required_project.id,
                source=Node(kind="version", id=planned.version_id, label=label),
                target=Node(kind="variant", id=id, label=f"{label} {name}"),
                relation="optimised",
                now=context.now,
            )

    within(site, add)
    return id


def group(name: str, rows: int, lost: int, won: int = 0) -> variants.Group:
    return variants.Group(name=name, rows=rows, both=rows - lost - won - 10, original=lost, variant=won, neither=10)


def certify(
    site: Site, planned: optimisations.Optimisation, name: str, of: Measures, *groups: variants.Group, **more: Any
) -> None:
    """Judged by these counts, signed, and kept with what came out."""
    evidence = variants.CertifyVariant(
        project="fraud",
        optimisation=planned.id,
        job=JOB,
        variant=name,
        groups=groups,
        measures=of,
        original_measures=measures(),
        **(
            {
                "agreement": 0.9991,
                "apart": 0.002,
                "calibration_error": 0.021,
                "original_calibration_error": 0.02,
                "calibration": "c" * 64,
                "calibration_rows": 512,
                "read_as": "the class with the highest probability",
            }
            | more
        ),
    )

    def judge(context: Context) -> None:
        version = required_version(context, planned.model, planned.version)
        found = store.find(context.work, context.required_project.id, planned.id)
        row = variant_store.find(context.work, planned.id, name)
        assert found is not None
        assert row is not None
        state, reason = Certifier(site.platform.signers).certify(context, found, row, version, evidence)
        variant_store.change(context.work, row.id, state=state, reason=reason)

    within(site, judge)


def finish(site: Site, planned: optimisations.Optimisation) -> None:
    def end(context: Context) -> None:
        found = store.find(context.work, context.required_project.id, planned.id)
        assert found is not None
        store.end(context.work, planned.id, store.DONE, found.found, context.now)

    within(site, end)


def searched(site: Site, version: Any, **words: Any) -> tuple[optimisations.Optimisation, Mapping[str, str]]:
    """A whole search: two certified, one refused, one made, one dropped, one skipped; their ids by name."""
    planned = plan(site, version)
    describe(site, planned, remarks=words.get("remarks", ()), host=words.get("host", "Xeon, AVX2"))
    fast, small, poor, slow, bad = (
        measures(2.41, 0.001, 120_000),
        measures(1.60, -0.0005, 60_000),
        measures(3.10, 0.03, 50_000),
        measures(1.10, 0.0, 390_000),
        measures(4.00, 0.61, 40_000),
    )
    text = words.get("text", "fewer bits, calibrated")
    ids = {
        "int8": candidate(site, planned, "int8", why=text, of=fast, state="made", notes=(text,), file=b"fast"),
        "trimmed": candidate(site, planned, "trimmed", steps=("trees:0.5",), of=small, state="made", file=b"small"),
        "pruned": candidate(site, planned, "pruned", steps=("prune:0.9", "int8"), of=poor, state="made", file=b"poor"),
        "folded": candidate(site, planned, "folded", steps=("fold",), of=slow, state="made", file=b"slow"),
        "distilled": candidate(
            site, planned, "distilled", of=bad, state="dropped", reason=words.get("text", "too much is lost")
        ),
        "bf16": candidate(site, planned, "bf16", state="skipped", reason=words.get("text", "this host has no bfloat16")),
    }
    slices = words.get("slices", ("origin=JFK", "origin=LGA"))
    held = [group(name, 5000, 2, 1) for name in slices]
    certify(site, planned, "int8", fast, group("", 10_000, 14, 4), *held)
    certify(site, planned, "trimmed", small, group("", 10_000, 3, 8), *held)
    certify(site, planned, "pruned", poor, group("", 10_000, 310, 10), *(group(name, 5000, 160, 5) for name in slices))
    finish(site, planned)
    return planned, ids
