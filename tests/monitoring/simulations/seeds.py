"""Drawn from the operating system after every threshold and default had been set. Whoever changes one of these draws anew what
it concerns, and nobody for any other reason."""

EXPERIMENTS = 2_222_185_952
OTHER_EXPERIMENTS = 1_300_586_746
POWER = 4_067_753_970
QUIET = 1_024_418_100
QUIET_NUMBERS = 783_356_212
QUIET_TAILS = 1_748_220_930
QUIET_KINDS = 979_635_818
QUIET_MISSING = 1_504_289_966
DRIFTS = 735_170_923
DISTANCES = 3_158_413_701
MERGING = 2_716_864_471
CLUSTERS = 2_747_450_177
