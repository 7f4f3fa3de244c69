"""What processes of one job tell each other: agreement at the start, membership, failures, exit status."""
