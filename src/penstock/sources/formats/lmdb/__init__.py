"""lmdb."""
