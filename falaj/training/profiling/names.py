"""What a profile's figures, words and files are called on a run: whoever shows them reads the names here."""

from typing import Final

PHASES: Final = ("data", "transfer", "compute", "communication", "optimiser", "other")
FIGURES: Final = "falaj.training/"  # metrics; `data_share` and so on for each phase
WORDS: Final = "falaj.training."  # tags
RECIPE: Final = f"{WORDS}recipe."  # what was chosen and, on a second line, why
VERDICT: Final = f"{WORDS}verdict"  # a line each, what costs most first
NEXT: Final = f"{WORDS}next"  # what the next start does, or should be told to do
TOO_FEW: Final = "Too few steps to judge"  # what is said there first, where there is no verdict
CHANGES: Final = f"{WORDS}changes"  # the same of it that a start does by itself, as a start reads it
# `cpus` or `gpus`: how many a new submission should ask for, why, and loader workers now and then, a line each.
ASK: Final = f"{WORDS}ask."
VARIABLE: Final = "FALAJ_PROFILE"  # on, off or deep, where nobody wishes
APPLY: Final = "FALAJ_APPLY_PROFILE"  # a start does by itself what an earlier one found: 1, or what the first start does
TRACE: Final = "profile/trace.json.gz"
TABLE: Final = "profile/kernels.txt"
