"""The translator on tiny random models: every line gets its own translation."""

import gzip
import json
import pickle
import re
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import nmt
from nmt.config import DecodeSettings, Languages, RuntimeSettings, TokenizerSettings
from nmt.decoding import torch_engine
from nmt.decoding.batches import balanced_batches, length_batches
from nmt.decoding.options import SearchOptions
from nmt.decoding.search import Models, search
from nmt.decoding.torch_engine import TorchEngine, classes_of_lengths
from nmt.errors import ConfigError, DataError
from nmt.kernels.cpu import CpuKernels
from nmt.model.stored import LoadedModel
from nmt.model.transformer import Transformer
from nmt.text.items import Line, read
from nmt.text.normalize import normalize
from nmt.text.tokenizer import Tokenizer, Tokenizers
from nmt.translation import translator as translator_module
from nmt.translation.result import Alternative, Translation, begun_unit, behind_prefix
from nmt.translation.translator import Translator
from tests.builders import (
    SENTENCES,
    SHORT_OUTPUT,
    options_with,
    save_model,
    tiny_loaded_model,
    tiny_tokenizers,
    translate_bytes,
    translated_texts,
    write_zip,
)

FEW = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)


def is_one_line(text: str) -> bool:
    return len(text.splitlines()) <= 1 and not set(text) & set("\t\n\v\f\r\x1c\x1d\x1e\x85\u2028\u2029")


class TestEveryLine:
    @pytest.mark.parametrize("item", [None, float("nan"), 3, b"a cat"])
    def test_item_that_is_no_text_is_an_error_with_its_index(self, translator: Translator, item: object) -> None:
        with pytest.raises(TypeError, match=f"item 1: expected text, found {item!r}; leave it out"):
            list(translator.translate(["a dog", item, "a cat"]))  # type: ignore[list-item]

    @FEW
    @given(st.lists(st.text(max_size=30), max_size=12))
    def test_any_text_gives_one_line_for_each_line(self, translator: Translator, lines: list[str]) -> None:
        translations = list(translator.translate(lines, translator.options(beam=1)))
        assert [translation.source for translation in translations] == lines
        assert all(is_one_line(translation.text) for translation in translations)
        for translation in translations:
            translation.text.encode()

    @FEW
    @given(data=st.binary(max_size=200), as_json=st.booleans())
    def test_any_bytes_give_as_many_lines_as_newlines(self, translator: Translator, data: bytes, as_json: bool) -> None:
        expected = data.count(b"\n") + (not data.endswith(b"\n") and data != b"")
        output = translate_bytes(translator, data, as_json, beam=1)
        assert output.count(b"\n") == expected
        assert len(output.decode().splitlines()) == expected, "also for readers with other line ends"

    @pytest.mark.parametrize("line", ["", " ", "\t \u3000", "\0", "\ufeff", "\u200b", "\u2028", "\x85", "\r"])
    def test_blank_lines_do_not_reach_the_model(self, line: str, loaded: LoadedModel) -> None:
        class Untouchable(Transformer):
            def encode(self, *_: object) -> torch.Tensor:
                raise AssertionError("the model was run")

        vocabulary = len(loaded.tokenizers.source)
        model = Untouchable(loaded.settings, vocabulary, vocabulary)
        translator = Translator(replace(loaded, in_torch=model))
        assert list(translator.translate([line])) == [Translation(line, "", 0.0)]

    def test_half_a_surrogate_pair_is_translated_and_rendered(self, translator: Translator) -> None:
        (translation,) = translator.translate(["a \ud83d dog\u2028"])
        translation.as_json().encode()
        assert json.loads(translation.as_json())["source"] == "a \ud83d dog\u2028"
        assert is_one_line(translation.as_json())


