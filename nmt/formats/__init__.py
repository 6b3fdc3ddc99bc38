"""Our models in the formats of other programs, and theirs in ours."""

import importlib
from typing import Any

from nmt.errors import ConfigError, check_installed


def library(package: str) -> Any:
    """Import another program's package. Raises ConfigError if it is not installed or cannot be imported."""
    check_installed(package)
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise ConfigError(f"{package} cannot be imported: {error}; repair its installation") from None
