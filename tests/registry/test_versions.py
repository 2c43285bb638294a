"""Versions as callers see them: registered from a run's files, signed, searched, read, compared, deleted."""

import hashlib
import json
import threading
from collections.abc import Mapping
from typing import Any

import pytest
from sqlalchemy import func, select

from falaj.base.errors import Conflict, Forbidden, Invalid, NotFound
from falaj.base.operation import Download, Operation
from falaj.database.work import UnitOfWork
from falaj.governance.roles import Role
from falaj.lineage.graph import Node, ancestors, link
from falaj.registry.operations import models as model_operations
from falaj.registry.operations import promotions
from falaj.registry.operations import versions as declared
from falaj.registry.operations.words import ModelTag
from falaj.registry.sources import RunFacts
from falaj.registry.store.tables import files as file_table
from falaj.storage.store import blobs as blob_table
from tests.registry.platform import MODELS, PROJECT, Platform

LOGGED = "m-" + "0" * 32


def content_of(download: Download) -> bytes:
    return b"".join(download.chunks)


def blob_count(platform: Platform) -> int:
    return int(platform.database.read(lambda work: work.execute(select(func.count()).select_from(blob_table)).scalar_one()))


def create(platform: Platform, token: str = "", **fields: object) -> declared.Version:
    request = declared.CreateVersion(project=PROJECT, model="fraud", **fields)  # type: ignore[arg-type]
    return platform.call(declared.CREATE_VERSION, request, token)


def onnx_files() -> dict[str, bytes]:
    return {
        "model/MLmodel": (MODELS / "onnx.MLmodel").read_bytes(),
        "model/model.onnx": (MODELS / "model.onnx").read_bytes(),
        "model/requirements.txt": b"onnxruntime==1.22.0\n",
    }


def test_a_version_is_numbered_signed_and_shows_what_it_is_made_of(platform: Platform) -> None:
    platform.model()
    run = platform.put({"model/MLmodel": b"flavors: {}", "model/weights.bin": b"12345", "notes.txt": b"not the model"})
    version = create(platform, holder=run, folder="model", source=f"runs:/{run}/model", description="The first.")
    assert (version.version, version.run, version.holder, version.files, version.size) == (1, run, run, 2, 16)
    assert version.signed
    assert version.digest
    assert version.stage == "None"
    assert version.logged_model == ""
    listed = platform.call(declared.LIST_VERSION_FILES, declared.ListVersionFiles(project=PROJECT, model="fraud", version=1))
    assert [(file.name, file.digest) for file in listed.items] == [
        ("MLmodel", hashlib.sha256(b"flavors: {}").hexdigest()),
        ("weights.bin", hashlib.sha256(b"12345").hexdigest()),
    ]
    assert platform.show(1) == version
    assert platform.call(declared.FIND_VERSION, declared.FindVersion(project=PROJECT, id=version.id)) == version
    assert platform.register().version == 2


def test_an_onnx_model_is_servable_and_its_signature_and_bill_are_kept(platform: Platform) -> None:
    platform.model()
    version = platform.register(files=onnx_files())
    assert version.servable
    assert version.runtime == "onnx"
    assert "onnx" in version.flavors
    assert json.loads(version.inputs)
    assert json.loads(version.outputs)
    bill = json.loads(content_of(platform.call(declared.GET_SBOM, platform.one(1))))
    assert bill["bomFormat"] == "CycloneDX"
    assert "onnxruntime" in [component["name"] for component in bill["components"]]
    bundle = content_of(platform.call(declared.GET_SIGNATURE, platform.one(1)))
    assert json.loads(bundle)["dsseEnvelope"]
    verified = platform.call(declared.VERIFY_VERSION, platform.one(1))
    assert verified.ok
    assert verified.signed
    assert verified.problems == ()
    assert "PUBLIC KEY" in verified.public_key


def test_a_version_that_cannot_be_served_says_why(platform: Platform) -> None:
    platform.model()
    platform.register(files={"model/model.pkl": b"\x80\x04K\x01."})
    check = platform.call(declared.CHECK_SERVABLE, platform.one(1))
    assert not check.ok
    assert check.reasons
    assert check.runtime == ""


def test_an_mlmodel_file_that_cannot_be_read_is_a_reason_and_no_obstacle(small: Platform) -> None:
    small.model()
    small.register(files={"model/MLmodel": b"\xff\xfe not yaml: [", "model/model.bin": b"x"})
    check = small.call(declared.CHECK_SERVABLE, small.one(1))
    assert not check.ok
    assert "MLmodel cannot be read" in check.reasons[0]


