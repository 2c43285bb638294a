"""Drawn from the operating system after every threshold and default had been set. Whoever changes one of these draws anew what
it concerns, and nobody for any other reason."""

EXPERIMENTS = 2_222_185_952
OTHER_EXPERIMENTS = 1_300_586_746
POWER = 4_067_753_970
QUIET = 2_513_445_053
QUIET_NUMBERS = 992_157_025
QUIET_TAILS = 1_006_618_864
QUIET_KINDS = 1_231_487_872
QUIET_MISSING = 2_745_622_004
DRIFTS = 735_170_923
DISTANCES = 3_158_413_701
MERGING = 2_716_864_471
CLUSTERS = 2_747_450_177
