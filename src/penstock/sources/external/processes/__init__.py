"""Users' sources in processes of their own: `stream` asks, `pool` starts them, `worker` is what they run.

Arrays come back through memory without a name (`memory`), so nothing is left of it when both sides have ended, however
they do. Nothing here imports JAX.
"""
