"""A model that several processes share takes the steps of one process that has it alone. By gloo, each process a fork."""

import math
import os
import signal
import sys
import time
import warnings

import torch
import torch._dynamo  # optimisers do it at their first step; here once for all forks
from torch import nn
from torch.distributed.tensor import DTensor
from torch.nn import functional

from falaj.base.errors import Invalid
from falaj.training import Saves, Session, Wishes
from falaj.training.checkpoints.keys import GivenKey
from falaj.training.errors import OthersGone
from falaj.training.splitting import plan_for
from falaj.training.together import overflow_alike
from falaj.training.watching import GAVE_UP
from tests.training.processes import together

KEY = GivenKey(bytes(range(32)))
EXACT = {"precision": "float32", "profile": "off"}


class _Block(nn.Module):
    """As of GPT-2: one layer for queries, keys and values, and a pair that goes wide and comes back."""

    def __init__(self, width=16):
        super().__init__()
        self.attend, self.joined = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x):
        rows, length, width = x.shape
        q, k, v = (one.view(rows, length, 4, -1).transpose(1, 2) for one in self.attend(self.first(x)).split(width, dim=2))
        seen = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.joined(seen.transpose(1, 2).reshape(rows, length, width))
        return x + self.down(functional.gelu(self.up(self.second(x))))


class _Writer(nn.Module):
    def __init__(self, block=_Block):
        super().__init__()
        self.words = nn.Embedding(11, 16)
        self.blocks = nn.ModuleList(block() for _ in range(2))
        self.last = nn.Linear(16, 11)

    def forward(self, ids):
        x = self.words(ids)
        for block in self.blocks:
            x = block(x)
        return self.last(x)


def _loss_of(model, ids, following):
    return functional.cross_entropy(model(ids).flatten(0, 1), following.flatten())


def _texts():
    ids = torch.randint(0, 11, (24, 7), generator=torch.Generator().manual_seed(5))
    return torch.utils.data.TensorDataset(ids[:, :-1], ids[:, 1:].contiguous())


def _trained(wishes, *, epochs=2, size=8, saves=None, seed=0, block=_Block, steps=100):
    """Losses by their steps, and the weights in the end, whole."""
    torch.manual_seed(seed)
    model = _Writer(block)
    # Not Adam: it would make steps out of what rounding leaves of gradients that are zero, as those of keys' biases are.
    optimiser = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    session = Session(wishes, saves=saves, say=lambda sentence: None)
    session.prepare(model, optimiser)
    loader = torch.utils.data.DataLoader(_texts(), batch_size=size, shuffle=True)
    losses = {}
    warnings.filterwarnings("ignore", message="FSDP2-wrapped module")  # it returns a view, which no one changes in place
    for _ in session.epochs(epochs):
        for ids, following in session.batches(loader):
            loss = session.step(_loss_of, ids, following)
            losses[session.steps] = loss.item()
            if session.steps == steps:
                break
        if session.steps == steps:
            break
    session.finish()
    whole = {name: one.full_tensor() if isinstance(one, DTensor) else one for name, one in model.state_dict().items()}
    cut = sorted(name for name, one in model.named_parameters() if isinstance(one, DTensor))
    return losses, whole, cut, session.recipe.strategy.value


def _alike(one, other):
    (losses, weights, *_), (expected, exact, *_) = one, other
    assert losses.keys() == expected.keys()
    assert all(math.isclose(losses[step], expected[step], rel_tol=1e-4) for step in expected), (losses, expected)
    assert weights.keys() == exact.keys()
    for name in exact:
        torch.testing.assert_close(weights[name], exact[name], rtol=1e-3, atol=1e-4)


def two_that_share_a_model_out_take_the_steps_of_one(folder):
    wishes = Wishes(strategy="fsdp", **EXACT)
    codes, given = together(folder, 2, lambda rank: _trained(wishes, size=4, seed=rank))
    assert codes == [0, 0]
    expected = _trained(Wishes(**EXACT))
    for one in given:
        _alike(one, expected)
        assert one[2] == sorted(one[1])
        assert one[3] == "fsdp"


