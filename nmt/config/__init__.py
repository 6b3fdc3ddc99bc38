"""The recipe: one YAML file that says everything about a translator, read strictly.

Each section is a frozen class; its defaults live there and nowhere else. An unknown key, a wrong type or an
impossible value is a `ConfigError` that names file, line and ``section.key`` — all of them at once, not one a try.

    texts  model  train  schedules  decode    the sections; `section` is what they have in common
    recipe                                    all of them together
    loading                                   from YAML to a recipe, and back
    strict_yaml  recipe_errors                YAML without surprises; mistakes explained

>>> recipe = load_recipe(Path("recipes/demo-en-it.yaml"), ["train.batch_tokens=2048"])
>>> recipe.train.batch_tokens
2048
"""

from nmt.config.data_section import CorpusFile, Data, Filters, Languages, TokenizerSettings
from nmt.config.decode_section import DecodeSettings, MaxLength, Sampling
from nmt.config.loading import load_recipe, override_decode, recipe_schema, recipe_to_yaml
from nmt.config.model_section import ModelSettings
from nmt.config.recipe import Recipe, RuntimeSettings
from nmt.config.train_section import Stop, TrainSettings

__all__ = [
    "CorpusFile", "Data", "DecodeSettings", "Filters", "Languages", "MaxLength", "ModelSettings", "Recipe",
    "RuntimeSettings", "Sampling", "Stop", "TokenizerSettings", "TrainSettings", "load_recipe", "override_decode",
    "recipe_schema", "recipe_to_yaml",
]  # fmt: skip
