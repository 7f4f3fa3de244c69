"""Readers: samples of data sets."""
