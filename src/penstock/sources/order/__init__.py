"""Order of samples: a pure function of seed, epoch and position. Shuffled indices are never stored."""
