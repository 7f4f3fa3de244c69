"""Operators at which data of the user's enter a pipeline."""
