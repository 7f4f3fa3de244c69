"""Data sets of whole files: class folders, file lists, sequences."""
