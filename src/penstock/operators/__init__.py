"""Operators: one module per operator, named as in DALI, in one folder per family."""