class TestOrder:
    def test_translation_does_not_depend_on_other_lines_or_order(self, translator: Translator) -> None:
        lines = [" ".join(sentence.split()[:count]) for sentence in SENTENCES for count in range(9)]
        alone = [translated_texts(translator, [line])[0] for line in lines]
        assert len(set(alone)) > 5, "a model with one output for all lines would show nothing"
        assert translated_texts(translator, lines) == alone
        assert translated_texts(translator, lines[::-1]) == alone[::-1]

    @pytest.mark.parametrize("batch_tokens", [1, 40, 100_000])
    def test_translation_does_not_depend_on_batch_size(self, translator: Translator, batch_tokens: int) -> None:
        assert (
            translated_texts(translator, SENTENCES * 2, batch_tokens=batch_tokens)
            == translated_texts(translator, SENTENCES) * 2
        )

    def test_gpu_takes_more_lines_and_tokens_at_a_time(
        self, loaded: LoadedModel, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        unset = replace(loaded, decode=DecodeSettings())
        assert Translator(unset).options().search.batch_tokens == 8192
        # a translation into a file is resumed with any number of processes
        assert Translator(unset).batch_lines == Translator(unset, process_count=3).batch_lines
        monkeypatch.setattr(CpuKernels, "search_scale", 16)  # as those of a GPU
        monkeypatch.setattr(CpuKernels, "uses_cores", False)
        gpu = Translator(unset)
        assert gpu.options().search.batch_tokens == 16 * 8192
        assert gpu.options(overrides=["decode.batch_tokens=100"]).search.batch_tokens == 100
        monkeypatch.setattr(translator_module, "LINE_BATCH_SIZE", 2)
        monkeypatch.setattr(gpu, "translate_lines", lambda lines, options: [len(lines)])
        assert list(gpu.translate(["one line"] * 40)) == [32, 8]  # type: ignore[comparison-overlap]

    def test_translate_reads_one_line_batch_ahead(
        self, translator: Translator, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(Translator, "batch_lines", 3)
        read = 0

        def endless() -> object:
            nonlocal read
            while True:
                read += 1
                yield f"the dog {read}"

        results = translator.translate(endless(), translator.options(beam=1))  # type: ignore[arg-type]
        for number in range(1, 8):
            assert next(results).source == f"the dog {number}"
            assert read <= number + 2

    def test_identical_lines_are_searched_once(self, translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
        searched, plain = list[object](), TorchEngine.search

        def counting(engine: TorchEngine, sentences: Sequence[Sequence[int]], *rest: Any) -> object:
            searched.extend(sentences)
            return plain(engine, sentences, *rest)

        monkeypatch.setattr(TorchEngine, "search", counting)
        found = translated_texts(translator, ["a dog", "", "the cat", "a dog", "a dog"])
        assert len(searched) == 2
        assert found[0] == found[3] == found[4]


class TestLongLines:
    def test_segments_are_translated_separately_and_joined(self, translator: Translator) -> None:
        options = replace(translator.options(), longest_source=24)
        sentences = ["The cat sleeps on the mat.", "A dog barks at the moon.", "We drink tea in the garden."]
        (long,) = translator.translate([" ".join(sentences)], options)
        parts = list(translator.translate(sentences, options))
        assert [part.units for part in parts] == [1, 1, 1], "the sentences must fit"
        assert long.units == 3
        assert long.text == " ".join(part.text for part in parts if part.text)
        assert long.log_prob == pytest.approx(sum(part.log_prob for part in parts), abs=1e-3)

    @pytest.mark.parametrize(
        "unit", ["the cat sleeps . ", "cat", "下", "。", "a, ", "\u0301", "\U0001f600", "cat" + "<br>" * 99]
    )
    def test_a_line_of_100000_characters_is_split(self, translator: Translator, unit: str) -> None:
        line = (unit * 100_000)[:100_000]
        longest, plain = 0, TorchEngine.search

        def measuring(engine: TorchEngine, sentences: Sequence[Sequence[int]], *rest: Any) -> object:
            nonlocal longest
            longest = max([longest, *map(len, sentences)])
            return plain(engine, sentences[:1], *rest[:1]) * len(sentences)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(TorchEngine, "search", measuring)
            (translation,) = translator.translate([line], translator.options(beam=1))
        assert longest <= 200
        assert translation.units > 100 if any(map(str.isalpha, line)) else translation.text == line
        assert is_one_line(translation.text)

    @pytest.mark.parametrize("recorded", [12, 250])
    def test_longest_segment_is_the_longest_source_of_the_model(self, loaded: LoadedModel, recorded: int) -> None:
        translator = Translator(replace(loaded, longest_source=recorded))
        encode = loaded.tokenizers.source.encode
        line = "cat"
        while len(encode(f"{line} cat")) <= recorded:
            line += " cat"
        assert translator.translate([line])[0].units == 1
        assert translator.translate([f"{line} cat"])[0].units > 1

    def test_ensemble_splits_for_the_model_with_the_shortest_source(self, loaded: LoadedModel) -> None:
        others = [replace(loaded, longest_source=30), replace(loaded, longest_source=70)]
        assert Translator(replace(loaded, longest_source=50), others=others).options().longest_source == 30


class TestAlternatives:
    def test_alternatives_are_distinct(self, translator: Translator) -> None:
        options = translator.options(beam=6, n_best=6)
        for translation in translator.translate(SENTENCES, options):
            found = [translation.text, *(other.text for other in translation.alternatives)]
            assert len(set(found)) == len(found) > 1

    def test_formats_equal_hand_written_ones(self) -> None:
        translation = Translation("a\u2028", "b", -1.5, (Alternative("c", -2.25),))
        assert translation.as_json() == (
            '{"source": "a\\u2028", "text": "b", "log_prob": -1.5, "alternatives": [{"text": "c", "log_prob": -2.25}]}'
        )
        assert translation.as_table(7) == "7\t1\t-1.5000\tb\n7\t2\t-2.2500\tc"

    def test_default_beam_is_widened_for_n_best_and_a_given_one_is_kept(self, translator: Translator) -> None:
        assert translator.options(n_best=7).search.beam == 7
        assert translator.options().search.beam == 2
        with pytest.raises(ConfigError, match="widen the beam"):
            translator.options(beam=3, n_best=7)


class TestBatches:
    @given(st.lists(st.integers(1, 50), max_size=40), st.integers(1, 200), st.integers(0, 9))
    def test_batches_contain_all_lines_within_the_budget(self, lengths: list[int], budget: int, most: int) -> None:
        batches = length_batches(lengths, budget, most)
        assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
        for batch in batches:
            assert len(batch) == 1 or len(batch) * max(lengths[index] for index in batch) <= budget
            assert len(batch) <= max(1, most)

    @given(st.lists(st.integers(1, 50), max_size=90), st.integers(1, 4), st.integers(1, 5), st.integers(200, 3000))
    def test_processes_get_equal_work(self, lengths: list[int], width: int, processes: int, tokens: int) -> None:
        batches = list(balanced_batches(lengths, width, tokens, 40, processes))
        assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
        for batch in batches:
            shared = len(batch) - 1 + 1 / processes  # sentences that divide evenly among the processes
            assert len(batch) == 1 or shared * max(lengths[i] for i in batch) * width <= tokens
            assert len(batch) * width <= 60 * min(2, width) + width
        hands = min(processes, max(1, sum(lengths) * width // 1024))
        rounds = [batches[i : i + hands] for i in range(0, len(batches), hands)]
        for one, longest in [(one, max(lengths[i] for batch in one for i in batch)) for one in rounds]:
            work = [sum(lengths[i] for i in batch) for batch in one]
            assert len(one) < hands or max(work) - min(work) <= longest

    @given(st.lists(st.integers(1, 1100), max_size=60))
    def test_each_class_of_lengths_has_all_sentences_up_to_four_times_as_long(self, lengths: list[int]) -> None:
        classes = [[lengths[i] for i in of_class] for of_class in classes_of_lengths(lengths)]
        assert sorted(i for of_class in classes_of_lengths(lengths) for i in of_class) == list(range(len(lengths)))
        assert [length for of_class in classes for length in of_class] == sorted(lengths, reverse=True)
        bounds = [{next(most for most in (64, 256, 1024, 4096) if length <= most) for length in one} for one in classes]
        assert [len(one) for one in bounds] == [1] * len(set[int]().union(*bounds))

    def test_a_batch_too_large_for_the_memory_is_halved(
        self, translator: Translator, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        expected = translated_texts(translator, SENTENCES)
        sizes: list[int] = []

        def small_machine(models: Models, sentences: Sequence[Sequence[int]], *rest: Any) -> object:
            sizes.append(len(sentences))
            if len(sentences) > 2:
                raise torch.OutOfMemoryError("full")
            return search(models, sentences, *rest)

        monkeypatch.setattr(torch_engine, "search", small_machine)
        assert translated_texts(translator, SENTENCES, batch_tokens=10_000) == expected
        assert sizes == [6, 6, 3, 3, 1, 2, 3, 3, 1, 2]  # each is tried again when memory has been released

    def test_a_sentence_is_searched_again_when_memory_has_been_released(
        self, loaded: LoadedModel, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The searches before, which are kept, may fill a GPU."""
        kept, models = [1], TorchEngine([loaded.model])

        def full(*arguments: Any) -> object:
            if kept:
                raise torch.OutOfMemoryError("full")
            return search(*arguments)

        expected = models.search([[5, 6]], SearchOptions())
        monkeypatch.setattr(torch_engine, "search", full)
        monkeypatch.setattr(models.kernels, "release_memory", kept.clear)
        assert models.search([[5, 6]], SearchOptions()) == expected

    def test_a_sentence_too_large_for_the_memory_is_named(
        self, loaded: LoadedModel, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(*_: object) -> object:
            raise torch.OutOfMemoryError("full")

        monkeypatch.setattr(torch_engine, "search", full)
        with pytest.raises(ConfigError, match="a sentence of 3 tokens with a beam of 5 does not fit"):
            TorchEngine([loaded.model]).search([[5, 6]], SearchOptions())


class TestModel:
    def test_impossible_options_are_refused(self, translator: Translator) -> None:
        for changes, message in (({"batch_tokens": 0}, r"decode\.batch_tokens: .* 1"), ({"n_best": 1001}, "1000")):
            with pytest.raises(ConfigError, match=message):
                options_with(translator, **changes)

    def test_fingerprint_has_every_option(self, translator: Translator) -> None:
        options = translator.options()
        names = {field.name for field in fields(options)} - {"search"} | set(dict(options.search))
        assert options.fingerprint().keys() == names


class TestPrefixes:
    PREFIXES = ("Il gatto", "il ga", "  un   cane ", "今天", "今天下", "perche' no", "E' l' amico ,", "Łódź", "曦", "")

    @pytest.mark.parametrize("target", ["it", "zh"])
    @pytest.mark.parametrize("beam", [1, 2])
    def test_translations_start_with_the_exact_prefix(self, target: str, beam: int) -> None:
        loaded = replace(tiny_loaded_model(), languages=Languages(source="en", target=target))
        translator = Translator(loaded, RuntimeSettings(device="cpu"))
        lines = [line for line in (SENTENCES[0], "see {0} at https://x.org/a?b=1 .") for _ in self.PREFIXES]
        prefixes = self.PREFIXES * 2
        options = translator.options(beam=beam, n_best=beam, overrides=SHORT_OUTPUT)
        together = translator.translate_lines(lines, options, prefixes)
        for prefix, one in zip(prefixes, together, strict=True):
            for text in (one.text, *(other.text for other in one.alternatives)):
                assert text.startswith(normalize(prefix))
                assert is_one_line(text)
        reverse = translator.translate_lines(lines[::-1], options, prefixes[::-1])
        assert [one.text for one in reverse] == [one.text for one in together[::-1]]
        (free,) = translator.translate(lines[:1], options)
        assert together[9].text == free.text, "an empty prefix is no constraint"

    @pytest.mark.parametrize("prefix", ["{0}", "Il {1}", "Il gatto {0}", "Ciao <b>", "Il"])
    def test_items_of_a_prefix_are_not_repeated_and_keep_their_spaces(
        self, translator: Translator, prefix: str
    ) -> None:
        line = "{0} The cat sleeps. On the <b>mat</b> is {1} dog."
        (begun,) = translator.translate_lines([line], translator.options(overrides=SHORT_OUTPUT), [prefix])
        assert begun.text.startswith(prefix)
        assert [begun.text.count(item) for item in ("{0}", "{1}", "<b>", "</b>")] == [1, 1, 1, 1]
        assert not re.search(r"\w\{|\}\w", begun.text.removeprefix(prefix))

    @pytest.mark.parametrize(
        ("line", "prefix", "rest", "expected"),
        [
            ("{0} cats", "{0}", "gatti", "{0} gatti"), ("{0}s are", "{0}", "gatti", "{0}gatti"),
            ("{0} cats", "{0}", ", no", "{0}, no"), ("<b>cats</b>", "<b>", "gatti", "<b>gatti"),
        ],
    )  # fmt: skip
    def test_space_behind_the_item_of_a_prefix_is_that_of_the_line(
        self, line: str, prefix: str, rest: str, expected: str
    ) -> None:
        assert str(behind_prefix(begun_unit(read(line), read(prefix)), Line(rest))) == expected

    def test_text_equals_decoded_tokens_with_the_prefix(self, translator: Translator) -> None:
        options = translator.options(overrides=[*SHORT_OUTPUT, "decode.protect=false", "decode.typography=false"])
        tokenizer = translator.tokenizers.target
        for line in SENTENCES[2:4]:
            for prefix in self.PREFIXES:
                ((best,),) = translator.engine.search(
                    [tokenizer.encode(line)], options.search, [tokenizer.encode(prefix)]
                )
                (begun,) = translator.translate_lines([line], options, [prefix])
                assert begun.text == tokenizer.decode(best.tokens)
                assert begun.log_prob == pytest.approx(best.log_prob, abs=1e-4)

    def test_only_the_first_segment_has_the_prefix(self, translator: Translator) -> None:
        options = replace(translator.options(), longest_source=24)
        line = "The cat sleeps on the mat. A dog barks at the moon."
        (begun,), (free,) = (translator.translate_lines([line], options, prefixes) for prefixes in (["Luna"], None))
        assert begun.units == free.units == 2
        (second,) = translator.translate(["A dog barks at the moon."], options)
        assert begun.text.startswith("Luna")
        assert begun.text.endswith(second.text)
        assert begun.text.count("Luna") == 1

    def test_translation_of_a_blank_line_is_the_prefix(self, translator: Translator) -> None:
        options = replace(translator.options(), alignment=True)
        found = translator.translate_lines(["", " ", ""], options, ["Ciao", "", "  il gatto"])
        assert [one.text for one in found] == ["Ciao", "", "il gatto"]
        assert [one.alignment for one in found] == [[], [], []]

    def test_what_is_copied_and_very_long_sentences_have_no_alignment(
        self, translator: Translator, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Its time and RAM grow with the square of the words: 3,000 numbers took minutes and gigabytes."""
        pairs = list[tuple[str, str]]()
        align = translator.align
        monkeypatch.setattr(translator, "align", lambda one, options: pairs.extend(one) or align(one, options))
        options = replace(translator.options(), alignment=True)
        numbers = " ".join(map(str, range(3000)))
        found = translator.translate_lines([numbers, f"A dog {numbers}", "A dog"], options)
        assert (found[0].text, found[0].alignment) == (numbers, [])
        assert pairs
        assert max(len(text) for pair in pairs for text in pair) <= 4000


def test_tags_of_a_line_are_put_back_around_the_translation_of_its_words(translator: Translator) -> None:
    options = translator.options(overrides=SHORT_OUTPUT)
    lines = ["<b>the cat sleeps</b>", ' <p class="a">the <i>cat</i> sleeps</p> ', "the cat sleeps", "<b></b>"]
    around, inside, plain, empty = (one.text for one in translator.translate(lines, options))
    assert around == f"<b>{plain}</b>"
    assert inside.startswith('<p class="a">')
    assert inside.endswith("</p>")
    assert re.sub(r"<[^<>]*>", "", inside) == plain
    assert re.search(r"<i>[^<]+</i>", inside)
    assert empty == "<b></b>"
    unprotected = translator.options(overrides=[*SHORT_OUTPUT, "decode.protect=false"])
    whole, with_ffc = translator.translate(["<b>the cat sleeps</b>", "the cat \ufffc sleeps"], unprotected)
    assert whole.text != around
    assert with_ffc.text.count("\ufffc") == 1, "the character that stands for an item in a line"


def test_sentences_are_translated_one_by_one(translator: Translator) -> None:
    options = translator.options(overrides=SHORT_OUTPUT)
    line = "<b>The cat sleeps.</b> A dog <i>barks</i>. {0}!<br>12:30 | The cat sleeps."
    (text,) = (one.text for one in translator.translate([line], options))
    cat, dog = (one.text for one in translator.translate(["The cat sleeps.", "A dog barks."], options))
    assert re.sub(r"</?i>", "", text) == f"<b>{cat}</b> {dog} {{0}}!<br>12:30 | {cat}"
    assert re.search(r"<i>[^<]+</i>", text)
    (of_line,) = translator.translate_lines([read(line)], options)
    assert (of_line.text, str(of_line.line)) == (text, text)


def test_a_line_without_letters_is_copied(translator: Translator) -> None:
    lines = ["-----", "* * *", "12:30", "1.  2.", "😀 {0}", "%s - %s", "…", "10 € = 11 $"]
    assert [one.text for one in translator.translate(lines)] == lines


def test_a_string_has_one_translation(tmp_path: Path, loaded: LoadedModel) -> None:
    save_model(tmp_path / "model", loaded)
    translator = nmt.Translator.load(str(tmp_path / "model"), device="cpu")
    one: nmt.Translation = translator.translate(SENTENCES[0])
    several: Iterator[nmt.Translation] = translator.translate(SENTENCES[:2])
    assert [each.source for each in (one, *several)] == [SENTENCES[0], *SENTENCES[:2]]
    assert one.text == translator.translate(SENTENCES[:1])[0].text
    with pytest.raises(AttributeError, match="module 'nmt' has no attribute 'Translater'"):
        nmt.Translater  # type: ignore[attr-defined]  # noqa: B018


def test_tag_of_the_training_text_precedes_each_source() -> None:
    """As the ids of `<bt>` and of the sentence do in training; other tags are refused, those of languages too."""
    tokenizer = Tokenizer.train(SENTENCES * 20, TokenizerSettings(vocab_size=300), ["bt", "2it", "2zh"])
    loaded = tiny_loaded_model(Tokenizers(tokenizer, tokenizer))
    loaded = replace(loaded, languages=Languages(source="en", target=("it", "zh")))
    translator = Translator(loaded, RuntimeSettings(device="cpu"))
    plain, tagged = (translator.options(to="it", tag=tag) for tag in (None, "bt"))
    assert tokenizer.decode(translator.tag_ids(tagged)) == ""
    assert translator.tag_ids(tagged) == [*translator.tag_ids(plain), tokenizer.tag_ids(["bt"])[0]]
    ids = [*translator.tag_ids(tagged), *tokenizer.encode(SENTENCES[0])]
    ((best,),) = translator.engine.search([ids], tagged.search)
    assert translator.translate(SENTENCES[0], tagged).log_prob == pytest.approx(best.log_prob, abs=1e-4)
    for wrong in ("2zh", "ood"):
        with pytest.raises(ConfigError, match=f"tag: found {wrong}, but the training text .* had the tags bt; give"):
            translator.options(to="it", tag=wrong)


@pytest.mark.parametrize(("kind", "size", "items"), [("unigram", 300, 1), ("word", 280, 0)])
def test_signs_without_a_piece_are_items_unless_pieces_are_words(kind: str, size: int, items: int) -> None:
    translator = Translator(
        tiny_loaded_model(tiny_tokenizers(vocab_size=size, type=kind)), RuntimeSettings(device="cpu")
    )
    assert len(translator.translate("the cat€ sleeps").line.items) == items


def test_keywords_choose_what_options_choose(loaded: LoadedModel) -> None:
    translator, lines = Translator(loaded), ["the cat sleeps .", "the dog runs ."]
    chosen = {"beam": 3, "n_best": 2, "alignment": True, "overrides": SHORT_OUTPUT}
    expected = translator.translate(lines, translator.options(**chosen))  # type: ignore[arg-type]
    assert translator.translate(lines, **chosen) == expected  # type: ignore[call-overload]
    assert isinstance(expected, list)
    assert list(translator.translate(iter(lines), **chosen)) == expected  # type: ignore[call-overload]
    assert translator.translate(lines[0], **chosen).text == expected[0].text  # type: ignore[call-overload]
    with_term = translator.translate(lines[0], glossary={"cat": "gatto"}, overrides=SHORT_OUTPUT)
    assert "gatto" in with_term.text
    drawn = {translator.translate(lines[0], sampling={"temperature": 2.0}).text for _ in range(3)}
    assert len(drawn) == 1  # a sentence has the same ones always
    for wrong in ("beam", "sampling", "to"):
        with pytest.raises(ConfigError, match=wrong):
            translator.translate(lines, **{wrong: {"beam": 0, "sampling": {"heat": 1}, "to": "fr"}[wrong]})  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="no option 'beams'; it has beam, n_best"):
        translator.translate(lines, beams=3)  # type: ignore[call-overload]
    for name, values in {
        "overrides": ("decode.beam=2", [5], 5), "n_best": (2.0, "3", None), "beam": ("3",), "glossary": ("a", ["a"]),
        "sampling": (0.8,), "to": (["it"],), "tag": (5,), "options": ("it", {}),
    }.items():  # fmt: skip
        for value in values:
            with pytest.raises(TypeError, match=f"{name}: expected"):
                translator.translate("x", **{name: value})  # type: ignore[call-overload]
    numbers = {"n_best": np.int64(2), "beam": np.int64(3), "sampling": {"top_p": np.float32(0.5)}, "overrides": None}
    assert translator.options(**numbers).search.sampling.top_p == 0.5  # type: ignore[arg-type, union-attr]
    with pytest.raises(TypeError, match="give options, or beam, not both"):
        translator.translate(lines, translator.options(), beam=3)
    with pytest.raises(TypeError, match="expected text, found b'the'"):
        translator.translate(b"the")  # type: ignore[arg-type]
    for wrong_lines in (None, 3):
        with pytest.raises(TypeError, match=f"a list or iterator of strings, found {wrong_lines}"):
            translator.translate(wrong_lines)  # type: ignore[call-overload]


def test_options_of_a_translator_into_another_language_are_refused(loaded: LoadedModel, translator: Translator) -> None:
    other = Translator(replace(loaded, languages=Languages(source="en", target=("fr",))))
    with pytest.raises(ConfigError, match="to: found fr, expected it"):
        translator.translate("the cat sleeps .", other.options())


def test_pickling_a_translator_is_an_error_with_what_to_do(translator: Translator) -> None:
    with pytest.raises(TypeError, match=r"a translator cannot be pickled, .*: load it in each process"):
        pickle.dumps(translator.translate)


def test_files_are_translated_line_by_line_or_as_documents(loaded: LoadedModel, tmp_path: Path) -> None:
    translator = Translator(loaded)
    (tmp_path / "text").write_text("the cat sleeps .\n\nthe dog runs .\n", encoding="utf-8")
    assert translator.translate_file(tmp_path / "text", tmp_path / "out", beam=1) == []
    expected = translator.translate(["the cat sleeps .", "", "the dog runs ."], beam=1)
    assert (tmp_path / "out").read_text(encoding="utf-8") == "".join(f"{one.text}\n" for one in expected)
    (tmp_path / "a.json").write_text('{"a": "the cat sleeps .", "b": "{n, plural, other {cats}}"}', encoding="utf-8")
    (warning,) = translator.translate_file(str(tmp_path / "a.json"), tmp_path / "b.json", beam=1)
    assert "1 message of ICU with a plural or select stays as it is" in warning
    assert json.loads((tmp_path / "b.json").read_text(encoding="utf-8"))["a"] == expected[0].text
    with pytest.raises(ConfigError, match="it is an input of this command"):
        translator.translate_file(tmp_path / "text", tmp_path / "text")
    archive = write_zip(tmp_path / "a.zip", **{"a.csv": "", "b.csv": "id,en\n1,the cat sleeps .\n"})
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"en\nthe cat sleeps .\n"))
    for source, column in ((tmp_path / "a.csv.gz", "en"), (archive / "b.csv", 2)):
        translator.translate_file(source, tmp_path / "out", column=[column], into="it", beam=1)
        assert expected[0].text in (tmp_path / "out").read_text(encoding="utf-8").splitlines()[-1]
    for choice in ({"n_best": 2}, {"alignment": True}):
        with pytest.raises(ConfigError, match=f"{next(iter(choice))}: a translated file has no place for it"):
            translator.translate_file(archive / "b.csv", tmp_path / "out", **choice)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="absent: no such file"):
        translator.translate_file(tmp_path / "absent", tmp_path / "out")
    with pytest.raises(TypeError, match="column, exclude: expected lists of names or numbers, found 'en'"):
        translator.translate_file(tmp_path / "a.csv.gz", tmp_path / "out", column="en")
    with pytest.raises(TypeError, match=r"into: expected one of them, found \['it'\]"):
        translator.translate_file(tmp_path / "a.csv.gz", tmp_path / "out", column=["en"], into=["it"])  # type: ignore[arg-type]


def test_machine_of_a_translator_is_chosen_by_keywords(
    loaded: LoadedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_model(tmp_path / "model", loaded)
    for can_fork, expected in ((True, (3, 1)), (False, (1, 3))):
        monkeypatch.setattr(translator_module, "can_fork", lambda can_fork=can_fork: can_fork)
        shared = Translator.load(tmp_path / "model", device="cpu", process_count=3)
        assert (shared.process_count, shared.engine.threads) == expected
    assert "fp32" in Translator.load(tmp_path / "model", device="cpu", precision="fp32").engine.description
    for key, value in (("device", "tpu"), ("precision", "fp8"), ("threads", 0)):
        with pytest.raises(ConfigError, match=f"{key}: found {value!r}"):
            Translator.load(tmp_path / "model", **{key: value})  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="'float' object"):
        Translator.load(tmp_path / "model", process_count=1.5)  # type: ignore[arg-type]
