"""Bills of materials are valid CycloneDX, the same for the same version, and give no password away."""

import json
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from hypothesis import given
from hypothesis import strategies as st

from falaj.base.clock import Moment
from falaj.registry.mlmodel import ModelDescription, read
from falaj.registry.operations.versions import VersionFile
from falaj.registry.requirements import Package, read_needs
from falaj.registry.sbom import Subject, bill

MODELS = Path(__file__).parent / "models"
SUBJECT = Subject(
    id="0199aabbccdd7000800000000000abcd",
    name="Fraud, große",
    version="3",
    created=Moment(1_800_000_000_000_000),
    description="x",
)
FILES = [
    VersionFile(name="model.skops", size=3, digest="ab" * 32),
    VersionFile(name="data/a b.bin", size=0, digest="cd" * 32),
]
TEXT = b"mlflow==3.17.2\nscikit_Learn==1.9.1\ntorch==2.1.0+cu121\npandas>=2,<3\n"
CONDA = b"""channels: [conda-forge]
dependencies:
- python=3.11.7
- pip<=23.2.1
- conda-forge::libblas=3.9=openblas
- pip:
  - mlflow==3.17.2
  - Numpy==2.4.6
"""
PYTHON = b"python: 3.12.1\nbuild_dependencies:\n- pip==23.2.1\n- wheel\ndependencies:\n- -r requirements.txt\n"
VALIDATOR = JsonStrictValidator(SchemaVersion.V1_6)


def made(requirements: dict[str, bytes], description: ModelDescription | None = None) -> dict[str, Any]:
    content = bill(SUBJECT, FILES, requirements, description).decode()
    assert VALIDATOR.validate_str(content) is None
    return json.loads(content)  # type: ignore[no-any-return]


def purls(document: dict[str, Any]) -> list[str]:
    return [component["purl"] for component in document["components"]]


def test_a_bill_is_valid_and_names_model_files_and_packages() -> None:
    description = read((MODELS / "sklearn.MLmodel").read_bytes())
    document = made({"requirements.txt": TEXT, "conda.yaml": CONDA, "python_env.yaml": PYTHON}, description)
    assert document["serialNumber"] == "urn:uuid:0199aabb-ccdd-7000-8000-00000000abcd"
    model = document["metadata"]["component"]
    assert (model["type"], model["name"], model["version"]) == ("machine-learning-model", "Fraud, große", "3")
    assert {file["name"]: file["hashes"][0]["content"] for file in model["components"]} == {
        "model.skops": "ab" * 32,
        "data/a b.bin": "cd" * 32,
    }
    assert model["modelCard"]["modelParameters"]["inputs"][0] == {"format": "age: double"}
    assert model["modelCard"]["modelParameters"]["outputs"] == [{"format": "tensor int64 [?]"}]
    assert purls(document) == [
        "pkg:conda/libblas@3.9",
        "pkg:conda/pip",
        "pkg:pypi/mlflow@3.17.2",
        "pkg:pypi/numpy@2.4.6",
        "pkg:pypi/pandas",
        "pkg:pypi/pip@23.2.1",
        "pkg:pypi/scikit-learn@1.9.1",
        "pkg:pypi/torch@2.1.0%2Bcu121",
        "pkg:pypi/wheel",
        "pkg:generic/python@3.11.7",
    ]
    assert document["dependencies"][0]["dependsOn"] == [component["bom-ref"] for component in document["components"]]


def test_the_same_version_gives_the_same_bytes() -> None:
    one = bill(SUBJECT, FILES, {"requirements.txt": TEXT, "conda.yaml": CONDA})
    other = bill(SUBJECT, FILES[::-1], {"conda.yaml": CONDA, "requirements.txt": TEXT})
    assert one == other


def test_a_version_that_says_nothing_still_has_a_bill() -> None:
    document = made({})
    assert document["components"] == []
    assert "modelCard" not in document["metadata"]["component"]
    assert purls(made({}, ModelDescription(python_version="3.11.7"))) == ["pkg:generic/python@3.11.7"]


