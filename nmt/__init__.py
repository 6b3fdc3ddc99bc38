"""nmt: train a neural machine translation model on two text files, and translate with it.

Packages, each of which imports only those below it:

    cli, commands    the command line; one module per command
    training         the training loop, the run directory, distributed training
    translation      text in, text out: `Translator`
    export           CTranslate2 and Hugging Face transformers
    decoding         search on token ids
    model            the Transformer
    batching         token ids to tensors
    evaluation       metrics and significance
    text             corpora, tokenizer, prepared corpus
    system           console, files, device, processes
    config           the recipe
    errors           exceptions for mistakes of the user
"""

__version__ = "0.1.0"
