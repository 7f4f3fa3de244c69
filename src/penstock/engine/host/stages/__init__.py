"""Stages of the host program: one class for each way to compute nodes."""
