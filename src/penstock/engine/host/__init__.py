"""Cuts batches into chunks and computes their stages on threads, straight into aligned batch buffers."""
