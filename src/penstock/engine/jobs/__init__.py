"""Communication between the processes of a job: startup exchange, membership, failures."""
