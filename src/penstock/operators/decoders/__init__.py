"""Decoders: from the bytes of files to pixels."""
