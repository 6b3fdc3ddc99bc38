"""What must survive does, whatever the model: random ones know nothing of what they translate."""

import io
import json
from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nmt.config import DecodeSettings, Languages, ModelSettings, RuntimeSettings, TokenizerSettings
from nmt.decoding import batched_search
from nmt.decoding.hypothesis import Hypothesis
from nmt.model.checkpoint import LoadedModel
from nmt.model.transformer import Transformer
from nmt.system.console import Console
from nmt.text.glossary import Glossary, missing_terms
from nmt.text.protection import compare
from nmt.text.tokenizer import UNK, Tokenizer, Tokenizers
from nmt.translation.constraints import LONGEST_PHRASE, NO_LOSS, OutputConstraints
from nmt.translation.lines import LineReader
from nmt.translation.pipeline import translate_stream
from nmt.translation.sinks import StreamOutput
from nmt.translation.translator import TranslateOptions, Translator

SENTENCES = ["the cat sleeps on the mat .", "il gatto dorme sul tappeto .", "un cane abbaia alla luna .", "今天下雨。"]
ITEMS = ["{0}", "{1}", "%s", "<b>", "</b>", "a@b.org", "https://x.org/a?b=1", "{ -brand }"]
LINES = st.lists(st.sampled_from([*ITEMS, "cat", "moon", "'{0}'", "(%s", "{0}.", "mat</b>"]), max_size=6).map(" ".join)


def loaded(byte_fallback: bool, language: str = "it") -> LoadedModel:
    """Return a random model; without bytes to fall back on, its vocabulary knows no brackets, slashes or capitals."""
    settings = TokenizerSettings(vocab_size=288 if byte_fallback else 32, byte_fallback=byte_fallback)
    tokenizer = Tokenizer.train(SENTENCES * 20, settings)
    torch.manual_seed(4)
    shape = ModelSettings(encoder_layers=1, decoder_layers=1, dim=16, heads=2, feed_forward=32, tied_embeddings="none")
    model = Transformer(shape, len(tokenizer), len(tokenizer)).eval()
    with torch.no_grad():
        model.output.weight.mul_(4)
        model.output.weight[3] *= 3  # enough wish to end
    languages = Languages(source="en", target=language)
    return LoadedModel(model, Tokenizers(tokenizer, tokenizer), languages, DecodeSettings(beam=2, batch_tokens=512))


@pytest.fixture(scope="module", params=[True, False], ids=["bytes", "no-bytes"])
def translator(request: pytest.FixtureRequest) -> Translator:
    return Translator(loaded(request.param), RuntimeSettings(device="cpu"))


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return loaded(True).tokenizers.target


def survival(tokenizer: Tokenizer, language: str = "it", terms: dict[str, str] | None = None) -> OutputConstraints:
    return OutputConstraints(tokenizer, language, Glossary(terms) if terms else None, protect=True, typography=True)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=st.lists(LINES, max_size=4))
def test_items_survive_any_model_and_vocabulary(translator: Translator, lines: list[str]) -> None:
    translations = list(translator.translate(lines, translator.options()))
    assert [translation.source for translation in translations] == lines
    for translation in translations:
        assert not compare(translation.source, translation.text).missing
        assert translation.loss.surplus == compare(translation.source, translation.text).surplus


@pytest.mark.parametrize("target", ["gatto", "MICIO", "☃ Ünï-çødé", "狗", "l'altra", "x y z"])
def test_terms_come_out_to_the_letter(translator: Translator, target: str) -> None:
    options = replace(translator.options(), glossary=Glossary({"cat": target, "the mat": "tappeto"}))
    lines = ["the cat and the Cat", "a cat {0}", "on the mat", "no term", "cat" * 3, ""]
    found = list(translator.translate(lines, options))
    assert not missing_terms([target, target], found[0].text)
    assert not missing_terms([target], found[1].text)
    assert "{0}" in found[1].text
    assert not missing_terms(["tappeto"], found[2].text)
    assert [one.text for one in found[3:]] == [one.text for one in translator.translate(lines[3:])]
    assert not any(any(one.loss) for one in found)