def test_an_external_source_is_written_down_and_never_opened(platform: Platform) -> None:
    platform.model()
    version = create(platform, source="s3://elsewhere/model")
    assert (version.source, version.files, version.signed, version.servable) == ("s3://elsewhere/model", 0, False, False)
    assert "not in Falaj" in platform.call(declared.CHECK_SERVABLE, platform.one(1)).reasons[0]
    assert platform.call(declared.VERIFY_VERSION, platform.one(1)).signed is False
    with pytest.raises(NotFound, match="not signed"):
        platform.call(declared.GET_SIGNATURE, platform.one(1))


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({}, Invalid),
        ({"folder": "model", "source": "s3://x"}, Invalid),
        ({"holder": "f" * 32}, NotFound),
        ({"holder": LOGGED}, NotFound),
        ({"source": "s3://x", "run": "e" * 32}, NotFound),
        ({"holder": "f" * 32, "run": "e" * 32}, Invalid),
    ],
)
def test_what_has_no_files_or_an_unknown_source_is_not_registered(
    small: Platform, fields: Mapping[str, str], error: type[Exception]
) -> None:
    small.model()
    with pytest.raises(error):
        create(small, **fields)
    with pytest.raises(NotFound, match="no registered model"):
        small.register(name="unknown")
    assert small.register().version == 1  # nothing above took a number


def test_a_folder_that_is_misspelled_is_told_and_takes_no_number(platform: Platform) -> None:
    platform.model()
    run = platform.put({"model/weights.bin": b"weights"})
    with pytest.raises(NotFound, match="none below 'modle'"):
        create(platform, holder=run, folder="modle")
    assert create(platform, holder=run, folder="model").version == 1


