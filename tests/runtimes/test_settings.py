"""A model may say how it is to be run; what nobody knows is refused."""

from dataclasses import replace

import numpy as np
import pytest

from falaj.runtimes import loading
from falaj.runtimes.engine import ModelFiles, Placement
from falaj.runtimes.errors import NotLoadable
from falaj.runtimes.hosts import Host
from falaj.runtimes.loading import load
from falaj.runtimes.settings import threads_of
from tests.runtimes.models import ROWS, dense_onnx, files, lightgbm_booster, openvino_files, softmax

ONNX = files("onnx", "m", m=dense_onnx().SerializeToString())


@pytest.mark.parametrize("settings", [{"arena": "off"}, {"arena": "on", "threads": "2"}, {}], ids=str)
def test_onnx_models_answer_the_same_however_they_are_run(settings):
    engine = load(replace(ONNX, settings=settings), Placement())
    assert engine.batches
    np.testing.assert_allclose(engine.run([ROWS])[0], softmax(ROWS), rtol=1e-4)


@pytest.mark.parametrize(("precision", "tolerance"), [("f32", 1e-4), ("bf16", 5e-2)])
def test_openvino_models_are_run_in_the_precision_they_ask_for(precision, tolerance, tmp_path):
    engine = load(replace(openvino_files(str(tmp_path)), settings={"precision": precision, "threads": "1"}), Placement())
    assert engine.batches
    np.testing.assert_allclose(engine.run([ROWS])[0], softmax(ROWS), atol=tolerance)


@pytest.mark.parametrize(
    ("model", "settings", "reason"),
    [
        (ONNX, {"arean": "off"}, "no setting 'arean', only arena, threads"),
        (ONNX, {"arena": "maybe"}, "must be on or off"),
        (ONNX, {"threads": "0"}, "a number from 1"),
        (ONNX, {"threads": "2; rm"}, "a number from 1"),
        (ONNX, {"precision": "bf16"}, "no setting 'precision'"),
        (
            files("lightgbm", "m", m=lightgbm_booster().model_to_string().encode()),
            {"threads": "1"},
            "no setting 'threads', none",
        ),
    ],
)
def test_settings_that_nobody_knows_are_refused(model, settings, reason):
    with pytest.raises(NotLoadable, match=reason):
        load(replace(model, settings=settings), Placement())


@pytest.mark.parametrize(("sets", "is_taken"), [(("avx2", "avx512f"), False), (("avx2", "avx_vnni"), True)])
def test_a_model_that_needs_another_processor_is_not_loaded_and_says_which(sets, is_taken, monkeypatch):
    monkeypatch.setattr(loading, "this_host", lambda: Host(cpu="Old One", instruction_sets=sets, cores=2, memory_mib=4096))
    asked = replace(ONNX, settings={"needs": "int8-multiply"})
    if is_taken:
        load(asked, Placement()).close()
        return
    with pytest.raises(
        NotLoadable, match=r"would answer otherwise on this one \(Old One\): have the model optimised on a host"
    ):
        load(asked, Placement())


def test_what_a_model_says_about_threads_goes_before_where_it_is_put():
    asked = ModelFiles(runtime="onnx", main="m", contents={}, settings={"threads": "3"})
    assert threads_of(asked, Placement(threads=8)) == 3
    assert threads_of(replace(asked, settings={}), Placement(threads=8)) == 8
    assert threads_of(replace(asked, settings={}), Placement()) == 1
