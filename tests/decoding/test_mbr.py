"""Minimum Bayes risk: its utility equals the sentence-level chrF of sacreBLEU."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics.chrf import CHRF

from nmt.decoding.mbr import chrf_table, ranked_by_utility

SCORER = CHRF()


def sacrebleu_table(texts: list[str]) -> list[list[float]]:
    return [[SCORER.sentence_score(text, [other]).score for other in texts] for text in texts]


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.text(max_size=12)
        | st.text("ab ", max_size=20)
        | st.text("我们去吗。 ", max_size=9)
        | st.text("aa\U0001f600"),
        min_size=1,
        max_size=6,
    )
)
def test_chrf_table_equals_sacrebleu(texts: list[str]) -> None:
    assert chrf_table(texts) == pytest.approx(np.array(sacrebleu_table(texts)), abs=1e-4)


@pytest.mark.parametrize(
    "texts",
    [
        ["", ""],
        ["", "a"],
        [" \u3000", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "aaaaaaaa"],
        ["Il gatto dorme sul tappeto.", "Un gatto dorme sul tappeto", "Il cane dorme.", "il gatto"],
        ["我们明天去北京。", "明天我们去北京。", "我们去北京", "我", "我们明天去 New York。"],
    ],
)
def test_chrf_table_of_examples_equals_sacrebleu(texts: list[str]) -> None:
    assert chrf_table(texts) == pytest.approx(np.array(sacrebleu_table(texts)), abs=1e-4)


def test_by_utility_sorts_by_mean_chrf_against_the_others() -> None:
    draw = random.Random(5)
    words = ["il", "gatto", "dorme", "sul", "tappeto", "di", "casa", "oggi", "我", "们"]
    for _ in range(30):
        texts = [" ".join(draw.choices(words, k=draw.randint(0, 6))) for _ in range(8)]
        table = sacrebleu_table(texts)
        utility = {
            text: sum(row[j] for j in range(8) if j != i) / 7
            for i, (text, row) in enumerate(zip(texts, table, strict=True))
        }
        order = ranked_by_utility(texts)
        assert sorted(texts[i] for i in order) == sorted(set(texts)), "each text once"
        ranked = [utility[texts[i]] for i in order]
        assert ranked == pytest.approx(sorted(ranked, reverse=True), abs=1e-4)


def test_ties_keep_their_order_and_repeated_text_ranks_first() -> None:
    assert ranked_by_utility(["ab", "cd", "ef"]) == [0, 1, 2]
    assert ranked_by_utility(["ab", "cd", "ef", "cd"])[0] == 1
    assert ranked_by_utility(["alone"]) == [0]
    assert ranked_by_utility(["", ""]) == [0]
