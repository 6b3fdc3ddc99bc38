"""The recipe: one YAML file with all settings of a translator, read strictly.

Each section is a frozen class; its defaults are there and nowhere else. Unknown keys, wrong types and impossible values
are a `ConfigError` that lists all of them with file, line and ``section.key``.

    data_section  model_sections    the sections
    section                         their base class; differences from settings that were recorded
    recipe                          all of them together
    loading                         from YAML to a recipe, and back; messages of errors
    strict_yaml                     YAML, and the line of each key

>>> recipe = load_recipe(Path("recipes/demo-en-it.yaml"), ["train.batch_tokens=2048"])
>>> recipe.train.batch_tokens
2048
"""

from nmt.config.data_section import CorpusFile, Data, Filters, LanguagePair, Languages, RuleName, TokenizerSettings
from nmt.config.loading import load_recipe, override_decode, recipe_schema, recipe_to_yaml
from nmt.config.model_sections import (
    DecodeSettings,
    MaxLength,
    ModelSettings,
    RuntimeSettings,
    Sampling,
    Stop,
    TrainSettings,
)
from nmt.config.recipe import FURTHER_TOKENS, Recipe

__all__ = [
    "FURTHER_TOKENS", "CorpusFile", "Data", "DecodeSettings", "Filters", "LanguagePair", "Languages",
    "MaxLength", "ModelSettings", "Recipe", "RuleName", "RuntimeSettings", "Sampling", "Stop", "TokenizerSettings",
    "TrainSettings", "load_recipe", "override_decode", "recipe_schema", "recipe_to_yaml",
]  # fmt: skip
