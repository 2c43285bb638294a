"""The networks that `gpu_training.py` trains, as their authors would write them: plain torch, float32, nothing tuned."""

import math
from typing import Any, Final

import torch
from gpu_networks import Bottleneck
from torch import nn
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode


class Block(nn.Module):  # type: ignore[misc,unused-ignore]
    """Of GPT-2."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.attend, self.joined = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.first_norm, self.second_norm = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x: Any) -> Any:
        rows, length, width = x.shape
        q, k, v = self.attend(self.first_norm(x)).split(width, dim=2)
        q, k, v = (one.view(rows, length, self.heads, width // self.heads).transpose(1, 2) for one in (q, k, v))
        seen = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.joined(seen.transpose(1, 2).reshape(rows, length, width))
        return x + self.down(functional.gelu(self.up(self.second_norm(x)), approximate="tanh"))


class Gpt2(nn.Module):  # type: ignore[misc,unused-ignore]
    """GPT-2; the defaults are the one of 124 million parameters. The last layer's weights are the embedding's."""

    def __init__(self, layers: int = 12, width: int = 768, heads: int = 12, words: int = 50257, length: int = 1024) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm, self.last = nn.LayerNorm(width), nn.Linear(width, words, bias=False)
        self.last.weight = self.words.weight
        for name, parameter in self.named_parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * layers) if "joined" in name or "down" in name else 0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, ids: Any) -> Any:
        x = self.words(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        return self.last(self.norm(x))


class ResNet(nn.Module):  # type: ignore[misc,unused-ignore]
    """The defaults are ResNet-50."""

    def __init__(self, blocks: tuple[int, ...] = (3, 4, 6, 3), width: int = 64, classes: int = 1000) -> None:
        super().__init__()
        self.stem, self.stem_norm = nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width)
        layers: list[Any] = []
        given = width
        for stage, count in enumerate(blocks):
            for number in range(count):
                layers.append(Bottleneck(given, width << stage, 2 if stage and not number else 1))
                given = 4 * (width << stage)
        self.layers, self.last = nn.Sequential(*layers), nn.Linear(given, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, images: Any) -> Any:
        x = functional.max_pool2d(torch.relu(self.stem_norm(self.stem(images))), 3, 2, 1)
        return self.last(self.layers(x).mean((2, 3)))


def words_loss(model: Any, ids: Any, following: Any) -> Any:
    scores = model(ids)
    return functional.cross_entropy(scores.view(-1, scores.shape[-1]), following.view(-1))


def images_loss(model: Any, images: Any, labels: Any) -> Any:
    return functional.cross_entropy(model(images), labels)


_COMMON: Final = 1000  # words that occur; the others do not


def text(seed: int, rows: int, length: int, words: int, device: Any) -> tuple[Any, ...]:
    """Words by Zipf's law, of which three in four follow from the one before: there is something to learn."""
    generator, words = torch.Generator(device).manual_seed(seed), min(words, _COMMON)
    chance = 1 / torch.arange(1, words + 1, device=device, dtype=torch.float32)
    ids = torch.multinomial(chance, rows * (length + 1), replacement=True, generator=generator).view(rows, length + 1)
    follows = torch.rand(ids.shape, generator=generator, device=device) < 0.75
    for at in range(1, length + 1):
        ids[:, at] = torch.where(follows[:, at], (ids[:, at - 1] * 7 + 3) % words, ids[:, at])
    return ids[:, :-1].contiguous(), ids[:, 1:].contiguous()


def images(seed: int, rows: int, side: int, classes: int, device: Any) -> tuple[Any, ...]:
    """Noise over a coarse pattern that tells the class."""
    generator = torch.Generator(device).manual_seed(seed)
    labels = torch.randint(0, classes, (rows,), generator=generator, device=device)
    patterns = torch.randn((classes, 3, 4, 4), generator=torch.Generator(device).manual_seed(1), device=device)
    noise = torch.randn((rows, 3, side, side), generator=generator, device=device)
    return functional.interpolate(patterns[labels], size=(side, side)) + noise, labels


class Training:
    """A network with its loss, its optimiser and its batches. `tuned` is the network as one makes it who knows the chip."""

    def __init__(
        self, *, network: Any, tuned: Any, loss_of: Any, optimiser: Any, batch: Any, rows: int, curve_rows: int
    ) -> None:
        self.network, self.tuned, self.loss_of, self.optimiser = network, tuned, loss_of, optimiser
        self.batch = batch  # seed, rows, device -> tensors
        self.rows, self.curve_rows = rows, curve_rows

    def model(self, device: Any, *, tuned: bool = False) -> Any:
        torch.manual_seed(0)
        return (self.tuned if tuned else self.network)().to(device)


def _adamw(parameters: Any, **form: Any) -> Any:
    return torch.optim.AdamW(parameters, lr=6e-4, betas=(0.9, 0.95), weight_decay=0.1, **form)


def _sgd(parameters: Any, **form: Any) -> Any:
    return torch.optim.SGD(parameters, lr=0.05, momentum=0.9, weight_decay=1e-4, **form)


def gpt2(*, layers: int, width: int, heads: int, words: int, length: int, rows: int, curve_rows: int) -> Training:
    return Training(
        network=lambda: Gpt2(layers, width, heads, words, length),
        tuned=lambda: Gpt2(layers, width, heads, -(-words // 64) * 64, length),
        loss_of=words_loss,
        optimiser=_adamw,
        batch=lambda seed, many, device: text(seed, many, length, words, device),
        rows=rows,
        curve_rows=curve_rows,
    )


def resnet(*, blocks: tuple[int, ...], width: int, classes: int, side: int, rows: int, curve_rows: int) -> Training:
    return Training(
        network=lambda: ResNet(blocks, width, classes),
        tuned=lambda: ResNet(blocks, width, classes).to(memory_format=torch.channels_last),
        loss_of=images_loss,
        optimiser=_sgd,
        batch=lambda seed, many, device: images(seed, many, side, classes, device),
        rows=rows,
        curve_rows=curve_rows,
    )


FULL: Final = {
    "gpt2": gpt2(layers=12, width=768, heads=12, words=50257, length=1024, rows=64, curve_rows=8),
    "resnet50": resnet(blocks=(3, 4, 6, 3), width=64, classes=1000, side=224, rows=256, curve_rows=64),
}
TINY: Final = {
    "gpt2": gpt2(layers=2, width=32, heads=2, words=100, length=16, rows=4, curve_rows=2),
    "resnet50": resnet(blocks=(1, 1), width=8, classes=10, side=32, rows=4, curve_rows=4),
}


def flops_of(name: str, model: Any, tiny: bool) -> float:
    """Of one token or one image, forward and back. GPT-2: six for each parameter but those of places, and attention's two
    products over the whole length (the causal half is counted too, as is usual). ResNet: three times those of forward."""
    if name == "gpt2":
        length, width = model.places.weight.shape
        parameters = sum(parameter.numel() for parameter in model.parameters()) - length * width
        return float(6 * parameters + 12 * len(model.blocks) * length * width)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        side = 32 if tiny else 224
        model(torch.zeros(1, 3, side, side, device=next(model.parameters()).device))
    return 3.0 * float(counter.get_total_flops())
