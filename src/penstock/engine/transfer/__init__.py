"""From host buffers to sharded `jax.Array`s: which rows each device holds, and how they get there."""
