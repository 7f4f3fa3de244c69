"""Numbers, no pixels."""
