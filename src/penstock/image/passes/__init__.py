"""Passes with a loop of their own: warps, blurs, medians, histograms."""
