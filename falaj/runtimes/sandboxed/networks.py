"""Networks become ONNX: PyTorch's by its own exporter, TensorFlow's by tf2onnx."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from falaj.runtimes.sandboxed.comparing import Converted, gaps
from falaj.runtimes.sandboxed.failing import first_cause, of_torch, own_line
from falaj.runtimes.sandboxed.originals import HERE, Module, Unusable
from falaj.runtimes.sandboxed.tensorflow_models import Network
from falaj.runtimes.sandboxed.trials import Trial

OPSET = 18  # that every ONNX Runtime of the last years has
BATCH = "batch"
_NAMED = 5


def from_pytorch(original: Module, trial: Trial) -> Converted:
    import onnxruntime
    import torch

    samples, wanted = trial.tensors(original)
    out = HERE / "model.onnx"
    names = [tensor["name"] for tensor in trial.said["tensors"]]
    how = {"dynamo": True, "external_data": False, "verbose": False, "input_names": names if names and all(names) else None}
    program = getattr(original, "program", None)
    given = tuple(torch.from_numpy(sample) for sample in samples)
    try:
        if program is not None:
            _from_program(program, given, str(out), how)
        else:
            batch = torch.export.Dim(BATCH, min=1, max=1 << 20)
            shapes = tuple({0: batch} for _ in given)
            torch.onnx.export(original.model, given, str(out), dynamic_shapes=shapes, **how)
    except ModuleNotFoundError:
        raise
    except Exception as error:
        raise Unusable(f"torch.onnx.export cannot convert it: {of_torch(error)}") from error
    content = out.read_bytes()
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    feeds = {one.name: sample for one, sample in zip(session.get_inputs(), samples, strict=True)}
    pairs = zip(wanted.values(), session.run(None, feeds), strict=True)
    return Converted("onnx", out.name, content, gaps(pairs))


def _from_program(program: Any, given: tuple[Any, ...], out: str, how: dict[str, Any]) -> None:
    import torch

    try:
        torch.onnx.export(program, (), out, **how)
    except Exception:
        if not _traced_anew(program, given, out, how):
            raise


def _traced_anew(program: Any, given: tuple[Any, ...], out: str, how: dict[str, Any]) -> bool:
    """What was saved may have lost what torch 2.13 must know of its sizes to reshape or unflatten. The same sizes stay free."""
    import torch

    names = set(program.graph_signature.user_inputs)
    takes = [node.meta["val"].shape for node in program.graph.nodes if node.op == "placeholder" and node.name in names]
    free = torch.export.Dim.DYNAMIC
    shapes = tuple({place: free for place, size in enumerate(shape) if not isinstance(size, int)} for shape in takes)
    try:
        torch.onnx.export(program.module(), given, out, dynamic_shapes=shapes, **how)
    except Exception:  # noqa: BLE001 - whatever it is, what was said first is what is wrong
        return False
    return True


def from_tensorflow(original: Network, trial: Trial) -> Converted:
    """Its tensors keep their names, and take any number of rows."""
    import onnxruntime
    import tensorflow as tf
    import tf2onnx

    samples, wanted = trial.tensors(original)
    takes = original.takes or [{"name": "input", "dtype": "float32", "shape": samples[0].shape}]
    specs = [tf.TensorSpec(_shape(one["shape"]), tf.as_dtype(one["dtype"]), name=one["name"]) for one in takes]
    try:
        function = tf.function(lambda *given: original.outputs(given))
        made, _ = tf2onnx.convert.from_function(function, input_signature=specs, opset=OPSET)
    except Exception as error:
        raise Unusable(f"tf2onnx cannot convert it: {first_cause(error)}") from error
    refuse_unknown(made, function.get_concrete_function(*specs))
    for face in (*made.graph.input, *made.graph.output):
        if face.type.tensor_type.shape.dim:
            face.type.tensor_type.shape.dim[0].dim_param = BATCH
    content = made.SerializeToString()
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    used = {one.name for one in session.get_inputs()}
    feeds = {
        one["name"]: sample.astype(one["dtype"]) for one, sample in zip(takes, samples, strict=True) if one["name"] in used
    }
    names = [one.name for one in session.get_outputs()]
    pairs = ((wanted[name], ours) for name, ours in zip(names, session.run(None, feeds), strict=True))
    return Converted("onnx", "model.onnx", content, gaps(pairs))


def _shape(told: Any) -> list[int | None]:
    return [None, *(None if length < 0 else length for length in told[1:])]


def refuse_unknown(made: Any, traced: Any) -> None:
    """tf2onnx leaves in what it has no operator for; TensorFlow knows which line of code made it."""
    import onnx

    unknown = Counter(node.op_type for node in nodes(made.graph) if not onnx.defs.has(node.op_type, node.domain))
    if not unknown:
        return
    lines = {
        one.type: own_line((frame.filename, frame.lineno) for frame in one.traceback) for one in traced.graph.get_operations()
    }
    told = [f"{name}{f', made at {lines[name]}' if lines.get(name) else ''}" for name in sorted(unknown)]
    raise Unusable(f"tf2onnx cannot convert it: ONNX has no operator for {'; '.join(told[:_NAMED])}")


def nodes(graph: Any) -> Iterator[Any]:
    """Also those of graphs inside of it."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from nodes(inner)
