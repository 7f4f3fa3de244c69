"""User sources in worker processes."""
