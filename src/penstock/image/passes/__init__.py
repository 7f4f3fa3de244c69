"""Passes with their own compiled loops: warps, blurs, medians, histograms."""
