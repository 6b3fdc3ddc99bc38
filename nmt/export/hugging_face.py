"""Export to Hugging Face's `transformers`, as a model that computes the same function.

    pre-norm     PegasusForConditionalGeneration (Zhang et al. 2020): one matrix for source, target and output
    post-norm    MarianMTModel (Junczys-Dowmunt et al. 2018): any embeddings, also two vocabularies

Both add sinusoids with our frequencies, but with all sines before all cosines, where ours alternate. Therefore the
dimensions of all hidden states are permuted, in every matrix that has them as input or output.

The tokenizer is Marian's, with a vocab.json of our ids. It does not normalize text as `nmt.text.normalize` does, and it
changes punctuation if sacremoses is installed. Tags of target languages are named as Marian's language codes: the
source of a translation into Chinese begins with `>>zh<<`.

S source length, T target length, D width, V vocabulary.
"""

import json
import re
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from nmt.config import Languages, ModelSettings
from nmt.decoding.beam import Hypothesis
from nmt.decoding.options import SearchOptions
from nmt.errors import ConfigError, ModelError
from nmt.export.exported import library, write_export
from nmt.model.attention import MultiHeadAttention
from nmt.model.checkpoint import WEIGHTS_FILE, LoadedModel, write_tensors
from nmt.model.layers import FeedForward
from nmt.text.normalize import normalize
from nmt.text.tokenizer import BOS, EOS, PAD, UNK, Tokenizer, Tokenizers

POSITIONS = 2048  # rows in the table of positions, which transformers computes when it loads the model
_NAMES = (
    (r"^(encoder|decoder)_norm$", r"\1.layer_norm"),
    (r"^(encoder|decoder)\.(?=\d)", r"\1.layers."),
    (r"\b(self_)?attention(?=$|_sublayer)", "self_attn"),
    (r"\bcross_attention(?=$|_sublayer)", "encoder_attn"),
    (r"\.feed_forward$", ""),
    (r"\bfeed_forward_sublayer\.norm$", "final_layer_norm"),
    (r"_sublayer\.norm$", "_layer_norm"),
)
"""Patterns in the names of our modules, and what transformers has instead, in the order of their application."""


def write_hugging_face(directory: Path, loaded: LoadedModel) -> None:
    """Write the model, the tokenizer and the generation settings into an existing directory.

    Raises ConfigError with the key that neither architecture supports.
    """
    check_fits(loaded.model.settings)
    with torch.no_grad():
        weights = {name: weight.cpu().clone().contiguous() for name, weight in _weights(loaded)}
    write_tensors(weights, directory / WEIGHTS_FILE)
    for name, content in _configurations(loaded).items():
        (directory / name).write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    for name, tokenizer in (("source.spm", loaded.tokenizers.source), ("target.spm", loaded.tokenizers.target)):
        (directory / name).write_bytes(tokenizer.to_bytes())
    write_export(directory, loaded, "hf", "float32", POSITIONS)


def check_fits(settings: ModelSettings) -> None:
    """Raise ConfigError if the model is neither a Pegasus nor a Marian model."""
    post = settings.norm == "post"
    tied = "Pegasus, the only pre-norm architecture that fits, has one matrix for all; Marian is post-norm"
    problems = [
        ("positions", ("sinusoidal",), "Pegasus and Marian add sinusoids"),
        ("normalization", ("layer",), "Pegasus and Marian have layer norms"),
        ("activation", ("relu", "gelu"), "Pegasus and Marian have ungated feed-forward layers"),
        ("attention_score", ("scaled_dot",), "Pegasus and Marian have scaled dot products"),
        ("tied_embeddings", ("all", "target", "none") if post else ("all",), tied),
    ]
    for key, expected, reason in problems:
        found = getattr(settings, key)
        if found not in expected:
            raise ConfigError(
                f"model.{key}: found {found}, but --to hf expects {' or '.join(expected)}: {reason}; "
                + ("translate with nmt" if key == "attention_score" else "--to ctranslate2 takes every such model")
            )


def _weights(loaded: LoadedModel) -> Iterator[tuple[str, Tensor]]:
    """Yield the weights with their names in transformers, a tied matrix once."""
    model, tied = loaded.model, loaded.model.settings.tied_embeddings
    order = torch.cat([torch.arange(0, model.settings.dim, 2), torch.arange(1, model.settings.dim, 2)])  # (D)
    target = model.target_embedding.tokens.weight[:, order]
    if tied == "all":
        yield "model.shared.weight", target
    else:
        yield "model.encoder.embed_tokens.weight", model.source_embedding.tokens.weight[:, order]
        yield "model.decoder.embed_tokens.weight", target
    if tied == "none":
        yield "lm_head.weight", model.output.weight[:, order]
    yield "final_logits_bias", torch.zeros(1, len(loaded.tokenizers.target))
    for ours, module in model.named_modules():
        name = ours
        for pattern, theirs in _NAMES:
            name = re.sub(pattern, theirs, name)
        if isinstance(module, nn.LayerNorm):
            yield f"model.{name}.weight", module.weight[order]
            yield f"model.{name}.bias", module.bias[order]
        elif isinstance(module, MultiHeadAttention):
            weights = (module.query.weight, *module.key_value.weight.chunk(2))
            biases = (module.query.bias, *module.key_value.bias.chunk(2))
            for part, weight, bias in zip("qkv", weights, biases, strict=True):
                yield f"model.{name}.{part}_proj.weight", weight[:, order]
                yield f"model.{name}.{part}_proj.bias", bias
            yield f"model.{name}.out_proj.weight", module.output.weight[order]
            yield f"model.{name}.out_proj.bias", module.output.bias[order]
        elif isinstance(module, FeedForward):
            yield f"model.{name}.fc1.weight", module.inner.weight[:, order]
            yield f"model.{name}.fc1.bias", module.inner.bias
            yield f"model.{name}.fc2.weight", module.outer.weight[order]
            yield f"model.{name}.fc2.bias", module.outer.bias[order]


