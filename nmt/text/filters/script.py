"""Text that is not in the script of its language."""

import re
from dataclasses import dataclass

from nmt.text.languages import SCRIPTS, script_of

_LEAST_FOREIGN = 5  # letters; a few may be symbols, as in `α e β`


@dataclass(frozen=True)
class ScriptCheck:
    """The letters of a language's script, and those that do not belong to it."""

    script: str
    own: re.Pattern[str]
    foreign: re.Pattern[str]
    """Letters of all other scripts but Latin, which names and terms have in every language."""
    requires_letter: bool
    """Whether text without any letter (`10:30`) is wrong, too."""

    @classmethod
    def of(cls, language: str, is_target: bool) -> "ScriptCheck | None":
        """Return the check of a language; None for one that is written in several scripts."""
        script = script_of(language)
        if script is None:
            return None
        own = SCRIPTS[script]
        others = [letters for name, letters in SCRIPTS.items() if name not in (script, "Latin")]
        foreign = re.compile(f"(?![{own}])[{''.join(others)}]")
        return cls(script, re.compile(f"[{own}]"), foreign, is_target and script != "Latin")

    def wrong(self, text: str) -> str | None:
        """Return what shows that a normalized text is not in the script; None if it is."""
        if text.isascii() and self.script == "Latin":
            return None
        if not self.own.search(text):
            wrong = self.requires_letter or any(map(str.isalpha, text))
            return f"no {self.script} letter" if wrong else None
        if self.foreign.search(text):
            own, foreign = len(self.own.findall(text)), len(self.foreign.findall(text))
            if foreign > own and foreign >= _LEAST_FOREIGN:
                return f"{foreign} letters of other scripts, {own} {self.script} ones"
        return None
