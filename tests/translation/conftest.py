"""A translator with a model of random weights."""

import pytest

from nmt.config import RuntimeSettings
from nmt.model.stored import LoadedModel
from nmt.translation.translator import Translator
from tests.builders import tiny_loaded_model


@pytest.fixture(scope="module")
def loaded() -> LoadedModel:
    return tiny_loaded_model()


@pytest.fixture(scope="module")
def translator(loaded: LoadedModel) -> Translator:
    return Translator(loaded, RuntimeSettings(device="cpu"))
