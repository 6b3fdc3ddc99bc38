"""Metrics against independent implementations of their formulas and against published scores of WMT22."""

import csv
import math
from collections import Counter
from dataclasses import replace

import pytest
from sacrebleu.metrics import BLEU, CHRF, TER

from nmt.errors import ConfigError
from nmt.evaluation.metrics import Confidence, measure
from nmt.text.languages import target_language

ITALIAN = target_language("it")
CHINESE = target_language("zh")


def ngrams(tokens: list[str] | str, order: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(tokens[i : i + order]) for i in range(len(tokens) - order + 1))


def bleu_by_formula(hypotheses: list[list[str]], references: list[list[list[str]]]) -> float:
    """Papineni et al. 2002: clipped precisions over the corpus, brevity penalty from the closest references."""
    precisions = []
    for order in range(1, 5):
        matches = total = 0
        for hypothesis, choices in zip(hypotheses, references, strict=True):
            counts = ngrams(hypothesis, order)
            clip: Counter[tuple[str, ...]] = Counter()
            for choice in choices:
                clip |= ngrams(choice, order)
            matches += (counts & clip).total()
            total += counts.total()
        precisions.append(matches / total)
    length = sum(map(len, hypotheses))
    closest = sum(
        min((abs(len(choice) - len(hypothesis)), len(choice)) for choice in choices)[1]
        for hypothesis, choices in zip(hypotheses, references, strict=True)
    )
    penalty = min(1.0, math.exp(1 - closest / length))
    return 100 * penalty * math.exp(sum(map(math.log, precisions)) / 4)


def chrf_by_formula(hypotheses: list[str], references: list[str], words: int = 0, beta: float = 2) -> float:
    """Popović 2015, 2017: F-beta of the orders' mean precision and mean recall, spaces left out."""
    precisions, recalls = [], []
    for order, by_words in [*((n, False) for n in range(1, 7)), *((n, True) for n in range(1, words + 1))]:
        matches = produced = expected = 0
        for hypothesis, reference in zip(hypotheses, references, strict=True):
            ours, theirs = (
                ngrams(text.split() if by_words else text.replace(" ", ""), order) for text in (hypothesis, reference)
            )
            matches += (ours & theirs).total()
            produced += ours.total()
            expected += theirs.total()
        precisions.append(matches / produced)
        recalls.append(matches / expected)
    precision, recall = sum(precisions) / len(precisions), sum(recalls) / len(recalls)
    return 100 * (1 + beta**2) * precision * recall / (beta**2 * precision + recall)


HYPOTHESES = ["il gatto nero dorme sul tappeto rosso", "domani andremo tutti al mare con la barca"]
REFERENCES = ["il gatto nero dorme sopra il tappeto rosso", "domani andremo tutti insieme al mare con la nave"]
OTHERS = ["un gatto nero dorme sul tappeto", "domani si va tutti al mare in barca"]


def words(lines: list[str]) -> list[list[str]]:
    return [line.split() for line in lines]


def test_bleu_equals_its_formula() -> None:
    expected = bleu_by_formula(words(HYPOTHESES), [[reference] for reference in words(REFERENCES)])
    score = measure("bleu", HYPOTHESES, [REFERENCES], ITALIAN).score()
    assert score.name == "BLEU"
    assert score.value == pytest.approx(expected, abs=1e-9)
    assert 20 < score.value < 80
    assert "tok:13a" in score.signature
    assert "nrefs:1" in score.signature
    assert score.confidence is None
    assert not score.lower_is_better


