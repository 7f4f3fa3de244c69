"""Operators on audio signals and spectrograms. They run sample by sample on the host, since lengths differ."""
