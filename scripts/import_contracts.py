"""Contracts that import-linter does not bring: who may need what from outside. `pyproject.toml` names them."""

import sys
from typing import Any

from grimp import ImportGraph
from importlinter.application import contract_utils, output
from importlinter.domain import fields
from importlinter.domain.contract import Contract, ContractCheck
from importlinter.domain.imports import ModuleExpression

Finding = tuple[str, str]  # a module of ours, and what is wrong with it
# The fields of a contract are `Any`: a class holds a description of the field, its objects what pyproject.toml says.


def ours(graph: ImportGraph, expressions: set[ModuleExpression]) -> set[str]:
    return {module for expression in expressions for module in graph.find_matching_modules(expression.expression)}


def importers(graph: ImportGraph, package: str) -> set[str]:
    """Our modules that import the package or a part of it. The graph knows outside packages by their top name only."""
    top = package.partition(".")[0]
    if top not in graph.modules:
        return set()
    found = set()
    for importer in graph.find_modules_that_directly_import(top):
        lines = [detail["line_contents"] for detail in graph.get_import_details(importer=importer, imported=top)]
        if package == top or any(package in line.replace(" import ", ".") for line in lines):
            found.add(importer)
    return found


class Checked(Contract):
    """The part the three contracts share: findings are told one to a line."""

    def findings(self, graph: ImportGraph) -> list[Finding]:
        raise NotImplementedError

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        findings = self.findings(graph)
        return ContractCheck(kept=not findings, metadata={"findings": findings})

    def render_broken_contract(self, check: ContractCheck) -> None:
        for module, what in check.metadata["findings"]:
            output.print_error(f"{module} {what}")
        output.new_line()


class NeedsOnly(Checked):
    """The modules need nothing from outside but the standard library and `allowed`, directly or through others of ours."""

    type_name = "needs_only"
    modules: Any = fields.SetField(subfield=fields.ModuleExpressionField())
    allowed: Any = fields.SetField(subfield=fields.StringField(), required=False, default=set())
    ignore_imports: Any = fields.SetField(subfield=fields.ImportExpressionField(), required=False, default=set())

    def findings(self, graph: ImportGraph) -> list[Finding]:
        contract_utils.remove_ignored_imports(graph, self.ignore_imports, contract_utils.AlertLevel.NONE)
        inside = {module for module in graph.modules if module.partition(".")[0] == "falaj"}
        harmless = inside | set(sys.stdlib_module_names) | self.allowed
        found = []
        for module in sorted(ours(graph, self.modules) & inside):
            for package in sorted(graph.find_upstream_modules(module) - harmless):
                chain = graph.find_shortest_chain(importer=module, imported=package) or (module, package)
                found.append((module, f"needs {package}: " + " -> ".join(chain)))
        return found


class OneHome(Checked):
    """Each package is imported by one module at most, those that stand `apart` not counted."""

    type_name = "one_home"
    packages: Any = fields.SetField(subfield=fields.StringField())
    apart: Any = fields.SetField(subfield=fields.ModuleExpressionField(), required=False, default=set())

    def findings(self, graph: ImportGraph) -> list[Finding]:
        apart = ours(graph, self.apart)
        homes = {package: sorted(importers(graph, package) - apart) for package in sorted(self.packages)}
        return [(package, f"is imported by {', '.join(found)}") for package, found in homes.items() if len(found) > 1]


class OnlyIn(Checked):
    """The packages are imported by these modules alone."""

    type_name = "only_in"
    packages: Any = fields.SetField(subfield=fields.StringField())
    modules: Any = fields.SetField(subfield=fields.ModuleExpressionField())

    def findings(self, graph: ImportGraph) -> list[Finding]:
        allowed = ours(graph, self.modules)
        return [
            (module, f"imports {package}")
            for package in sorted(self.packages)
            for module in sorted(importers(graph, package) - allowed)
        ]
