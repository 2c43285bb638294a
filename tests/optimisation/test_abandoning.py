"""A search that is given up: nothing more is made for it, what was certified stays, and its job ends with a word."""

import hashlib
from collections.abc import Iterator
from typing import Any

import pytest

from falaj.base.errors import Conflict
from falaj.base.ids import new_id
from falaj.base.operation import Operation
from falaj.client.optimising.job import Optimising
from falaj.optimisation import attesting
from falaj.optimisation.operations import optimisations, variants
from falaj.optimisation.operations.optimisations import ABANDON_OPTIMISATION, OneOptimisation, Optimisation
from falaj.optimisation.operations.words import Host
from falaj.storage import store as blob_store
from tests.web import optimised
from tests.web.conftest import Site, running_site


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    for site in running_site(tmp_path_factory.mktemp("abandoning")):
        site.project("fraud", "Card fraud")
        yield site


@pytest.fixture(scope="module")
def version(site: Site) -> Any:
    return optimised.register(site)


@pytest.fixture
def believed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever calls is taken for the job."""
    monkeypatch.setattr(attesting, "check", lambda context, job, optimisation: None)


def search(site: Site, version: Any) -> Optimisation:
    """One candidate certified, one made, one being made, one not yet begun."""
    planned = optimised.plan(site, version)
    optimised.describe(site, planned)
    fast = optimised.measures(2.0)
    optimised.candidate(site, planned, "int8", of=fast, state="made", file=b"fast")
    optimised.candidate(site, planned, "fold", of=fast, state="made", file=b"made")
    optimised.candidate(site, planned, "half", state="begun")
    optimised.candidate(site, planned, "prune", state="planned")
    optimised.certify(site, planned, "int8", fast, optimised.group("", 10_000, 2))
    return planned


def abandon(site: Site, planned: Optimisation) -> Optimisation:
    found: Optimisation = site.call(ABANDON_OPTIMISATION, OneOptimisation(project="fraud", optimisation=planned.id))
    return found


def held(site: Site, kind: str, id: str) -> list[str]:
    return optimised.within(site, lambda context: list(blob_store.referred(context.work, kind, id)))


def test_what_is_not_made_is_dropped_and_what_was_certified_stays(site: Site, version: Any) -> None:
    planned = search(site, version)
    assert held(site, "optimisation", planned.id)
    found = abandon(site, planned)
    assert found.state == "abandoned"
    assert found.ended is not None
    states = {one.name: one.state for one in found.variants}
    assert states == {"int8": "certified", "fold": "made", "half": "dropped", "prune": "dropped"}
    assert {one.reason for one in found.variants if one.state == "dropped"} == {"The search was abandoned before it was made."}
    assert all(one.files for one in found.variants if one.state in ("certified", "made"))
    assert not held(site, "optimisation", planned.id)
    asked = variants.OneVariant(project="fraud", model=optimised.MODEL, version=1, variant="int8")
    assert site.call(variants.SHOW_CERTIFICATE, asked).valid


def test_files_of_a_candidate_that_was_being_made_are_held_no_more(site: Site, version: Any, believed: None) -> None:
    planned = search(site, version)
    named = {"project": "fraud", "optimisation": planned.id, "job": optimised.JOB, "variant": "half"}
    site.call(variants.PUT_VARIANT_FILE, variants.PutVariantFile(**named, file="model.onnx"), data=b"half done")
    half = next(one.id for one in shown(site, planned).variants if one.name == "half")
    assert held(site, "variant", half)
    found = abandon(site, planned)
    assert not held(site, "variant", half)
    assert not next(one for one in found.variants if one.id == half).files


def test_what_a_killed_try_brought_otherwise_is_held_no_more_once_the_variant_is_made(
    site: Site, version: Any, believed: None
) -> None:
    planned = search(site, version)
    named = {"project": "fraud", "optimisation": planned.id, "job": optimised.JOB, "variant": "half"}
    for content in (b"as the first try made it", b"as the second made it"):
        site.call(variants.PUT_VARIANT_FILE, variants.PutVariantFile(**named, file="model.onnx"), data=content)
    half = next(one.id for one in shown(site, planned).variants if one.name == "half")
    assert len(held(site, "variant", half)) == 2
    made: dict[str, Any] = {"outcome": "made", "runtime": "onnx", "file": "model.onnx", "files": ("model.onnx",)}
    site.call(variants.RECORD_VARIANT, variants.RecordVariant(**named, **made, measures=optimised.measures(2.0)))
    (kept,) = next(one for one in shown(site, planned).variants if one.id == half).files
    assert kept.digest == hashlib.sha256(b"as the second made it").hexdigest()
    assert len(held(site, "variant", half)) == 1


def shown(site: Site, planned: Optimisation) -> Optimisation:
    found: Optimisation = site.call(optimisations.SHOW_OPTIMISATION, OneOptimisation(project="fraud", optimisation=planned.id))
    return found


def test_said_again_it_changes_nothing_and_what_is_done_cannot_be_abandoned(site: Site, version: Any) -> None:
    planned = search(site, version)
    assert abandon(site, planned) == abandon(site, planned)
    done = optimised.plan(site, version)
    optimised.finish(site, done)
    with pytest.raises(Conflict, match="is done"):
        abandon(site, done)


def test_nothing_that_its_job_tells_counts_any_more(site: Site, version: Any, believed: None) -> None:
    planned = search(site, version)
    abandon(site, planned)
    before = shown(site, planned)
    named: dict[str, Any] = {"project": "fraud", "optimisation": planned.id, "job": optimised.JOB}
    profile = optimisations.Profile(family="mlp", parameters=1, opset=18, operators=())
    of = optimised.measures()
    told: list[tuple[Operation[Any, Any], Any, bytes | None]] = [
        (
            optimisations.DESCRIBE_OPTIMISATION,
            optimisations.Describe(
                **named,
                host=Host(kind="x", shown="x"),
                profile=profile,
                baseline=of,
                task="classes",
                rows=(1, 1, 1),
                candidates=(optimisations.Proposed(name="late", steps=("fold",), why="-"),),
            ),
            None,
        ),
        (variants.BEGIN_VARIANT, variants.BeginVariant(**named, variant="prune"), None),
        (variants.PUT_VARIANT_FILE, variants.PutVariantFile(**named, variant="half", file="model.onnx"), b"late"),
        (variants.RECORD_VARIANT, variants.RecordVariant(**named, variant="fold", outcome="dropped", reason="late"), None),
        (
            variants.CERTIFY_VARIANT,
            variants.CertifyVariant(
                **named,
                variant="fold",
                groups=(optimised.group("", 10_000, 1),),
                agreement=1.0,
                apart=0.0,
                measures=of,
                original_measures=of,
            ),
            None,
        ),
        (optimisations.FINISH_OPTIMISATION, optimisations.Finish(**named), None),
    ]
    for operation, request, data in told:
        with pytest.raises(Conflict, match="was abandoned"):
            site.call(operation, request, data=data)
    asked = optimisations.ReadOptimisationFile(project="fraud", optimisation=planned.id, file=planned.files[0].name)
    with pytest.raises(Conflict, match="holds no files"):
        site.call(optimisations.READ_OPTIMISATION_FILE, asked)
    assert shown(site, planned) == before


def test_what_an_older_job_of_the_search_says_counts_no_more(site: Site, version: Any, believed: None) -> None:
    """Not even that it is done: that would end what the newer one makes."""
    planned = search(site, version)
    older, newer = (new_id(site.platform.clock.now()) for _ in range(2))
    half = {"project": "fraud", "optimisation": planned.id, "variant": "half"}
    assert site.call(variants.BEGIN_VARIANT, variants.BeginVariant(**half, job=older)).granted
    assert site.call(variants.BEGIN_VARIANT, variants.BeginVariant(**half, job=newer)).granted
    dropped = variants.RecordVariant(**half, job=older, outcome="dropped", reason="-")
    done = optimisations.Finish(project="fraud", optimisation=planned.id, job=older)
    file = variants.PutVariantFile(**half, job=older, file="model.onnx")
    for operation, request, data in (
        (variants.RECORD_VARIANT, dropped, None),
        (optimisations.FINISH_OPTIMISATION, done, None),
        (variants.PUT_VARIANT_FILE, file, b"late"),
    ):
        with pytest.raises(Conflict, match=f"Job {newer}, which was submitted later, has taken optimisation"):
            site.call(operation, request, data=data)
    found = shown(site, planned)
    assert (found.state, {one.name: one.state for one in found.variants}["half"]) == ("open", "begun")
    site.call(optimisations.FINISH_OPTIMISATION, optimisations.Finish(project="fraud", optimisation=planned.id, job=newer))
    assert shown(site, planned).state == "done"


class Told:
    """A platform on which the search is abandoned while its job works."""

    def __init__(self, planned: Optimisation, before: Optimisation) -> None:
        self._shown = [before, planned]

    def shown(self) -> Optimisation:
        return self._shown.pop(0) if len(self._shown) > 1 else self._shown[0]

    def contents(self, *_: Any, **__: Any) -> Any:
        raise Conflict("Optimisation x is abandoned.")


def test_its_job_ends_without_a_failure_and_says_why(site: Site, version: Any, capsys: pytest.CaptureFixture[str]) -> None:
    planned = search(site, version)
    gone = abandon(site, planned)
    for before in (planned, gone):  # it is abandoned while the job works, and before the job begins
        platform: Any = Told(gone, before)
        assert Optimising(platform, lambda: 0.0).run() == 0
        assert "The search was abandoned" in capsys.readouterr().out


def test_a_conflict_of_another_kind_fails_the_job(site: Site, version: Any) -> None:
    planned = search(site, version)
    platform: Any = Told(planned, planned)
    with pytest.raises(Conflict):
        Optimising(platform, lambda: 0.0).run()