def test_only_lines_with_a_loss_are_searched_again(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[int] = []
    search = batched_search.search

    def watched(decoder: object, source: torch.Tensor, *rest: object) -> list[list[Hypothesis]]:
        searched.append(source.size(0))
        return search(decoder, source, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(batched_search, "search", watched)
    list(translator.translate(["the cat", "the moon {0}", "a mat"]))
    assert sum(searched) == 4
    searched.clear()
    list(translator.translate(["the cat", "the moon {0}", "a mat"], replace(translator.options(), protect=False)))
    assert sum(searched) == 3


def test_company_does_not_matter(translator: Translator) -> None:
    lines = ["cat {0}", "the {1} mat https://x.org", "moon", "%s %s"]
    together = [one.text for one in translator.translate(lines)]
    assert together == [next(iter(translator.translate([line]))).text for line in lines]


def spellings(survival: OutputConstraints, line: str) -> list[str]:
    pieces = survival.tokenizer.pieces
    return ["".join(pieces[i] for i in phrase) for phrase in survival.constraints(line).phrases]


def test_spelling_minds_neighbours(tokenizer: Tokenizer) -> None:
    """Items have stand-ins, with the quotes that enclose them; a Chinese term begins no word."""
    italian, chinese = (survival(tokenizer, language, {"cat": "QX"}) for language in ("it", "zh"))
    assert spellings(italian, "the cat {0}") == ["▁<0x51><0x58>", "<unk>"]
    assert spellings(chinese, "the cat") == ["<0x51><0x58>"]
    gatto = tokenizer.encode("gatto")
    assert italian.text("a '{0}' {1}, x", [*gatto, UNK, *gatto, UNK]) == "gatto '{0}' gatto {1}"
    assert italian.text("({0} cats)", [*gatto, UNK]) == "gatto ({0}"
    assert italian.text("cat</b>", [*gatto, UNK]) == "gatto</b>"
    assert chinese.text("cat {0}", [*gatto, UNK]) == "gatto{0}"


def test_what_is_long_has_a_stand_in(tokenizer: Tokenizer) -> None:
    long = "https://x.org/" + "a" * LONGEST_PHRASE
    kept = survival(tokenizer)
    assert kept.constraints(f"see {long} or {{0}}").phrases[0] == (UNK,)
    ids = [*tokenizer.encode("il gatto"), UNK, *tokenizer.encode("dorme ."), UNK]
    line = f"see {long} or {long}b"
    assert kept.text(line, ids) == f"il gatto {long} dorme. {long}b"
    assert kept.text("nothing", ids) == "il gatto dorme."


def test_typography_leaves_terms_and_items_alone(tokenizer: Tokenizer) -> None:
    kept = survival(tokenizer, terms={"cat": "perche' ,"})
    text = kept.text("cat", tokenizer.encode("perche' , e perche' no ?"))
    assert text == "perche' , e perché no?"
    plain = replace(kept, typography=False)
    assert plain.text("cat", tokenizer.encode("no ?")) == "no ?"


def test_losses_are_told(tokenizer: Tokenizer) -> None:
    kept = survival(tokenizer, terms={"cat": "gatto"})
    line = "The cat {0} in 1984"
    assert kept.loss(line, "Il gatto {0}") == NO_LOSS
    assert kept.loss(line, "Il {1}") == (("{0}", "gatto"), ("{1}",))
    assert kept.report(line, "Il gatto {0}").missing == ("1984",)
    assert replace(kept, protect=False).report(line, "x") == (("gatto",), ())


class Deaf:
    """An engine that cannot be made to say anything, as CTranslate2."""

    longest = None

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer

    def search(self, sentences: Sequence[Sequence[int]], *rest: object) -> list[list[Hypothesis]]:
        return [[Hypothesis(self._tokenizer.encode("il gatto ."), -1.0, -1.0)] for _ in sentences]


def test_lines_with_a_loss_are_named(tokenizer: Tokenizer, capsys: pytest.CaptureFixture[str]) -> None:
    translator = Translator(loaded(True))
    translator._engine = Deaf(tokenizer)
    output = io.BytesIO()
    source = io.BytesIO(b"the cat\nthe {0}\n2 cats\n1984\n")
    options = translator.options()
    translate_stream(translator, LineReader(source), StreamOutput(output), options, True, Console())
    found = [json.loads(line) for line in output.getvalue().splitlines()]
    assert ["missing" in one for one in found] == [False, True, False, True]
    assert (found[1]["missing"], found[1]["surplus"]) == (["{0}"], [])
    assert "2 lines differ from their source in URLs" in capsys.readouterr().err


def test_after_going_on_only_later_lines_are_named_and_that_is_said(
    tokenizer: Tokenizer, capsys: pytest.CaptureFixture[str]
) -> None:
    translator = Translator(loaded(True))
    translator._engine = Deaf(tokenizer)
    output = StreamOutput(io.BytesIO())
    output.lines = 3  # as if a file had them
    lines = LineReader(io.BytesIO(b"the cat\nthe {0}\n"))
    translate_stream(translator, lines, output, translator.options(), False, Console())
    said = capsys.readouterr().err
    assert "3 lines done before; going on from there" in said
    assert "after line 3, where this went on, 1 line differs from its source in URLs" in said
    assert "(5)" in said


def test_the_settings_reach_the_search(translator: Translator) -> None:
    options = translator.options(overrides=["decode.protect=false", "decode.typography=false"])
    assert (options.protect, options.typography) == (False, False)
    assert isinstance(options, TranslateOptions)
