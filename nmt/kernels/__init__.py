"""Kernels for CPUs in C++."""