def test_files_that_change_while_they_are_registered_are_refused(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    platform.model()
    run = platform.put({"model/weights.bin": b"before"})
    whole = type(platform.blobs).open

    def open_and_change(self: object, *arguments: object) -> object:
        monkeypatch.undo()
        platform.put({"model/weights.bin": b"after"}, holder=run)
        return whole(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(type(platform.blobs), "open", open_and_change)
    with pytest.raises(Conflict, match="changed while"):
        create(platform, holder=run, folder="model")
    assert create(platform, holder=run, folder="model").version == 1


def test_a_version_keeps_its_files_when_the_run_loses_them(platform: Platform) -> None:
    platform.model()
    run = platform.put({"model/weights.bin": b"12345"})
    create(platform, holder=run, folder="model")
    platform.forget_files(run)
    assert platform.read_file("weights.bin") == b"12345"
    assert platform.read_file("weights.bin", offset=1, length=3) == b"234"
    with pytest.raises(Invalid):
        platform.read_file("weights.bin", offset=6)
    with pytest.raises(NotFound):
        platform.read_file("../weights.bin")
    platform.call(declared.DELETE_VERSION, platform.one(1))
    assert blob_count(platform) == 0
    with pytest.raises(NotFound):
        platform.read_file("weights.bin")


def test_the_same_content_under_two_names_is_two_files_of_one_blob(platform: Platform) -> None:
    platform.model()
    version = platform.register(files={"model/a.bin": b"same", "model/b.bin": b"same"})
    assert version.files == 2
    platform.forget_files(version.holder)
    assert platform.read_file("a.bin") == platform.read_file("b.bin") == b"same"
    assert blob_count(platform) == 1


def test_numbers_are_never_given_again(platform: Platform) -> None:
    platform.model()
    for expected in (1, 2):
        assert platform.register().version == expected
    platform.call(declared.DELETE_VERSION, platform.one(2))
    assert platform.register().version == 3
    assert platform.register(version=7).version == 7
    with pytest.raises(Conflict, match="go back"):
        platform.register(version=5)
    assert platform.register().version == 8


def test_versions_registered_at_once_get_a_number_each(platform: Platform) -> None:
    platform.model()
    runs = [platform.put({"model/weights.bin": b"%d" % number}) for number in range(8)]
    numbers: list[int] = []
    threads = [
        threading.Thread(target=lambda run=run: numbers.append(create(platform, holder=run, folder="model").version))
        for run in runs
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(numbers) == list(range(1, 9))


def test_the_lineage_goes_from_the_data_to_the_version(platform: Platform) -> None:
    platform.model()
    run = platform.put({"unused": b"1"})
    platform.put({"model/weights.bin": b"1"}, holder=LOGGED)
    with pytest.raises(Invalid, match="was logged by no run, so the version cannot come from run"):
        create(platform, holder=LOGGED, folder="model", run=run)
    platform.shelf.logged_by[LOGGED] = run
    version = create(platform, holder=LOGGED, folder="model")
    assert (version.run, version.logged_model) == (run, LOGGED)

    def read(work: UnitOfWork) -> set[tuple[str, str]]:
        project = platform.context(work).required_project.id
        return {(node.kind, node.id) for node in ancestors(work, project, Node(kind="version", id=version.id)).nodes}

    assert platform.database.read(read) == {("run", run), ("model", LOGGED)}


def test_a_version_is_described_and_tagged(platform: Platform) -> None:
    platform.model()
    platform.register(tags=(ModelTag(key="passed", value="no"),))
    described = declared.DescribeVersion(project=PROJECT, model="fraud", version=1, description="Better.")
    assert platform.call(declared.DESCRIBE_VERSION, described).description == "Better."
    for value in ("yes", "certainly"):
        tag = declared.TagVersion(project=PROJECT, model="fraud", version=1, key="passed", value=value)
        platform.call(declared.TAG_VERSION, tag)
    assert [(tag.key, tag.value) for tag in platform.show(1).tags] == [("passed", "certainly")]
    for _ in range(2):
        platform.call(declared.UNTAG_VERSION, declared.UntagVersion(project=PROJECT, model="fraud", version=1, key="passed"))
    assert platform.show(1).tags == ()


def test_a_version_that_an_alias_points_at_cannot_be_deleted(platform: Platform) -> None:
    platform.model()
    platform.register()
    platform.promote(1)
    with pytest.raises(Conflict, match="champion"):
        platform.call(declared.DELETE_VERSION, platform.one(1))
    with pytest.raises(Conflict, match="champion -> 1"):
        platform.call(model_operations.DELETE_MODEL, model_operations.OneModel(project=PROJECT, model="fraud"))
    assert platform.read_file("weights.bin")
    platform.remove()
    platform.call(declared.DELETE_VERSION, platform.one(1))
    assert [move.version for move in platform.history()] == [1, 0]


@pytest.mark.parametrize("stage", ["Staging", "Production"])
def test_a_version_that_is_in_use_by_its_stage_cannot_be_deleted_nor_can_its_model(platform: Platform, stage: Any) -> None:
    """Who deletes it would move the stage to an older version without being asked whether he may."""
    platform.model()
    for number in (1, 2):
        platform.register()
        move = promotions.SetStage(project=PROJECT, model="fraud", version=number, stage=stage)
        platform.call(promotions.SET_STAGE, move)
    scientist = platform.person("salim", Role.SCIENTIST)
    with pytest.raises(Conflict, match=f"stage {stage}"):
        platform.call(declared.DELETE_VERSION, platform.one(2), scientist)
    with pytest.raises(Conflict, match=f"version 1 is in the stage {stage}"):
        platform.call(model_operations.DELETE_MODEL, model_operations.OneModel(project=PROJECT, model="fraud"), scientist)
    for number in (1, 2):
        platform.call(
            promotions.SET_STAGE, promotions.SetStage(project=PROJECT, model="fraud", version=number, stage="Archived")
        )
    platform.call(declared.DELETE_VERSION, platform.one(2), scientist)
    platform.call(model_operations.DELETE_MODEL, model_operations.OneModel(project=PROJECT, model="fraud"), scientist)


def test_two_versions_are_compared(platform: Platform) -> None:
    platform.model()
    first = platform.register(files={**onnx_files(), "model/old.txt": b"1"})
    second = platform.register(files={"model/weights.bin": b"1", "model/requirements.txt": b"onnxruntime==1.23.0\n"})
    project = platform.database.read(lambda work: platform.context(work).required_project.id)
    platform.shelf.runs[(project, first.run)] = RunFacts(
        params={"depth": "3", "seed": "1"}, metrics={"auc": 0.8, "nan": float("nan")}
    )
    platform.shelf.runs[(project, second.run)] = RunFacts(
        params={"depth": "4", "seed": "1"}, metrics={"auc": 0.9, "nan": float("nan")}
    )

    def use_data(work: UnitOfWork) -> None:
        link(
            work,
            project=project,
            source=Node(kind="dataset", id="people@home@abc"),
            target=Node(kind="run", id=first.run),
            relation="used",
            now=platform.clock.now(),
        )

    platform.database.write(use_data)
    diff = platform.call(declared.DIFF_VERSIONS, declared.DiffVersions(project=PROJECT, model="fraud", version=1, other=2))
    assert {(file.name, file.change) for file in diff.files} == {
        ("MLmodel", "removed"),
        ("model.onnx", "removed"),
        ("old.txt", "removed"),
        ("requirements.txt", "changed"),
        ("weights.bin", "added"),
    }
    assert [(change.key, change.value, change.other) for change in diff.params] == [("depth", "3", "4")]
    assert [(change.key, change.value, change.other) for change in diff.metrics] == [("auc", 0.8, 0.9)]
    assert ("runtime", "onnx", None) in [(change.key, change.value, change.other) for change in diff.signature]
    assert [(data.name, data.digest) for data in diff.data_before] == [("people@home", "abc")]
    assert diff.data_after == ()


def search(platform: Platform, filter: str = "", order: tuple[str, ...] = (), limit: int = 100) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []
    cursor = ""
    while True:
        request = declared.SearchVersions(project=PROJECT, filter=filter, order=order, limit=limit, cursor=cursor)
        page = platform.call(declared.SEARCH_VERSIONS, request)
        found += [(version.model, version.version) for version in page.items]
        if not (cursor := page.next):
            return found


def test_versions_are_found_by_mlflows_filters(platform: Platform) -> None:
    for name in ("fraud", "churn"):
        platform.model(name)
    first = platform.register(source="runs:/one/model", tags=(ModelTag(key="team", value="Risk"),))
    platform.register()
    platform.register(name="churn")
    assert search(platform) == [("churn", 1), ("fraud", 2), ("fraud", 1)]
    assert search(platform, limit=1) == search(platform)
    assert search(platform, "name = 'fraud'", ("version_number ASC",)) == [("fraud", 1), ("fraud", 2)]
    assert search(platform, "name LIKE 'chu%'") == [("churn", 1)]
    assert search(platform, f"run_id = '{first.run}'") == [("fraud", 1)]
    assert search(platform, "version_number > 1") == [("fraud", 2)]
    assert search(platform, "source_path = 'runs:/one/model'") == [("fraud", 1)]
    assert search(platform, "tags.team ILIKE 'risk'") == search(platform, "tags.`team` = 'Risk'") == [("fraud", 1)]
    assert search(platform, "name = 'x'' OR 1=1 --'") == []
    assert search(platform, order=("name ASC", "version_number DESC"))[0] == ("churn", 1)
    assert search(platform, order=("creation_timestamp ASC",))[0] == ("fraud", 1)
    assert len(search(platform, "tags.`mlflow.prompt.is_prompt` != 'true'")) == 3
    for wrong in ("metrics.auc > 1", "name = 'a' OR name = 'b'", "unknown = 'x'"):
        with pytest.raises(Invalid):
            search(platform, wrong)
    with pytest.raises(Invalid):
        search(platform, order=("tags.team",))


def test_another_projects_versions_do_not_exist(platform: Platform) -> None:
    platform.model()
    version = platform.register()
    platform.promote(1)
    platform.project("other")
    request = declared.OneVersion(project="other", model="fraud", version=1)
    reached: tuple[Operation[declared.OneVersion, Any], ...] = (
        declared.SHOW_VERSION,
        declared.DELETE_VERSION,
        declared.GET_SBOM,
        declared.VERIFY_VERSION,
    )
    for operation in reached:
        with pytest.raises(NotFound):
            platform.call(operation, request)
    with pytest.raises(NotFound):
        platform.call(declared.FIND_VERSION, declared.FindVersion(project="other", id=version.id))
    with pytest.raises(NotFound):
        platform.call(promotions.RESOLVE, promotions.Resolve(project="other", model="fraud"))
    theirs = declared.CreateVersion(project="other", model="fraud", holder=version.holder)
    platform.model(project="other")
    with pytest.raises(NotFound):
        platform.call(declared.CREATE_VERSION, theirs)
    assert platform.call(declared.SEARCH_VERSIONS, declared.SearchVersions(project="other")).items == ()


def test_who_may_only_look_registers_and_moves_nothing(small: Platform) -> None:
    small.model()
    small.register()
    viewer, scientist = small.person("vera", Role.VIEWER), small.person("salim", Role.SCIENTIST)
    assert small.show(1, token=viewer).version == 1
    with pytest.raises(Forbidden):
        create(small, token=viewer, source="s3://x")
    assert create(small, token=scientist, source="s3://x").version == 2
    for token in (viewer, scientist):
        with pytest.raises(Forbidden):
            small.promote(1, token)


def test_long_names_and_many_files_are_kept(platform: Platform) -> None:
    platform.model("ø" * 255)
    long = "/".join(["ø" * 100] * 9)
    files = {f"model/{long}": b"x"} | {f"model/{number}.txt": b"%d" % number for number in range(50)}
    version = platform.register(files=files, name="ø" * 255)
    assert version.files == 51
    request = declared.ListVersionFiles(project=PROJECT, model="ø" * 255, version=1, limit=50)
    first = platform.call(declared.LIST_VERSION_FILES, request)
    rest = platform.call(
        declared.LIST_VERSION_FILES,
        declared.ListVersionFiles(project=PROJECT, model="ø" * 255, version=1, limit=50, cursor=first.next),
    )
    assert {file.name for file in (*first.items, *rest.items)} == {name.removeprefix("model/") for name in files}
    counted = select(func.count()).select_from(file_table)
    assert platform.database.read(lambda work: work.execute(counted).scalar_one()) == 51
