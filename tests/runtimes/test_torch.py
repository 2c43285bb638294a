"""Programs exported by a real torch, which is a large extra."""

import functools
import io
from typing import Any

import numpy as np
import pytest

from falaj.cli.deferred import Deferred
from falaj.runtimes.engine import ModelFiles, Placement
from falaj.runtimes.errors import DeviceMissing, NotLoadable, Rejected
from falaj.runtimes.loading import load
from falaj.testing.runtimes import EngineCase, EngineConformance

# Collected also where torch is not installed.
torch: Any = Deferred("torch")
engines: Any = Deferred("falaj.runtimes.torch")

pytestmark = [pytest.mark.heavy, pytest.mark.filterwarnings("default")]


def exported(module, examples, most=256):
    rows = torch.export.Dim("rows", min=1, max=most)
    with torch.no_grad():
        program = torch.export.export(module.eval(), tuple(examples), dynamic_shapes=[{0: rows} for _ in examples])
    file = io.BytesIO()
    torch.export.save(program, file)
    return ModelFiles(runtime="torch", main="m.pt2", contents={"m.pt2": file.getvalue()})


def network():
    """Embedding, convolution, normalisation and attention; two inputs, two outputs by name."""

    class Network(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.table = torch.nn.Embedding(50, 16)
            self.convolution = torch.nn.Conv1d(16, 16, 3, padding=1)
            self.normal = torch.nn.BatchNorm1d(16)
            self.layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
            self.last = torch.nn.Linear(16, 3)
            self.places = torch.arange(8)

        def forward(self, ids, scale):
            x = self.table(ids) + self.table(self.places)[None, : ids.shape[1]]
            x = torch.relu(self.normal(self.convolution(x.transpose(1, 2)))).transpose(1, 2)
            pooled = (self.layer(x) * scale[:, None, None]).mean(1).reshape(ids.shape[0], -1)
            low, high = pooled.chunk(2, dim=1)
            return {"chances": self.last(pooled).softmax(-1), "spread": (high - low).max(dim=1).values.to(torch.bfloat16)}

    torch.manual_seed(0)
    return Network().eval()


@functools.cache
def trained():
    module, random = network(), np.random.default_rng(0)
    rows = [random.integers(0, 50, (64, 8)), random.standard_normal(64).astype(np.float32)]
    return module, rows, exported(module, [torch.tensor(array[:2]) for array in rows])


class TestTorch(EngineConformance):
    @pytest.fixture
    def case(self):
        module, rows, model = trained()

        def expected(arrays):
            with torch.inference_mode():
                made = module(*[torch.tensor(array.copy()) for array in arrays])
            return [made["chances"].numpy(), made["spread"].float().numpy()]

        return EngineCase(load=lambda: load(model, Placement()), rows=rows, expected=expected, tolerance=2e-2)

    def test_outputs_have_the_names_the_model_gives_them(self, engine):
        assert [(spec.name, spec.datatype, spec.shape) for spec in engine.outputs] == [
            ("chances", "FP32", (-1, 3)),
            ("spread", "FP32", (-1,)),
        ]

    def test_an_index_beyond_the_table_is_rejected(self, case, engine):
        for wrong in (50, -1, 2**40):
            with pytest.raises(Rejected, match="between 0 and 49"):
                engine.run([np.full((1, 8), wrong), case.rows[1][:1]])


def test_without_a_gpu_the_gpu_is_missing():
    model = exported(torch.nn.Linear(4, 2), [torch.zeros(2, 4)])
    assert not torch.cuda.is_available()
    with pytest.raises(DeviceMissing):
        load(model, Placement(device="gpu"))


def test_a_weight_larger_than_its_file_is_refused():
    model = exported(torch.nn.Linear(4, 2), [torch.zeros(2, 4)])
    content = model.contents["m.pt2"].replace(
        b'"sizes": [{"as_int": 2}, {"as_int": 4}]', b'"sizes": [{"as_int": 9}, {"as_int": 4}]'
    )
    with pytest.raises(NotLoadable):
        load(ModelFiles(runtime="torch", main="m", contents={"m": content}), Placement())


def test_pinned_memory_is_used_again_only_when_nobody_sees_it_any_more(monkeypatch):
    plain = torch.empty
    monkeypatch.setattr("torch.empty", lambda *shape, pin_memory=False, **named: plain(*shape, **named))
    memory = engines.PinnedMemory()
    parts = [bytes([number]) * (1 << 20) for number in range(3)]
    piece = memory.piece(3 << 20)
    piece.put(parts[:2], 0)
    piece.put(parts[2:], 2 << 20)
    array = np.ndarray((3, 1 << 20), np.uint8, piece.array)
    assert [bytes(row) for row in array] == parts
    first = array[:1]
    del piece, array
    other = memory.piece(3 << 20)
    other.put(parts[::-1], 0)
    assert not np.shares_memory(first, other.array)
    assert bytes(first[0]) == parts[0]
    address = other.array.ctypes.data
    del other
    assert memory.piece(2 << 20).array.ctypes.data == address


def test_a_few_bytes_are_not_worth_pinning():
    assert engines.PinnedMemory().piece(1000) is None


def test_graphs_are_captured_up_to_the_largest_batch():
    assert engines.captured_sizes(1) == [1]
    assert engines.captured_sizes(100) == [1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 100]
