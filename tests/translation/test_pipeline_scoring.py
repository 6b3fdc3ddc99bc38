"""Forced scoring, alignments and ensembles of lines of text."""

import io
import itertools
import json
from dataclasses import replace
from functools import partial

import pytest

from nmt.config import RuntimeSettings
from nmt.decoding.alignment import align
from nmt.model.stored import LoadedModel
from nmt.system.console import Console
from nmt.text.normalize import normalize
from nmt.text.tokenizer import EOS
from nmt.text.words import words
from nmt.translation.pipeline import LineInput, process_lines, score_batch
from nmt.translation.sinks import StreamOutput
from nmt.translation.translator import Translator
from tests.builders import SENTENCES, log_probs_without_cache

CPU = RuntimeSettings(device="cpu")


def through_stream(translator: Translator, data: bytes, texts: list[str], as_json: bool = False) -> bytes:
    output = io.BytesIO()
    options = replace(translator.options(), alignment=as_json)
    lines = LineInput(io.BytesIO(data), parallel=texts, option="--reference")
    process_lines(
        "scoring",
        lines,
        StreamOutput(output),
        partial(score_batch, translator, options, as_json),
        Console(quiet=True),
        translator,
    )
    return output.getvalue()


class TestScoreGiven:
    def test_log_probs_equal_teacher_forcing(self, translator: Translator, loaded: LoadedModel) -> None:
        encode = loaded.tokenizers.source.encode
        pairs = list(itertools.pairwise(SENTENCES))
        data = "".join(f"{line}\n" for line, _ in pairs).encode()
        rows = through_stream(translator, data, [text for _, text in pairs], as_json=True).splitlines()
        for row, (line, text) in zip(map(json.loads, rows), pairs, strict=True):
            ids = encode(text)
            table = log_probs_without_cache(loaded.model, [*encode(line), EOS], ids)
            expected = [float(table[i, token]) for i, token in enumerate([*ids, EOS])]
            assert [token["log_prob"] for token in row["tokens"]] == pytest.approx(expected, abs=2e-4)
            assert row["log_prob"] == pytest.approx(sum(expected), abs=1e-3)
            pieces = [loaded.tokenizers.target.pieces[i] for i in ids]
            assert [token["token"] for token in row["tokens"]] == [*pieces, "</s>"]

    def test_one_row_for_each_line(self, translator: Translator) -> None:
        data = b"the cat\n\n \t\n\xff\xfe\x00\na\xe2\x80\xa8dog\r\nlast"
        texts = ["il gatto", "", "x\ty", "\u2028", "", "我 \0"]
        rows = through_stream(translator, data, texts).decode().split("\n")
        assert rows.pop() == ""
        assert len(rows) == 6
        for row, text in zip(rows, texts, strict=True):
            log_prob, count, shown = row.split("\t")
            assert float(log_prob) < 0 < int(count)
            assert shown == normalize(text)
        objects = [json.loads(line) for line in through_stream(translator, data, texts, as_json=True).splitlines()]
        assert [one["text"] for one in objects] == [normalize(text) for text in texts]
        for one in objects:
            assert one["log_prob"] == pytest.approx(sum(token["log_prob"] for token in one["tokens"]), abs=1e-2)
            for i, j in one["alignment"]:
                assert i < len(words(normalize(one["source"])))
                assert j < len(words(one["text"]))

    def test_log_probs_are_those_of_the_first_model(self, translator: Translator, loaded: LoadedModel) -> None:
        other = replace(loaded, in_torch=type(loaded.model)(loaded.settings, 300, 300).eval())
        given = b"the cat\nwe drink tea\n", ["il gatto", ""], True
        assert through_stream(Translator(loaded, CPU, [other]), *given) == through_stream(translator, *given)


class TestAlignment:
    def test_lines_have_the_alignment_of_their_text(self, translator: Translator, loaded: LoadedModel) -> None:
        options = replace(translator.options(), alignment=True)
        lines = [*SENTENCES, "", "  ", "The cat sleeps. A dog barks."]
        translations = list(translator.translate(lines, options))
        assert any(one.alignment for one in translations)
        for one in translations[: len(SENTENCES)]:
            (expected,) = align(translator.engine, loaded, [(one.source, one.text)], 1)
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
