"""Other libraries' names for the same things: tables and delegation, no logic."""
