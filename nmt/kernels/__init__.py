"""Kernels: functions that compute the layers of a model, for one kind of processor."""