def what_two_that_share_a_model_saved_one_goes_on_with(folder):
    saves = Saves(folder=folder / "kept", key=KEY)
    codes, (begun, _) = together(
        folder, 2, lambda rank: _trained(Wishes(strategy="fsdp", **EXACT), size=4, saves=saves, steps=4)
    )
    assert codes == [0, 0]
    losses, weights, *_ = _trained(Wishes(**EXACT), saves=saves)
    assert list(losses) == [5, 6]
    _alike(({**begun[0], **losses}, weights), _trained(Wishes(**EXACT)))


def the_guard_compares_all_of_a_model_that_is_shared_out(folder):
    def work(rank):
        torch.manual_seed(0)
        model = _Writer()
        session = Session(
            Wishes(strategy="fsdp", precision="bfloat16", guarded_steps=2, profile="off"), say=lambda sentence: None
        )
        session.prepare(model, torch.optim.AdamW(model.parameters(), lr=0.02))
        warnings.filterwarnings("ignore", message="FSDP2-wrapped module")
        rows = slice(4 * rank, 4 * rank + 4)
        for _ in range(2):
            session.step(_loss_of, *(one[rows] for one in _texts().tensors))
        first = [verdict.cosine for verdict in session.verdicts]
        session.load_state_dict(session.state_dict() | {"precision": "bfloat16"})
        session._guarded = 1
        session.step(lambda model, *batch: _loss_of(model, *batch) * (3 if torch.is_autocast_enabled("cpu") else 1),
                     *(one[rows] for one in _texts().tensors))  # fmt: skip
        return first, session.recipe.precision.value

    _, given = together(folder, 2, work)
    (cosines, precision), (others, _) = given
    assert cosines == others
    assert all(0.99 < cosine < 1 for cosine in cosines)
    assert precision == "float32"


def two_that_compute_each_layer_together_take_the_steps_of_one(folder):
    wishes = Wishes(strategy="tensor", **EXACT)
    codes, given = together(folder, 2, lambda rank: _trained(wishes, seed=rank))
    assert codes == [0, 0]
    expected = _trained(Wishes(**EXACT))
    for one in given:
        _alike(one, expected)
        assert [name for name in one[2] if name.startswith("blocks.0.")] == [
            f"blocks.0.{layer}.{part}" for layer in ("attend", "down", "joined", "up") for part in ("bias", "weight")
        ]


def a_plan_of_one_s_own_is_followed_and_torch_s_own_layers_have_one(folder):
    def encoder():
        return nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True)

    plan = {"blocks.*.up": "columns", "blocks.*.down": "rows", "last": "gathered"}
    first, second = Wishes(strategy="tensor", tensor_plan=plan, **EXACT), Wishes(strategy="tensor", **EXACT)
    codes, given = together(folder, 2, lambda rank: (_trained(first, size=12), _trained(second, block=encoder, epochs=1)))
    assert codes == [0, 0]
    _alike(given[0][1], _trained(Wishes(**EXACT), block=encoder, epochs=1))
    assert {name.rpartition(".")[0] for name in given[0][1][2]} == {
        f"blocks.{number}.linear{which}" for number in (0, 1) for which in (1, 2)
    }
    _alike(given[0][0], _trained(Wishes(**EXACT), size=12))
    assert "last.weight" in given[0][0][2]
    assert "blocks.0.attend.weight" not in given[0][0][2]


def what_two_that_compute_together_saved_one_goes_on_with(folder):
    saves = Saves(folder=folder / "kept", key=KEY)
    codes, (begun, _) = together(folder, 2, lambda rank: _trained(Wishes(strategy="tensor", **EXACT), saves=saves, steps=4))
    assert codes == [0, 0]
    losses, weights, *_ = _trained(Wishes(**EXACT), saves=saves)
    assert list(losses) == [5, 6]
    _alike(({**begun[0], **losses}, weights), _trained(Wishes(**EXACT)))


def a_model_without_a_plan_says_how_to_give_one(folder):
    for model, words in (
        (nn.Sequential(nn.Conv2d(1, 2, 3), nn.Conv2d(2, 2, 3)), "tensor_plan="),
        (nn.Linear(4, 4), "tensor_plan="),
        (nn.Sequential(_Block(), _Block()), "cannot share evenly"),
    ):
        try:
            found = str(plan_for(model, 3))
        except Invalid as refused:
            found = str(refused)
        assert words in found


