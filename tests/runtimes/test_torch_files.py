"""Exported programs are read without running anything they hold. None of this needs torch."""

import copy
import io
import json
import pickle
import zipfile

import numpy as np
import pytest

from falaj.runtimes.errors import NotLoadable
from falaj.runtimes.torch_files import Ref, Word, read_program

FLOAT, LONG = 7, 5


def meta(dtype, *sizes):
    lengths = [{"as_int": size} if size >= 0 else {"as_expr": {"expr_str": "Symbol('s0')", "hint": None}} for size in sizes]
    strides = [{"as_int": 1}] * len(sizes)
    return {"dtype": dtype, "sizes": lengths, "strides": strides, "storage_offset": {"as_int": 0}, "layout": 7}


def tensor(name):
    return {"as_tensor": {"name": name}}


def node(target, given, made):
    return {"target": target, "inputs": [{"name": "a", "arg": one, "kind": 1} for one in given], "outputs": [tensor(made)]}


def parts():
    """A table looked up by `ids`, halved."""
    graph = {
        "inputs": [tensor("p_w"), tensor("ids")],
        "outputs": [tensor("half")],
        "nodes": [
            node("torch.ops.aten.embedding.default", [tensor("p_w"), tensor("ids")], "found"),
            node("torch.ops.aten._assert_tensor_metadata.default", [tensor("found")], "unused"),
            node("torch.ops.aten.to.dtype", [tensor("found"), {"as_scalar_type": FLOAT}], "same"),
            node("torch.ops.aten.mul.Tensor", [tensor("same"), {"as_float": "Infinity"}], "half"),
        ],
        "tensor_values": {"p_w": meta(FLOAT, 4), "ids": meta(LONG, -1), "half": meta(FLOAT, -1)},
    }
    signature = {
        "input_specs": [
            {"parameter": {"arg": {"name": "p_w"}, "parameter_name": "w"}},
            {"user_input": {"arg": tensor("ids")}},
        ],
        "output_specs": [{"user_output": {"arg": tensor("half")}}],
    }
    spec = {"type": "builtins.dict", "context": '["score"]', "children_spec": [{"children_spec": []}]}
    calls = [{"fqn": "", "signature": {"out_spec": json.dumps([1, spec])}}]
    return {
        "models/model.json": {
            "graph_module": {"graph": graph, "signature": signature, "module_call_graph": calls},
            "schema_version": {"major": 8, "minor": 20},
            "range_constraints": {"s0": {"min_val": 1, "max_val": 64}},
        },
        "data/weights/model_weights_config.json": {
            "config": {"w": {"path_name": "weight_0", "use_pickle": False, "tensor_meta": meta(FLOAT, 4)}}
        },
        "data/weights/weight_0": np.arange(4, dtype=np.float32).tobytes(),
        "data/constants/model_constants_config.json": {"config": {}},
        "data/sample_inputs/model.pt": pickle.dumps(print),
    }


def packed(contents, compression=zipfile.ZIP_STORED):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, content in contents.items():
            archive.writestr(f"archive/{name}", content if isinstance(content, bytes) else json.dumps(content))
    return file.getvalue()


def test_a_program_is_its_inputs_weights_steps_and_outputs():
    program = read_program(packed(parts()))
    assert [(one.name, one.dtype, one.shape, one.most) for one in program.inputs] == [("ids", LONG, (-1,), 64)]
    assert [(one.name, one.shape) for one in program.outputs] == [("score", (-1,))]
    assert np.frombuffer(program.weights["p_w"].content, np.float32).tolist() == [0, 1, 2, 3]
    assert [step.made for step in program.steps] == [("found",), ("same",), ("half",)]
    assert program.steps[1].given == (Ref(name="found"), Word(kind="dtype", number=FLOAT))
    assert program.steps[2].given == (Ref(name="same"), float("inf"))
    assert program.lookups() == {"ids": 4}


def graph_of(contents):
    return contents["models/model.json"]["graph_module"]["graph"]


