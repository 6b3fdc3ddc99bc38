"""The console, files, the device, and processes."""
