"""The operations of the model on each kind of device: one interface, and the only place that depends on devices."""
