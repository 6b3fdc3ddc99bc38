"""Forced scoring: the log-probabilities that the model assigns to given translations, token by token."""

from collections.abc import Sequence
from typing import NamedTuple

from nmt.decoding.alignment import Links, pharaoh
from nmt.decoding.forced_decoding import force_all
from nmt.text.normalize import normalize
from nmt.text.tokenizer import EOS
from nmt.translation.pipeline import LineBatch
from nmt.translation.requirements import TranslateOptions
from nmt.translation.translator import Translator, plain_json


class ScoredTranslation(NamedTuple):
    """A given translation with its log-probabilities. `text` is normalized, as the model reads it."""

    source: str
    text: str
    tokens: list[tuple[str, float]]  # pieces, the last `</s>`, and the natural logarithms of their probabilities
    alignment: Links | None = None

    def as_row(self, as_json: bool) -> str:
        """Return log_prob, number of tokens with `</s>`, text, and the alignment if requested, tab-separated.

        As JSON it is {"source", "text", "log_prob", "tokens": [{"token", "log_prob"}, …]}, maybe with "alignment".
        """
        log_prob = sum(log_prob for _, log_prob in self.tokens)
        if as_json:
            tokens = [{"token": token, "log_prob": round(log_prob, 4)} for token, log_prob in self.tokens]
            content = {"source": self.source, "text": self.text, "log_prob": round(log_prob, 4), "tokens": tokens}
            return plain_json(content if self.alignment is None else {**content, "alignment": self.alignment})
        row = [f"{log_prob:.4f}", str(len(self.tokens)), self.text]
        return "\t".join(row if self.alignment is None else [*row, pharaoh(self.alignment)])


def score_given(
    translator: Translator, lines: Sequence[str], texts: Sequence[str], options: TranslateOptions
) -> list[ScoredTranslation]:
    """Score a given translation of each line by the first model; lines are never split, however long they are."""
    tokenizers, tags = translator.tokenizers, translator.tag_ids(options)
    texts = [normalize(text) for text in texts]
    encoded = [
        ([*tags, *tokenizers.source.encode(line)], tokenizers.target.encode(text))
        for line, text in zip(lines, texts, strict=True)
    ]
    forced = force_all(translator.engine.runner, encoded, options.search.batch_tokens)
    links: Sequence[Links | None] = [None] * len(encoded)
    if options.alignment:
        links = translator.align(list(zip(lines, texts, strict=True)), options)
    pieces, scored = tokenizers.target.pieces, []
    for line, text, (_, ids), one, linked in zip(lines, texts, encoded, forced, links, strict=True):
        tokens = list(zip([pieces[i] for i in [*ids, EOS]], one.token_log_probs, strict=True))
        scored.append(ScoredTranslation(line, text, tokens, linked))
    return scored


def score_batch(
    translator: Translator, options: TranslateOptions, as_json: bool, batch: LineBatch
) -> tuple[str, list[int]]:
    """Return a row, or with `as_json` a JSON object, for each line and its parallel line, as `score_given` does."""
    scored = score_given(translator, batch.texts, batch.parallel, options)
    return "".join(f"{one.as_row(as_json)}\n" for one in scored), []