def test_bleu_by_hand() -> None:
    # "a b c d e" against "a b c d f": 4/5 words, 3/4 pairs, 2/3 triples, 1/2 fours; equally long
    value = measure("bleu", ["a b c d e"], [["a b c d f"]], ITALIAN).score().value
    assert value == pytest.approx(100 * (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** 0.25)


def test_bleu_of_several_references_equals_its_formula() -> None:
    choices = [list(pair) for pair in zip(words(REFERENCES), words(OTHERS), strict=True)]
    expected = bleu_by_formula(words(HYPOTHESES), choices)
    score = measure("bleu", HYPOTHESES, [REFERENCES, OTHERS], ITALIAN).score()
    assert score.value == pytest.approx(expected, abs=1e-9)
    assert "nrefs:2" in score.signature


def test_chinese_bleu_counts_characters() -> None:
    hypotheses, references = ["我昨天在图书馆看书。"], ["我昨天在学校图书馆看书了。"]
    expected = bleu_by_formula([list(hypotheses[0])], [[list(references[0])]])
    assert measure("bleu", hypotheses, [references], CHINESE).score().value == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(("metric", "name", "order"), [("chrf", "chrF2", 0), ("chrf++", "chrF2++", 2)])
def test_chrf_equals_its_formula(metric: str, name: str, order: int) -> None:
    score = measure(metric, HYPOTHESES, [REFERENCES], ITALIAN).score()
    assert score.name == name
    assert score.value == pytest.approx(chrf_by_formula(HYPOTHESES, REFERENCES, order), abs=1e-9)
    assert f"nw:{order}" in score.signature


def test_ter_by_hand() -> None:
    # one word replaced out of five, and one block moved out of four
    assert measure("ter", ["a b c d e"], [["a b x d e"]], ITALIAN).score().value == pytest.approx(100 / 5)
    score = measure("ter", ["c d a b"], [["a b c d"]], ITALIAN).score()
    assert score.value == pytest.approx(100 / 4)
    assert score.lower_is_better


def test_chinese_ter_counts_characters() -> None:
    # four characters and a full stop, one of them replaced; without characters it would be 100
    score = measure("ter", ["他没有来。"], [["她没有来。"]], CHINESE).score()
    assert score.value == pytest.approx(100 / 5)
    assert "asian:yes" in score.signature
    assert "norm:yes" in score.signature
    assert "asian:no" in measure("ter", ["a"], [["a"]], ITALIAN).score().signature


@pytest.mark.parametrize("metric", ["bleu", "chrf", "chrf++", "ter"])
def test_scores_of_equal_and_disjoint_texts(metric: str) -> None:
    perfect, hopeless = (0, 100) if metric == "ter" else (100, 0)
    assert measure(metric, REFERENCES, [REFERENCES], ITALIAN).score().value == pytest.approx(perfect)
    assert measure(metric, ["", ""], [REFERENCES], ITALIAN).score().value == pytest.approx(hopeless)


def test_confidence_is_repeatable_and_in_the_signature() -> None:
    hypotheses, references = HYPOTHESES * 20, REFERENCES[::-1] * 10 + REFERENCES * 10
    first, second = (measure("chrf", hypotheses, [references], ITALIAN).score(200) for _ in range(2))
    assert first == second
    assert first.confidence is not None
    assert first.confidence.margin > 0
    assert abs(first.confidence.mean - first.value) < first.confidence.margin
    assert "bs:200|seed:12345" in first.signature


def test_samples_of_many_lines_are_drawn_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    measured = measure("chrf", HYPOTHESES * 20, [REFERENCES[::-1] * 10 + REFERENCES * 10], ITALIAN)
    whole = measured.resampled(50)
    monkeypatch.setattr("nmt.evaluation.metrics._DRAWN_AT_ONCE", 7 * len(measured.statistics))
    assert replace(measured).resampled(50).tolist() == whole.tolist()
    assert measured.resampled(50) is whole  # drawn once


def test_interval_covers_samples_in_which_nothing_matches() -> None:
    """One line of four has matches, so that some bootstrap samples have none."""
    for metric in ("bleu", "chrf", "ter"):
        score = measure(metric, ["a b c d e", "x", "y", "z"], [["a b c d e", "1", "2", "3"]], ITALIAN).score(200)
        assert score.confidence is not None
        assert score.confidence.margin > 10
        assert isinstance(score.confidence.mean, float)


def test_identical_sentences_have_no_confidence_margin() -> None:
    score = measure("chrf", ["ciao"] * 10, [["ciao"] * 10], ITALIAN).score(50)
    assert score.confidence == Confidence(100.0, 0.0)


def test_unknown_metrics_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"unknown metric 'rouge'; known: bleu, chrf, chrf\+\+, ter$"):
        measure("rouge", ["a"], [["a"]], ITALIAN).score()


