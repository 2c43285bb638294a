"""How well an order tells two kinds apart."""

import numpy as np
from numpy.typing import NDArray


def area(said: NDArray[np.float64], hits: NDArray[np.bool_]) -> float:
    """Under the curve: how often a hit is put above another; ties count half."""
    _, inverse, counts = np.unique(said, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    above, below = int(hits.sum()), int((~hits).sum())
    return float((ranks[hits].sum() - above * (above + 1) / 2) / (above * below)) if above and below else 0.5
