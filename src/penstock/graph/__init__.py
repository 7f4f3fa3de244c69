"""What the user wrote: immutable nodes, the operator contract and registry, tracing. Knows nothing of how it runs."""
