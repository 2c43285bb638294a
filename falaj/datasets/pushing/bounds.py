"""How much may be pushed, and how long it waits."""

from falaj.base.values import value


@value
class PushBounds:
    """What waits becomes a version after so many `seconds`, or as soon as there are so many `rows` or `batch_bytes`. One push
    has at most `largest` bytes as it is sent; what waits in a project has at most `held_bytes` as it is kept, and is at most
    `held_pushes`."""

    seconds: float = 10.0
    rows: int = 100_000
    batch_bytes: int = 32 << 20
    largest: int = 16 << 20
    held_bytes: int = 1 << 30
    held_pushes: int = 20_000