@pytest.mark.parametrize(
    "target",
    [
        "torch.os.system",
        "torch.load",
        "torch.hub.load",
        "torch.ops.aten.from_file.default",
        "torch.ops.aten.empty.memory_format",
        "torch.ops.aten.new_empty.default",
        "torch.ops.aten.set_.source_Storage",
        "torch.ops.aten.resize_.default",
        "torch.ops.aten._unsafe_index.Tensor",
        "torch.ops.aten.__class__.__init__",
        "torch.ops.load_library",
        "torch.ops.mine.op.default",
        "torch.ops.higher_order.cond",
        "_operator.pow",
        "_operator.attrgetter",
        "_operator.methodcaller",
        "math.factorial",
        "#mine",
        "os.system",
        "",
    ],
)
def test_a_program_that_calls_anything_but_harmless_operations_is_refused(target):
    contents = parts()
    graph_of(contents)["nodes"][2]["target"] = target
    with pytest.raises(NotLoadable):
        read_program(packed(contents))


@pytest.mark.parametrize(
    "argument", [{"as_graph": {}}, {"as_custom_obj": {}}, {"as_operator": "x"}, {"as_int": {"a": 1}}, {}, None]
)
def test_arguments_that_are_more_than_tensors_and_numbers_are_refused(argument):
    contents = parts()
    graph_of(contents)["nodes"][3]["inputs"][1]["arg"] = argument
    with pytest.raises(NotLoadable):
        read_program(packed(contents))


def test_a_pickled_weight_is_refused():
    contents = parts()
    contents["data/weights/model_weights_config.json"]["config"]["w"]["use_pickle"] = True
    with pytest.raises(NotLoadable, match="pickle"):
        read_program(packed(contents))


@pytest.mark.parametrize("path", ["custom_obj_0", "opaque_obj_0", "../weight_0"])
def test_objects_among_the_constants_are_refused(path):
    contents = parts()
    entry = copy.deepcopy(contents["data/weights/model_weights_config.json"]["config"]["w"])
    contents["data/constants/model_constants_config.json"]["config"]["c"] = {**entry, "path_name": path}
    with pytest.raises(NotLoadable, match="pickle"):
        read_program(packed(contents))


def test_a_program_that_changes_its_own_weights_is_refused():
    contents = parts()
    contents["models/model.json"]["graph_module"]["signature"]["output_specs"][0] = {
        "buffer_mutation": {"arg": {"name": "half"}}
    }
    with pytest.raises(NotLoadable, match="changes its own weights"):
        read_program(packed(contents))


def test_compressed_files_are_refused_before_they_unfold():
    with pytest.raises(NotLoadable, match="compressed"):
        read_program(packed(parts(), zipfile.ZIP_DEFLATED))


def test_a_program_of_another_schema_is_refused():
    contents = parts()
    contents["models/model.json"]["schema_version"]["major"] = 9
    with pytest.raises(NotLoadable, match="schema 9"):
        read_program(packed(contents))


@pytest.mark.parametrize("content", [b"", b"PK\x05\x06" + b"\0" * 18, b"\x80\x02pickle", packed({"data.pkl": b"."})])
def test_what_is_no_exported_program_is_refused(content):
    with pytest.raises(NotLoadable):
        read_program(content)


def test_a_program_cut_anywhere_is_refused():
    whole = packed(parts())
    for length in range(0, len(whole) - 1, 37):
        with pytest.raises(NotLoadable):
            read_program(whole[:length])


@pytest.mark.parametrize("missing", sorted(set(parts()) - {"data/sample_inputs/model.pt"}))
def test_a_program_that_lacks_a_part_is_refused(missing):
    contents = parts()
    del contents[missing]
    with pytest.raises(NotLoadable):
        read_program(packed(contents))


def test_the_pickled_samples_are_never_looked_at():
    contents = parts()
    contents["data/sample_inputs/model.pt"] = b"not even a pickle"
    assert read_program(packed(contents)).made == ("half",)


def test_a_file_that_names_the_same_bytes_many_times_is_refused_before_they_are_read():
    contents = parts()
    contents["data/weights/weight_0"] = bytes(100_000)
    file = io.BytesIO(packed(contents))
    with zipfile.ZipFile(file, "a") as archive:
        again = archive.getinfo("archive/data/weights/weight_0")
        for number in range(1, 200):
            one = copy.copy(again)
            one.filename = f"archive/data/weights/weight_{number}"
            archive.filelist.append(one)
        archive._didModify = True
    with pytest.raises(NotLoadable, match="larger than itself"):
        read_program(file.getvalue())
