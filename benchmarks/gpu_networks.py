"""Networks of the classes that GPUs serve, in plain torch with random weights, and how they become files.

Weights and arithmetic are bfloat16; what goes in and out is what clients have: pixels as bytes, token numbers, scores in FP32.
"""

import io
from collections.abc import Callable, Mapping
from typing import Any, Final

import torch
from torch import nn
from torch.nn import functional

from falaj.runtimes.engine import ModelFiles

MOST_ROWS: Final = 4096
FILE: Final = "model.pt2"


class Bottleneck(nn.Module):  # type: ignore[misc]
    """Of ResNet: one by one, three by three, one by one, and the way around them."""

    def __init__(self, given: int, width: int, stride: int) -> None:
        super().__init__()
        self.first, self.first_norm = nn.Conv2d(given, width, 1, bias=False), nn.BatchNorm2d(width)
        self.second, self.second_norm = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.third, self.third_norm = nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width)
        self.around = nn.Identity()
        if stride > 1 or given != 4 * width:
            self.around = nn.Sequential(nn.Conv2d(given, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.first_norm(self.first(x)))
        y = torch.relu(self.second_norm(self.second(y)))
        return torch.relu(self.third_norm(self.third(y)) + self.around(x))


class ResNet(nn.Module):  # type: ignore[misc]
    """Takes pixels as images have them, bytes from 0 to 255 with the colours last, and normalises them itself."""

    def __init__(self, blocks: tuple[int, ...] = (3, 4, 6, 3), width: int = 64, classes: int = 1000) -> None:
        super().__init__()
        self.stem, self.stem_norm = nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width)
        layers: list[nn.Module] = []
        given = width
        for stage, count in enumerate(blocks):
            for number in range(count):
                layers.append(Bottleneck(given, width << stage, 2 if stage and not number else 1))
                given = 4 * (width << stage)
        self.layers, self.last = nn.Sequential(*layers), nn.Linear(given, classes)

    def forward(self, pixels: torch.Tensor) -> dict[str, torch.Tensor]:
        x = (pixels.permute(0, 3, 1, 2).to(torch.bfloat16) - 118.0) / 58.0
        x = functional.max_pool2d(torch.relu(self.stem_norm(self.stem(x))), 3, 2, 1)
        return {"scores": self.last(self.layers(x).mean((2, 3))).float()}


class Encoder(nn.Module):  # type: ignore[misc]
    """One layer of BERT."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.attend, self.joined = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.first_norm, self.second_norm = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        rows, length, width = x.shape
        split = self.attend(x).view(rows, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(split[0], split[1], split[2], attn_mask=bias)
        x = self.first_norm(x + self.joined(seen.transpose(1, 2).reshape(rows, length, width)))
        return self.second_norm(x + self.down(functional.gelu(self.up(x))))


class Bert(nn.Module):  # type: ignore[misc]
    def __init__(self, layers: int = 12, width: int = 768, heads: int = 12, words: int = 30522, length: int = 128) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.norm = nn.LayerNorm(width)
        self.layers = nn.ModuleList(Encoder(width, heads) for _ in range(layers))
        self.pool, self.last = nn.Linear(width, width), nn.Linear(width, 2)

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> dict[str, torch.Tensor]:
        x = self.norm(self.words(ids) + self.places.weight)
        bias = ((mask - 1) * 10_000).to(torch.bfloat16)[:, None, None, :]
        for layer in self.layers:
            x = layer(x, bias)
        return {"scores": self.last(torch.tanh(self.pool(x[:, 0]))).float()}


def _pixels(side: int) -> Callable[[int], list[torch.Tensor]]:
    return lambda rows: [torch.randint(0, 256, (rows, side, side, 3), dtype=torch.uint8)]


def _tokens(words: int, length: int) -> Callable[[int], list[torch.Tensor]]:
    def make(rows: int) -> list[torch.Tensor]:
        lengths = torch.randint(length // 2, length + 1, (rows, 1))
        return [torch.randint(0, words, (rows, length)), (torch.arange(length)[None] < lengths).long()]

    return make


class Network:
    """A network by name: how it is made, and rows for it."""

    def __init__(self, name: str, make: Callable[[], nn.Module], rows: Callable[[int], list[torch.Tensor]]) -> None:
        self.name, self.rows, self._make = name, rows, make

    def module(self) -> nn.Module:
        torch.manual_seed(0)
        return self._make().eval().to(torch.bfloat16).to(memory_format=torch.channels_last)

    def files(self) -> ModelFiles:
        """As `torch.export.save` writes it."""
        examples = tuple(self.rows(2))
        rows = torch.export.Dim("rows", min=1, max=MOST_ROWS)
        with torch.no_grad():
            program: Any = torch.export.export(self.module(), examples, dynamic_shapes=[{0: rows} for _ in examples])
        file = io.BytesIO()
        torch.export.save(program, file)
        return ModelFiles(runtime="torch", main=FILE, contents={FILE: file.getvalue()})


NETWORKS: Final[Mapping[str, Network]] = {
    "resnet50": Network("resnet50", ResNet, _pixels(224)),
    "bert_base": Network("bert_base", Bert, _tokens(30522, 128)),
}
TINY: Final[Mapping[str, Network]] = {
    "resnet50": Network("resnet50", lambda: ResNet((1, 1), 8, 10), _pixels(32)),
    "bert_base": Network("bert_base", lambda: Bert(2, 32, 2, 100, 16), _tokens(100, 16)),
}
