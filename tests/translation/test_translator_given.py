"""Log-probabilities and alignments of given translations, and alignments of the translator's own."""

import itertools
import json
from dataclasses import replace

import pytest

from nmt.config import RuntimeSettings
from nmt.decoding.alignment import align
from nmt.decoding.models import BatchRunner
from nmt.model.checkpoint import LoadedModel
from nmt.text.tokenizer import EOS
from nmt.text.words import words
from nmt.translation.translator import Translator
from tests.builders import SENTENCES, log_probs_without_cache


def test_log_probs_of_given_translations_equal_teacher_forcing(translator: Translator, loaded: LoadedModel) -> None:
    encode = loaded.tokenizers.source.encode
    pairs = [*itertools.pairwise(SENTENCES), ("", "x"), ("the cat", "")]
    for forced, (line, text) in zip(translator.force(pairs), pairs, strict=True):
        ids = encode(text)
        table = log_probs_without_cache(loaded.model, [*encode(line), EOS], ids)
        expected = [float(table[i, token]) for i, token in enumerate([*ids, EOS])]
        assert forced.token_log_probs == pytest.approx(expected, abs=1e-4)


def test_log_probs_of_given_translations_are_those_of_the_first_model(
    translator: Translator, loaded: LoadedModel
) -> None:
    other = replace(loaded, model=type(loaded.model)(loaded.model.settings, 300, 300).eval())
    pairs = [("the cat", "il gatto"), ("we drink tea", "")]
    found, expected = Translator(loaded, RuntimeSettings(device="cpu"), [other]).force(pairs), translator.force(pairs)
    assert [one.token_log_probs for one in found] == [one.token_log_probs for one in expected]


class TestAlignment:
    def test_lines_have_the_alignment_of_their_text(self, translator: Translator, loaded: LoadedModel) -> None:
        options = replace(translator.options(), alignment=True)
        lines = [*SENTENCES, "", "  ", "The cat sleeps. A dog barks."]
        translations = list(translator.translate(lines, options))
        assert any(one.alignment for one in translations)
        for one in translations[: len(SENTENCES)]:
            (expected,) = align(BatchRunner([loaded.model]), loaded, [(one.source, one.text)], 1)
            assert one.alignment == expected
        assert [one.alignment for one in translations[len(SENTENCES) : -1]] == [[], []]
        assert json.loads(translations[0].as_json())["alignment"] == [list(link) for link in translations[0].alignment]
        assert translations[6].as_text() == "\t"
        plain = list(translator.translate(lines, translator.options()))
        assert [one.text for one in plain] == [one.text for one in translations]
        assert plain[0].as_text() == plain[0].text

    def test_alignment_of_a_long_line_counts_words_across_segments(self, translator: Translator) -> None:
        options = replace(translator.options(), alignment=True, longest_source=24)
        sentences = ["The cat sleeps on the mat.", "A dog barks at the moon.", "We drink tea in the garden."]
        (long,) = translator.translate([" ".join(sentences)], options)
        parts = list(translator.translate(sentences, options))
        expected, source, target = [], 0, 0
        for part in parts:
            expected += [(source + i, target + j) for i, j in part.alignment or []]
            source, target = source + len(words(part.source)), target + len(words(part.text))
        assert long.units == 3
        assert long.alignment == expected
