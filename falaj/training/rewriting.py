"""What a recipe changes in a traced program, before it is compiled. The model itself is not touched.

Three rewritings, each of which leaves the program alone where it does not find exactly what it looks for.
"""

import inspect
from typing import Any, Final

import torch
from torch.nn import functional

from falaj.training.heads import head_loss
from falaj.training.recipes import WORTH_PADDING, Recipe

_LINEAR: Final = (functional.linear, torch._C._nn.linear)
_RESHAPES: Final = ("view", "reshape", "flatten", "contiguous", "float")
_CROSS_ENTROPY: Final = inspect.signature(functional.cross_entropy)
_ORDINARY: Final = {"weight": None, "size_average": None, "reduce": None, "reduction": "mean", "label_smoothing": 0.0}


def rewrite(program: Any, recipe: Recipe) -> Any:
    """The same `torch.fx` program, changed in place."""
    dtype = {"bfloat16": torch.bfloat16, "float16": torch.float16}.get(recipe.precision.value)
    if dtype is None:
        return program
    graph, multiple = program.graph, recipe.padded_outputs.value
    if recipe.fused_loss.value:
        for node in graph.find_nodes(op="call_function", target=functional.cross_entropy):
            _fuse_head(graph, node, multiple, dtype)
    for target in _LINEAR if multiple > 1 else ():
        for node in graph.find_nodes(op="call_function", target=target):
            _pad(graph, node, multiple)
    if recipe.lean_residuals.value:
        for node in graph.find_nodes(op="call_function", target=functional.embedding):
            _make_lean(graph, node, dtype)
    graph.lint()
    program.recompile()
    return program


def _shape(node: Any) -> Any:
    seen = node.meta.get("example_value")
    return () if seen is None or not hasattr(seen, "shape") else seen.shape


def _fuse_head(graph: Any, loss: Any, multiple: int, dtype: Any) -> None:
    call = _CROSS_ENTROPY.bind(*loss.args, **loss.kwargs)
    call.apply_defaults()
    scores, answers = call.arguments["input"], call.arguments["target"]
    if len(_shape(scores)) != 2 or len(_shape(answers)) != 1 or answers.meta["example_value"].dtype != torch.int64:
        return
    if any(call.arguments[name] != usual for name, usual in _ORDINARY.items()):
        return
    classes, chain, node = _shape(scores)[1], [loss], scores
    while node.op == "call_method" and node.target in _RESHAPES and len(node.users) == 1 and _shape(node)[-1] == classes:
        chain.append(node)
        node = node.args[0]
    if node.op != "call_function" or node.target not in _LINEAR or len(node.users) != 1 or classes < WORTH_PADDING:
        return
    x, weight, bias = (*node.args, *node.kwargs.values(), None)[:3]
    if _shape(weight)[0] != classes:
        return
    with graph.inserting_before(loss):
        fused = graph.call_function(head_loss, (x, weight, bias, answers, call.arguments["ignore_index"], multiple, dtype))
    fused.meta["example_value"] = loss.meta.get("example_value")
    loss.replace_all_uses_with(fused)
    for one in [*chain, node]:
        graph.erase_node(one)


def _pad(graph: Any, linear: Any, multiple: int) -> None:
    x, weight, bias = (*linear.args, *linear.kwargs.values(), None)[:3]
    outputs = _shape(weight)[0] if _shape(weight) else 0
    missing = -outputs % multiple
    if not missing or outputs < WORTH_PADDING:
        return
    with graph.inserting_before(linear):
        whole = graph.call_function(padded_linear, (x, weight, bias, missing))
    whole.meta["example_value"] = linear.meta.get("example_value")
    linear.replace_all_uses_with(whole)
    graph.erase_node(linear)


def padded_linear(x: Any, weight: Any, bias: Any, missing: int) -> Any:
    """As `linear`; the outputs that are missing to a round number are computed and left out."""
    added = None if bias is None else functional.pad(bias, (0, missing))
    return functional.linear(x, functional.pad(weight, (0, 0, 0, missing)), added)[..., : weight.shape[0]]


def _make_lean(graph: Any, embedding: Any, dtype: Any) -> None:
    with graph.inserting_after(embedding):
        lean = graph.call_method("to", (embedding, dtype))
    lean.meta["example_value"] = embedding.meta.get("example_value")
    embedding.replace_all_uses_with(lean, delete_user_cb=lambda user: user is not lean)
