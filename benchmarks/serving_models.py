"""Makes what all servers are asked: a tabular and a vision model as ONNX, rows for both, and the right answer to every row.

serving_models.py FOLDER        runs in an environment of its own (onnx, scikit-learn, skl2onnx, onnxruntime)
"""

import json
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from skl2onnx import to_onnx
from sklearn.ensemble import GradientBoostingClassifier

# Expansion, channels, repeats and stride of MobileNetV2's blocks.
BLOCKS = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]


def tabular(random):
    """32 features, 100 trees of depth 4, two probabilities."""
    rows = random.standard_normal((2000, 32), dtype=np.float32)
    truth = (rows[:, :4].sum(1) + rows[:, 4] * rows[:, 5] > 0).astype(int)
    trees = GradientBoostingClassifier(n_estimators=100, max_depth=4, random_state=0).fit(rows, truth)
    model = to_onnx(trees, rows[:1], options={"zipmap": False}, target_opset={"": 17, "ai.onnx.ml": 3})
    del model.graph.output[:1]  # the probabilities are enough
    names = {model.graph.input[0].name: "x", model.graph.output[0].name: "y"}
    model.graph.input[0].name, model.graph.output[0].name = "x", "y"
    for node in model.graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
    return model


class Network:
    """A graph that grows node by node, with random weights: how fast it is does not depend on what it knows."""

    def __init__(self, random):
        self.random, self.nodes = random, []
        self.weights = [numpy_helper.from_array(np.float32(limit), name) for name, limit in (("low", 0), ("high", 6))]

    def add(self, kind, inputs, output="", **attributes):
        self.nodes.append(helper.make_node(kind, inputs, [output or f"t{len(self.nodes)}"], **attributes))
        return self.nodes[-1].output[0]

    def weight(self, values):
        self.weights.append(numpy_helper.from_array(values.astype(np.float32), f"w{len(self.weights)}"))
        return self.weights[-1].name

    def convolution(self, x, given, made, *, size=1, stride=1, groups=1, clipped=True):
        spread = np.sqrt(2 / (given // groups * size * size))
        kernel = self.weight(self.random.standard_normal((made, given // groups, size, size)) * spread)
        shape = {"kernel_shape": [size] * 2, "strides": [stride] * 2, "pads": [size // 2] * 4, "group": groups}
        x = self.add("Conv", [x, kernel, self.weight(np.zeros(made))], **shape)
        return self.add("Clip", [x, "low", "high"]) if clipped else x


def vision(random):
    """MobileNetV2's layers: 224 x 224 pixels, 3.5 million weights, 1,000 classes."""
    network = Network(random)
    x, channels = network.convolution("x", 3, 32, size=3, stride=2), 32
    for expansion, made, repeats, first_stride in BLOCKS:
        for number in range(repeats):
            stride, inner = (first_stride if number == 0 else 1), channels * expansion
            y = network.convolution(x, channels, inner) if expansion > 1 else x
            y = network.convolution(y, inner, inner, size=3, stride=stride, groups=inner)
            y = network.convolution(y, inner, made, clipped=False)
            x, channels = (network.add("Add", [x, y]) if stride == 1 and channels == made else y), made
    x = network.convolution(x, channels, 1280)
    x = network.add("Flatten", [network.add("GlobalAveragePool", [x])])
    last = [network.weight(random.standard_normal((1280, 1000)) * 0.03), network.weight(np.zeros(1000))]
    network.add("Gemm", [x, *last], "y")
    graph = helper.make_graph(
        network.nodes,
        "mobilenetv2",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3, 224, 224])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 1000])],
        network.weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def main():
    folder, random = Path(sys.argv[1]), np.random.default_rng(0)
    folder.mkdir(parents=True, exist_ok=True)
    told = {}
    for name, make, count, shape in (("tabular", tabular, 1024, (32,)), ("vision", vision, 8, (3, 224, 224))):
        model = make(random)
        onnx.checker.check_model(model)
        onnx.save(model, folder / f"{name}.onnx")
        # Six decimals, so that a row is the same row in JSON and in binary.
        rows = random.standard_normal((count, *shape)).round(6).astype(np.float32)
        answers = onnxruntime.InferenceSession(folder / f"{name}.onnx").run(None, {"x": rows})[0]
        rows.tofile(folder / f"{name}.rows")
        answers.tofile(folder / f"{name}.answers")
        told[name] = {"shape": shape, "count": count, "outputs": answers.shape[1]}
    (folder / "models.json").write_text(json.dumps(told))  # last: what is complete has it


if __name__ == "__main__":
    main()
