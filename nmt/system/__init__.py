"""The console, files, and processes."""
