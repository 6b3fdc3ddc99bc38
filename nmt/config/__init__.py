"""The recipe: one YAML file with all settings of a translator, read strictly.

Each section is a frozen class; its defaults are there and nowhere else. Unknown keys, wrong types and impossible values
are a `ConfigError` that lists all of them with file, line and ``section.key``.

    data_section  model_section  train_section  schedules  decode_section    the sections; `section` is their base class
    recipe                                                                   all of them together
    loading                                                                  from YAML to a recipe, and back
    strict_yaml  recipe_errors  recorded                                     YAML, messages, settings written earlier

>>> recipe = load_recipe(Path("recipes/demo-en-it.yaml"), ["train.batch_tokens=2048"])
>>> recipe.train.batch_tokens
2048
"""

from nmt.config.data_section import (
    CorpusFile,
    Data,
    Filters,
    HanVariants,
    LanguagePair,
    Languages,
    RuleName,
    TokenizerSettings,
)
from nmt.config.decode_section import DecodeSettings, MaxLength, Sampling
from nmt.config.loading import load_recipe, override_decode, recipe_schema, recipe_to_yaml
from nmt.config.model_section import ModelSettings
from nmt.config.recipe import Recipe, RuntimeSettings
from nmt.config.train_section import Stop, TrainSettings

__all__ = [
    "CorpusFile", "Data", "DecodeSettings", "Filters", "HanVariants", "LanguagePair", "Languages",
    "MaxLength", "ModelSettings", "Recipe", "RuleName", "RuntimeSettings", "Sampling", "Stop", "TokenizerSettings",
    "TrainSettings", "load_recipe", "override_decode", "recipe_schema", "recipe_to_yaml",
]  # fmt: skip
