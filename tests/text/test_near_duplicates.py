"""Similar sentences: the index against the comparison with every sentence."""

from hypothesis import given
from hypothesis import strategies as st

from nmt.text.auditing.near_duplicates import NearDuplicates

WORDS = st.lists(st.sampled_from(["alpha", "beta", "gamma", "delta", "omega"]), min_size=1, max_size=8).map(" ".join)


def similarity(one: str, other: str) -> float:
    sets = []
    for text in (one, other):
        letters = "".join(filter(str.isalnum, text))
        sets.append({letters[i : i + 4] for i in range(max(1, len(letters) - 3))})
    return len(sets[0] & sets[1]) / len(sets[0] | sets[1])


@given(st.lists(WORDS, min_size=1, max_size=6), WORDS)
def test_most_similar_sentence_is_that_of_all_comparisons(sentences: list[str], sentence: str) -> None:
    best = max(similarity(sentence, other) for other in sentences)
    found = NearDuplicates(sentences).most_similar(sentence)
    assert (found is None) == (best < 0.7)
    assert found is None or similarity(sentence, found) == best


def test_case_and_punctuation_do_not_count() -> None:
    index = NearDuplicates(["The doors are open!", "", "??"])
    assert index.most_similar("the doors are open") == "The doors are open!"
    assert index.most_similar("") is None
    assert index.most_similar("...") is None