@pytest.mark.parametrize(
    ("code", "module", "package"), [("ja", "ja_mecab", "sacrebleu[ja]"), ("ko", "ko_mecab", "sacrebleu[ko]")]
)
def test_a_missing_tokenizer_names_its_package(
    monkeypatch: pytest.MonkeyPatch, code: str, module: str, package: str
) -> None:
    monkeypatch.setattr(f"sacrebleu.tokenizers.tokenizer_{module}.MeCab", None)
    with pytest.raises(ConfigError) as caught:
        measure("bleu", ["a"], [["a"]], target_language(code)).score()
    assert f"pip install '{package}'" in str(caught.value)
    # metrics that need no words still work
    assert measure("chrf", ["a b c"], [["a b c"]], target_language(code)).score().value == pytest.approx(100)


@pytest.mark.slow
def test_scores_equal_those_published_for_wmt22(shared_data) -> None:
    folder = shared_data / "scored-wmt22-en-zh"

    def lines(name: str) -> list[str]:
        return (folder / name).read_text(encoding="utf-8").removesuffix("\n").split("\n")

    a, b = lines("ref.A.zh"), lines("ref.B.zh")
    # chrF of several references had another definition in the sacreBLEU of that year
    metrics = {"bleu-A": [a], "bleu-B": [b], "bleu-all": [a, b], "chrf-A": [a], "chrf-B": [b]}
    with (folder / "automatic-scores.tsv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file, delimiter="\t") if row["pair"] == "en-zh"]
    compared = 0
    for row in rows:
        name, references = f"hyp.{row['system']}.zh", metrics.get(row["metric"])
        if references is not None and (folder / name).exists():
            value = measure(row["metric"].split("-")[0], lines(name), references, CHINESE).score().value
            assert value == pytest.approx(float(row["score"]), abs=1e-9), row
            compared += 1
    assert compared == 20


@pytest.mark.parametrize("metric", ["bleu", "chrf", "chrf++", "ter"])
def test_line_and_part_scores_equal_sacrebleu(metric: str) -> None:
    hypotheses, references = [*HYPOTHESES, "sì", ""], [*REFERENCES, "sì sì", "no"]
    measured = measure(metric, hypotheses, [references], ITALIAN)
    theirs = {
        "bleu": BLEU(effective_order=True), "chrf": CHRF(), "chrf++": CHRF(word_order=2), "ter": TER()
    }[metric]  # fmt: skip
    expected = [theirs.sentence_score(line, [other]).score for line, other in zip(hypotheses, references, strict=True)]
    assert measured.line_scores() == pytest.approx(expected)
    part = measure(metric, [hypotheses[0], hypotheses[2]], [[references[0], references[2]]], ITALIAN).score()
    assert measured.score_of([0, 2]) == pytest.approx(part.value)


@pytest.mark.parametrize("metric", ["bleu", "chrf", "ter"])
def test_intervals_and_signatures_equal_sacrebleu(metric: str) -> None:
    hypotheses, references = HYPOTHESES * 10, REFERENCES[::-1] * 5 + REFERENCES * 5
    theirs = {"bleu": BLEU(), "chrf": CHRF(), "ter": TER()}[metric]
    expected = theirs.corpus_score(hypotheses, [references], n_bootstrap=100)
    score = measure(metric, hypotheses, [references], ITALIAN).score(100)
    assert score.confidence is not None
    # sacreBLEU rounds the mean to 32 bits
    assert score.confidence.mean == pytest.approx(float(expected._mean), rel=1e-6)
    assert score.confidence.margin == pytest.approx(float(expected._ci), rel=1e-6)
    assert (score.value, score.signature) == (expected.score, str(theirs.get_signature()))


def test_progress_is_reported_for_all_lines() -> None:
    done: list[int] = []
    measure("bleu", HYPOTHESES * 25, [REFERENCES * 25], ITALIAN, advance=done.append)
    assert sum(done) == 50
    assert len(done) > 1
