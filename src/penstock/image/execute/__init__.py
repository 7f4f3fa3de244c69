"""Executors of passes: on the host, behind a decoder, and in the device program."""
