"""Steps are played one after the other, with a word before and a result behind each, and told in a table in the end."""

import time
from collections.abc import Callable, Sequence

from rich.table import Table
from rich.text import Text

from falaj.base.values import value
from falaj.cli.demo.stage import Stage


@value
class Step:
    """`words` say what it is about; `play` says in one sentence what it showed."""

    title: str
    words: str
    play: Callable[[], str]


@value
class Shown:
    part: str
    title: str
    result: str
    seconds: float


def play(stage: Stage, part: str, steps: Sequence[Step]) -> list[Shown]:
    """Every step. The first one that goes wrong ends it."""
    shown = []
    for number, step in enumerate(steps, start=1):
        stage.title(f"\n{part} {number}/{len(steps)}: {step.title}", "bold cyan")
        stage.say(step.words)
        began = time.perf_counter()
        with stage.working("working"):
            result = step.play()
        seconds = time.perf_counter() - began
        stage.say(f"{result} ({seconds:.1f} s)", "green")
        shown.append(Shown(part=part, title=step.title, result=result, seconds=seconds))
    return shown


def summary(stage: Stage, shown: Sequence[Shown]) -> None:
    table = Table("what was shown", "result", "seconds", box=None, header_style="bold", pad_edge=False)
    table.columns[2].justify = "right"
    for part in dict.fromkeys(one.part for one in shown):
        own = [one for one in shown if one.part == part]
        table.add_row(Text(part, style="bold"), "", Text(f"{sum(one.seconds for one in own):.1f}", style="bold"))
        for one in own:
            table.add_row(Text(f"  {one.title}"), Text(one.result, style="green"), f"{one.seconds:.1f}")
    table.add_row(Text("everything", style="bold"), "", Text(f"{sum(one.seconds for one in shown):.1f}", style="bold"))
    stage.console.print()
    stage.console.print(table)
