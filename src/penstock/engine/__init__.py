"""Runs a plan."""
