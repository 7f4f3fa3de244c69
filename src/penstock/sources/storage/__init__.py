"""Bytes of local files and objects: ranges, prefetch, disk cache, record indexes."""
