"""Forms of networks: all answer nearly what the original does, take and give the same, and keep their rows apart."""

import importlib
from dataclasses import replace

import numpy as np
import pytest
from onnx import helper, numpy_helper

from falaj.optimisation.making.onnx_graphs import read_graph
from falaj.optimisation.making.parity import parity
from falaj.optimisation.making.profiles import profile_of
from falaj.optimisation.making.running import engine_of
from falaj.optimisation.making.steps import STEPS
from falaj.optimisation.making.values import CannotBeMade, Material
from falaj.runtimes import loading
from falaj.runtimes.fallback import Fallback
from falaj.runtimes.hosts import this_host
from tests.optimisation.making.models import (
    FLOAT,
    booster,
    conv,
    conv_material,
    digits,
    graph,
    node,
    onnx_made,
    transformer,
    transformer_material,
    two_input_rows,
    two_inputs,
)

# How far answers may be off; scores of these models lie between -2 and 2.
FORMS = {
    "fold": 1e-3,
    "half": 0.02,
    "int8": 0.5,
    "int8-weights": 0.2,
    "openvino": 1e-3,
    "openvino-half": 0.02,
    "openvino-int8": 0.5,
    "openvino-int8-weights": 0.2,
} | ({"openvino-bf16": 0.1} if this_host().multiplies_bf16 else {})


def two_input_material() -> Material:
    rows = two_input_rows()
    return Material(calibration=rows, training=rows, selection=rows, drop=lambda made: 0.0)


MODELS = {
    "conv": (conv, conv_material),
    "transformer": (transformer, transformer_material),
    "two-inputs": (two_inputs, two_input_material),
}


@pytest.mark.parametrize("step", FORMS)
@pytest.mark.parametrize("name", MODELS)
def test_a_form_can_stand_in_for_its_original(name, step):
    made, material = MODELS[name][0](), MODELS[name][1]()
    form = STEPS[step](made, "", material)
    assert len(form.notes) == 1
    engines = engine_of(made), engine_of(form)
    Fallback([lambda: engines[0], lambda: engines[1]]).close()
    held = parity(made, form, material.selection.part(0, 200), tolerance=FORMS[step])
    assert held.agreeing > 0.95, held
    assert material.drop(form) <= material.allowed


@pytest.mark.parametrize(("step", "smaller"), [("half", 0.6), ("int8", 0.6), ("int8-weights", 0.45), ("int4-weights", 0.32)])
def test_fewer_bits_make_a_smaller_file(step, smaller):
    assert STEPS[step](transformer(), "", transformer_material(allowed=1.0)).size < smaller * transformer().size


def test_folding_leaves_operators_alone_that_every_onnx_runtime_has():
    form = STEPS["fold"](transformer(), "", transformer_material())
    found = profile_of(form)
    assert sum(found.operators.values()) < sum(profile_of(transformer()).operators.values())
    assert set(found.opsets) <= {"", "com.microsoft"}
    assert found.has_free_rows


@pytest.mark.parametrize("keeps", [0, 1])
def test_means_over_pictures_become_the_pooling_they_are(keeps):
    random = np.random.default_rng(0)
    weights = {"w": random.standard_normal((4, 1, 3, 3)).astype(np.float32), "axes": np.array([-1, 2])}
    nodes = [node("Conv", ["pictures", "w"], "c"), node("ReduceMean", ["c", "axes"], "mean", keepdims=keeps)]
    shape = ["rows", 4, *([1, 1] if keeps else [])]
    made = onnx_made(graph(nodes, [("pictures", FLOAT, ["rows", 1, 8, 8])], [("mean", FLOAT, shape)], weights))
    form = STEPS["fold"](made, "", conv_material())
    assert "GlobalAveragePool" in profile_of(form).operators
    assert parity(made, form, digits()[1].part(0, 50)).holds


@pytest.mark.parametrize("step", ["fold", "openvino", "litert"])
def test_how_far_a_float_form_is_from_its_original_is_noted_with_the_tolerance(step):
    form = STEPS[step](conv(), "", conv_material())
    assert "; answers to 128 rows are at most " in form.notes[0]
    assert " apart, within 0.001" in form.notes[0]


@pytest.mark.parametrize(("step", "place"), [("fold", "folding.folded"), ("openvino", "openvino_forms.read_graph")])
def test_a_float_form_that_answers_something_else_is_not_made(step, place, monkeypatch):
    """As if the library had lost a bias on the way."""
    module, name = place.split(".")
    loaded = importlib.import_module(f"falaj.optimisation.making.{module}")
    rightly = getattr(loaded, name)

    def wrongly(*given, **told):
        model = rightly(*given, **told)
        (bias,) = (tensor for tensor in model.graph.initializer if tensor.name == "last_bias")
        bias.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(bias) + np.float32(0.01), "last_bias"))
        return model

    monkeypatch.setattr(loaded, name, wrongly)
    said = r"answers to 16 rows are at most 0\.01\d* apart, beyond 0\.001"
    with pytest.raises(CannotBeMade, match=f"it answers something else: {said}"):
        STEPS[step](conv(), "", conv_material())


def test_a_model_that_is_onnx_leaves_as_it_is_and_trees_are_told_what_makes_them_that():
    assert STEPS["onnx"](conv(), "", conv_material()).files == conv().files
    with pytest.raises(CannotBeMade, match="it is served as lightgbm, not as ONNX; of LightGBM and XGBoost, trees-onnx makes"):
        STEPS["onnx"](booster(), "", conv_material())


