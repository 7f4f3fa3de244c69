"""Casts, sums and random bits with one result under NumPy, compiled loops and XLA."""
