"""Text in, text out: `from nmt.translation import Translator` is `from nmt import Translator`."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nmt.translation.translator import Translator as Translator
else:

    def __getattr__(name: str) -> object:
        """Import the translator when it is first used."""
        if name != "Translator":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from nmt import Translator

        return Translator
