"""warping."""
