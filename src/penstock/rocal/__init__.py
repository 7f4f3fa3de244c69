"""API of rocAL, AMD's augmentation library, on the same pipelines.

A program for rocAL runs with ``amd.rocal`` replaced by ``penstock.rocal`` in its imports. Everything here is names,
spellings of arguments and forms of outputs; the work is done by the rest of penstock. `docs/from-rocal.md` says what
differs.
"""
