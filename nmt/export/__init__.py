"""Our models in the formats of other programs."""

import importlib
from importlib.util import find_spec
from typing import Any

from nmt.errors import ConfigError


def check_installed(package: str) -> None:
    """Raise ConfigError if another program's package is not installed, before a module that imports torch is."""
    if find_spec(package) is None:
        raise ConfigError(f"{package} is not installed; run: pip install {package}")


def library(package: str) -> Any:
    """Import another program's package. Raises ConfigError if it is not installed or cannot be imported."""
    check_installed(package)
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise ConfigError(f"{package} cannot be imported: {error}; repair its installation") from None
