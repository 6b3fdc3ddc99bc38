"""The section on the Transformer."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from nmt.config.section import PositiveInt, Probability, Section, SettingError

Layers = Annotated[int, Field(ge=1, le=1000)]  # deep models of the literature have up to 1,000 (Wang et al. 2022)

MAX_DISTANCE = 16  # longest distance with vectors of its own in relative positions; quality is the same from 4 to 256


class ModelSettings(Section):
    """The Transformer: its size and its variants."""

    encoder_layers: Layers = 6
    """Depth of the encoder."""
    decoder_layers: Layers = 6
    """Depth of the decoder."""
    dim: PositiveInt = 512
    """Width D of the model."""
    feed_forward: PositiveInt = 2048
    """Inner width of the feed-forward layers."""
    heads: PositiveInt = 8
    """Attention heads; must divide dim."""
    dropout: Probability = 0.1
    """Dropout on embeddings and on each sublayer's output."""
    norm: Literal["pre", "post"] = "pre"
    """Normalise before each sublayer (trains easily) or after it (as in the paper)."""
    activation: Literal["relu", "gelu", "swiglu"] = "relu"
    """Non-linearity of the feed-forward layers."""
    positions: Literal["sinusoidal", "relative", "rotary"] = "sinusoidal"
    """Encoding of the order of tokens: sinusoids added to the embeddings, or in self-attention, learned vectors for the
    distances up to 16 (Shaw et al. 2018) or rotation (Su et al. 2021)."""
    attention_score: Literal["scaled_dot", "dot", "bilinear", "additive"] = "scaled_dot"
    """Score of a query and a key: q · k / √d (Vaswani et al. 2017), q · k or q W k (Luong et al. 2015), or
    v · tanh(q + k) (Bahdanau et al. 2015). All but the first are for study: slow, and not for `nmt export`."""
    tied_embeddings: Literal["all", "target", "none"] = "all"
    """Share one matrix among source, target and output; between target and output; or not at all."""

    @staticmethod
    def padded_vocabulary(vocabulary: int) -> int:
        """Return the number of rows in the matrices of a vocabulary: a multiple of 64."""
        return vocabulary + -vocabulary % 64

    @property
    def layer_weights(self) -> tuple[int, int]:
        """Return the number of weights of all encoder layers, and of all decoder layers."""
        dim, gates = self.dim, 2 if self.activation == "swiglu" else 1
        attention = 4 * dim * dim + 4 * dim
        attention += {"bilinear": dim * dim // self.heads, "additive": dim}.get(self.attention_score, 0)
        feed_forward = (gates + 1) * self.feed_forward * dim + gates * self.feed_forward + dim
        norm = 2 * dim
        encoder, decoder = attention + feed_forward + 2 * norm, 2 * attention + feed_forward + 3 * norm
        if self.positions == "relative":  # keys and values of the distances -k … k, or -k … 0
            encoder += 2 * (2 * MAX_DISTANCE + 1) * (dim // self.heads)
            decoder += 2 * (MAX_DISTANCE + 1) * (dim // self.heads)
        return self.encoder_layers * encoder, self.decoder_layers * decoder

    def weight_count(self, source_vocabulary: int, target_vocabulary: int) -> int:
        """Return the number of weights of a model, tied ones counted once."""
        source, target = map(self.padded_vocabulary, (source_vocabulary, target_vocabulary))
        rows = {"all": target, "target": source + target, "none": source + 2 * target}[self.tied_embeddings]
        return sum(self.layer_weights) + rows * self.dim + (4 * self.dim if self.norm == "pre" else 0)

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        if self.dim % self.heads or self.dim % 2:
            raise SettingError(
                "dim", f"must be even and a multiple of heads, found dim {self.dim} and heads {self.heads}"
            )
        if self.positions == "rotary" and self.dim // self.heads % 2:
            raise SettingError(
                "positions",
                f"rotary rotates pairs of numbers, so dim / heads must be even, found {self.dim} / {self.heads}",
            )
        if self.attention_score != "scaled_dot" and self.positions in ("relative", "rotary"):
            raise SettingError(
                "attention_score",
                f"{self.positions} positions are defined for scaled_dot only, found {self.attention_score}",
            )
        return self
