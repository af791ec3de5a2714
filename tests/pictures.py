"""What pictures are compared by."""

import numpy as np


def look_same(seen, recorded):
    """Whether pictures (..., H, W, 3) are the same, but for the rounding of a number or two.

    Recordings are drawn many pictures at a time, by another program than draws what is seen.
    """
    difference = np.abs(seen.astype(int) - recorded)
    return (difference.max((-3, -2, -1)) <= 1) & (np.count_nonzero(difference, (-3, -2, -1)) <= 3)
