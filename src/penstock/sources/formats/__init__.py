"""One file or folder per format, each with a `Source`."""
