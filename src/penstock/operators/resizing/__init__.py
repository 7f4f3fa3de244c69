"""Operators that resize images, alone or with a crop and a mirror."""
