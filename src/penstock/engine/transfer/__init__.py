"""Which rows each device holds, and how host buffers become global arrays with the user's sharding."""
