"""Evidence of gates: kept with its version and in the ledger, and what of it a promotion goes by."""

import json
from typing import Any

import pytest
from sqlalchemy import select

from falaj.base.errors import Forbidden, NotFound
from falaj.database.work import UnitOfWork
from falaj.governance.ledger.store import leaves
from falaj.governance.roles import Role
from falaj.registry.evidence import LARGEST, Judgement, put_down, shown_by
from falaj.registry.operations import versions
from falaj.registry.operations.evidence import READ_EVIDENCE, Evidence, ReadEvidence
from falaj.registry.operations.models import RENAME_MODEL, RenameModel
from falaj.registry.operations.promotions import SET_STAGE, SetStage
from falaj.registry.store import evidence as store
from falaj.registry.store import tables
from falaj.registry.store import versions as version_store
from tests.registry.platform import PROJECT, Platform

OWNER = "0" * 32
NEEDS_QUALITY = """forbid (principal, action in [Action::"deploy"], resource) when {
  context has promotion && context.promotion.alias == "champion" && !context.promotion.gates.containsAll(["quality", "whole"])
};"""


class Gated:
    """A model of three versions in a project with two gates."""

    def __init__(self, platform: Platform) -> None:
        self.platform = platform
        platform.model()
        for _ in range(3):
            platform.register()
        self.define(quality="a" * 64, whole="b" * 64)

    def define(self, **gates: str) -> None:
        def write(work: UnitOfWork) -> None:
            project = self.platform.context(work).required_project.id
            for name in store.gates_of(work, project):
                store.forget(work, project, name)
            for name, digest in gates.items():
                row = {
                    "project": project,
                    "name": name,
                    "definition": "{}",
                    "digest": digest,
                    "changed": 1,
                    "changed_by": OWNER,
                }
                store.define(work, row)

        self.platform.database.write(write)

    def require(self, alias: str, *names: str, model: str = "") -> None:
        self.platform.database.write(
            lambda work: store.require(work, self.platform.context(work).required_project.id, model, alias, names)
        )

    def found(self, version: int, gate: str, *, passed: bool = True, digest: str = "", **more: Any) -> None:
        usual: dict[str, Any] = {
            "definition": digest or {"quality": "a" * 64, "whole": "b" * 64}[gate],
            "words": "It is so." if passed else "It is worse by 3 points.",
            "document": {"rows": 100},
        }
        judgement = Judgement(gate=gate, passed=passed, by=OWNER, **(usual | more))

        def write(work: UnitOfWork) -> None:
            project = self.platform.context(work).required_project.id
            row = version_store.find(work, project, "fraud", version)
            assert row is not None
            now = self.platform.clock.now()
            put_down(work, project=PROJECT, version=row, judgement=judgement, identity=None, now=now)

        self.platform.database.write(write)

    def evidence(self, version: int, token: str = "", **fields: Any) -> tuple[Evidence, ...]:
        request = ReadEvidence(project=PROJECT, model="fraud", version=version, **fields)
        return self.platform.call(READ_EVIDENCE, request, token).items

    def shown(self, version: int) -> tuple[str, ...]:
        def look(work: UnitOfWork) -> tuple[str, ...]:
            row = version_store.find(work, self.platform.context(work).required_project.id, "fraud", version)
            assert row is not None
            return shown_by(work, row).passed

        return self.platform.database.read(look)


@pytest.fixture
def gated(platform: Platform) -> Gated:
    return Gated(platform)


@pytest.fixture
def one(small: Platform) -> Gated:
    return Gated(small)


def test_evidence_is_listed_with_its_figures_and_whether_it_counts(gated: Gated) -> None:
    gated.found(1, "quality", passed=False)
    gated.found(1, "quality")
    gated.found(1, "whole", digest="c" * 64)
    told = gated.evidence(1)
    assert [(item.gate, item.passed, item.current, item.counts) for item in told] == [
        ("whole", True, False, False),
        ("quality", True, True, True),
        ("quality", False, True, False),
    ]
    assert json.loads(told[1].document) == {"rows": 100}
    assert [item.gate for item in gated.evidence(1, gate="whole")] == ["whole"]
    first = gated.platform.call(READ_EVIDENCE, ReadEvidence(project=PROJECT, model="fraud", version=1, limit=2))
    request = ReadEvidence(project=PROJECT, model="fraud", version=1, limit=2, cursor=first.next)
    assert len(gated.platform.call(READ_EVIDENCE, request).items) == 1
    assert gated.evidence(2) == ()


def test_every_piece_is_in_the_ledger_with_the_digest_of_its_figures(gated: Gated) -> None:
    gated.found(1, "quality")
    gated.platform.sequence()
    (told,) = gated.evidence(1)
    recorded = gated.platform.database.read(lambda work: work.execute(select(leaves.c.record)).scalars().all())
    (leaf,) = [one for one in map(json.loads, recorded) if one["operation"] == "version.judge"]
    assert leaf["facts"]["digest"] == told.digest
    assert (leaf["facts"]["gate"], leaf["facts"]["passed"], leaf["facts"]["evidence"]) == ("quality", True, told.id)


