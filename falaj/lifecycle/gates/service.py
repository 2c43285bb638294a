"""Defining gates, and saying which are required for which alias."""

from falaj.base.clock import Moment
from falaj.base.errors import NotFound
from falaj.database.binding import Bound, bind
from falaj.database.work import Context
from falaj.lifecycle.gates.definitions import check_defined, check_together, completed, digest_of, read, written
from falaj.lifecycle.operations import gates as declared
from falaj.lifecycle.operations.gates import Defined, Gates, Requirement
from falaj.registry.promotions import check_alias
from falaj.registry.store import evidence as store
from falaj.registry.store.tables import Found
from falaj.registry.views import people


class GateService:
    def bindings(self) -> list[Bound]:
        return [
            bind(declared.APPLY_GATES, self.apply),
            bind(declared.LIST_GATES, lambda context, _request: _shown(context)),
            bind(declared.SHOW_GATE, self.show),
            bind(declared.REQUIRE_GATES, self.require),
        ]

    def apply(self, context: Context, request: declared.ApplyGates) -> Gates:
        project = context.required_project.id
        check_together(request.gates, request.require)
        wanted = {gate.name: completed(gate) for gate in request.gates}
        there = store.gates_of(context.work, project)
        for name in there.keys() - wanted.keys():
            store.forget(context.work, project, name)
        changed = {}
        for name, gate in wanted.items():
            text, digest = written(gate), digest_of(gate)
            if name not in there or there[name].definition != text:
                changed[name] = digest
                store.define(
                    context.work,
                    {
                        "project": project,
                        "name": name,
                        "definition": text,
                        "digest": digest,
                        "changed": int(context.now),
                        "changed_by": context.identity.principal,
                    },
                )
        store.require_nothing(context.work, project)
        for one in request.require:
            check_alias(one.alias)
            store.require(context.work, project, one.model, one.alias, one.gates)
        context.facts.update(gates={name: digest_of(gate) for name, gate in wanted.items()}, changed=sorted(changed))
        return _shown(context)

    def show(self, context: Context, request: declared.OneGate) -> Defined:
        row = store.gates_of(context.work, context.required_project.id).get(request.gate)
        if row is None:
            raise NotFound(f"There is no gate {request.gate!r} here; `falaj gate list` shows those there are.")
        return _defined(context, [row])[0]

    def require(self, context: Context, request: declared.Require) -> Gates:
        project = context.required_project.id
        check_alias(request.alias)
        check_defined(request.gates, list(store.gates_of(context.work, project)))
        store.require(context.work, project, request.model, request.alias, request.gates)
        return _shown(context)


def _shown(context: Context) -> Gates:
    project = context.required_project.id
    needed: dict[tuple[str, str], list[str]] = {}
    for row in store.requirements_of(context.work, project):
        needed.setdefault((row.model, row.alias), []).append(row.gate)
    require = tuple(Requirement(model=model, alias=alias, gates=tuple(names)) for (model, alias), names in needed.items())
    return Gates(items=_defined(context, list(store.gates_of(context.work, project).values())), require=require)


def _defined(context: Context, rows: list[Found]) -> tuple[Defined, ...]:
    persons = people(context.work, {row.changed_by for row in rows})
    return tuple(
        Defined(
            gate=read(row.definition),
            digest=row.digest,
            changed=Moment(row.changed),
            changed_by=persons[row.changed_by],
        )
        for row in rows
    )
