"""What a session does to a plain loop. Programs are traced and rewritten, not compiled: that would take half a minute each."""

import collections
import contextlib
import math
import os
import random
import resource

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from falaj.base.errors import Invalid
from falaj.training import Saves, Session, Wishes, attention, guard, optimisers, programs, rewriting, room
from falaj.training.batches import mapped, parts_of, rows_of
from falaj.training.errors import DoesNotFit, LossNotFinite, NotPrepared
from falaj.training.guarding import Beside
from falaj.training.heads import head_loss
from falaj.training.recipes import Facts, choose

HALVES = Wishes(precision="bfloat16", compiled=True, padded_outputs=128, lean_residuals=True, fused_loss=True)
WORDS = 1031


class _Reader(nn.Module):
    def __init__(self, bias=True):
        super().__init__()
        self.words, self.norm, self.last = nn.Embedding(WORDS, 16), nn.LayerNorm(16), nn.Linear(16, WORDS, bias=bias)

    def forward(self, ids):
        return self.last(self.norm(self.words(ids)))


def _loss_of(model, ids, following):
    scores = model(ids)
    return functional.cross_entropy(scores.view(-1, WORDS), following.view(-1))


def _parts(seed=0, bias=True):
    torch.manual_seed(seed)
    model = _Reader(bias)
    return model, torch.optim.AdamW(model.parameters(), lr=0.01)


def _batch(seed, rows=4):
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(0, WORDS, (rows, 9), generator=generator)
    return ids[:, :-1], ids[:, 1:].contiguous()


def _bare(steps, seed=0):
    model, optimiser = _parts(seed)
    losses = []
    for step in range(steps):
        loss = _loss_of(model, *_batch(step))
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
        losses.append(loss.item())
    return losses, model


@contextlib.contextmanager
def _uncompiled():
    """Programs are traced and rewritten, and then run as they are."""
    real, seen = programs.compile_fx, []
    programs.compile_fx = lambda program, examples, **_: (seen.append(program), program)[1]
    try:
        yield seen
    finally:
        programs.compile_fx = real


def _session(wishes=None, model=None, optimiser=None):
    session = Session(wishes, say=lambda sentence: None)
    if model is None:
        model, optimiser = _parts()
    session.prepare(model, optimiser)
    return session, model


def _raised(kind, call):
    """pytest is not where torch is."""
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(f"{kind.__name__} was not raised")


def _same(one, other):
    return all(torch.equal(a, b) for a, b in zip(one.state_dict().values(), other.state_dict().values(), strict=True))


def a_loop_in_float32_is_the_bare_loop(folder):
    session, model = _session(Wishes(precision="float32"))
    losses = [session.step(_loss_of, *_batch(step)).item() for step in range(5)]
    expected, bare = _bare(5)
    assert losses == expected
    assert _same(model, bare)
    assert session.notes == []


def batches_come_from_the_loader_as_they_are(folder):
    session, _ = _session()
    given = [_batch(0), _batch(1)]
    for made, expected in zip(session.batches(given), given, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(made, expected, strict=True))


def a_step_before_prepare_says_what_to_do(folder):
    assert "prepare(model, optimiser)" in str(_raised(NotPrepared, lambda: Session().step(_loss_of, *_batch(0))))


def a_wish_that_makes_no_sense_is_refused_in_words(folder):
    for wrong, words in (
        (lambda: Session(Wishes(profile="deeper")), "profile 'deeper' was asked for, and there is none: ask for off, on, deep"),
        (lambda: _session(Wishes(guarded_steps=-3)), "guarded steps -3"),
        (lambda: _session(Wishes(strategy="ddp")), "this process was told of no others"),
        (lambda: Saves(every_seconds=-1), "every -1 seconds"),
        (lambda: Saves(every_steps=-2), "give times and numbers from 0 on"),
    ):
        assert words in str(_raised(Invalid, wrong))


def the_fast_recipe_passes_the_guard_and_ends_where_float32_does(folder):
    with _uncompiled() as seen:
        session, model = _session(HALVES)
        losses = [session.step(_loss_of, *_batch(step)).item() for step in range(30)]
    assert len(seen) == 1
    assert [verdict.passed for verdict in session.verdicts] == [True] * 3
    assert all(verdict.cosine > 0.99 for verdict in session.verdicts)
    expected, bare = _bare(30)
    assert abs(losses[-1] - expected[-1]) < 0.02
    assert {name: one.shape for name, one in model.state_dict().items()} == {
        name: one.shape for name, one in bare.state_dict().items()
    }
    assert all(one.dtype == torch.float32 for one in model.state_dict().values())


