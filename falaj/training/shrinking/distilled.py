"""Small students that learn what a model knows, from ONNX to ONNX."""

import time
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from falaj.base.errors import Invalid
from falaj.base.values import value
from falaj.training.shrinking.exporting import exported
from falaj.training.shrinking.graphs import Graph, library
from falaj.training.shrinking.lessons import Clock, Lesson, Meaning, asked, meaning_of
from falaj.training.shrinking.pruned import Shrunk, asking
from falaj.training.shrinking.students import Face, student, work_of
from falaj.training.shrinking.teaching import teach

Array = npt.NDArray[Any]
_MOST_KINDS: Final = 100_000  # of tokens
_STEADY: Final = 1e-6  # numbers that differ by less are the same in all rows
_LOOKED_AT: Final = 4096  # rows, for what numbers are like
_FOR_ASKING: Final = 0.25  # of the time
_RATE: Final = 3e-3
_EPOCHS: Final = 40.0
_GIVEN_RATE: Final = 1e-3
_GIVEN_EPOCHS: Final = 10.0


def distilled(
    content: bytes,
    lesson: Lesson,
    *,
    kind: str,
    seconds: float,
    seed: int,
    given: bytes = b"",
    clock: Clock = time.monotonic,
) -> Shrunk:
    """The teacher is the ONNX `content`. `kind` is one of `students`, or `given`: then the model `given`, as ONNX, is taught.
    It has the teacher's inputs and outputs."""
    until = clock() + seconds
    teacher = _Teacher(content, lesson)
    torch.manual_seed(seed)
    pupil = _given(given, teacher) if kind == "given" else teacher.answering(student(kind, teacher.face()))
    known = asked(lesson, teacher.ask, seconds=_FOR_ASKING * seconds, seed=seed, clock=clock)
    epochs, rate = (_GIVEN_EPOCHS, _GIVEN_RATE) if kind == "given" else (_EPOCHS, _RATE)
    taught = teach(pupil, known, epochs=epochs, seconds=until - clock(), seed=seed, rate=rate, clock=clock)
    if isinstance(pupil, Graph):
        made = pupil.written()
    else:
        pupil.settle()
        made = exported(pupil, lesson.inputs, teacher.input_names, teacher.output_names)
    numbers = sum(one.numel() for one in pupil.parameters())
    what = "Distilled into the given student" if kind == "given" else f"Distilled into a {kind}"
    short = ", for which the time was short" if taught.cut_short else ""
    note = f"{what} with {numbers:,} parameters in {taught.steps} steps{short}; {len(made) / len(content):.0%} of the size."
    return Shrunk(content=made, notes=(note,))


class _Teacher:
    """What a student has to stand in for."""

    def __init__(self, content: bytes, lesson: Lesson) -> None:
        graph = library().load_from_string(content).graph
        weights = {one.name for one in graph.initializer}
        self.input_names = [one.name for one in graph.input if one.name not in weights]
        self.output_names = [one.name for one in graph.output]
        self._lesson = lesson
        self._graph = Graph.read(content)
        self.ask = asking(self._graph, lesson.output)
        self._some = [torch.from_numpy(np.array(one[:_LOOKED_AT])) for one in lesson.inputs]
        with torch.no_grad():
            self._said = list(self._graph(*(one[:512] for one in self._some)))

    def face(self) -> Face:
        flat = torch.cat([one.flatten(1).double() for one in self._some], 1)
        spreads = flat.std(0)
        return Face(
            shapes=tuple(tuple(one.shape[1:]) for one in self._some),
            tokens=tuple(self._kinds(name, one) for name, one in zip(self.input_names, self._some, strict=True)),
            width=self._said[self._lesson.output].flatten(1).shape[1] if self._said[self._lesson.output].dim() > 1 else 1,
            middles=flat.mean(0).float(),
            spreads=torch.where(spreads > _STEADY, spreads, 1.0).float(),
            work=work_of(self._graph, [one[:2] for one in self._some]),
        )

    def answering(self, network: nn.Module) -> "_Pupil":
        """The network with the teacher's outputs."""
        scores = self._said[self._lesson.output]
        meaning = meaning_of(scores.reshape(len(scores), -1), self._lesson.truth)
        outputs = []
        for place, (name, said) in enumerate(zip(self.output_names, self._said, strict=True)):
            if place == self._lesson.output:
                outputs.append(_Output(shape=tuple(said.shape[1:]), dtype=said.dtype))
            else:
                labels = _labels(name, said, meaning.columns(scores.reshape(len(scores), -1)), meaning)
                outputs.append(_Output(shape=tuple(said.shape[1:]), dtype=said.dtype, labels=labels))
        return _Pupil(network, meaning, outputs, scores)

    def _kinds(self, name: str, rows: Any) -> int:
        """How many tokens there are: as many as the teacher has vectors for; else as many as were seen."""
        if rows.is_floating_point() or rows.dtype == torch.uint8:
            return 0
        return min(self._graph.looked_up(name) or int(rows.max()) + 1, _MOST_KINDS)


