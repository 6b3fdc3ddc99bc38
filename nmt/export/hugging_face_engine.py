"""transformers as an engine: slow, one sentence at a time, to check an export with.

S source length, T target length, V vocabulary.
"""

import warnings
from collections.abc import Sequence
from pathlib import Path

import torch

from nmt.decoding.hypothesis import Constraints, Hypothesis
from nmt.decoding.options import SearchOptions
from nmt.errors import ModelError
from nmt.export.exported import library
from nmt.text.normalize import normalize
from nmt.text.tokenizer import BOS, EOS, Tokenizers


class HuggingFaceEngine:
    """A directory that `write_hugging_face` wrote, loaded as anyone would load it."""

    longest = None

    def __init__(self, directory: Path) -> None:
        """Load model and tokenizer. Raises ConfigError if transformers is not installed."""
        transformers = library("transformers")
        transformers.utils.logging.set_verbosity_error()
        transformers.utils.logging.disable_progress_bar()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it recommends sacremoses, which would change the text
            self._model = transformers.AutoModelForSeq2SeqLM.from_pretrained(directory).eval()
            self._tokenizer = transformers.AutoTokenizer.from_pretrained(directory)

    def check_tokenizer(self, tokenizers: Tokenizers, lines: Sequence[str]) -> None:
        """Raise ModelError if a line, once normalized, has other ids than with us, or its ids spell another text."""
        # SentencePiece's mark for a space is a space to Marian's tokenizer; ours takes it for what it is
        for number, line in enumerate((normalize(line.replace("▁", " ")) for line in lines), start=1):
            found, expected = self._tokenizer(line)["input_ids"], [*tokenizers.source.encode(line), EOS]
            if found != expected:
                raise ModelError(f"line {number}: {line!r}: the exported tokenizer gives {found}, expected {expected}")
            ids = tokenizers.target.encode(line)
            said, expected_text = self._tokenizer.decode(ids, use_source_tokenizer=False), tokenizers.target.decode(ids)
            if normalize(said) != expected_text:
                raise ModelError(f"line {number}: the exported tokenizer spells {said!r}, expected {expected_text!r}")

    @torch.inference_mode()
    def search(
        self,
        sentences: Sequence[Sequence[int]],
        options: SearchOptions,
        budget: int,
        constraints_of: Sequence[Constraints] | None = None,
    ) -> list[list[Hypothesis]]:
        """Return the best hypothesis of each sentence, whatever the budget."""
        return [[self._best(ids, options)] for ids in sentences]

    def _best(self, ids: Sequence[int], options: SearchOptions) -> Hypothesis:
        source = torch.tensor([[*ids, EOS]])  # (1, S)
        generated = self._model.generate(
            source,
            attention_mask=torch.ones_like(source),
            num_beams=options.beam,
            length_penalty=options.length_penalty,
            early_stopping=False,
            do_sample=False,
            max_length=None,
            max_new_tokens=options.longest_output(source.size(1)) - 1,
            suppress_tokens=list(options.forbidden) or None,
        )
        said = generated[0, 1:].tolist()
        tokens = said[: said.index(EOS)] if EOS in said else said
        target = torch.tensor([[BOS, *tokens]])
        logits = self._model(source, decoder_input_ids=target).logits[0]  # (T, V)
        by_token = logits.log_softmax(-1).gather(1, torch.tensor([*tokens, EOS]).unsqueeze(1)).squeeze(1).tolist()
        log_prob = sum(by_token)
        return Hypothesis(tokens, log_prob, by_token, log_prob / options.penalty(len(by_token)))