def the_guard_leaves_no_trace(folder):
    def trained(guarded):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 1))
        session, _ = _session(
            Wishes(precision="bfloat16", guarded_steps=guarded), model, torch.optim.SGD(model.parameters(), lr=0.1)
        )
        for step in range(4):
            rows = torch.randn(8, 6, generator=torch.Generator().manual_seed(step))
            session.step(lambda model, rows: (model(rows) ** 2).mean(), rows)
        return model, torch.rand(1)

    (with_guard, after), (without, expected) = trained(3), trained(0)
    assert _same(with_guard, without)
    assert torch.equal(after, expected)


def a_loss_that_departs_is_taken_back_within_its_step(folder):
    def departing(model, ids, following):
        return _loss_of(model, ids, following) * (3 if torch.is_autocast_enabled("cpu") else 1)

    session, model = _session(Wishes(precision="bfloat16"))
    losses = [session.step(departing, *_batch(step)).item() for step in range(3)]
    expected, bare = _bare(3)
    assert losses == expected
    assert _same(model, bare)
    assert session.recipe.precision.value == "float32"
    assert "departs from float32" in session.notes[0]
    assert len(session.notes) == 1


def gradients_that_turn_around_are_noticed_though_the_loss_agrees(folder):
    def turning(model, ids, following):
        loss = _loss_of(model, ids, following)
        return 2 * loss.detach() - loss if torch.is_autocast_enabled("cpu") else loss

    session, model = _session(Wishes(precision="bfloat16"))
    session.step(turning, *_batch(0))
    assert session.recipe.precision.value == "float32"
    assert _same(model, _bare(1)[1])


def a_model_whose_gradients_turn_when_its_weights_are_rounded_is_let_through(folder):
    right = (torch.tensor([1.0, 0.0]),)
    fast = guard.Reading(loss=7.0, gradients=(torch.tensor([0.2, 0.98]),))
    exact = guard.Reading(loss=7.01, gradients=right)
    rounded = guard.Reading(loss=7.02, gradients=(torch.tensor([0.44, 0.9]),))
    assert guard.compare(fast, exact, random=False, on_rounded=lambda: rounded).passed
    assert not guard.compare(fast, exact, random=False, on_rounded=lambda: exact).passed
    assert not guard.compare(fast, exact, random=False, on_rounded=lambda: None).passed
    unrelated = guard.Reading(loss=7.0, gradients=(torch.tensor([0.0, 1.0]),))
    assert not guard.compare(unrelated, exact, random=False, on_rounded=lambda: rounded).passed


def gradients_that_turn_are_noticed_though_the_loss_draws_numbers(folder):
    def turning(model, rows):
        some = (torch.rand(rows.shape[1]) < 0.1).float()
        if torch.is_autocast_enabled("cpu"):  # the same loss, by another way
            away = (model.weight * (1 - some)).sum() * (some.sum() / (1 - some).sum()).sqrt()
            return (model.weight * some).sum() + away - away.detach()
        return (model.weight * some).sum()

    torch.manual_seed(0)
    model = nn.Linear(256, 1, bias=False)
    session, _ = _session(Wishes(precision="bfloat16"), model, torch.optim.SGD(model.parameters(), lr=0.1))
    session.step(turning, torch.ones(2, 256))
    assert session.recipe.precision.value == "float32", session.verdicts[0].why


def a_compiled_step_draws_numbers_of_its_own_and_is_not_blamed_for_it(folder):
    def loss_of(model, rows):
        return 1 + 1e-3 * (model.weight * (torch.rand(rows.shape[1]) < 0.1)).sum()

    model, rows = nn.Linear(256, 1, bias=False), torch.ones(2, 256)
    session, _ = _session(Wishes(precision="bfloat16"), model, torch.optim.SGD(model.parameters(), lr=0.1))
    beside = Beside(model, loss_of, (rows,), 2, whole=True)
    torch.rand(1)
    loss = loss_of(model, rows)
    loss.backward()
    for compiled in (True, False):
        recipe = session.recipe.but("compiled", compiled, "")
        assert beside.verdict(loss.detach(), recipe=recipe, random=False, scaled=False).passed is compiled