@value
class _Output:
    """Of each row: the shape, and for labels those of each class, in order."""

    shape: tuple[int, ...]
    dtype: Any
    labels: Any = None


def _labels(name: str, said: Any, scores: Any, meaning: Meaning) -> Any:
    """What another output calls each class: scikit-learn's models give a label beside the shares."""
    chosen = scores.argmax(1)
    if meaning.kind == "numbers" or said.is_floating_point() or said[0].numel() != 1:
        raise Invalid(f"the model gives {name} as well, of shape {list(said.shape)}, which a student does not learn")
    labels = torch.zeros(scores.shape[1], dtype=said.dtype)
    labels[chosen] = said.reshape(-1)
    if len(chosen.unique()) < scores.shape[1] or not torch.equal(labels[chosen], said.reshape(-1)):
        raise Invalid(f"{name} does not name the class of the largest score in the rows that were tried")
    return labels


class _Pupil(nn.Module):
    """A network whose answers have the form of its teacher's."""

    def __init__(self, network: nn.Module, meaning: Meaning, outputs: list[_Output], scores: Any) -> None:
        super().__init__()
        self.network, self._meaning, self._outputs = network, meaning, outputs
        middles = scores.reshape(len(scores), -1).float().mean(0) if meaning.kind == "numbers" else torch.zeros(1)
        self.register_buffer("middles", middles)
        self._settled = meaning.kind != "numbers"
        for place, one in enumerate(outputs):
            if one.labels is not None:
                self.register_buffer(f"labels{place}", one.labels)

    def settle(self) -> None:
        self.network.settle()
        if not self._settled:
            last = self.network.scores
            with torch.no_grad():
                last.weight.mul_(self._meaning.spread)
                last.bias.mul_(self._meaning.spread).add_(self.middles)
            self._settled = True

    def forward(self, *inputs: Any) -> tuple[Any, ...]:
        said = self.network(*inputs)
        if not self._settled:
            said = said * self._meaning.spread + self.middles
        answer = {"shares": lambda: said.softmax(1), "share": lambda: said.sigmoid()}.get(self._meaning.kind, lambda: said)()
        made = []
        for place, one in enumerate(self._outputs):
            if one.labels is None:
                made.append(answer.reshape(-1, *one.shape).to(one.dtype))
            else:
                chosen = self._meaning.columns(answer).argmax(1) if answer.shape[1] == 1 else said.argmax(1)
                made.append(getattr(self, f"labels{place}")[chosen].reshape(-1, *one.shape))
        return tuple(made)


def _given(given: bytes, teacher: _Teacher) -> Graph:
    if not given:
        raise Invalid("nobody gave a student: name a registered version by --student")
    pupil = Graph.read(given)
    if (pupil.input_names, pupil.output_names) != (teacher.input_names, teacher.output_names):
        raise Invalid(
            f"the student takes {pupil.input_names} and gives {pupil.output_names}, and the model {teacher.input_names} and "
            f"{teacher.output_names}: they have to be called the same"
        )
    return pupil
