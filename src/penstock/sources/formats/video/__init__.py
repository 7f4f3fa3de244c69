"""Video files."""
