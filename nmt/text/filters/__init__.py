"""Rules on sentence pairs: what is removed from the training text, why, and how often."""

from nmt.text.filters.leakage import HeldOutText
from nmt.text.filters.pair_filter import PairFilter, Verdict
from nmt.text.filters.rule_counts import RULES, Rejected, RuleCounts

__all__ = ["RULES", "HeldOutText", "PairFilter", "Rejected", "RuleCounts", "Verdict"]