def a_norm_between_two_layers_keeps_them_from_being_a_pair(folder):
    class Normed(_Block):
        def __init__(self):
            super().__init__()
            self.between = nn.LayerNorm(64)

    plan = plan_for(_Writer(Normed), 2)
    assert set(plan.values()) == {"gathered"}
    assert plan_for(_Writer(), 2)["blocks.1.up"] == "columns"
    assert plan_for(_Writer(), 2)["blocks.1.down"] == "rows"


class _Paths(nn.Module):
    """Every process takes its own; one layer is of no use to any."""

    def __init__(self):
        super().__init__()
        self.ways = nn.ModuleList(nn.Linear(2, 1, bias=False) for _ in range(3))

    def forward(self, rows, way):
        return self.ways[way](rows)


def what_one_process_did_not_use_is_learnt_from_the_others(folder):
    def work(rank):
        torch.manual_seed(rank)
        model = _Paths()
        session = Session(Wishes(**EXACT), say=lambda sentence: None)
        session.prepare(model, torch.optim.SGD(model.parameters(), lr=1.0, weight_decay=0.5))
        before = [way.weight.detach().clone() for way in model.ways]
        session.step(lambda model, rows: model(rows, rank).mean(), torch.full((4, 2), 1.0 + rank))
        return before, [way.weight.detach() for way in model.ways]

    _, (one, other) = together(folder, 2, work)
    before, after = one
    for way in range(2):
        assert torch.equal(after[way], other[1][way])
        torch.testing.assert_close(after[way], before[way] / 2 - (1 + way) / 2)
    assert torch.equal(after[2], before[2])


def gradients_that_overflow_in_one_process_are_left_out_by_all(folder):
    def work(rank):
        weight = torch.ones(2, requires_grad=True)
        optimiser, scaler = torch.optim.SGD([weight], lr=1.0), torch.amp.GradScaler("cpu", init_scale=4.0)
        for times in (1.0, math.inf if rank else 1.0):
            scaler.scale((weight * times).sum()).backward()
            scaler.unscale_(optimiser)
            overflow_alike(scaler, optimiser)
            scaler.step(optimiser)
            scaler.update()
            optimiser.zero_grad()
        return weight.detach(), scaler.get_scale()

    _, given = together(folder, 2, work)
    for weight, scale in given:
        assert torch.equal(weight, torch.zeros(2))
        assert scale == 2.0


def one_that_stops_taking_part_ends_the_others_with_their_stacks(folder):
    def work(rank):
        with open(folder / f"said-{rank}", "w") as said:
            os.dup2(said.fileno(), 2)
            sys.stderr = said
            model = _Writer()
            session = Session(Wishes(patience=1.0, **EXACT), say=lambda sentence: None)
            session.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))
            for step in range(5):
                if rank == 1 and step == 2:
                    while not (folder / "said-0").read_text().count("Thread"):
                        time.sleep(0.05)
                    os.kill(os.getpid(), signal.SIGKILL)
                session.step(_loss_of, *_texts().tensors)

    codes, _ = together(folder, 2, work)
    assert codes == [GAVE_UP, -signal.SIGKILL]
    said = (folder / "said-0").read_text()
    assert "process 0 of 2 has waited 1 s for the others in step 3" in said
    assert "all_reduce" in said


def one_that_leaves_early_ends_the_others_with_a_word(folder):
    def work(rank):
        model = _Writer()
        session = Session(Wishes(**EXACT), say=lambda sentence: None)
        session.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))
        try:
            for _ in range(2 + 8 * (rank == 0)):
                session.step(_loss_of, *_texts().tensors)
        except OthersGone as gone:
            (folder / "gone").write_text(str(gone))
            os._exit(1)
        os._exit(0)

    codes, _ = together(folder, 2, work)
    assert codes == [1, 0]
    assert "process 0 of 2 cannot go on with step 3: another process of the training ended" in (folder / "gone").read_text()