def the_guard_draws_no_number_that_anybody_misses(folder):
    drawn = []
    for guarded in (1, 0):
        random.seed(7), np.random.seed(7), torch.manual_seed(7)
        session, _ = _session(Wishes(precision="bfloat16", guarded_steps=guarded))
        session.step(lambda model, *batch: _loss_of(model, *batch) + random.random() + np.random.rand(), *_batch(0))
        drawn.append((random.random(), np.random.rand(), torch.rand(()).item()))
        assert session.recipe.precision.value == "bfloat16"
    assert drawn[0] == drawn[1]


def too_little_memory_halves_the_batch_and_the_step_stays_the_same(folder):
    def hungry(model, ids, following):
        if ids.shape[0] > 1:
            raise torch.OutOfMemoryError("no memory")
        return _loss_of(model, ids, following)

    session, model = _session(Wishes(precision="float32"))
    losses = [session.step(hungry, *_batch(step)).item() for step in range(3)]
    expected, bare = _bare(3)
    assert all(math.isclose(a, b, rel_tol=1e-5) for a, b in zip(losses, expected, strict=True))
    assert all(torch.allclose(a, b, atol=1e-4) for a, b in zip(model.parameters(), bare.parameters(), strict=True))
    assert session.recipe.micro_batch.value == 1
    assert [note.split(":")[0] for note in session.notes] == ["step 1", "step 1"]
    assert session.state_dict()["micro_batch"] == 1


def a_row_that_does_not_fit_says_so(folder):
    def hungry(model, ids, following):
        raise torch.OutOfMemoryError("no memory")

    session, _ = _session(Wishes(precision="float32"))
    assert "one row" in str(_raised(DoesNotFit, lambda: session.step(hungry, *_batch(0))))


def a_loss_that_is_no_number_stops_at_its_step_and_changes_no_weights(folder):
    session, model = _session(Wishes(precision="float32"))
    for step in range(2):
        session.step(_loss_of, *_batch(step))
    stopped = _raised(LossNotFinite, lambda: session.step(lambda model, *batch: _loss_of(model, *batch) * math.nan, *_batch(2)))
    assert stopped.step == 3
    assert "step 3" in str(stopped)
    assert _same(model, _bare(2)[1])


def a_fused_optimiser_leaves_out_a_bad_step_by_itself(folder):
    model, optimiser = _parts()
    assert optimisers.can_be_fused(optimiser)
    optimisers.fuse(optimiser)
    for bad in (1.0, 0.0):
        before = model.last.weight.clone()
        _loss_of(model, *_batch(0)).backward()
        optimisers.leave_out_when(optimiser, torch.tensor(bad))
        optimiser.step()
        assert torch.equal(before, model.last.weight) == bool(bad)


def an_optimiser_that_has_taken_steps_can_still_be_fused(folder):
    losses, _ = _bare(4)
    model, optimiser = _parts()
    made = []
    for step in range(4):
        if step == 2:
            optimisers.fuse(optimiser)
        loss = _loss_of(model, *_batch(step))
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
        made.append(loss.item())
    assert all(math.isclose(a, b, rel_tol=1e-5) for a, b in zip(made, losses, strict=True))


def last_layer_and_loss_become_one_and_give_the_same(folder):
    for bias in (True, False):
        model, _ = _parts(bias=bias)
        ids, following = _batch(0)
        following[0, 0] = -100
        expected = _loss_of(model, ids, following)
        wanted = torch.autograd.grad(expected, list(model.parameters()))
        x = model.norm(model.words(ids))
        made = head_loss(x, model.last.weight, model.last.bias, following.view(-1), -100, 128, torch.float32)
        assert torch.allclose(made, expected)
        for got, want in zip(torch.autograd.grad(made, list(model.parameters())), wanted, strict=True):
            assert torch.allclose(got, want, atol=1e-6)


def _targets_of(loss_of, wishes=HALVES):
    model, optimiser = _parts()
    with _uncompiled() as seen:
        session, _ = _session(wishes, model, optimiser)
        session.step(loss_of, *_batch(0))
    assert session.verdicts[0].passed, session.verdicts[0].why
    return [node.target for node in seen[0].graph.nodes]


def a_program_is_rewritten_where_it_is_what_it_seems(folder):
    targets = _targets_of(_loss_of)
    assert head_loss in targets
    assert functional.cross_entropy not in targets
    assert "to" in targets


