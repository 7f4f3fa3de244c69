"""Base types that every folder shares."""
