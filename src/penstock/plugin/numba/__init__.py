"""DALI's names for operators that numba compiles."""
