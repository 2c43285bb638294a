"""Rows like those that are known, for a teacher to be asked about: pictures are turned and moved a little, other rows take some
of their entries from each other, and numbers are mixed in pairs."""

from collections.abc import Sequence
from typing import Any, Final

import torch
from torch.nn import functional

_COLOURS: Final = (1, 3, 4)
_SMALLEST: Final = 12  # pixels of a picture's side
_TURNED: Final = 0.25  # radians, to either side at most
_SIZED: Final = 0.12
_MOVED: Final = 0.12  # of the side
_CROSSED: Final = 0.15  # of the entries
_MIXED: Final = 0.5  # of the rows


def varied(inputs: Sequence[Any], random: torch.Generator) -> tuple[list[Any], Any]:
    """New rows, and for each whether what is true of it is true still."""
    rows = len(inputs[0])
    other = torch.randperm(rows, generator=random)
    pictures = all(_is_picture(one) for one in inputs)
    made = [_moved(one, random) if _is_picture(one) else _crossed(one, other, random) for one in inputs]
    if not all(one.is_floating_point() for one in inputs):
        return made, torch.full((rows,), pictures)
    mixed = torch.rand(rows, generator=random) < _MIXED
    share = torch.where(mixed, 0.5 + 0.5 * torch.rand(rows, generator=random), 1.0)
    made = [_weighed(one, share) + _weighed(one[other], 1 - share) for one in made]
    return made, ~mixed & pictures


def _weighed(tensor: Any, share: Any) -> Any:
    return tensor * share.to(tensor.dtype).view(-1, *([1] * (tensor.dim() - 1)))


def _is_picture(tensor: Any) -> bool:
    if tensor.dim() != 4 or tensor.dtype not in (torch.float32, torch.uint8):
        return False
    first = tensor.shape[1] in _COLOURS and min(tensor.shape[2:]) >= _SMALLEST
    return first or (tensor.shape[3] in _COLOURS and min(tensor.shape[1:3]) >= _SMALLEST)


def _moved(pictures: Any, random: torch.Generator) -> Any:
    """Each in its own way."""
    last = pictures.shape[1] not in _COLOURS
    plain = pictures.permute(0, 3, 1, 2) if last else pictures
    rows = len(plain)
    angle, size, down, right = (2 * torch.rand(4, rows, generator=random) - 1).unbind()
    angle, size = _TURNED * angle, 1 + _SIZED * size
    cosine, sine = torch.cos(angle) * size, torch.sin(angle) * size
    lines = [torch.stack([cosine, -sine, 2 * _MOVED * right], 1), torch.stack([sine, cosine, 2 * _MOVED * down], 1)]
    grid = functional.affine_grid(torch.stack(lines, 1), list(plain.shape), align_corners=False)
    made = functional.grid_sample(plain.float(), grid, align_corners=False, padding_mode="border")
    made = made if plain.is_floating_point() else made.round()
    return (made.permute(0, 2, 3, 1) if last else made).to(pictures.dtype).contiguous()


def _crossed(rows: Any, other: Any, random: torch.Generator) -> Any:
    """Some entries are another row's, from the same place."""
    return torch.where(torch.rand(rows.shape, generator=random) < _CROSSED, rows[other], rows)
