"""Models on a plane's disk."""

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from falaj.base.errors import Corrupt
from falaj.serving.plane.models import SealedModels
from falaj.serving.states import File, Revision

KEY = bytes(range(32))
CONTENT = b"a model" * 1000


def file_of(content: bytes, name: str = "model.onnx") -> File:
    return File(name=name, size=len(content), digest=hashlib.sha256(content).hexdigest())


def revision_of(*files: File) -> Revision:
    return Revision(id="0" * 32, number=1, model="m", version=1, runtime="onnx", file=files[0].name, files=files)


@pytest.fixture
def models(tmp_path: Path) -> SealedModels:
    return SealedModels(tmp_path, KEY)


def test_what_was_kept_opens_as_it_was(models, tmp_path):
    models.keep(file_of(CONTENT), [CONTENT[:10], CONTENT[10:]])
    assert models.open(revision_of(file_of(CONTENT))).contents == {"model.onnx": CONTENT}


def test_a_model_is_opened_with_the_settings_of_the_signed_state(models):
    models.keep(file_of(CONTENT), [CONTENT])
    revision = replace(revision_of(file_of(CONTENT)), settings={"threads": "2"})
    assert models.open(revision).settings == {"threads": "2"}


def test_an_empty_file_is_a_file(models):
    models.keep(file_of(b""), [])
    assert models.open(revision_of(file_of(b""))).contents == {"model.onnx": b""}


def test_nothing_of_a_model_lies_in_clear_on_the_disk(models, tmp_path):
    models.keep(file_of(CONTENT), [CONTENT])
    assert all(b"a model" not in path.read_bytes() for path in tmp_path.iterdir())


@pytest.mark.parametrize("came", [b"", CONTENT[:-1], CONTENT + b"x", b"b" + CONTENT[1:]])
def test_other_bytes_than_the_signed_ones_are_not_kept(models, tmp_path, came):
    with pytest.raises(Corrupt, match="not what was signed"):
        models.keep(file_of(CONTENT), [came])
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_was_changed_on_disk_is_not_used_and_wanted_again(models, tmp_path):
    file = file_of(CONTENT)
    models.keep(file, [CONTENT])
    path = tmp_path / file.digest
    spoilt = bytearray(path.read_bytes())
    spoilt[-1] ^= 1
    path.write_bytes(spoilt)
    with pytest.raises(Corrupt, match="changed on this plane's disk"):
        models.open(revision_of(file))
    assert not models.has(file)


def test_a_file_put_in_the_place_of_another_is_not_used(models, tmp_path):
    one, other = file_of(CONTENT), file_of(b"other")
    models.keep(one, [CONTENT])
    models.keep(other, [b"other"])
    (tmp_path / one.digest).write_bytes((tmp_path / other.digest).read_bytes())
    with pytest.raises(Corrupt):
        models.open(revision_of(one))


def test_another_planes_key_opens_nothing(models, tmp_path):
    models.keep(file_of(CONTENT), [CONTENT])
    with pytest.raises(Corrupt):
        SealedModels(tmp_path, bytes(32)).open(revision_of(file_of(CONTENT)))


def test_what_no_revision_needs_is_removed(models):
    models.keep(file_of(CONTENT), [CONTENT])
    models.keep(file_of(b"old"), [b"old"])
    models.forget_others({file_of(CONTENT).digest})
    assert (models.has(file_of(CONTENT)), models.has(file_of(b"old"))) == (True, False)
