"""Canonical text and fingerprint of a definition."""
