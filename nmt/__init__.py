"""nmt: neural machine translation from two text files to a translator you can read and trust.

A sentence's way through the package, floor by floor (a module imports only from floors below its own):

    6  cli                                      the commands
       stream   verify                          translate's files and pipes; a check on the user's own lines
    5  prepare  train  translate  score  average  export    one verb each; they meet on disk
    4  learning   decoding   exchange           the update step; the search for translations; other programs
       survival                                 what must survive a translation: terms, URLs, placeholders, tags
    3  batching   model   evaluation            tensors; the Transformer; metrics
    2  text                                     sentences, tokenizer, prepared corpus
    1  config   console   runtime   staging     the recipe; talk to people; the machine; whole directories
       output                                   a file that is gone on with after a kill
       processes                                several of them under torchrun
    0  errors                                   what the user can mend
"""

__version__ = "0.1.0"
