"""Which sample stands at which position of which epoch, as a pure function; no shuffled list exists."""