def scores_that_are_used_elsewhere_are_padded_but_not_fused(folder):
    def also_right(model, ids, following):
        scores = model(ids).view(-1, WORDS)
        return functional.cross_entropy(scores, following.view(-1)) + 0 * scores.amax()

    targets = _targets_of(also_right)
    assert head_loss not in targets
    assert rewriting.padded_linear in targets


def a_loss_with_smoothing_or_weights_is_left_alone(folder):
    def smooth(model, ids, following):
        return functional.cross_entropy(model(ids).view(-1, WORDS), following.view(-1), label_smoothing=0.1)

    assert functional.cross_entropy in _targets_of(smooth)


def a_program_that_cannot_be_compiled_runs_as_it_is_written(folder):
    def fails(program, examples, **_):
        raise RuntimeError("no such instruction")

    real, programs.compile_fx = programs.compile_fx, fails
    try:
        session, _ = _session(HALVES)
        losses = [session.step(_loss_of, *_batch(step)).item() for step in range(3)]
    finally:
        programs.compile_fx = real
    assert all(math.isfinite(loss) for loss in losses)
    assert len(session.notes) == 1
    assert "runs as it is written" in session.notes[0]


def a_shorter_last_batch_costs_no_compiling(folder):
    with _uncompiled() as seen:
        session, _ = _session(HALVES)
        for step in range(6):
            session.step(_loss_of, *_batch(step, rows=3 if step % 3 == 2 else 4))
    assert len(seen) == 1


def a_loss_function_that_is_new_at_every_step_computes_what_it_says(folder):
    with _uncompiled() as seen:
        session, _ = _session(HALVES)
        for step in range(8):
            plus = float(step)
            loss = session.step(
                lambda model, ids, following, plus=plus: _loss_of(model, ids, following) + 100 * plus, *_batch(step)
            )
            assert round(loss.item() / 100) == step
    assert len(seen) <= 4
    assert any("define it once" in note for note in session.notes)


def what_a_session_knows_goes_on_elsewhere(folder):
    session, _ = _session(Wishes(precision="bfloat16"))
    session.step(lambda model, *batch: _loss_of(model, *batch) * (3 if torch.is_autocast_enabled("cpu") else 1), *_batch(0))
    other, _ = _session(Wishes(precision="bfloat16"))
    other.load_state_dict(session.state_dict())
    assert other.steps == 1
    assert other.recipe.precision.value == "float32"


def the_largest_batch_is_found_without_a_step(folder):
    def hungry(model, ids, following):
        if ids.shape[0] > 21:
            raise torch.OutOfMemoryError("no memory")
        return _loss_of(model, ids, following)

    session, model = _session(Wishes(precision="float32"))
    assert 18 <= session.largest_batch(hungry, lambda rows: _batch(0, rows)) <= 21
    assert _same(model, _parts()[0])
    assert all(parameter.grad is None for parameter in model.parameters())


def _hungry(model, rows):
    """Three hundred times what it is given."""
    return (rows.repeat(1, 300) * model.weight.sum()).mean()


def a_batch_that_a_cpu_has_no_memory_for_is_halved(folder):
    model = nn.Linear(4, 1)
    session, _ = _session(Wishes(profile="off"), model, torch.optim.SGD(model.parameters(), lr=0.1))
    session.step(_hungry, torch.ones(2, 1000))  # what a first step takes for good
    with open("/proc/self/statm") as file:
        taken = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + (400 << 20), resource.RLIM_INFINITY))
    loss = session.step(_hungry, torch.ones(256, 1000))  # 307 MB, as much again for its gradient
    assert math.isfinite(loss.item())
    assert "256 rows did not fit into memory" in session.notes[0]


def the_largest_batch_on_a_cpu_keeps_within_what_is_left(folder):
    model = nn.Linear(4, 1)
    session, _ = _session(Wishes(profile="off"), model, torch.optim.SGD(model.parameters(), lr=0.1))
    real, room.left = room.left, lambda: 400 << 20
    before = resource.getrlimit(resource.RLIMIT_DATA)
    try:
        found = session.largest_batch(_hungry, lambda rows: (torch.ones(rows, 1000),), most=4096)
    finally:
        room.left = real
    assert 32 <= found <= 300
    assert resource.getrlimit(resource.RLIMIT_DATA) == before


