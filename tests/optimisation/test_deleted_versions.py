"""A version that is deleted takes its searches and all forms of it along; its name, given again, is somebody else's."""

from collections.abc import Iterator
from typing import Any

import pytest

from falaj.base.errors import Conflict, NotFound
from falaj.governance.ledger.operations import LOG_PROJECT, ReadProjectLog
from falaj.optimisation import attesting
from falaj.optimisation.ending import Ending
from falaj.optimisation.operations import optimisations, variants
from falaj.optimisation.operations.optimisations import OneOptimisation, Optimisation
from falaj.optimisation.variants import VariantService
from falaj.registry.operations import models, versions
from falaj.storage import store as blob_store
from tests.optimisation.making.models import conv
from tests.serving.site import until
from tests.web import optimised, tracked
from tests.web.conftest import Site, running_site


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    for site in running_site(tmp_path_factory.mktemp("deleted")):
        site.project("fraud", "Card fraud")
        site.call(models.CREATE_MODEL, models.CreateModel(project="fraud", model=optimised.MODEL))
        optimised.data(site)
        yield site


@pytest.fixture(autouse=True)
def believed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever calls is taken for the job."""
    monkeypatch.setattr(attesting, "check", lambda context, job, optimisation: None)


def register(site: Site, model: str) -> Any:
    site.call(models.CREATE_MODEL, models.CreateModel(project="fraud", model=model))
    run = tracked.run(site, 0, model)
    tracked.put(site, run, "model/notes.txt", run.encode(), "fraud")  # no two have the same files
    return tracked.register(site, run, model)


def telling(planned: Optimisation, variant: str) -> dict[str, Any]:
    return {"project": "fraud", "optimisation": planned.id, "job": optimised.JOB, "variant": variant}


def bring(site: Site, planned: Optimisation, name: str, *, made: bool = True) -> str:
    """A candidate with a file, which its job says is made; its id."""
    id = optimised.candidate(site, planned, name, state="begun")
    told = telling(planned, name)
    content = f"{planned.id} {name}".encode()
    site.call(variants.PUT_VARIANT_FILE, variants.PutVariantFile(**told, file="model.onnx"), data=content)
    if made:
        files: dict[str, Any] = {"runtime": "onnx", "file": "model.onnx", "files": ("model.onnx",)}
        of = optimised.measures(2.0)
        site.call(variants.RECORD_VARIANT, variants.RecordVariant(**told, outcome="made", measures=of, **files))
    return id


def certify(site: Site, planned: Optimisation, name: str) -> None:
    optimised.certify(site, planned, name, optimised.measures(2.0), optimised.group("", 10_000, 2))


def held(site: Site, kind: str, id: str) -> list[str]:
    return optimised.within(site, lambda context: list(blob_store.referred(context.work, kind, id)))


def shown(site: Site, planned: Optimisation) -> Optimisation:
    found: Optimisation = site.call(optimisations.SHOW_OPTIMISATION, OneOptimisation(project="fraud", optimisation=planned.id))
    return found


@pytest.mark.parametrize("whole", [False, True], ids=["version", "model"])
def test_nothing_that_was_made_of_a_deleted_version_is_held(site: Site, whole: bool) -> None:
    version = register(site, f"held-{whole}".lower())
    done, running = (optimised.plan(site, version) for _ in range(2))
    ids = [bring(site, done, "int8"), bring(site, done, "fold"), bring(site, running, "half")]
    ids.append(bring(site, running, "prune", made=False))
    certify(site, done, "int8")
    optimised.finish(site, done)
    other = optimised.plan(site, register(site, f"other-{whole}".lower()))
    kept = bring(site, other, "int8")
    assert all(held(site, "variant", id) for id in (*ids, kept))
    if whole:
        site.call(models.DELETE_MODEL, models.OneModel(project="fraud", model=version.model))
    else:
        site.call(versions.DELETE_VERSION, versions.OneVersion(project="fraud", model=version.model, version=1))
    assert not any(held(site, "variant", id) for id in ids)
    assert not held(site, "optimisation", running.id)
    assert held(site, "variant", kept)
    assert shown(site, other).state == "open"
    assert (shown(site, done).state, shown(site, running).state) == ("done", "abandoned")
    assert shown(site, running).remarks[-1] == "The version was deleted."
    every = (*shown(site, done).variants, *shown(site, running).variants)
    assert {(one.state, one.reason, one.files) for one in every} == {("dropped", "The version was deleted.", ())}


def test_its_job_is_told_and_brings_nothing_more(site: Site) -> None:
    version = register(site, "told")
    planned = optimised.plan(site, version)
    id = bring(site, planned, "half", made=False)
    site.call(versions.DELETE_VERSION, versions.OneVersion(project="fraud", model="told", version=1))
    with pytest.raises(Conflict, match="abandoned"):
        site.call(
            variants.PUT_VARIANT_FILE, variants.PutVariantFile(**telling(planned, "half"), file="late.onnx"), data=b"late"
        )
    assert not held(site, "variant", id)


def evidence(planned: Optimisation) -> variants.CertifyVariant:
    of = optimised.measures(2.0)
    groups = (optimised.group("", 10_000, 2),)
    return variants.CertifyVariant(
        **telling(planned, "int8"), groups=groups, agreement=1.0, apart=0.0, measures=of, original_measures=of
    )


def test_a_model_that_got_the_name_is_not_taken_for_the_one_that_is_optimised(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(VariantService, "_check_form", lambda self, context, row: None)
    version = register(site, "first")
    planned = optimised.plan(site, version)
    bring(site, planned, "int8")
    site.call(models.RENAME_MODEL, models.RenameModel(project="fraud", model="first", name="second"))
    impostor = register(site, "first")
    assert (impostor.version, impostor.id != version.id) == (1, True)
    site.call(variants.CERTIFY_VARIANT, evidence(planned))
    asked = variants.OneVariant(project="fraud", model="second", version=1, variant="int8")
    certificate = site.call(variants.SHOW_CERTIFICATE, asked)
    assert certificate.valid, certificate.problems
    with pytest.raises(NotFound, match="no variant"):
        site.call(variants.SHOW_CERTIFICATE, variants.OneVariant(project="fraud", model="first", version=1, variant="int8"))


def test_files_of_a_deleted_version_are_not_given_out_under_its_name(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor while its search has not heard of it yet."""
    monkeypatch.setattr(Ending, "let_go", lambda self, context, version: None)
    planned = optimised.plan(site, register(site, "secret"))
    site.call(models.DELETE_MODEL, models.OneModel(project="fraud", model="secret"))
    register(site, "secret")
    wanted = optimisations.ReadOptimisationFile(project="fraud", optimisation=planned.id, file=planned.files[0].name)
    with pytest.raises(NotFound, match="was deleted"):
        site.call(optimisations.READ_OPTIMISATION_FILE, wanted)


