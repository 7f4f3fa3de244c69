"""Random numbers, as many per sample as a definition asks for."""
