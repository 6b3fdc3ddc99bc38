"""nmt: train a neural machine translation model on two text files, and translate with it.

Packages, each of which imports only those below it:

    cli, commands    the command line; one module per command
    serving          the web server
    report           figures, tables of runs, and the page about them
    training         the training loop, the run directory, distributed training
    translation      text in, text out: `Translator`, lines and documents
    formats          models of other programs: import and export
    decoding         search on token ids
    model            the Transformer
    kernels          its operations: plain torch, CPUs, GPUs
    batching         token ids to tensors
    evaluation       metrics and significance
    text             corpora, tokenizer, prepared corpus
    system           console, files, processes
    config           the recipe
    errors           exceptions for mistakes of the user

`import nmt` imports nothing else; `from nmt import Translator` does not import torch, which takes seconds.
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING

__all__ = ["Translation", "Translator", "__version__"]
__version__ = "0.1.0"

if TYPE_CHECKING:
    from nmt.translation.result import Translation
    from nmt.translation.translator import Translator
else:

    def __getattr__(name: str) -> object:
        """Import the translator when it is first used."""
        if name not in ("Translation", "Translator"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module("nmt.translation.translator"), name)


if "OMP_WAIT_POLICY" not in os.environ:
    # Read when torch is loaded: how long a thread of GNU OpenMP spins before it sleeps. By default it is 3 ms: training
    # with several threads takes 3 to 10 times as long while other programs use the cores.
    os.environ.setdefault("GOMP_SPINCOUNT", "2000")
