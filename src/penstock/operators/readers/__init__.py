"""Readers: operators that read data sets, with shuffling, sharding and resuming."""
