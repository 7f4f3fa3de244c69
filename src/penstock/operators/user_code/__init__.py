"""User code: operators that call a user's own functions."""
