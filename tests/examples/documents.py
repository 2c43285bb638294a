"""Documents whose commands can be typed: what stands in them, in order, and whether what came out is what they say.

A fence of `console` has commands behind `$ `, and below each what comes out of it; `...` stands for anything, alone on a line
for any lines. Ids and local addresses are examples: what they are called here is learnt where they first come out. Any other
fence below a line that begins with a file's name is that file. Comments say what a person does who reads: `until it says so`
repeats the next fence as long as it does not, `starts: NAME; ...` and `ends: NAME` are stopwatches.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

FENCE = "```"
EXAMPLES = r"\b[0-9a-f]{32}\b|\b[0-9a-f]{8}\b|\b127\.0\.0\.1:\d+"
ANYTHING = "..."


@dataclass(frozen=True, kw_only=True)
class File:
    name: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Command:
    text: str
    says: tuple[str, ...] = ()

    @property
    def fails(self) -> bool:
        return any(line.startswith("falaj: ") for line in self.says)


@dataclass(frozen=True, kw_only=True)
class Typed:
    """The commands of one fence."""

    commands: tuple[Command, ...]
    until_it_says_so: bool = False


@dataclass(frozen=True, kw_only=True)
class Watch:
    starts: bool
    names: tuple[str, ...]


def read(document: Path) -> Iterator[File | Typed | Watch]:
    above, patient = "", False
    lines = iter(document.read_text(encoding="utf-8").splitlines())
    for line in lines:
        if comment := re.fullmatch(r"<!-- (.+?)(?:: (.+))? -->", line):
            if comment[1] == "until it says so":
                patient = True
            else:
                assert comment[1] in ("starts", "ends"), line
                yield Watch(starts=comment[1] == "starts", names=tuple(comment[2].split("; ")))
        elif line.startswith(FENCE):
            inside = list(iter(lambda: next(lines), FENCE))
            if line == f"{FENCE}console":
                yield Typed(commands=tuple(_commands(inside)), until_it_says_so=patient)
                patient = False
            elif name := re.match(r"`([\w.-]+)`", above):
                yield File(name=name[1], text="\n".join(inside) + "\n")
        elif line:
            above = line


def _commands(lines: list[str]) -> Iterator[Command]:
    begins = [at for at, line in enumerate(lines) if line.startswith("$ ")]
    assert begins[:1] == [0], f"This does not begin with a command: {lines[:1]}"
    for at, end in zip(begins, [*begins[1:], len(lines)], strict=True):
        yield Command(text=lines[at].removeprefix("$ "), says=tuple(lines[at + 1 : end]))


@dataclass(frozen=True, kw_only=True)
class Meanings:
    """What the document's examples are called here."""

    known: dict[str, str] = field(default_factory=dict)

    def here(self, command: str) -> str:
        return re.sub(EXAMPLES, lambda found: self.known.get(found[0], found[0]), command)

    def agrees(self, says: tuple[str, ...], output: str) -> bool:
        """Whether this came out; then what was new in it is known. How far columns are apart does not count."""
        learnt: list[str] = []
        pattern = "".join(self._line(line.split(), learnt) for line in says if line.strip())
        words = (" ".join(line.split()) for line in output.splitlines() if line.strip())
        found = re.fullmatch(pattern, "".join(f"{line}\n" for line in words))
        if found:
            self.known.update(zip(learnt, found.groups(), strict=True))
        return found is not None

    def _line(self, words: list[str], learnt: list[str]) -> str:
        if words == [ANYTHING]:
            return r"(?:.*\n)*?"
        parts = re.split(rf"(\.\.\.|{EXAMPLES})", " ".join(words))
        return "".join(self._part(part, learnt) for part in parts) + r"\n"

    def _part(self, part: str, learnt: list[str]) -> str:
        if part == ANYTHING:
            return ".*?"
        if not re.fullmatch(EXAMPLES, part):
            return re.escape(part)
        if part in self.known:
            return re.escape(self.known[part])
        if part in learnt:
            return rf"(?:\{learnt.index(part) + 1})"
        learnt.append(part)
        return rf"({EXAMPLES})"
