"""Names for runs that were given none: two words and a number, drawn from the run's id, which is random as it is."""

import hashlib
from typing import Final


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_HOW: Final = _words("""
    able amber brave bright brisk calm careful clear clever crisp curious deft eager early even fair fast fine fresh gentle
    glad golden grand honest humble keen kind light lively lucid mellow merry modest neat noble open patient plain polite
    prompt proud quick quiet ready rapid royal serene sharp silent silver simple sincere smooth solid steady sunny swift
    tidy warm wise
""")
_WHAT: Final = _words("""
    acacia antelope barley basin breeze bridge brook camel canal canyon cedar channel cliff cloud coral crane cypress date
    delta dune falcon fig garden gazelle grove harbour heron hill ibex island jasmine juniper kestrel lagoon lantern lark
    lemon loquat meadow mesa mint myrtle oasis olive oryx otter palm pearl pebble pelican quartz reed ridge river robin
    saffron spring stork tamarind terrace thyme valley wadi well willow
""")


def friendly_name(run: str) -> str:
    drawn = int.from_bytes(hashlib.sha256(run.encode()).digest()[:8])
    drawn, how = divmod(drawn, len(_HOW))
    drawn, what = divmod(drawn, len(_WHAT))
    return f"{_HOW[how]}-{_WHAT[what]}-{drawn % 1000}"