# The student


def teaching(site: Site, teacher: str, student: str) -> tuple[Optimisation, Any]:
    """A search that teaches the student, and the student's version."""
    pupil = register_network(site, student)
    return optimised.plan(site, register(site, teacher), student=student, student_version=1), pupil


def register_network(site: Site, model: str) -> Any:
    site.call(models.CREATE_MODEL, models.CreateModel(project="fraud", model=model))
    run = tracked.run(site, 0, model)
    tracked.put(site, run, "model/model.onnx", conv().content, "fraud")
    request = versions.CreateVersion(project="fraud", model=model, holder=run, folder="model", run=run)
    return site.call(versions.CREATE_VERSION, request)


def student_file(planned: Optimisation) -> optimisations.ReadOptimisationFile:
    name = planned.student[0].name
    return optimisations.ReadOptimisationFile(project="fraud", optimisation=planned.id, file=name, student=True)


def test_a_search_that_teaches_a_deleted_version_ends_and_what_it_made_stays(site: Site) -> None:
    planned, _ = teaching(site, "teacher", "pupil")
    other = optimised.plan(site, register(site, "pupil-of-nobody"))
    made, begun = bring(site, planned, "int8"), bring(site, planned, "distil-given", made=False)
    assert b"".join(site.call(optimisations.READ_OPTIMISATION_FILE, student_file(planned)).chunks)
    site.call(versions.DELETE_VERSION, versions.OneVersion(project="fraud", model="pupil", version=1))
    now = shown(site, planned)
    assert (now.state, now.remarks[-1]) == ("abandoned", "The version that was to be taught was deleted.")
    assert {one.name: one.state for one in now.variants} == {"int8": "made", "distil-given": "dropped"}
    assert held(site, "variant", made)
    assert not held(site, "variant", begun)
    assert not held(site, "optimisation", planned.id)
    assert shown(site, other).state == "open"


def test_files_of_a_deleted_student_are_not_given_out_under_its_name(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ending, "let_go", lambda self, context, version: None)
    planned, _ = teaching(site, "tutor", "learner")
    site.call(models.DELETE_MODEL, models.OneModel(project="fraud", model="learner"))
    register_network(site, "learner")
    with pytest.raises(NotFound, match="The student learner v1, which is taught, was deleted"):
        site.call(optimisations.READ_OPTIMISATION_FILE, student_file(planned))


def test_the_ledger_says_that_it_was_the_student_that_was_read(site: Site) -> None:
    planned, pupil = teaching(site, "master", "apprentice")
    assert b"".join(site.call(optimisations.READ_OPTIMISATION_FILE, student_file(planned)).chunks)

    def told() -> list[Any]:
        page = site.call(LOG_PROJECT, ReadProjectLog(project="fraud", operation="optimisation.file"))
        return [leaf.facts.get("version") for leaf in page.items if leaf.facts.get("optimisation") == planned.id]

    until(lambda: told() == [pupil.id])
