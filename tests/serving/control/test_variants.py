"""Deploying variants of versions: which files answer, what policy says to it, what planes are told and tell."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import update

from falaj.base.errors import Conflict, Corrupt, Forbidden, NotFound
from falaj.governance.roles import Role
from falaj.lineage.operations import SHOW_GRAPH, ShowGraph
from falaj.registry.sources import SourceFile
from falaj.serving.choosing import Choosing
from falaj.serving.deploying import DeploymentService
from falaj.serving.forms import Form
from falaj.serving.operations import endpoints as declared
from falaj.serving.operations import exports as exported
from falaj.serving.operations.planes import Latency, RungReport
from falaj.serving.states import Revision, decode
from falaj.serving.store.tables import rung_files
from falaj.serving.variants import MOST_RUNGS, VariantForm, rungs_of
from falaj.storage.operations import BLOB_PUT, BLOB_SHRED, OneBlob, PutBlob
from tests.serving.control.conftest import Opener
from tests.serving.control.platform import ONNX, PROJECT, Platform, live, said
from tests.serving.control.test_deploying import approve

HERE = Latency(p50_ms=0.71, p50_low=0.7, p50_high=0.73, p99_ms=0.85, p99_low=0.82, p99_high=0.95)


class Shelf:
    """Variants as somebody made them; `changed` takes the place of what is asked for in the transaction."""

    def __init__(self, platform: Platform) -> None:
        self.platform = platform
        self.variants: dict[str, VariantForm] = {}
        self.asked = 0
        self.changed: dict[str, VariantForm | None] = {}
        (service,) = (one for one in platform.app.serving._services if isinstance(one, DeploymentService))
        service._choosing = Choosing(self)

    def put(self, name: str, throughput: float, content: bytes = b"", **changed: Any) -> VariantForm:
        content = content or f"variant {name}".encode()
        blob = self.platform.call(BLOB_PUT, PutBlob(project=PROJECT, name=name), data=content)
        file = SourceFile(name="model.onnx", blob=blob.id, size=blob.size, digest=blob.digest)
        made = VariantForm(
            id=f"{len(self.variants):032x}",
            name=name,
            form=Form(runtime="onnx", file="model.onnx", files=(file,)),
            settings={"threads": "1"},
            certified=True,
            host="a kind",
            host_shown="Some CPU, 2 cores",
            latency_ms=0.4,
            throughput=throughput,
            certificate="c" * 64,
            max_drop=0.005,
            max_slice_drop=0.02,
            truth_known=True,
        )
        self.variants[name] = replace(made, **changed)
        return self.variants[name]

    def named(self, context: Any, version: Any, name: str) -> VariantForm:
        self.asked += 1
        name = next((one.name for one in self.variants.values() if one.id == name), name)
        found = self.changed.get(name, self.variants.get(name)) if self.asked > 1 else self.variants.get(name)
        if found is None:
            raise NotFound(f"There is no variant {name!r}, only {', '.join(self.variants)}.")
        return found

    def certified(self, context: Any, version: Any) -> Sequence[VariantForm]:
        self.asked += 1
        return [one for one in self.variants.values() if one.certified]


@pytest.fixture
def shelf(small: Platform) -> Shelf:
    small.register()
    return Shelf(small)


def drawn(platform: Platform) -> Revision:
    (endpoint,) = platform.plane(f"p{platform.clock.now()}").state().endpoints
    return endpoint.revisions[-1]


def test_a_variant_is_deployed_with_its_own_files_and_settings_and_is_remembered(platform: Platform) -> None:
    platform.register()
    shelf = Shelf(platform)
    variant = shelf.put("int8", 2.5)
    made = platform.deploy(1, variant="best")
    (revision,) = made.endpoint.revisions
    assert (revision.variant, revision.certificate, revision.ladder) == ("int8", "c" * 64, ())
    plane = platform.plane()
    (endpoint,) = plane.state().endpoints
    told = endpoint.revisions[0]
    assert (told.variant, told.settings, told.host, told.latency_ms, told.ladder) == (
        "int8",
        {"threads": "1"},
        "a kind",
        0.4,
        (),
    )
    assert plane.fetch(told.id, "model.onnx") == b"variant int8"
    (leaf,) = platform.leaves("endpoint.deploy")
    assert (leaf.facts["variant"], leaf.facts["variant_id"], leaf.facts["certificate"]) == ("int8", variant.id, "c" * 64)
    listed = platform.call(declared.READ_REVISIONS, declared.ReadRevisions(project=PROJECT, endpoint="scores")).items
    assert [one.variant for one in listed] == ["int8"]


def test_whoever_deploys_what_is_made_for_many_rows_at_once_is_told_what_a_single_one_takes(shelf: Shelf) -> None:
    shelf.put("masks", 5.0, single_row=0.25, latency_ms=1.6)
    made = shelf.platform.deploy(1, variant="best")
    assert "one row at a time, 'masks' takes 4.0 times as long as the original (1.6 ms)" in " ".join(made.remarks)


def test_a_ladder_goes_along_and_is_signed_fetched_and_kept_with_the_revision(platform: Platform) -> None:
    version = platform.register()
    shelf = Shelf(platform)
    slow, fast = shelf.put("int8", 2.0), shelf.put("tiny", 5.0)
    made = platform.deploy(1, ladder=True)
    assert "int8 (2.0 times the original), tiny (5.0 times the original)" in " ".join(made.remarks)
    (revision,) = made.endpoint.revisions
    assert [(one.name, one.throughput, one.host) for one in revision.ladder] == [
        ("original", 0.0, ""),
        ("int8", 2.0, "Some CPU, 2 cores"),
        ("tiny", 5.0, "Some CPU, 2 cores"),
    ]
    plane = platform.plane()
    (endpoint,) = plane.state().endpoints
    told = endpoint.revisions[0]
    assert [rung.name for rung in told.ladder] == ["int8", "tiny"]
    contents = {file.name: plane.fetch(told.id, file.name) for file in told.all_files}
    assert contents == {
        "model.onnx": ONNX,
        "ladder/1/model.onnx": b"variant int8",
        "ladder/2/model.onnx": b"variant tiny",
    }
    assert [rung.file for rung in told.ladder] == ["ladder/1/model.onnx", "ladder/2/model.onnx"]
    (leaf,) = platform.leaves("endpoint.deploy")
    assert leaf.facts["ladder"] == [slow.id, fast.id]
    graph = platform.call(SHOW_GRAPH, ShowGraph(project=PROJECT, kind="version", id=version.id, direction="down"))
    assert made.endpoint.id in {node.id for node in graph.nodes}
    request = ShowGraph(project=PROJECT, kind="endpoint", id=made.endpoint.id, direction="up")
    assert {slow.id, fast.id} <= {node.id for node in platform.call(SHOW_GRAPH, request).nodes if node.kind == "variant"}
    platform.call(declared.DELETE_ENDPOINT, declared.OneEndpoint(project=PROJECT, endpoint="scores"))
    assert plane.state().endpoints == ()


def test_a_rungs_files_are_called_differently_from_any_file_of_the_revision(small: Platform) -> None:
    small.register(files={"ladder/1/model.onnx": ONNX})
    shelf = Shelf(small)
    shelf.put("int8", 2.0)
    small.deploy(1, ladder=True)
    names = [file.name for file in drawn(small).all_files]
    assert names == ["ladder/1/model.onnx", "_ladder/1/model.onnx"]


def test_only_variants_that_are_clearly_faster_become_rungs_and_not_too_many(shelf: Shelf) -> None:
    made = [shelf.put(f"v{number}", throughput) for number, throughput in enumerate((1.1, 1.5, 1.6, 2.5, 2.9, 4.0, 9.0))]
    assert [one.throughput for one in rungs_of(made, 1.0)] == [2.5, 4.0, 9.0]
    assert len(rungs_of(made, 1.0)) == MOST_RUNGS
    assert [one.throughput for one in rungs_of(made, 4.0)] == [9.0]
    assert rungs_of(made, 9.0) == ()
    made = shelf.platform.deploy(1, variant="best", ladder=True)
    assert "is clearly faster than 'v6', so it has no ladder. Without --variant" in " ".join(made.remarks)
    assert made.endpoint.revisions[0].ladder == ()


def test_a_variant_that_is_not_there_is_told_with_those_that_are(shelf: Shelf) -> None:
    with pytest.raises(Conflict, match="no certified variant"):
        shelf.platform.deploy(1, variant="best")
    shelf.put("int8", 2.0)
    with pytest.raises(NotFound, match="only int8"):
        shelf.platform.deploy(1, variant="int4")
    assert shelf.platform.deploy(1, variant="original").endpoint.revisions[0].variant == ""


def test_a_platform_without_variants_says_so(small: Platform) -> None:
    small.register()
    (service,) = (one for one in small.app.serving._services if isinstance(one, DeploymentService))
    service._choosing = Choosing(None)
    with pytest.raises(Conflict, match="makes no variants"):
        small.deploy(1, variant="best")
    assert small.deploy(1).revision == 1


@pytest.mark.parametrize("ladder", [False, True])
def test_a_variant_that_changes_while_it_is_deployed_is_refused(shelf: Shelf, ladder: bool) -> None:
    before = shelf.put("int8", 2.0)
    wish = {"ladder": True} if ladder else {"variant": "int8"}
    for now, why in (
        (
            replace(before, certified=False, problem="Its key was revoked."),
            "its certificate holds no more: Its key was revoked",
        ),
        (replace(before, id="f" * 32), "it is another one now"),
    ):
        shelf.asked, shelf.changed = 0, {"int8": now}
        with pytest.raises(Conflict, match=why):
            shelf.platform.deploy(1, **wish)
    shelf.asked, shelf.changed = 0, {"int8": None}
    with pytest.raises(NotFound):
        shelf.platform.deploy(1, **wish)
    with pytest.raises(NotFound):
        shelf.platform.show()


def test_a_variant_whose_files_were_changed_or_shredded_is_refused(shelf: Shelf) -> None:
    variant = shelf.put("int8", 2.0)
    (file,) = variant.form.files
    other = replace(variant.form, files=(replace(file, digest="0" * 64),))
    shelf.variants["int8"] = replace(variant, form=other)
    for wish in ({"variant": "int8"}, {"ladder": True}):
        with pytest.raises(Corrupt, match="not what was made"):
            shelf.platform.deploy(1, **wish)
    shelf.variants["int8"] = variant
    shelf.platform.call(BLOB_SHRED, OneBlob(project=PROJECT, blob=file.blob))
    with pytest.raises(Conflict, match="was shredded"):
        shelf.platform.deploy(1, variant="int8")


def test_a_rung_that_was_changed_in_the_database_reaches_no_plane(shelf: Shelf) -> None:
    shelf.put("int8", 2.0)
    shelf.platform.deploy(1, ladder=True)
    poison = shelf.platform.call(BLOB_PUT, PutBlob(project=PROJECT, name="x"), data=b"poison")
    changed = update(rung_files).values(blob=poison.id, size=poison.size, digest=poison.digest)
    shelf.platform.app.database.write(lambda work: work.execute(changed))
    plane = shelf.platform.plane()
    (endpoint,) = plane.state().endpoints
    with pytest.raises(Corrupt, match="not what was signed"):
        plane.fetch(endpoint.revisions[0].id, "ladder/1/model.onnx")


def test_what_leaves_for_other_hosts_is_the_variant_without_the_ladder(shelf: Shelf) -> None:
    shelf.put("int8", 2.0)
    shelf.put("tiny", 5.0)
    shelf.platform.deploy(1, variant="int8", ladder=True)
    request = exported.ReadBundle(project=PROJECT, endpoint="scores")
    bundle = shelf.platform.call(exported.READ_BUNDLE, request)
    (endpoint,) = decode(bundle.state.body.encode()).endpoints
    (revision,) = endpoint.revisions
    assert (revision.variant, revision.settings, revision.ladder) == ("int8", {"threads": "1"}, ())
    assert [file.name for file in revision.all_files] == ["model.onnx"]
    asked = exported.ReadRevisionFile(project=PROJECT, endpoint="scores", revision=1, file="model.onnx")
    assert b"".join(shelf.platform.call(exported.READ_REVISION_FILE, asked).chunks) == b"variant int8"


# Policy


def test_without_a_certificate_a_variant_answers_with_a_remark_where_nobody_wants_one(shelf: Shelf) -> None:
    shelf.put("draft", 2.0, certified=False, problem="Worse by 3 points.", certificate="d" * 64)
    made = shelf.platform.deploy(1, variant="draft")
    assert "Worse by 3 points. `falaj model certificate`" in " ".join(made.remarks)
    assert made.endpoint.revisions[0].certificate == ""
    assert shelf.platform.deploy(1, ladder=True).endpoint.revisions[-1].ladder == ()  # no rung without one


def test_a_projects_own_rule_refuses_what_is_not_certified_and_certain_variants(shelf: Shelf) -> None:
    shelf.put("draft", 2.0, certified=False)
    shelf.put("int8", 3.0)
    shelf.put("int4", 6.0)
    shelf.platform.policy(
        """forbid (principal, action in [Action::"deploy"], resource)
        when { context has deployment && (!context.deployment.certified || context.deployment.variant == "int4") };"""
    )
    for wish in ({"variant": "draft"}, {"variant": "int4"}, {"ladder": True}):
        with pytest.raises(Forbidden) as refused:
            shelf.platform.deploy(1, **wish)
        assert refused.value.rule == "project/added"
    assert "as the variant 'int4'" in str(refused.value)
    assert shelf.platform.deploy(1).revision == 1
    assert shelf.platform.deploy(1, variant="int8").endpoint.revisions[-1].variant == "int8"


def test_under_the_regulated_profile_only_certified_variants_answer(opener: Opener) -> None:
    platform = opener("regulated")
    validator = platform.person("vera", Role.VALIDATOR)
    platform.register()
    approve(platform, 1, validator)
    shelf = Shelf(platform)
    shelf.put("draft", 2.0, certified=False, problem="Nobody judged it.")
    shelf.put("int8", 3.0)
    with pytest.raises(Forbidden, match="falaj optimise") as refused:
        platform.deploy(variant="draft")
    assert refused.value.rule == "deployment.uncertified"
    platform.deploy(variant="int8")
    shadow = platform.deploy(variant="draft", mode="shadow").endpoint.arms[-1]
    with pytest.raises(Forbidden) as refused:
        platform.split(live(1, 5_000), live(shadow.revision, 5_000))
    assert refused.value.rule == "deployment.uncertified"
    platform.deploy(ladder=True)


def test_under_the_regulated_profile_a_certificate_that_allows_much_is_none(opener: Opener) -> None:
    platform = opener("regulated")
    validator = platform.person("vera", Role.VALIDATOR)
    platform.register()
    approve(platform, 1, validator)
    shelf = Shelf(platform)
    shelf.put("anything", 9.0, max_drop=0.99)
    for wish in ("anything", "best"):
        with pytest.raises(Forbidden, match=r"allows 99\.00% to be lost, and here at most 1\.00%") as refused:
            platform.deploy(variant=wish)
        assert refused.value.rule == "deployment.loose-certificate"
    shelf.put("nearly", 5.0, max_drop=0.0101)
    with pytest.raises(Forbidden) as refused:
        platform.deploy(variant="nearly")
    assert refused.value.rule == "deployment.loose-certificate"
    shelf.put("close", 2.0, max_drop=0.01)
    assert platform.deploy(variant="best").endpoint.revisions[-1].variant == "close"
    shadow = platform.deploy(variant="anything", mode="shadow").endpoint.arms[-1]
    with pytest.raises(Forbidden) as refused:
        platform.split(live(1, 5_000), live(shadow.revision, 5_000))
    assert refused.value.rule == "deployment.loose-certificate"


def test_the_platform_itself_chooses_only_what_was_proven_closely(shelf: Shelf) -> None:
    shelf.put("wild", 9.0, max_drop=0.3)
    made = shelf.platform.deploy(1, variant="best")
    assert made.endpoint.revisions[-1].variant == "wild"
    assert "its certificate allows 30.00% to be lost" in " ".join(made.remarks)
    made = shelf.platform.deploy(1, ladder=True)
    assert "has no ladder: what is faster, wild (30.00%), is certified for a larger loss" in " ".join(made.remarks)
    shelf.put("int8", 2.0)
    assert shelf.platform.deploy(1, variant="best").endpoint.revisions[-1].variant == "int8"
    made = shelf.platform.deploy(1, ladder=True)
    assert [one.name for one in made.endpoint.revisions[-1].ladder] == ["original", "int8"]


def test_a_projects_own_rule_sees_what_a_certificate_allows_and_by_what_it_was_judged(shelf: Shelf) -> None:
    shelf.put("guessed", 2.0, truth_known=False)
    shelf.put("sliced", 3.0, max_slice_drop=0.5)
    shelf.put("int8", 4.0)
    shelf.platform.policy(
        """forbid (principal, action in [Action::"deploy"], resource)
        when { context has deployment && (!context.deployment.truth_known || context.deployment.max_slice_drop_bp > 200) };"""
    )
    for name in ("guessed", "sliced"):
        with pytest.raises(Forbidden) as refused:
            shelf.platform.deploy(1, variant=name)
        assert refused.value.rule == "project/added"
    shelf.platform.deploy(1)
    shelf.platform.deploy(1, variant="int8")


# What planes tell


def test_what_planes_say_of_rungs_is_added_up_and_shown(shelf: Shelf) -> None:
    platform = shelf.platform
    shelf.put("int8", 2.0, latency_limit_ms=0.9)
    endpoint = platform.deploy(1, ladder=True).endpoint
    first, second = platform.plane("first"), platform.plane("second")

    def tells(requests: int, falls: int, workers: int, **more: Any) -> tuple[RungReport, ...]:
        own = RungReport(name="original", requests=requests, workers=2 - workers)
        return own, RungReport(name="int8", requests=10, falls=falls, workers=workers, **more)

    first.report(said(endpoint, 1, rungs=tells(100, 1, 2)))
    first.report(said(endpoint, 1, rungs=tells(50, 0, 1)))
    first.report(said(endpoint, 1))  # of which nobody told
    second.report(said(endpoint, 1, rungs=tells(7, 3, 0, latency=HERE, remark="It is no faster here.")))
    shown = platform.show()
    ladder = [(one.name, one.requests, one.falls, one.workers) for one in shown.revisions[0].ladder]
    assert ladder == [("original", 157, 0, 3), ("int8", 30, 4, 1)]
    measured = (
        "certified on Some CPU, 2 cores: 0.40 ms; measured here: 0.71 ms (0.70 to 0.73), 99 of 100 rows within 0.85 ms (0.82 "
        "to 0.95). That is NOT within the 0.9 ms that it was certified to keep to."
    )
    assert shown.remarks == (
        f"Plane 'second', revision 1, int8: {measured}",
        "Plane 'second', revision 1, int8: It is no faster here.",
    )
    assert shown.problems == ()


@pytest.mark.parametrize(
    ("limit", "told"), [(0.0, "0.95)."), (1.0, "That is within the 1 ms that it was certified to keep to.")]
)
def test_what_a_variant_takes_elsewhere_is_held_against_what_it_was_certified_to_keep_to(
    shelf: Shelf, limit: float, told: str
) -> None:
    """Also where it is deployed by itself."""
    shelf.put("int8", 2.0, latency_limit_ms=limit)
    endpoint = shelf.platform.deploy(1, variant="int8").endpoint
    shelf.platform.plane().report(said(endpoint, 1, rungs=(RungReport(name="int8", latency=HERE),)))
    (remark,) = [one for one in shelf.platform.show().remarks if "measured here" in one]
    assert remark.endswith(told)


def test_a_state_from_before_there_were_variants_is_read_as_ever(shelf: Shelf) -> None:
    shelf.platform.deploy(1)
    body = json.loads(shelf.platform.plane().signed().body)
    (revision,) = body["endpoints"][0]["revisions"]
    for field in ("variant", "settings", "host", "latency_ms", "ladder"):
        del revision[field]
    (endpoint,) = decode(json.dumps(body).encode()).endpoints
    assert (endpoint.revisions[0].settings, endpoint.revisions[0].ladder, endpoint.revisions[0].variant) == ({}, (), "")
