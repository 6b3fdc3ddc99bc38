"""What makes a model better: loss, schedule, the update step, validation, and the run on disk."""
