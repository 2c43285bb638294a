"""What students are made of: plain layers, inverted residuals, a small transformer. Each takes rows as its teacher does, and
can `settle`: what it does to numbers before its first layer becomes a part of that layer's weights."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

import torch
from torch import nn
from torch.nn import functional

_COLOURS: Final = (1, 3, 4)


class Dense(nn.Module):
    """Two hidden layers over all numbers of a row, each brought to a spread of one."""

    def __init__(self, shapes: Sequence[Sequence[int]], answers: int, hidden: int, middles: Any, spreads: Any) -> None:
        super().__init__()
        entries = sum(math.prod(shape) for shape in shapes)
        self.register_buffer("middles", middles.clone())
        self.register_buffer("factors", 1 / spreads)
        self.first, self.second, self.scores = (
            nn.Linear(given, made) for given, made in ((entries, hidden), (hidden, hidden), (hidden, answers))
        )
        self.settled = False

    def settle(self) -> None:
        with torch.no_grad():
            self.first.weight.mul_(self.factors)
            self.first.bias.sub_(self.first.weight @ self.middles)
        self.settled = True

    def forward(self, *inputs: Any) -> Any:
        x = torch.cat([one.flatten(1).float() for one in inputs], 1) if len(inputs) > 1 else inputs[0].flatten(1).float()
        if not self.settled:
            x = (x - self.middles) * self.factors
        return self.scores(functional.relu(self.second(functional.relu(self.first(x)))))


class Pictures(nn.Module):
    """A few inverted residuals, as MobileNetV2 has them; with larger windows further in, as EfficientNet-Lite has."""

    def __init__(
        self, shape: Sequence[int], answers: int, channels: Sequence[int], windows: Sequence[int], spread: float
    ) -> None:
        super().__init__()
        self.turned = shape[0] not in _COLOURS and shape[2] in _COLOURS
        colours = shape[2] if self.turned else shape[0]
        self.factor = 1 / spread
        self.first = _convolution(colours, channels[0], 3, 2)
        layers: list[nn.Module] = []
        for (before, after), window in zip(pairwise(channels), windows, strict=True):
            layers += [Inverted(before, after, 2, window), Inverted(after, after, 1, window)]
        self.layers, self.scores = nn.Sequential(*layers), nn.Linear(channels[-1], answers)

    def settle(self) -> None:
        with torch.no_grad():
            self.first[0].weight.mul_(self.factor)
        self.factor = 1.0

    def forward(self, pictures: Any) -> Any:
        x = (pictures.permute(0, 3, 1, 2) if self.turned else pictures).float()
        x = x if self.factor == 1.0 else x * self.factor
        return self.scores(self.layers(self.first(x)).mean((2, 3)))


class Inverted(nn.Module):
    """Wide, each channel by itself, narrow; and the way around where the shape stays."""

    def __init__(self, given: int, made: int, stride: int, window: int, wider: int = 3) -> None:
        super().__init__()
        wide = wider * given
        self.wide, self.deep = _convolution(given, wide, 1, 1), _convolution(wide, wide, window, stride, wide)
        self.narrow = nn.Sequential(nn.Conv2d(wide, made, 1, bias=False), nn.BatchNorm2d(made))
        self.stays = stride == 1 and given == made

    def forward(self, x: Any) -> Any:
        made = self.narrow(self.deep(self.wide(x)))
        return x + made if self.stays else made


class Reader(nn.Module):
    """A small transformer over tokens; what the first place says is the answer, beside the mean of all."""

    def __init__(self, tokens: int, length: int, answers: int, *, width: int, layers: int, heads: int) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(tokens, width), nn.Parameter(0.2 * torch.randn(length, width))
        nn.init.normal_(self.words.weight, std=0.2)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.norm, self.scores = nn.LayerNorm(width), nn.Linear(2 * width, answers)

    def settle(self) -> None:
        pass

    def forward(self, tokens: Any) -> Any:
        x = self.words(tokens) + self.places
        for layer in self.layers:
            x = layer(x)
        x = self.norm(x)
        return self.scores(torch.cat([x[:, 0], x.mean(1)], dim=1))


class Layer(nn.Module):
    """Attention and two plain layers, each normalised first."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mixed, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.inner = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x: Any) -> Any:
        rows, length, width = x.shape
        parts = self.mixed(self.first(x)).view(rows, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        wanted, known, told = parts[0], parts[1], parts[2]
        weights = torch.softmax(wanted @ known.transpose(-1, -2) / (width // self.heads) ** 0.5, dim=-1)
        x = x + self.out((weights @ told).transpose(1, 2).reshape(rows, length, width))
        return x + self.inner(self.second(x))


def _convolution(given: int, made: int, window: int, stride: int, groups: int = 1) -> nn.Sequential:
    convolution = nn.Conv2d(given, made, window, stride, window // 2, groups=groups, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(made), nn.ReLU6())
