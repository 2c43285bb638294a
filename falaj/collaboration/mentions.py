"""Whom a text mentions. Names are cut out where they stand, and put back when the text is read."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from falaj.base.values import value

# Behind a letter it is an e-mail address, behind a slash or another @ it is something else.
_NAME: Final = re.compile(r"(?<![\w@/.-])@([A-Za-z0-9][A-Za-z0-9._-]{0,99})")
MOST_NAMES: Final = 50  # looked up for one text; what else looks like one stays text
NOBODY: Final = "erased"


@value
class Mention:
    """Somebody who is named at a position of the text without its mentions."""

    position: int
    principal: str


@value
class Spoken:
    text: str
    mentions: tuple[Mention, ...]


def cut(text: str, find: Callable[[str], str | None]) -> Spoken:
    """Take the mentions out of a text. `find` gives the principal whom a name means, or None where it means nobody."""
    known: dict[str, str | None] = {}

    def meant(name: str) -> str | None:
        if name not in known and len(known) < MOST_NAMES:
            known[name] = find(name)
        return known.get(name)

    parts, mentions, length, end = [], [], 0, 0
    for match in _NAME.finditer(text):
        name = match[1].lower()
        # `@badr.` ends a sentence, where nobody is called that.
        spelled = next((spelling for spelling in dict.fromkeys((name, name.rstrip("._-"))) if meant(spelling)), None)
        if spelled is None or (principal := known[spelled]) is None:
            continue
        parts.append(text[end : match.start()])
        length += len(parts[-1])
        end = match.start() + 1 + len(spelled)
        mentions.append(Mention(position=length, principal=principal))
    return Spoken(text="".join((*parts, text[end:])), mentions=tuple(mentions))


def put_back(text: str, mentions: Sequence[Mention], names: Mapping[str, str]) -> str:
    """The text with its mentions, under the names of today; whoever has none any more is nobody in particular."""
    parts, end = [], 0
    for mention in mentions:
        parts += [text[end : mention.position], f"@{names.get(mention.principal) or NOBODY}"]
        end = mention.position
    return "".join((*parts, text[end:]))
