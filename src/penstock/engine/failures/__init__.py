"""Bad samples of a run: their statistics, how many are tolerated, and the quarantine file."""