LINES = {
    "numpy==1.0": ("numpy", "1.0", ""),
    "Foo.Bar_baz [a, b] === 1.0 ; python_version < '3.12'": ("foo-bar-baz", "1.0", ""),
    "foo (>=1.0, <2)": ("foo", "", ">=1.0,<2"),
    "foo==1.*": ("foo", "", "==1.*"),
    "foo ~= 1.4  # why": ("foo", "", "~=1.4"),
    "foo": ("foo", "", ""),
    "foo==1.0 --hash=sha256:abc --hash=sha256:def": ("foo", "1.0", ""),
    "foo==1.0 \\\n    --hash=sha256:abc": ("foo", "1.0", ""),
    "foo @ https://me:secret@host/foo-1.0.whl?token=secret#secret": ("foo", "", "https://host/foo-1.0.whl"),
    "git+https://secret@host/foo.git@v1#egg=Foo": ("foo", "", "git+https://host/foo.git@v1"),
}


@pytest.mark.parametrize("line", LINES)
def test_a_requirement_is_understood(line: str) -> None:
    name, version, wanted = LINES[line]
    assert read_needs({"requirements.txt": line.encode()}).packages == (
        Package(ecosystem="pypi", name=name, version=version, wanted=wanted, source="requirements.txt"),
    )


def test_options_and_comments_are_passed_over() -> None:
    text = b"--index-url https://me:secret@host/simple\n-r other.txt\n\n# numpy==1\n-c constraints.txt\n--no-binary :all:\n"
    needs = read_needs({"requirements.txt": text})
    assert (needs.packages, needs.unread) == ((), ())


def test_what_cannot_be_read_is_named_by_its_place_alone() -> None:
    lines = b"numpy==1\nhttps://me:secret@host/x.whl\n-e /secret/folder\n==1.0\nfoo = secret\n"
    needs = read_needs({"requirements.txt": lines, "conda.yaml": b"[secret", "python_env.yaml": b"- secret"})
    assert needs.unread == (*(f"requirements.txt:{number}" for number in (2, 3, 4, 5)), "conda.yaml", "python_env.yaml")
    document = made({"requirements.txt": lines, "conda.yaml": b"dependencies: [{pip: ['?']}, '=secret']"})
    assert {"name": "falaj:unread", "value": "conda.yaml:pip[0]"} in document["metadata"]["component"]["properties"]
    assert {"name": "falaj:unread", "value": "conda.yaml:dependencies[1]"} in document["metadata"]["component"]["properties"]
    assert "secret" not in json.dumps(document)


def test_a_pinned_package_makes_the_unpinned_one_superfluous() -> None:
    needs = read_needs({"requirements.txt": b"numpy\nnumpy==2.0\nnumpy>1\n", "conda.yaml": b"dependencies: [numpy]"})
    assert [(one.ecosystem, one.version) for one in needs.packages] == [("conda", ""), ("pypi", "2.0")]


def test_files_too_large_or_of_another_encoding_are_left_out() -> None:
    needs = read_needs({"requirements.txt": b"a" * (1 << 21), "conda.yaml": b"\xff\xff"})
    assert needs.unread == ("requirements.txt", "conda.yaml")
    assert read_needs({"requirements.txt": b"\xff\xff"}).unread == ("requirements.txt",)


LINE = st.text("ab=<>!~;,.@[]()#-+:/ \\\n'é", max_size=30)


@given(LINE | st.binary(max_size=40), st.lists(LINE, max_size=3), LINE)
def test_whatever_the_files_say_the_bill_is_valid(text: str | bytes, pip: list[str], python: str) -> None:
    conda = json.dumps({"dependencies": [*pip, {"pip": pip}]}).encode()
    env = json.dumps({"python": python, "dependencies": pip}).encode()
    content = text if isinstance(text, bytes) else text.encode()
    document = made({"requirements.txt": content, "conda.yaml": conda, "python_env.yaml": env})
    refs = [component["bom-ref"] for component in document["components"]]
    assert len(set(refs)) == len(refs)
