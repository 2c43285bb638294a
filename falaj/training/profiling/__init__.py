"""Where a training's time goes, what that means, and what to change.

`Profile` is what a session talks to: a `StepClock` splits the steps, `Devices` samples the machine, `verdicts` judges (pure),
`changes` keeps what the next start should do otherwise, and `deep` records a few steps in full when it is asked for.
"""

from typing import Final

from falaj.base.fetching import fetching

_HOMES: Final = {
    "Measured": "verdicts",
    "Profile": "profile",
    "SessionProfile": "sessions",
    "Setting": "verdicts",
    "StepClock": "clock",
    "Verdict": "verdicts",
    "judge": "verdicts",
    "profile_for": "sessions",
}
__all__ = tuple(_HOMES)
__getattr__ = fetching(__name__, _HOMES, extra="train")
