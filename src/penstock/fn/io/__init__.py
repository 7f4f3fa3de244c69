"""Operators that use files."""

from penstock.fn.io import file as file
