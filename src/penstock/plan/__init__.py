"""Where each node runs and why: small passes over the graph. Knows no operator by name."""
