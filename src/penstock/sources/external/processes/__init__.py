"""Sources of users in worker processes."""
