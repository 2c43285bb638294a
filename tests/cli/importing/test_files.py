from pathlib import Path

import pytest

from falaj.cli.importing.files import LocalArtifacts, below_its_root
from falaj.cli.importing.records import File, OutOfReach


def kept(root: Path, *names: str) -> Path:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    return root


def names(artifacts: LocalArtifacts, place: str) -> list[str]:
    return [file.name for file in artifacts.files(place)]


@pytest.mark.parametrize(
    "place", ["{root}/1/r/artifacts", "file://{root}/1/r/artifacts", "mlflow-artifacts:/1/r/artifacts", "1/r/artifacts"]
)
def test_files_are_found_however_their_place_is_spelled(tmp_path: Path, place: str):
    kept(tmp_path, "1/r/artifacts/model/a b.txt", "1/r/artifacts/ü.txt", "1/other/artifacts/no")
    artifacts = LocalArtifacts(tmp_path)
    found = list(artifacts.files(place.format(root=tmp_path)))
    assert sorted(file.name for file in found) == ["model/a b.txt", "ü.txt"]
    assert File(name="ü.txt", size=len("1/r/artifacts/ü.txt".encode())) in found
    with artifacts.opened(place.format(root=tmp_path), "model/a b.txt") as chunks:
        assert b"".join(chunks) == b"1/r/artifacts/model/a b.txt"
    assert artifacts.missing([place.format(root=tmp_path)]) == ""


def test_a_directory_that_was_copied_from_elsewhere_is_found_below_the_root(tmp_path: Path):
    kept(tmp_path / "copy", "1/r/artifacts/a")
    assert names(LocalArtifacts(tmp_path / "copy"), "/srv/mlflow/mlruns/1/r/artifacts") == ["a"]


def test_a_run_without_files_has_no_directory_and_that_is_no_fault(tmp_path: Path):
    artifacts = LocalArtifacts(tmp_path)
    assert names(artifacts, f"{tmp_path}/1/r/artifacts") == []
    assert names(artifacts, "/srv/mlflow/mlruns/1/r/artifacts") == []


def test_the_first_place_on_a_disk_is_told_where_not_one_is_found(tmp_path: Path):
    kept(tmp_path / "root", "1/r/artifacts/a")
    kept(tmp_path / "outside", "1/q/artifacts/a")
    lost = ["s3://bucket/1/r/artifacts", "", "/srv/mlruns/1/x/artifacts", f"{tmp_path}/outside/1/q/artifacts"]
    artifacts = LocalArtifacts(tmp_path / "root")
    assert artifacts.missing(lost) == "/srv/mlruns/1/x/artifacts"
    assert artifacts.missing([*lost, "/srv/mlruns/1/r/artifacts"]) == ""
    assert artifacts.missing(lost[:2]) == "", "what lies in a bucket is not looked for on the disk"
    assert LocalArtifacts(None).missing(["mlflow-artifacts:/1/r/artifacts"]) == "mlflow-artifacts:/1/r/artifacts"


@pytest.mark.parametrize(
    ("place", "part"),
    [
        ("/srv/mlruns/1/r/artifacts", "1/r/artifacts"),
        ("file:///srv/mlruns/1/models/m-1/artifacts", "1/models/m-1/artifacts"),
        ("mlflow-artifacts:/1/r/artifacts", "1/r/artifacts"),
        ("/odd/place", "odd/place"),
    ],
)
def test_a_place_keeps_its_last_part_wherever_its_root_is_copied(place: str, part: str):
    assert below_its_root(place) == part


@pytest.mark.parametrize(
    "place",
    [
        "s3://bucket/1/r/artifacts",
        "gs://bucket/x",
        "hdfs://host/x",
        "dbfs:/x",
        "{outside}",
        "file://{outside}",
        "../secrets",
        "mlflow-artifacts:/../secrets",
    ],
)
def test_what_is_not_below_the_root_is_never_read(tmp_path: Path, place: str):
    """A database names the places, and whoever could write to that MLflow wrote them."""
    root, outside = tmp_path / "root", kept(tmp_path / "secrets", "id_rsa")
    kept(root, "1/r/artifacts/a")
    with pytest.raises(OutOfReach):
        names(LocalArtifacts(root), place.format(outside=outside))


def test_a_link_that_leads_out_is_not_followed(tmp_path: Path):
    secret = kept(tmp_path / "secrets", "id_rsa") / "id_rsa"
    root = kept(tmp_path / "root", "1/r/artifacts/a", "1/r/artifacts/b")
    (root / "1/r/artifacts/link").symlink_to(secret)
    (root / "1/r/artifacts/folder").symlink_to(tmp_path / "secrets")
    (root / "1/r/artifacts/inside").symlink_to(root / "1/r/artifacts/a")
    assert sorted(names(LocalArtifacts(root), "1/r/artifacts")) == ["a", "b", "inside"]
    (root / "2").symlink_to(tmp_path / "secrets")
    with pytest.raises(OutOfReach):
        names(LocalArtifacts(root), "2")


def test_where_nobody_said_where_files_lie_none_are_read(tmp_path: Path):
    kept(tmp_path, "1/r/artifacts/a")
    with pytest.raises(OutOfReach):
        names(LocalArtifacts(None), f"{tmp_path}/1/r/artifacts")
