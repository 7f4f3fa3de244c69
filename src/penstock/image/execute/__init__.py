"""Runs passes."""
