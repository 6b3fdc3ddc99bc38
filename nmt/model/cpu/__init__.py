"""Faster kernels for CPUs."""
