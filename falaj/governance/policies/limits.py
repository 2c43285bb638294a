"""What a policy's text may look like before Cedar's parser sees it.

The parser recurses on the native stack: a text nested deep enough ends the process, which no `except` can catch. So the shape
is bounded here, by a scan that does not recurse; whether the text means anything is for `cedar` to say.
"""

import re
from typing import Final

from falaj.base.errors import Invalid

LONGEST_POLICY: Final = 10_000
DEEPEST: Final = 40
MOST_TOKENS: Final = 1_000
MOST_PREFIXES: Final = 20

# Comments and strings as Cedar's own lexer reads them: a carriage return ends a comment too, or brackets could hide behind one.
_TOKEN: Final = re.compile(r'//[^\n\r]*|"(?:\\.|[^"\\])*"|\w+|\S')


def check_shape(text: str) -> None:
    """Refuse a text that is too long, too deep or too winding to be parsed safely."""
    if len(text) > LONGEST_POLICY:
        raise Invalid(f"A policy has at most {LONGEST_POLICY} characters; this one has {len(text)}.")
    tokens = [word for word in _TOKEN.findall(text) if not word.startswith("//")]
    if len(tokens) > MOST_TOKENS:
        raise Invalid(f"A policy has at most {MOST_TOKENS} words and signs; this one has {len(tokens)}. Split it into several.")
    depth = prefixes = 0
    for word in tokens:
        depth += (word in "([{") - (word in ")]}")
        prefixes = prefixes + 1 if word in "!-" else 0
        if depth > DEEPEST:
            raise Invalid(f"Brackets in a policy nest at most {DEEPEST} deep; flatten the condition.")
        if prefixes > MOST_PREFIXES:
            raise Invalid(f"At most {MOST_PREFIXES} signs `!` or `-` may follow each other in a policy.")
