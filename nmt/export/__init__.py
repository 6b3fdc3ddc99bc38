"""Our models in the formats of other programs, and those programs as engines that translate."""

from importlib.util import find_spec

from nmt.errors import ConfigError


def check_installed(package: str) -> None:
    """Raise ConfigError if another program's package is not installed, before a module that imports torch is."""
    if find_spec(package) is None:
        raise ConfigError(f"{package} is not installed; run: pip install {package}")
