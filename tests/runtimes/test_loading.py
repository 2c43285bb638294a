"""Which files become engines, and that the rest are refused in words."""

import contextlib
import random
import re
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from falaj.runtimes.datatypes import BYTES, DTYPES, SIZES, datatype_of
from falaj.runtimes.engine import ModelFiles, Placement
from falaj.runtimes.errors import EngineFailed, NotLoadable, Rejected
from falaj.runtimes.loading import BACKENDS, load
from falaj.runtimes.probing import probes
from tests.runtimes.litert_models import dense
from tests.runtimes.models import BIAS, WEIGHTS, converted, dense_onnx, files, lightgbm_booster, openvino_files, xgboost_booster


def whole_models(folder: str) -> dict[str, ModelFiles]:
    return {
        "onnx": files("onnx", "m.onnx", m_onnx=dense_onnx().SerializeToString()),
        "onnx trees": files("onnx", "m.onnx", m_onnx=converted(zipmap=False)),
        "litert": files("litert", "m", m=dense(WEIGHTS, BIAS)),
        "lightgbm": files("lightgbm", "m", m=lightgbm_booster().model_to_string().encode()),
        "xgboost json": files("xgboost", "m", m=bytes(xgboost_booster().save_raw("json"))),
        "xgboost ubj": files("xgboost", "m", m=bytes(xgboost_booster().save_raw("ubj"))),
        "openvino": openvino_files(folder),
    }


KINDS = ["onnx", "onnx trees", "litert", "lightgbm", "xgboost json", "xgboost ubj", "openvino"]


def damaged(content: bytes, chance: random.Random) -> bytes:
    made, way = bytearray(content), chance.randrange(4)
    if way == 0:
        del made[chance.randrange(len(made)) :]
    elif way == 1:
        for _ in range(chance.randrange(1, 10)):
            made[chance.randrange(len(made))] = chance.randrange(256)
    elif way == 2:
        at = chance.randrange(len(made))
        made[at : at + chance.randrange(50)] = chance.randbytes(chance.randrange(50))
    elif numbers := list(re.finditer(rb"-?\d+", content)):
        number = chance.choice(numbers)
        made[number.start() : number.end()] = str(chance.choice([-1, 0, 5, 10**6, 2**31, -(2**31), 2**63, 10**30])).encode()
    return bytes(made)


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_file_is_refused_or_loaded_and_never_the_end(kind, tmp_path):
    model = whole_models(str(tmp_path))[kind]
    loaded = refused = 0
    for seed in range(120):
        content = damaged(model.contents[model.main], random.Random(seed))
        changed = ModelFiles(runtime=model.runtime, main=model.main, contents={**model.contents, model.main: content})
        try:
            engine = load(changed, Placement())
        except NotLoadable:
            refused += 1
            continue
        with contextlib.suppress(Rejected, EngineFailed):
            engine.run(probes(engine.inputs, 3))
        engine.close()
        loaded += 1
    assert refused > 0
    assert loaded + refused == 120


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("content", [b"", b"\0", b"{", b"<", b"tree\n", b"\x80\x04\x95pickle", b"PK\x03\x04", b"x" * 100_000])
def test_what_is_no_model_at_all_is_refused(kind, content, tmp_path):
    model = whole_models(str(tmp_path))[kind]
    with pytest.raises(NotLoadable):
        load(ModelFiles(runtime=model.runtime, main="m", contents={"m": content}), Placement())


def test_an_unknown_runtime_is_told_which_there_are():
    with pytest.raises(NotLoadable, match="onnx, openvino, litert, lightgbm, xgboost, torch"):
        load(ModelFiles(runtime="pickle", main="m", contents={"m": b""}), Placement())


def test_the_models_file_must_be_among_its_files():
    with pytest.raises(NotLoadable, match="'m'"):
        load(ModelFiles(runtime="onnx", main="m", contents={"n": b""}), Placement())


@pytest.mark.parametrize(("runtime", "library"), [(runtime, library) for runtime, (_, library) in BACKENDS.items() if library])
def test_a_missing_library_says_what_to_install_and_no_other_is_touched(runtime, library):
    """In a process of its own, where that library cannot be found."""
    script = f"""
        import sys
        others = {sorted({name for _, name in BACKENDS.values()} - {library})!r}
        sys.modules[{library!r}] = None
        from falaj.runtimes.engine import ModelFiles, Placement
        from falaj.runtimes.errors import EngineMissing
        from falaj.runtimes.loading import load
        try:
            load(ModelFiles(runtime={runtime!r}, main="m", contents={{"m": b""}}), Placement())
        except EngineMissing as error:
            print(error)
        print([name for name in others if name in sys.modules])
    """
    told = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=True).stdout
    message, others = told.splitlines()
    assert library in message
    assert "pip install 'falaj[" in message
    assert others == "[]"


@given(st.sampled_from(sorted(DTYPES)))
@settings(max_examples=len(DTYPES))
def test_every_word_of_the_protocol_has_its_dtype_and_size(word):
    assert datatype_of(DTYPES[word]) == word
    assert DTYPES[word].byteorder != ">"
    if word != BYTES:
        assert SIZES[word] == np.zeros(1, DTYPES[word]).nbytes


def test_a_dtype_that_the_protocol_does_not_have_has_no_word():
    assert datatype_of(np.dtype(np.complex64)) is None
    assert datatype_of(np.dtype(">f4")) is None
