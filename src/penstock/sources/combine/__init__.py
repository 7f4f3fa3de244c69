"""combine."""
