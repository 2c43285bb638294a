"""How much a plane's host has to do, as it is told by planes and shown to people."""

from typing import Annotated

from falaj.base.values import Items, Message, Number, Range, value

Count = Annotated[int, Range(least=0, most=2**62)]


@value
class CardLoad(Message):
    """A GPU: the part of the time that it computes, None for one that does not say, and its memory."""

    busy: Number | None = None
    memory_mib: Count = 0
    memory_used_mib: Count = 0


@value
class PlaneLoad(Message):
    """`busy` is the share of a core that each worker used of late, on average: more than one where models have several threads.
    `calls` were let in and not answered yet, `rows` wait for a model or are in it. `cards` are the host's GPUs, in the order of
    its driver; none where there are none."""

    busy: Number = 0.0
    calls: Count = 0
    rows: Count = 0
    cards: Annotated[tuple[CardLoad, ...], Items(most=100)] = ()
