"""DALI's class API, `penstock.ops`."""
