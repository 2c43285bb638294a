"""Trains the models that the optimisation benchmark makes small, and writes each with its rows: fixed ones, no larger than
their task asks for. A model that does not reach its stated accuracy on held-out rows is an error.

optimisation_models.py FOLDER [--only conv,mlp,trees,transformer]

writes NAME.onnx (trees.txt for LightGBM) and NAME.npz: train_inputs, train_truth, held_out_inputs, held_out_truth.
"""

import argparse
import io
import logging
import multiprocessing
import time
import warnings
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any, Final

import lightgbm
import numpy as np
import torch
from optimisation_data import LENGTH, PADDING, WORDS, Parts, Rows, digits, flights, lines
from torch import nn
from torch.nn import functional

from falaj.base.values import value

# Expansion, channels, repeats and stride of MobileNetV2's blocks; the strides are for pictures of 32 x 32.
BLOCKS: Final = ((1, 16, 1, 1), (6, 24, 2, 1), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 1), (6, 320, 1, 1))
WIDTH: Final = 0.5


@value
class Baseline:
    """A trained model as it is registered, and how right it is on the held-out rows."""

    file: str
    content: bytes
    parts: Parts
    right: float


class Inverted(nn.Module):
    """MobileNetV2's block: wide, each channel by itself, narrow; and the way around it where the shape stays."""

    def __init__(self, given: int, made: int, stride: int, wider: int) -> None:
        super().__init__()
        wide = given * wider
        layers = [] if wider == 1 else [nn.Conv2d(given, wide, 1, bias=False), nn.BatchNorm2d(wide), nn.ReLU6()]
        layers += [nn.Conv2d(wide, wide, 3, stride, 1, groups=wide, bias=False), nn.BatchNorm2d(wide), nn.ReLU6()]
        self.layers = nn.Sequential(*layers, nn.Conv2d(wide, made, 1, bias=False), nn.BatchNorm2d(made))
        self.around = stride == 1 and given == made

    def forward(self, x: Any) -> Any:
        return x + self.layers(x) if self.around else self.layers(x)


class MobileNetV2(nn.Module):
    """At half width, for small pictures of one colour."""

    def __init__(self, classes: int = 10, last: int = 1280) -> None:
        super().__init__()
        given = _eights(32 * WIDTH)
        layers: list[nn.Module] = [nn.Conv2d(1, given, 3, 2, 1, bias=False), nn.BatchNorm2d(given), nn.ReLU6()]
        for wider, made, repeats, stride in BLOCKS:
            for number in range(repeats):
                layers.append(Inverted(given, _eights(made * WIDTH), 1 if number else stride, wider))
                given = _eights(made * WIDTH)
        layers += [nn.Conv2d(given, last, 1, bias=False), nn.BatchNorm2d(last), nn.ReLU6()]
        self.layers, self.scores = nn.Sequential(*layers), nn.Linear(last, classes)

    def forward(self, pictures: Any) -> Any:
        return self.scores(self.layers(pictures).mean((2, 3)))


class Encoder(nn.Module):
    """One layer of a transformer, normalised first."""

    def __init__(self, width: int, heads: int, inner: int) -> None:
        super().__init__()
        self.heads = heads
        self.first_norm, self.second_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.asked, self.mixed = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, inner), nn.Linear(inner, width)

    def forward(self, x: Any, known: Any) -> Any:
        rows, length, width = x.shape
        asked = self.asked(self.first_norm(x)).reshape(rows, length, 3, self.heads, width // self.heads)
        query, key, answer = asked.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, answer, attn_mask=known)
        x = x + self.mixed(mixed.transpose(1, 2).reshape(rows, length, width))
        return x + self.narrow(functional.gelu(self.wide(self.second_norm(x))))


class Transformer(nn.Module):
    """Four layers, 128 wide, four heads; the first word's vector tells."""

    def __init__(self, width: int = 128, layers: int = 4, heads: int = 4, inner: int = 512) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, width), nn.Parameter(0.2 * torch.randn(LENGTH, width))
        self.layers = nn.ModuleList(Encoder(width, heads, inner) for _ in range(layers))
        self.norm, self.scores = nn.LayerNorm(width), nn.Linear(width, 2)
        nn.init.normal_(self.words.weight, std=0.2)

    def forward(self, words: Any) -> Any:
        x, known = self.words(words) + self.places, (words != PADDING)[:, None, None, :]
        for layer in self.layers:
            x = layer(x, known)
        return self.scores(self.norm(x[:, 0]))


