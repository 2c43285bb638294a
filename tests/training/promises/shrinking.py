"""Promises of `falaj.training.shrinking`, kept where torch is."""

from pathlib import Path

import torch
from torch.nn import functional

from falaj.base.errors import Invalid
from falaj.training import Session, Wishes
from falaj.training.shrinking.distilling import Distilled
from falaj.training.shrinking.pruning import Pruning

torch.optim.Adam([torch.zeros(1, requires_grad=True)]).step()  # the first step imports much, once for all promises
_ROWS = torch.randn(64, 8, generator=torch.Generator().manual_seed(1))


def _network(width: int) -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(8, width), torch.nn.Tanh(), torch.nn.Linear(width, 3))


def _trained(model: torch.nn.Module, loss_of, steps: int, after=lambda step: None) -> torch.nn.Module:
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    labels = (_ROWS[:, 0] > 0).long() + (_ROWS[:, 1] > 1).long()
    for step in range(steps):
        optimiser.zero_grad()
        loss_of(model, _ROWS, labels).backward()
        optimiser.step()
        after(step + 1)
    return model


def _by_labels(model, rows, labels):
    return functional.cross_entropy(model(rows), labels)


def a_student_comes_nearer_to_its_teacher_than_by_labels_alone(folder: Path) -> None:
    torch.manual_seed(0)
    teacher, rows = _network(64), _ROWS
    far = []
    loss_of = Distilled(
        teacher,
        scores_of=lambda model, rows, labels: model(rows),
        loss=lambda scores, rows, labels: functional.cross_entropy(scores, labels),
        weight=0.9,
    )
    for taught in (_by_labels, loss_of):
        torch.manual_seed(3)
        student = _trained(_network(4), taught, 150)
        with torch.no_grad():
            far.append(float((teacher(rows).softmax(-1) - student(rows).softmax(-1)).abs().mean()))
    assert far[1] < 0.2 * far[0], far


def a_teacher_learns_nothing_and_of_itself_there_is_nothing_to_learn(folder: Path) -> None:
    torch.manual_seed(0)
    teacher = _network(8)
    before = [parameter.clone() for parameter in teacher.parameters()]
    student = _network(8)
    student.load_state_dict(teacher.state_dict())
    loss_of = Distilled(
        teacher, scores_of=lambda model, rows: model(rows), loss=lambda scores, rows: scores.sum() * 0, weight=1.0
    )
    loss = loss_of(student, torch.randn(16, 8))
    loss.backward()
    assert abs(loss.item()) < 1e-6
    assert all(torch.equal(one, other) for one, other in zip(before, teacher.parameters(), strict=True))
    assert all(parameter.grad is None for parameter in teacher.parameters())


def a_teacher_comes_to_the_student_s_device(folder: Path) -> None:
    teacher, student = _network(8), _network(4).to("meta")
    loss_of = Distilled(teacher, scores_of=lambda model, rows: model(rows), loss=lambda scores, rows: scores.mean())
    assert loss_of(student, _ROWS.to("meta")).device.type == "meta"
    assert {parameter.device.type for parameter in teacher.parameters()} == {"meta"}


def so_many_weights_are_gone_at_the_end_and_stay_gone(folder: Path) -> None:
    torch.manual_seed(0)
    model = _network(32)
    pruning = Pruning(model, 0.8, begin=10, end=60, every=10)
    shares = []

    def after(step: int) -> None:
        pruning.stepped(step)
        shares.append(pruning.share())

    _trained(model, _by_labels, 100, after)
    assert shares == sorted(shares)
    assert shares[8] == 0.0
    assert 0.3 < shares[20] < 0.7
    assert all(share == int(0.8 * 352) / 352 for share in shares[59:]), shares[55:]


def whole_rows_go_and_named_layers_stay(folder: Path) -> None:
    torch.manual_seed(0)
    model = _network(32)
    pruning = Pruning(model, 0.5, begin=0, end=4, every=1, of="rows", without=("2",))
    _trained(model, _by_labels, 20, pruning.stepped)
    gone = (model[0].weight == 0).all(dim=1)
    assert int(gone.sum()) == 16
    assert not (model[0].weight[~gone] == 0).any()
    assert not (model[2].weight == 0).any()


def a_resumed_training_leaves_out_the_same_weights(folder: Path) -> None:
    torch.manual_seed(0)
    model = _network(32)
    pruning = Pruning(model, 0.5, begin=0, end=4, every=1)
    _trained(model, _by_labels, 10, pruning.stepped)
    again = _network(32)
    resumed = Pruning(again, 0.5, begin=0, end=4, every=1)
    resumed.load_state_dict(pruning.state_dict())
    resumed.stepped(11)
    for one, other in zip(model.parameters(), again.parameters(), strict=True):
        if one.dim() > 1:
            assert torch.equal(one == 0, other == 0)


def weights_that_a_model_was_given_later_are_pruned(folder: Path) -> None:
    model = _network(32)
    pruning = Pruning(model, 0.5, begin=0, end=1)
    for layer in (model[0], model[2]):
        layer.weight = torch.nn.Parameter(torch.randn_like(layer.weight))
    pruning.stepped(1)
    gone = sum(int((layer.weight == 0).sum()) for layer in (model[0], model[2]))
    assert gone == 352 // 2
    assert pruning.share() == 0.5


def a_model_that_is_shared_out_is_not_said_to_be_pruned(folder: Path) -> None:
    torch.distributed.init_process_group(
        "gloo", store=torch.distributed.FileStore(str(folder / "meeting"), 1), rank=0, world_size=1
    )
    model = _network(4)
    pruning = Pruning(model, 0.5, begin=0, end=1)
    session = Session(Wishes(strategy="fsdp", profile="off"), say=lambda sentence: None)
    session.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))
    refused = []
    for ask in (lambda: pruning.stepped(1), pruning.share, lambda: Pruning(model, 0.5, begin=0, end=1)):
        try:
            ask()
        except Invalid as error:
            refused.append(str(error))
    assert len(refused) == 3
    assert all("shared out among processes" in said for said in refused)
    torch.distributed.destroy_process_group()


def what_cannot_be_is_refused(folder: Path) -> None:
    wrong = (
        lambda: Pruning(_network(4), 1.0, begin=0, end=1),
        lambda: Pruning(_network(4), 0.5, begin=2, end=1),
        lambda: Pruning(_network(4), 0.5, begin=0, end=1, without=("7",)),
        lambda: Pruning(torch.nn.ReLU(), 0.5, begin=0, end=1),
        lambda: Distilled(_network(4), scores_of=None, loss=None, temperature=0),
    )
    for make in wrong:
        try:
            make()
        except Invalid:
            continue
        raise AssertionError("it was taken")
