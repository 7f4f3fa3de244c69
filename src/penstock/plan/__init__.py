"""Small passes over the graph: merge shards, demand shapes, place nodes, group stages."""
