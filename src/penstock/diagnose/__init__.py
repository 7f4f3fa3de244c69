"""Diagnosis of an installation: checks that `penstock doctor` prints."""
