"""Training: loss, schedule, the update step, validation, and the run on disk."""