def a_loss_that_is_no_number_to_learn_from_is_told_at_the_first_step(folder):
    wrong = {
        "of type float: give back the tensor itself": lambda model, *batch: _loss_of(model, *batch).item(),
        "of shape (4, 8, 1031): give back the mean": lambda model, ids, following: model(ids),
        "no weight of the model has a part in the loss": lambda model, *batch: _loss_of(model, *batch).detach(),
    }
    for wishes in (Wishes(precision="float32"), Wishes(precision="bfloat16", guarded_steps=1)):
        for words, loss_of in wrong.items():
            session, _ = _session(wishes)
            assert words in str(_raised(Invalid, lambda session=session, loss_of=loss_of: session.step(loss_of, *_batch(0))))


def batches_of_any_form_are_taken_apart_by_rows(folder):
    pair = collections.namedtuple("pair", "left right")
    batch = {"rows": torch.arange(10).view(5, 2), "pair": pair([torch.arange(5)], "name"), "scale": torch.tensor(2.0)}
    assert rows_of(batch) == 5
    parts = parts_of(batch, 2)
    assert [share for _, share in parts] == [0.4, 0.4, 0.2]
    assert torch.equal(torch.cat([part["rows"] for part, _ in parts]), batch["rows"])
    assert all(isinstance(part["pair"], pair) and part["pair"].right == "name" for part, _ in parts)
    assert mapped(batch, lambda tensor: tensor + 1)["scale"] == 3


def attention_is_seen_with_its_shapes(folder):
    query = torch.randn(2, 3, 8, 4)
    with attention.Seen() as seen:
        functional.scaled_dot_product_attention(query, query, query, is_causal=True)
        functional.scaled_dot_product_attention(query, query, query, attn_mask=torch.zeros(8, 8))
    ((call, count),) = seen.calls.items()
    assert count == 1
    shapes, dtype, causal = call
    assert shapes[0] == ((2, 3, 8, 4), (96, 32, 4, 1))
    assert (dtype, causal) == (torch.float32, True)


def facts_are_read_off_a_model(folder):
    model = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4), nn.Dropout(0.1), nn.Linear(4, 1000))
    session, _ = _session(None, model, torch.optim.SGD(model.parameters(), lr=0.1))
    facts = session._ready()[2]
    wanted = Facts(
        parameters=5024, convolutions=True, batch_norms=True, random=True, widest_output=1000, odd_outputs=(1000,), fusible=True
    )
    assert facts == wanted
    assert session.recipe == choose(session.hardware, facts)


def two_processes_take_the_steps_of_one_with_the_whole_batch(folder):
    def worker(rank):
        os.environ |= {"RANK": str(rank), "LOCAL_RANK": "0", "WORLD_SIZE": "2"}
        store = torch.distributed.FileStore(str(folder / "meeting"), 2)
        torch.distributed.init_process_group("gloo", store=store, rank=rank, world_size=2)
        model, optimiser = _parts(seed=rank)
        session, _ = _session(Wishes(precision="float32"), model, optimiser)
        losses = [session.step(_loss_of, *(half[2 * rank : 2 * rank + 2] for half in _batch(step))).item() for step in range(4)]
        torch.save((losses, model.state_dict()), folder / f"{rank}.pt")
        torch.distributed.destroy_process_group()

    children = []
    for rank in range(2):
        if (child := os.fork()) == 0:
            worker(rank)
            os._exit(0)
        children.append(child)
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0, 0]
    expected, bare = _bare(4)
    for rank in range(2):
        losses, weights = torch.load(folder / f"{rank}.pt")
        assert all(math.isclose(a, b, rel_tol=1e-4) for a, b in zip(losses, expected, strict=True))
        assert all(torch.allclose(a, b, atol=1e-3) for a, b in zip(weights.values(), bare.state_dict().values(), strict=True))


def blocks_that_are_computed_twice_give_the_same(folder):
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(3)))
    rows = torch.randn(5, 4)
    model(rows).sum().backward()
    expected = model[0][0].weight.grad.clone()
    names = list(model.state_dict())
    model.zero_grad()
    session, _ = _session(Wishes(checkpointing=True, precision="float32"), model, torch.optim.SGD(model.parameters(), lr=0.0))
    session.backward(lambda model, rows: model(rows).sum(), rows)
    assert torch.allclose(model[0][0].weight.grad, expected)
    assert list(model.state_dict()) == names
