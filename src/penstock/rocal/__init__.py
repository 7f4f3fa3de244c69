"""API of rocAL, AMD's augmentation library, on the same pipelines.

A program for rocAL runs with ``amd.rocal`` replaced by ``penstock.rocal`` in its imports. This package only translates
names, arguments and output formats; the rest of penstock does the work. `docs/how-to/migrate/rocal.md` lists the
differences.
"""