def _eights(channels: float) -> int:
    return max(8, int(channels + 4) // 8 * 8)


def conv(say: Callable[[str], None]) -> Baseline:
    parts = digits()
    torch.manual_seed(0)
    model = MobileNetV2().to(memory_format=torch.channels_last)  # the order in which it is trained fastest
    train(model, parts.train, epochs=36, rows=64, rate=4e-3, say=say, varied=_turned_and_moved)
    return _finished("conv", model, parts, input_name="pictures", least=0.985)


def mlp(say: Callable[[str], None]) -> Baseline:
    parts = flights()
    torch.manual_seed(0)
    columns = parts.train.inputs.shape[1]
    model = nn.Sequential(nn.Linear(columns, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 2))
    train(model, parts.train, epochs=6, rows=512, rate=2e-3, say=say)
    return _finished("mlp", model, parts, input_name="columns", least=0.90)


def transformer(say: Callable[[str], None]) -> Baseline:
    parts = lines(20_000)
    torch.manual_seed(0)
    model = Transformer()
    train(model, parts.train, epochs=1, rows=32, rate=1e-3, say=say)
    return _finished("transformer", model, parts, input_name="words", least=0.98)


def trees(say: Callable[[str], None]) -> Baseline:
    """LightGBM, on the rows that the MLP has."""
    parts = flights()
    wished = {"objective": "binary", "num_leaves": 31, "learning_rate": 0.1, "seed": 0, "deterministic": True, "verbose": -1}
    wished |= {"force_row_wise": True, "num_threads": torch.get_num_threads()}
    booster = lightgbm.train(wished, lightgbm.Dataset(parts.train.inputs, parts.train.truth), num_boost_round=300)
    chosen = np.asarray(booster.predict(parts.held_out.inputs)) > 0.5
    right = _checked("trees", float((chosen == parts.held_out.truth).mean()), 0.90)
    return Baseline(file="trees.txt", content=booster.model_to_string().encode(), parts=parts, right=right)


MAKERS: Final[Mapping[str, Callable[[Callable[[str], None]], Baseline]]] = {
    "transformer": transformer,  # takes longest
    "conv": conv,
    "mlp": mlp,
    "trees": trees,
}


def train(
    model: Any,
    known: Rows,
    *,
    epochs: int,
    rows: int,
    rate: float,
    say: Callable[[str], None],
    varied: Callable[[Any], Any] = lambda inputs: inputs,
) -> None:
    """A plain loop: AdamW, a rate that rises and falls once."""
    inputs, truth = torch.from_numpy(known.inputs), torch.from_numpy(known.truth)
    optimiser = torch.optim.AdamW(model.parameters(), weight_decay=0.01)
    steps = epochs * (len(truth) // rows)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, rate, total_steps=steps, pct_start=0.2)
    model.train()
    for epoch in range(epochs):
        began, sum_of_losses = time.perf_counter(), 0.0
        for chosen in torch.randperm(len(truth))[: len(truth) // rows * rows].split(rows):
            loss = functional.cross_entropy(model(varied(inputs[chosen])), truth[chosen])
            optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
            schedule.step()
            sum_of_losses += loss.item()
        say(f"epoch {epoch + 1}: loss {sum_of_losses / (steps // epochs):.4f}, {time.perf_counter() - began:.1f} s")


def _turned_and_moved(pictures: Any) -> Any:
    """Each by up to 14 degrees, a tenth of its size and an eighth of its width, by chance."""
    count = len(pictures)
    angle, size = (torch.rand(count) - 0.5) * 0.5, 1 + (torch.rand(count) - 0.5) * 0.2
    moved = (torch.rand(count, 2, 1) - 0.5) * 0.25
    cosine, sine = torch.cos(angle) * size, torch.sin(angle) * size
    turned = torch.stack([torch.stack([cosine, -sine], 1), torch.stack([sine, cosine], 1)], 1)
    grid = functional.affine_grid(torch.cat([turned, moved], 2), list(pictures.shape), align_corners=False)
    return functional.grid_sample(pictures, grid, align_corners=False, padding_mode="border")


def _finished(name: str, model: Any, parts: Parts, *, input_name: str, least: float) -> Baseline:
    model.train(False)
    with torch.no_grad():
        pieces = torch.from_numpy(parts.held_out.inputs).split(512)
        chosen = torch.cat([model(piece).argmax(1) for piece in pieces]).numpy()
    right = _checked(name, float((chosen == parts.held_out.truth).mean()), least)
    content = exported(model, parts.held_out.inputs[:2], input_name)
    return Baseline(file=f"{name}.onnx", content=content, parts=parts, right=right)


def exported(model: Any, rows: Any, input_name: str) -> bytes:
    """As ONNX, with any number of rows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of libraries about each other
        program = torch.onnx.export(
            model,
            (torch.from_numpy(rows),),
            dynamo=True,
            input_names=[input_name],
            output_names=["scores"],
            dynamic_shapes=({0: torch.export.Dim("rows")},),
            verbose=False,
        )
    content = io.BytesIO()
    program.save(content)
    return content.getvalue()


def _checked(name: str, right: float, least: float) -> float:
    if right < least:
        raise RuntimeError(f"{name} is right on {right:.2%} of the held-out rows; {least:.1%} was stated")
    return right


def written(folder: Path, name: str, made: Baseline) -> None:
    """The rows first: who waits for the model finds both."""
    rows: dict[str, Any] = {
        "train_inputs": made.parts.train.inputs,
        "train_truth": made.parts.train.truth,
        "held_out_inputs": made.parts.held_out.inputs,
        "held_out_truth": made.parts.held_out.truth,
    }
    for file, write in ((f"{name}.npz", lambda to: np.savez(to, **rows)), (made.file, lambda to: to.write(made.content))):
        begun = folder / f"{file}.begun"
        with begun.open("wb") as content:
            write(content)
        begun.replace(folder / file)


def trained(folder: Path, name: str) -> str:
    """In a process of its own, on one thread: in which order sums are added depends on how many there are, and where others
    compute as well, threads of one process wait for each other."""
    torch.set_num_threads(1)
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # names every operator of libraries that are not there
    began = time.perf_counter()
    made = MAKERS[name](lambda said: print(f"{name}: {said}", flush=True))
    written(folder, name, made)
    rows, took = len(made.parts.held_out.truth), time.perf_counter() - began
    return f"{name}: {made.right:.2%} right on {rows} rows, {len(made.content)} bytes, {took:.0f} s"


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("folder", type=Path)
    asked.add_argument("--only", default=",".join(MAKERS), help="names, with commas")
    given = asked.parse_args()
    names = given.only.split(",")
    if unknown := set(names) - set(MAKERS):
        asked.error(f"there is no model {', '.join(sorted(unknown))}; there are {', '.join(MAKERS)}")
    given.folder.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as two:
        for done in as_completed([two.submit(trained, given.folder, name) for name in names]):
            print(done.result(), flush=True)


if __name__ == "__main__":
    main()
