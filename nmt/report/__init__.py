"""The page of `nmt report` and the figures of `nmt figures`, both drawn by matplotlib."""

from importlib.util import find_spec

from nmt.errors import ConfigError


def check_matplotlib() -> None:
    """Raise ConfigError if matplotlib is not installed, before a module that imports it is."""
    if find_spec("matplotlib") is None:
        raise ConfigError("matplotlib, which draws the figures, is not installed; run: pip install matplotlib")
