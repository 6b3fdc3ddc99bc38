"""Text in, text out: `from nmt.translation import Translator` is `from nmt import Translator`."""

from nmt.translation.translator import Translator

__all__ = ["Translator"]
