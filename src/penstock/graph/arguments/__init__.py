"""Checking and converting the arguments of a call."""