def test_steps_can_follow_each_other():
    form = conv()
    for step in ("int8", "openvino"):
        form = STEPS[step](form, "", conv_material())
    assert form.runtime == "openvino"
    assert len(form.notes) == 2


def test_settings_are_carried_with_the_form():
    form = STEPS["settings"](conv(), "arena=off,threads=2", conv_material())
    assert form.settings == {"arena": "off", "threads": "2"}
    assert form.settings.items() <= STEPS["int8"](form, "", conv_material()).settings.items()
    assert STEPS["openvino"](form, "", conv_material()).settings == {"threads": "2"}
    with pytest.raises(CannotBeMade, match="no setting"):
        STEPS["settings"](conv(), "colour=red", conv_material())


@pytest.mark.parametrize(("step", "module"), [("int8", "ort_quantising"), ("openvino-int8", "openvino_quantising")])
@pytest.mark.parametrize("sets", [("avx2",), ("avx2", "avx512_vnni")])
def test_what_was_made_where_sums_of_eight_bits_never_run_over_says_that_it_needs_such_a_host(step, module, sets, monkeypatch):
    host = replace(this_host(), instruction_sets=sets)
    monkeypatch.setattr(importlib.import_module(f"falaj.optimisation.making.{module}"), "this_host", lambda: host)
    form = STEPS[step](conv(), "", conv_material(allowed=1.0))
    wanted = {"needs": "int8-multiply"} if host.multiplies_int8 else {}
    assert form.settings == wanted
    assert (("in seven bits" in form.notes[0]) is not host.multiplies_int8) or step != "int8"
    monkeypatch.setattr(loading, "this_host", lambda: replace(host, instruction_sets=("avx512_vnni",)))
    assert STEPS["openvino"](form, "", conv_material()).settings == wanted


def sensitive_conv():
    """With one channel so large that eight bits leave nothing of the others."""
    model = read_graph(conv())
    tensors = {tensor.name: tensor for tensor in model.graph.initializer}
    array = np.frombuffer(tensors["first"].raw_data, np.float32).copy().reshape(12, 9)
    array[0] *= 4000
    tensors["first"].raw_data = array.tobytes()
    second = np.frombuffer(tensors["second"].raw_data, np.float32).copy().reshape(24, 12, 9)
    second[:, 0] /= 4000
    tensors["second"].raw_data = second.tobytes()
    return onnx_made(model)


@pytest.mark.parametrize("step", ["int8", "openvino-int8"])
def test_where_eight_bits_cost_too_much_the_most_sensitive_layer_stays_in_float(step):
    made, material = sensitive_conv(), conv_material(allowed=0.01)
    form = STEPS[step](made, "", material)
    assert "in float: " in form.notes[-1]
    assert "node_two" in form.notes[-1]
    assert material.drop(form) <= 0.01


@pytest.mark.parametrize("step", ["int8", "openvino-int8"])
def test_where_that_does_not_help_either_the_nearest_is_given_for_others_to_judge(step):
    original, seen = conv(), []

    def drop(made):
        if made is original:
            return 0.0
        seen.append(made)
        return 0.2 if len(seen) == 2 else 0.3

    form = STEPS[step](original, "", replace(conv_material(allowed=0.01), drop=drop))
    assert len(seen) > 2
    assert form.files == seen[1].files


@pytest.mark.parametrize("step", ["int8", "openvino-int8"])
def test_what_an_earlier_step_lost_is_not_held_against_eight_bits(step):
    form = STEPS[step](conv(), "", replace(conv_material(allowed=0.01), drop=lambda made: 0.3))
    assert "in float" not in form.notes[-1]


def foreign():
    """An operator of somebody's own, with the trace of the line that made it."""
    strange = helper.make_node("Sparkle", ["x"], ["y"], name="node_sparkle", domain="acme.ai")
    note = strange.metadata_props.add()
    note.key = "pkg.torch.onnx.stack_trace"
    note.value = 'File "/home/me/model.py", line 12, in forward\n  File "/x/site-packages/torch/nn/f.py", line 3, in f\n'
    model = graph([strange], [("x", FLOAT, ["rows", 3])], [("y", FLOAT, ["rows", 3])], {})
    model.opset_import.append(helper.make_opsetid("acme.ai", 1))
    return replace(conv(), files={"model.onnx": model.SerializeToString()})


@pytest.mark.parametrize("step", ["fold", "int8", "int8-weights", "openvino", "openvino-int8"])
def test_an_operator_that_cannot_be_taken_is_named_with_the_line_that_made_it(step):
    with pytest.raises(CannotBeMade, match=r"Sparkle \(node node_sparkle, made by /home/me/model.py line 12 in forward\)"):
        STEPS[step](foreign(), "", conv_material())


def test_an_operator_that_openvino_does_not_know_is_named():
    strange = [node("StringNormalizer", ["x"], "y", case_change_action="LOWER")]
    model = graph(strange, [("x", 8, [3])], [("y", 8, [3])], {})
    with pytest.raises(CannotBeMade, match=r"OpenVINO cannot take the model.*StringNormalizer \(node node_y\)"):
        STEPS["openvino"](onnx_made(model), "", conv_material())


@pytest.mark.parametrize("step", ["int8", "int8-weights", "openvino-int8"])
def test_a_model_without_layers_is_refused(step):
    model = graph([node("Abs", ["x"], "y")], [("x", FLOAT, ["rows", 3])], [("y", FLOAT, ["rows", 3])], {})
    with pytest.raises(CannotBeMade, match="no layer"):
        STEPS[step](onnx_made(model), "", conv_material())
