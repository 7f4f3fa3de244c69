"""Filters: what becomes of a pixel depends on its neighbours."""
