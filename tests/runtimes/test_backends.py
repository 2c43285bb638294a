"""The engines against what the models' own libraries say."""

import os

import numpy as np
import pytest
from onnx import TensorProto, helper

from falaj.runtimes.engine import Columned, Engine, Labelled, Placement
from falaj.runtimes.errors import DeviceMissing, EngineFailed
from falaj.runtimes.fallback import Fallback
from falaj.runtimes.loading import load
from falaj.testing.runtimes import EngineCase, EngineConformance
from tests.runtimes.litert_models import dense
from tests.runtimes.models import (
    BIAS,
    ROWS,
    WEIGHTS,
    classifier,
    converted,
    dense_onnx,
    files,
    graph,
    lightgbm_booster,
    openvino_files,
    softmax,
    xgboost_booster,
)

CPU = Placement()


def asked(rows):
    return [softmax(rows[0])]


class TestOnnx(EngineConformance):
    @pytest.fixture
    def case(self):
        model = files("onnx", "m.onnx", m_onnx=dense_onnx().SerializeToString())
        return EngineCase(load=lambda: load(model, CPU), rows=[ROWS], expected=asked)


class TestOnnxOnTwoThreads(EngineConformance):
    @pytest.fixture
    def case(self):
        model = files("onnx", "m.onnx", m_onnx=dense_onnx().SerializeToString())
        return EngineCase(load=lambda: load(model, Placement(threads=2)), rows=[ROWS], expected=asked)


class TestOnnxTrees(EngineConformance):
    """A label and probabilities, as scikit-learn gives them."""

    @pytest.fixture
    def case(self):
        model = files("onnx", "m.onnx", m_onnx=converted(zipmap=False))
        return EngineCase(
            load=lambda: load(model, CPU),
            rows=[ROWS],
            expected=lambda rows: [classifier().predict(rows[0]), classifier().predict_proba(rows[0])],
        )


class TestOnnxMaps(EngineConformance):
    """The same where the probabilities come as a map for each row."""

    @pytest.fixture
    def case(self):
        model = files("onnx", "m.onnx", m_onnx=converted(zipmap=True))
        return EngineCase(
            load=lambda: load(model, CPU),
            rows=[ROWS],
            expected=lambda rows: [classifier().predict(rows[0]), classifier().predict_proba(rows[0])],
        )

    def test_the_columns_stand_for_the_classes(self, engine: Engine):
        assert isinstance(engine, Labelled)
        assert engine.labels == {engine.outputs[1].name: (0, 1)}
        assert engine.outputs[1].shape == (-1, 2)


class TestOnnxTexts(EngineConformance):
    """Two inputs, one of them texts; texts come out."""

    @pytest.fixture
    def case(self):
        nodes = [helper.make_node("Where", ["choose", "a", "b"], ["y"])]
        texts = [(name, TensorProto.STRING, ["N", 2]) for name in "ab"]
        model = graph(nodes, [("choose", TensorProto.BOOL, ["N", 2]), *texts], [("y", TensorProto.STRING, ["N", 2])])
        a, b = (np.array([[f"{name}{row}ü".encode(), b""] for row in range(64)], object) for name in "ab")
        choose = np.random.default_rng(0).random((64, 2)) < 0.5
        return EngineCase(
            load=lambda: load(files("onnx", "m.onnx", m_onnx=model.SerializeToString()), CPU),
            rows=[choose, a, b],
            expected=lambda rows: [np.where(*rows)],
        )


class TestOpenvino(EngineConformance):
    @pytest.fixture
    def case(self, tmp_path):
        model = openvino_files(os.fspath(tmp_path))
        return EngineCase(load=lambda: load(model, CPU), rows=[ROWS], expected=asked)


class TestLitert(EngineConformance):
    @pytest.fixture
    def case(self):
        model = files("litert", "m.tflite", m_tflite=dense(WEIGHTS, BIAS))
        return EngineCase(load=lambda: load(model, CPU), rows=[ROWS], expected=asked)


class TestLightgbm(EngineConformance):
    @pytest.fixture(params=["binary", "multiclass"])
    def case(self, request):
        booster = lightgbm_booster(request.param)
        model = files("lightgbm", "m.txt", m_txt=booster.model_to_string().encode())
        return EngineCase(
            load=lambda: load(model, CPU), rows=[ROWS.astype(np.float64)], expected=lambda rows: [booster.predict(rows[0])]
        )

    def test_the_names_of_the_columns_are_told(self, engine: Engine):
        assert isinstance(engine, Columned)
        assert engine.columns == tuple(f"column{number}" for number in range(6))


class TestXgboost(EngineConformance):
    @pytest.fixture(params=["json binary:logistic", "ubj binary:logistic", "json multi:softprob", "ubj reg:squarederror"])
    def case(self, request):
        form, objective = request.param.split()
        booster = xgboost_booster(objective)
        model = files("xgboost", "m", m=bytes(booster.save_raw(form)))
        return EngineCase(
            load=lambda: load(model, CPU),
            rows=[ROWS],
            expected=lambda rows: [booster.inplace_predict(rows[0], validate_features=False)],
        )

    def test_the_names_of_the_columns_are_told(self, engine: Engine):
        assert isinstance(engine, Columned)
        assert engine.columns == tuple(f"column{number}" for number in range(6))


class TestFallback(EngineConformance):
    """The second is what answers: there is no GPU for LightGBM."""

    @pytest.fixture
    def case(self):
        booster = lightgbm_booster()
        model = files("lightgbm", "m.txt", m_txt=booster.model_to_string().encode())
        return EngineCase(
            load=lambda: Fallback([lambda: load(model, Placement(device="gpu")), lambda: load(model, CPU)]),
            rows=[ROWS.astype(np.float64)],
            expected=lambda rows: [booster.predict(rows[0])],
        )


@pytest.mark.parametrize("runtime", ["onnx", "litert", "lightgbm", "xgboost"])
def test_a_device_that_is_not_there_is_told_from_a_model_that_is_wrong(runtime):
    contents = {
        "onnx": dense_onnx().SerializeToString(),
        "litert": dense(WEIGHTS, BIAS),
        "lightgbm": lightgbm_booster().model_to_string().encode(),
        "xgboost": bytes(xgboost_booster().save_raw("json")),
    }
    with pytest.raises(DeviceMissing):
        load(files(runtime, "m", m=contents[runtime]), Placement(device="gpu"))
    engine = load(files(runtime, "m", m=contents[runtime]), CPU)
    engine.close()
    with pytest.raises(EngineFailed, match="closed"):
        engine.run([ROWS.astype(np.float64) if runtime == "lightgbm" else ROWS])
