"""The report on a text before training: findings on whole corpora, counts and examples of the rules."""
