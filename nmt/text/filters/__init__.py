"""Rules on sentence pairs: what is removed from the training text, why, and how often."""

from nmt.text.filters.leakage import HeldOutText
from nmt.text.filters.pair_filter import FREE_TOKENS, PairFilter, Verdict
from nmt.text.filters.rule_counts import RULES, Rejected, RuleCounts

__all__ = ["FREE_TOKENS", "RULES", "HeldOutText", "PairFilter", "Rejected", "RuleCounts", "Verdict"]
