"""Operators that warp images: rotation, affine and perspective warps, displacements."""
