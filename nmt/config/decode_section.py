"""The section on searching for translations."""

from typing import Annotated, Literal

from pydantic import Field

from nmt.config.section import PositiveInt, Section


class MaxLength(Section):
    """The longest translation: factor × source tokens + extra, in tokens, both sentence ends counted."""

    factor: float = Field(default=2.0, ge=0, le=100)
    """Target tokens per source token."""
    extra: PositiveInt = 10
    """Target tokens beside these."""


class Sampling(Section):
    """How translations are drawn at random."""

    temperature: Annotated[float, Field(ge=0.01, le=100)] = 1.0
    """Divides what the model computes: below 1 the probable becomes more so, above 1 less."""
    top_k: PositiveInt | None = None
    """Draw from so many of the most probable tokens only; null from all."""
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Draw from the fewest tokens that together are so probable (Holtzman et al. 2020)."""
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 1
    """Where the randomness comes from: the same sentence and seed give the same samples in any company."""


class DecodeSettings(Section):
    """How translations are searched for, unless the command line says otherwise."""

    beam: Annotated[int, Field(ge=1, le=1000)] = 5
    """Hypotheses kept a sentence; 1 is greedy search."""
    length_penalty: float = Field(default=1.0, ge=0, le=10)
    """The exponent α: 0 favours short output."""
    length_normalization: Literal["gnmt", "average"] = "gnmt"
    """Divide log-probabilities by ((5+L)/6)^α (Wu et al. 2016) or by L^α."""
    coverage_penalty: float = Field(default=0.0, ge=0, le=10)
    """The weight β of source tokens that get less than their share of attention, when what the beam found is ranked (Wu
    et al. 2016, eq. 15); 0 for none."""
    max_length: MaxLength | None = None
    """The longest translation; null takes what preparing learnt from the training text."""
    min_length: float = Field(default=0.0, ge=0)
    """The shortest translation, in target tokens per source token, both sentence ends counted."""
    no_repeat_ngram: PositiveInt | None = None
    """Say no run of so many tokens twice; null allows it."""
    repetition_penalty: float = Field(default=1.0, ge=1, le=100)
    """Divides what the model computes for tokens already said, or multiplies it where negative (Keskar et al. 2019,
    section 4.1); 1 for none."""
    sampling: Sampling | None = None
    """Draw translations at random instead of searching for the best; `{}` draws from the model as it is."""
    mbr: Annotated[int, Field(ge=2, le=1000)] | None = None
    """Draw so many samples of each translation and take the one that is most like all others (minimum Bayes risk); null
    for none. It is for `nmt translate`."""
    unknown: Literal["forbid", "copy"] = "forbid"
    """Whether `<unk>` may be said, by models whose vocabulary has no bytes to spell with: copy puts in its place the
    source word that it most attends to. It is for `nmt translate`."""
    protect: bool = True
    """Let URLs, e-mail addresses, placeholders and tags through unchanged: a translation that loses one is searched for
    again."""
    typography: bool = True
    """Set Chinese punctuation full width, Italian accents and apostrophes as they are printed."""
    batch_tokens: PositiveInt = 8192
    """Padded source tokens times beam in a batch; on a CPU it also has no more than a few hundred hypotheses."""
