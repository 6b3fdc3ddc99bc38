"""Counts of rules: parts merged in any order equal the whole."""

import random

from hypothesis import given
from hypothesis import strategies as st

from nmt.text.corpus import SentencePair
from nmt.text.filters.rule_counts import EXAMPLES, Rejected, RuleCounts, total_removed


@given(st.lists(st.sampled_from([None, "empty", "copy"]), max_size=60), st.integers(1, 7), st.randoms())
def test_merged_counts_of_parts_equal_those_of_the_whole(
    rules: list[str | None], parts: int, choose: random.Random
) -> None:
    lines = [Rejected(rule, number, SentencePair("s", "t")) for number, rule in enumerate(rules, 1) if rule]
    whole = RuleCounts.of("train.tsv", len(rules), lines)
    shares = [RuleCounts.of("train.tsv", len(rules[part::parts]), lines[part::parts]) for part in range(parts)]
    choose.shuffle(shares)
    merged = RuleCounts("train.tsv")
    for share in shares:
        merged.merge(share)
    assert merged == whole
    assert merged.kept == rules.count(None)
    assert total_removed([merged, merged])["copy"] == 2 * rules.count("copy")
    for rule in ("empty", "copy"):
        assert merged.examples.get(rule, []) == [line for line in lines if line.rule == rule][:EXAMPLES]
