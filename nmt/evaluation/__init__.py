"""How good translations are. Free of torch."""
