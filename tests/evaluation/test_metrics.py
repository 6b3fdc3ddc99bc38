"""Metrics against sacreBLEU, calculations by hand, and the published scores of WMT22."""

import csv
from dataclasses import replace

import pytest
from sacrebleu.metrics import BLEU, CHRF, TER

from nmt.errors import ConfigError
from nmt.evaluation.metrics import Confidence, length_buckets, measure
from nmt.text.languages import TargetLanguage, target_language

ITALIAN = target_language("it")
CHINESE = target_language("zh")
HYPOTHESES = ["il gatto nero dorme sul tappeto rosso", "domani andremo tutti al mare con la barca"]
REFERENCES = ["il gatto nero dorme sopra il tappeto rosso", "domani andremo tutti insieme al mare con la nave"]
OTHERS = ["un gatto nero dorme sul tappeto", "domani si va tutti al mare in barca"]


@pytest.mark.parametrize(
    ("metric", "hypothesis", "reference", "language", "expected"),
    [
        # 4/5 words, 3/4 pairs, 2/3 triples, 1/2 fours; equally long
        ("bleu", "a b c d e", "a b c d f", ITALIAN, 100 * (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** 0.25),
        ("bleu", "猫爱吃鱼吗", "猫爱吃鱼吧", CHINESE, 100 * (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** 0.25),
        # one word replaced out of five; one block moved out of four; one of four characters and a full stop
        ("ter", "a b c d e", "a b x d e", ITALIAN, 100 / 5),
        ("ter", "c d a b", "a b c d", ITALIAN, 100 / 4),
        ("ter", "他没有来。", "她没有来。", CHINESE, 100 / 5),
    ],
)
def test_scores_by_hand(
    metric: str, hypothesis: str, reference: str, language: TargetLanguage, expected: float
) -> None:
    assert measure(metric, [hypothesis], [[reference]], language).score().value == pytest.approx(expected)


@pytest.mark.parametrize("metric", ["bleu", "chrf", "chrf++", "ter"])
@pytest.mark.parametrize("references", [[REFERENCES * 10], [REFERENCES * 10, OTHERS * 10]])
def test_scores_intervals_and_signatures_equal_sacrebleu(metric: str, references: list[list[str]]) -> None:
    hypotheses = HYPOTHESES * 5 + HYPOTHESES[::-1] * 5
    theirs = {"bleu": BLEU(), "chrf": CHRF(), "chrf++": CHRF(word_order=2), "ter": TER()}[metric]
    plain = theirs.corpus_score(hypotheses, references)
    assert measure(metric, hypotheses, references, ITALIAN).score().value == plain.score
    expected = theirs.corpus_score(hypotheses, references, n_bootstrap=100)
    score = measure(metric, hypotheses, references, ITALIAN).score(100)
    assert score.confidence is not None
    # sacreBLEU rounds the mean to 32 bits
    assert score.confidence.mean == pytest.approx(float(expected._mean), rel=1e-6)
    assert score.confidence.margin == pytest.approx(float(expected._ci), rel=1e-6)
    assert (score.name, score.value, score.signature) == (expected.name, plain.score, str(theirs.get_signature()))
    assert score.lower_is_better == (metric == "ter")


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
    assert measure("chrf", ["ciao"] * 10, [["ciao"] * 10], ITALIAN).score(50).confidence == Confidence(100.0, 0.0)


def test_unknown_metrics_are_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"--metric rouge: no such metric, expected one of bleu, chrf, chrf\+\+, ter; docs"
    ):
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
        is_chosen = row["system"] == "Lan-Bridge" or row["metric"] == "chrf-A"  # all of BLEU takes ten seconds
        if references is not None and is_chosen and (folder / name).exists():
            value = measure(row["metric"].split("-")[0], lines(name), references, CHINESE).score().value
            assert value == pytest.approx(float(row["score"]), abs=1e-9), row
            compared += 1
    assert compared == 8


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


def test_progress_is_reported_for_all_lines() -> None:
    done: list[int] = []
    measure("bleu", HYPOTHESES * 25, [REFERENCES * 25], ITALIAN, advance=done.append)
    assert sum(done) == 50
    assert len(done) > 1


def test_lines_are_grouped_by_their_number_of_words() -> None:
    lines = ["one", "", "a " * 5, "a " * 6, "a " * 60, "a " * 61, "猫在睡觉。"]
    assert [(bucket.name, bucket.lines) for bucket in length_buckets(lines)] == [
        ("1–5", (0, 1, 2, 6)),
        ("6–10", (3,)),
        ("41–60", (4,)),
        ("> 60", (5,)),
    ]
