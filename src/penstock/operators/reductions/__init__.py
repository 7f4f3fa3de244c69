"""Operators that reduce samples along axes: sums, means, extremes, variances."""
