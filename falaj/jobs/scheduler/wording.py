"""How amounts and reasons are said to people: whole sentences, one of a thing or several of them."""

from collections.abc import Iterable

from falaj.jobs.scheduler.values import CARD, CPU, GPU, IO, MEMORY


def sentence(words: str) -> str:
    """As people read one: with a capital and a full stop."""
    words = words.strip()
    return f"{words[:1].upper()}{words[1:]}{'' if words.endswith(('.', '!', '?')) else '.'}"


def counted(number: float, word: str) -> str:
    """`1 core`, `1.5 cores`."""
    return f"{number:g} {word}{'' if number == 1 else 's'}"


def listed(words: Iterable[str], last: str) -> str:
    """`a, b and c`; the first ten where there are more."""
    shown = list(words)
    if len(shown) > 10:
        shown = [*shown[:10], f"{len(shown) - 10} more"]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} {last} {shown[-1]}"


def amount_text(resource: str, amount: int) -> str:
    """An amount as people say it: `1.5 GPUs`, `4 cores`, `2 GiB`."""
    if resource == CPU:
        return counted(amount / 1000, "core")
    if resource == MEMORY:
        return f"{round(amount / 1024, 2):g} GiB of memory" if amount >= 1024 else f"{amount} MiB of memory"
    if resource == IO:
        return f"{amount} of I/O weight"
    model = resource.removeprefix(GPU).removeprefix(":")
    return counted(amount / CARD, f"{model} GPU" if model else "GPU")