def _configurations(loaded: LoadedModel) -> dict[str, dict[str, Any]]:
    """Return the JSON files by name."""
    settings, tokenizers = loaded.model.settings, loaded.tokenizers
    marian = settings.norm == "post"
    ids = {
        "pad_token_id": PAD,
        "bos_token_id": BOS,
        "eos_token_id": EOS,
        "decoder_start_token_id": BOS,
        "forced_eos_token_id": None,
    }
    model = {
        "model_type": "marian" if marian else "pegasus",
        "architectures": ["MarianMTModel" if marian else "PegasusForConditionalGeneration"],
        "is_encoder_decoder": True,
        "vocab_size": len(tokenizers.source),
        "d_model": settings.dim,
        "encoder_layers": settings.encoder_layers,
        "decoder_layers": settings.decoder_layers,
        "encoder_attention_heads": settings.heads,
        "decoder_attention_heads": settings.heads,
        "encoder_ffn_dim": settings.feed_forward,
        "decoder_ffn_dim": settings.feed_forward,
        "activation_function": settings.activation,
        "dropout": settings.dropout,
        "attention_dropout": 0.0,
        "activation_dropout": 0.0,
        "scale_embedding": True,
        "static_position_embeddings": True,
        "max_position_embeddings": POSITIONS,
        "tie_word_embeddings": settings.tied_embeddings != "none",
        "dtype": "float32",
        **ids,
    }
    if marian:
        model["decoder_vocab_size"] = len(tokenizers.target)
        model["share_encoder_decoder_embeddings"] = settings.tied_embeddings == "all"
    generation = {
        "num_beams": loaded.decode.beam,
        "length_penalty": loaded.decode.length_penalty,
        "max_length": 512,
        "suppress_tokens": [PAD, UNK, BOS],
        **ids,
    }
    tokenizer = {
        "tokenizer_class": "MarianTokenizer",
        "source_lang": loaded.languages.source,
        "target_lang": " ".join(loaded.languages.target),
        "separate_vocabs": not tokenizers.shared,
        "pad_token": "<pad>",
        "unk_token": "<unk>",
        "eos_token": "</s>",
        "model_max_length": POSITIONS,
    }
    files: dict[str, dict[str, Any]] = {"config.json": model, "generation_config.json": generation}
    files |= {"tokenizer_config.json": tokenizer, "vocab.json": _ids(tokenizers.source, loaded.languages)}
    return files if tokenizers.shared else files | {"target_vocab.json": _ids(tokenizers.target, loaded.languages)}


def _ids(tokenizer: Tokenizer, languages: Languages) -> dict[str, Any]:
    codes = {f"<{languages.target_tag(code)}>": f">>{code}<<" for code in languages.target}
    return {codes.get(symbol, symbol): i for i, symbol in enumerate(tokenizer.symbols)}


class HuggingFaceEngine:
    """Search with transformers, one sentence at a time, to check an export."""

    def __init__(self, directory: Path) -> None:
        """Load a directory that `write_hugging_face` wrote. Raises ConfigError if transformers is not installed."""
        transformers = library("transformers")
        transformers.utils.logging.set_verbosity_error()
        transformers.utils.logging.disable_progress_bar()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a recommendation of sacremoses, which would change the text
            self._model = transformers.AutoModelForSeq2SeqLM.from_pretrained(directory).eval()
            self._tokenizer = transformers.AutoTokenizer.from_pretrained(directory)

    def check_tokenizer(self, tokenizers: Tokenizers, languages: Languages, lines: Sequence[str]) -> None:
        """Raise ModelError if a normalized line is encoded or decoded differently than by our tokenizers."""
        codes = languages.target
        # Marian's tokenizer reads SentencePiece's symbol for a space as a space, ours does not
        for number, line in enumerate((normalize(line.replace("▁", " ")) for line in lines), start=1):
            tag = languages.target_tag(code := codes[number % len(codes)])
            expected = [*tokenizers.source.tag_ids([tag]), *tokenizers.source.encode(line), EOS]
            found = self._tokenizer(line if tag is None else f">>{code}<< {line}")["input_ids"]
            if found != expected:
                raise ModelError(f"line {number}: {line!r}: the exported tokenizer gives {found}, expected {expected}")
            ids = tokenizers.target.encode(line)
            text, expected_text = self._tokenizer.decode(ids, use_source_tokenizer=False), tokenizers.target.decode(ids)
            if normalize(text) != expected_text:
                raise ModelError(
                    f"line {number}: the exported tokenizer decodes to {text!r}, expected {expected_text!r}"
                )

    @torch.inference_mode()
    def search(self, sentences: Sequence[Sequence[int]], options: SearchOptions) -> list[list[Hypothesis]]:
        """Return the best hypothesis of each sentence."""
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
        tokens = generated[0, 1:].tolist()
        tokens = tokens[: tokens.index(EOS)] if EOS in tokens else tokens
        target = torch.tensor([[BOS, *tokens]])
        logits = self._model(source, decoder_input_ids=target).logits[0]  # (T, V)
        by_token = logits.log_softmax(-1).gather(1, torch.tensor([*tokens, EOS]).unsqueeze(1)).squeeze(1).tolist()
        log_prob = sum(by_token)
        return Hypothesis(tokens, log_prob, log_prob / options.penalty(len(by_token)))
