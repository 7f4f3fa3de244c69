"""dali."""
