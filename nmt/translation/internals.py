"""What a model computes for a sentence: attention weights, the next pieces in a greedy search, and a vector.

Each sentence is read as a whole: it is not split, and its tags and numbers are text. Weights and probabilities of one
sentence are computed by plain torch in fp32, without the rounding of faster kernels; the vectors of many sentences by
the kernels and in the precision of the engine, which take a fraction of the time.

S source pieces with `</s>`, T target pieces with `</s>`, D width, B sentences.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from nmt.batching.batch import Rows, same_tiles
from nmt.decoding.batches import length_batches
from nmt.errors import ConfigError
from nmt.model.transformer import AttentionWeights, Transformer, attention_weights
from nmt.text.tokenizer import BOS, EOS
from nmt.translation.options import checked_lines

if TYPE_CHECKING:
    from nmt.translation.translator import Translator


@dataclass(frozen=True)
class Attention(AttentionWeights):
    """The attention weights of a sentence and a translation, with the pieces that rows and columns belong to.

    Columns of `encoder` and `cross` are `source`. A row of `decoder` and `cross` is the step that reads a piece of
    `target[:-1]` and predicts the one after it, in `target[1:]`.
    """

    source: list[str]  # S pieces, of which the last is `</s>`; a tag of the target language is the first
    target: list[str]  # T + 1 pieces, from `<s>` to `</s>`


class Step(NamedTuple):
    """A step of a greedy search."""

    piece: str  # that is generated
    best: list[tuple[str, float]]  # the most probable pieces at this place and their probabilities, best first


def attention(translator: "Translator", sentence: str, target: str | None, to: str | None) -> Attention:
    """Return the attention weights for a translation; for None, those of the translation that the search finds."""
    (source_ids,), tokenizers = _ids(translator, [sentence], to), translator.tokenizers
    if target is None:
        target_ids = list(translator.engine.search([source_ids[:-1]], translator.options(to=to).search)[0][0].tokens)
    else:
        target_ids = tokenizers.target.encode(*checked_lines([target]))
    target_ids = [BOS, *target_ids, EOS]
    weights = attention_weights(translator.models[0].model, source_ids, target_ids[:-1])
    source = [tokenizers.source.pieces[i] for i in source_ids]
    return Attention(**vars(weights), source=source, target=[tokenizers.target.pieces[i] for i in target_ids])


@torch.inference_mode()
def steps(translator: "Translator", sentence: str, top: int, to: str | None) -> list[Step]:
    """Return the steps of a greedy search.

    The probabilities of all steps are computed in one pass over what it generates (teacher forcing).
    """
    model, pieces = translator.models[0].model, translator.tokenizers.target.pieces
    if not 1 <= top <= len(pieces):
        raise ConfigError(f"top: found {top}, expected 1 to {len(pieces)}, the size of the vocabulary")
    (source_ids,) = _ids(translator, [sentence], to)
    greedy = translator.options(beam=1, to=to).search.model_copy(update={"sampling": None})
    tokens = translator.engine.search([source_ids[:-1]], greedy)[0][0].tokens
    source, target = same_tiles(*(Rows.of([ids]).to(model.device) for ids in (source_ids, [BOS, *tokens])))
    logits = model.logits(model.decode(target, model.encode(source), source))[:, : len(pieces)]
    log_probs, best = model.kernels.best_tokens(logits, logits.new_zeros(len(logits), dtype=torch.bool), top)
    columns = zip([*tokens, EOS], best.tolist(), log_probs.exp().tolist(), strict=True)
    return [Step(pieces[token], [(pieces[i], p) for i, p in zip(*row, strict=True)]) for token, *row in columns]


def encode(translator: "Translator", sentences: Sequence[str], to: str | None) -> Tensor:
    """Return the mean (B, D) of the encoder's output over all pieces of each sentence, in fp32 on the CPU."""
    ids = _ids(translator, sentences, to)
    batches = length_batches([*map(len, ids)], translator.options(to=to).search.batch_tokens)
    vectors = torch.zeros(len(ids), translator.models[0].settings.dim)
    engine = translator.engine.torch_engine
    means_of_batches = engine.run(partial(_means, engine.models[0]), [[ids[i] for i in batch] for batch in batches])
    for batch, means in zip(batches, means_of_batches, strict=True):
        vectors[batch] = means
    return vectors


@torch.inference_mode()
def _means(model: Transformer, batch: Sequence[Sequence[int]]) -> Tensor:
    rows = Rows.of(batch).to(model.device)
    memory = model.encode(rows).float()
    sums = memory.new_zeros(len(batch), memory.size(1)).index_add_(0, rows.sentences.long(), memory)
    return sums.cpu() / torch.from_numpy(rows.lengths).unsqueeze(1)


def _ids(translator: "Translator", sentences: Iterable[str], to: str | None) -> list[list[int]]:
    """Return the ids of sentences, after the tags of a target language if there are several, and before `</s>`."""
    tags = translator.tag_ids(translator.options(to=to))
    return [[*tags, *translator.tokenizers.source.encode(sentence), EOS] for sentence in checked_lines(sentences)]
