"""The Transformer, and the model directory that holds a trained one."""
