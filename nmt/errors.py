"""The errors that users meet. Everything else that escapes is a bug of ours.

    NMTError
    ├── ConfigError   the recipe or the command line asks for something we cannot do
    ├── DataError     a text file, a corpus or standard input is not what was promised
    └── ModelError    a model, checkpoint or run directory is missing, damaged, too new or does not fit
        └── DamagedError    its files are not what was saved

A message says what was wrong, where (file:line or ``section.key``), what was expected, and what to do.
"""


class NMTError(Exception):
    """Base of all errors that are the user's to mend; the commands print it and exit with code 2."""


class ConfigError(NMTError):
    """Expect it while a recipe or a command line is read, before any work is done."""


class DataError(NMTError):
    """Expect it while text is read: a missing file, a line without its tab, files that do not pair up."""


class ModelError(NMTError):
    """Expect it while a model, checkpoint or run directory is opened, saved or resumed."""


class DamagedError(ModelError):
    """Expect it where an older checkpoint may help: files are missing, cut short or altered."""