def test_figures_that_are_too_many_to_be_kept_have_not_passed(one: Gated) -> None:
    one.found(1, "quality", document={"rows": ["x" * 100] * (LARGEST // 100)})
    (told,) = one.evidence(1)
    assert (told.passed, one.shown(1)) == (False, ())
    assert "65536 are the most" in told.document


def test_only_the_newest_under_the_present_definition_counts(gated: Gated) -> None:
    gated.found(1, "quality")
    gated.found(1, "whole")
    assert gated.shown(1) == ("quality", "whole")
    gated.found(1, "quality", passed=False)
    assert gated.shown(1) == ("whole",)
    gated.found(1, "quality")
    gated.define(quality="d" * 64, whole="b" * 64)
    assert gated.shown(1) == ("whole",)
    gated.define(quality="a" * 64)  # as it was: what it showed then it shows still; the other is no gate any more
    assert gated.shown(1) == ("quality",)


def test_evidence_of_one_version_says_nothing_of_another(one: Gated) -> None:
    one.found(1, "quality")
    assert (one.shown(1), one.shown(2)) == (("quality",), ())
    one.platform.project("other")
    with pytest.raises(NotFound):
        one.platform.call(READ_EVIDENCE, ReadEvidence(project="other", model="fraud", version=1))


def test_what_was_held_against_a_champion_of_the_past_counts_no_more(gated: Gated) -> None:
    gated.found(2, "quality", against_alias="champion", against=0)
    assert gated.shown(2) == ("quality",)
    gated.platform.promote(1)
    assert gated.shown(2) == ()
    gated.found(2, "quality", against_alias="champion", against=1)
    gated.platform.promote(2)
    assert gated.shown(2) == ("quality",)  # it is the champion itself
    gated.platform.promote(3)
    assert gated.shown(2) == ()


def test_a_promotion_without_a_required_gate_is_refused_and_says_what_is_missing(gated: Gated) -> None:
    gated.require("champion", "quality", "whole")
    gated.found(1, "whole")
    with pytest.raises(Forbidden, match="lacks the gates that are needed: quality was not run as it is defined now") as refused:
        gated.platform.promote(1)
    assert refused.value.rule == "gates.required"
    gated.found(1, "quality", passed=False)
    with pytest.raises(Forbidden, match=r"quality was not passed \(It is worse by 3 points\)"):
        gated.platform.promote(1)
    assert gated.platform.promote(1, alias="challenger").state == "done"
    gated.found(1, "quality")
    assert gated.platform.promote(1).state == "done"
    with pytest.raises(Forbidden, match="quality was not run as it is defined now; whole was not run"):
        gated.platform.promote(2)


def test_a_required_gate_that_nobody_defines_any_more_is_missing(one: Gated) -> None:
    one.require("champion", "quality")
    one.found(1, "quality")
    one.define(whole="b" * 64)
    with pytest.raises(Forbidden, match="quality is not defined"):
        one.platform.promote(1)


def test_gates_are_required_of_one_model_of_a_stage_and_however_the_alias_is_spelled(one: Gated) -> None:
    one.require("Production", "whole", model="fraud")
    stage = SetStage(project=PROJECT, model="fraud", version=1, stage="Production")
    with pytest.raises(Forbidden, match="whole"):
        one.platform.call(SET_STAGE, stage)
    one.require("champion", "whole", model="another")
    assert one.platform.promote(1).state == "done"
    one.platform.remove()
    one.require("champion", "whole")
    with pytest.raises(Forbidden, match="whole"):
        one.platform.promote(1, alias="Champion")
    one.found(1, "whole")
    assert one.platform.call(SET_STAGE, stage).state == "done"


def test_a_rule_of_policy_may_speak_of_gates(gated: Gated) -> None:
    gated.platform.policy(NEEDS_QUALITY, "gated")
    gated.found(1, "quality")
    with pytest.raises(Forbidden, match=r"project/gated\. It lacks the gates that are needed: whole was not run") as refused:
        gated.platform.promote(1)
    assert refused.value.rule == "project/gated"
    gated.found(1, "whole")
    assert gated.platform.promote(1).state == "done"
    assert gated.platform.remove().state == "done"  # what ends a use has nothing to show


def test_going_back_does_not_wait_for_gates_that_were_added_or_changed_since(gated: Gated) -> None:
    gated.platform.policy(NEEDS_QUALITY, "gated")
    for version in (1, 2):
        for gate in ("quality", "whole"):
            gated.found(version, gate)
        gated.platform.promote(version)
    gated.define(quality="d" * 64, whole="e" * 64, fair="f" * 64)
    gated.require("champion", "quality", "fair")
    with pytest.raises(Forbidden):
        gated.platform.promote(1)
    assert gated.platform.rollback().version == 1


def test_a_model_is_not_renamed_into_what_needs_gates(one: Gated) -> None:
    one.require("champion", "quality", model="guarded")
    one.platform.promote(1)
    rename = RenameModel(project=PROJECT, model="fraud", name="guarded")
    with pytest.raises(Forbidden, match="for which the gates quality are needed"):
        one.platform.call(RENAME_MODEL, rename)
    one.found(1, "quality")
    assert one.platform.call(RENAME_MODEL, rename).name == "guarded"


def test_evidence_outlives_its_version(one: Gated) -> None:
    one.found(3, "quality")
    one.platform.call(versions.DELETE_VERSION, one.platform.one(3))
    with pytest.raises(NotFound):
        one.evidence(3)
    kept = one.platform.database.read(lambda work: work.execute(select(tables.evidence.c.gate)).scalars().all())
    assert kept == ["quality"]


def test_a_viewer_reads_evidence_and_a_stranger_does_not(one: Gated) -> None:
    one.found(1, "quality")
    assert len(one.evidence(1, one.platform.person("vera", Role.VIEWER))) == 1
    with pytest.raises(NotFound):
        one.evidence(1, one.platform.person("sami"))
