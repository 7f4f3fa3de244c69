"""Operators that look pixels up elsewhere: rotation, affine and perspective warps, displacements."""
