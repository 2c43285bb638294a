"""Checks inside training: leaks between train and test, drift against a reference, slices, calibration.

`check` does what it is given the means for, tells the run, and gives `Findings` that a script can insist on. Needs numpy.
"""

from typing import Final

from falaj.base.fetching import fetching

_HOMES: Final = {
    "ChecksFailed": "findings",
    "Finding": "findings",
    "Findings": "findings",
    "Profile": "profiles",
    "check": "checking",
    "profile": "profiles",
}
__all__ = tuple(_HOMES)
__getattr__ = fetching(__name__, _HOMES, extra="convert")
