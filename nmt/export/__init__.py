"""Our models in the formats of other programs, and those programs as engines that translate."""
