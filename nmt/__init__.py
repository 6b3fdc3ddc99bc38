"""nmt: neural machine translation from two text files to a translator you can read and trust.

A sentence's way through the package, floor by floor (a module imports only from floors below its own):

    6  cli                                      the commands
       job   given                              what `nmt translate` is asked for; translations that are given
       stream   verify   input                  lines in and out; a check on the user's own lines; windows of lines
    5  prepare  train  translate  score  average  export    one verb each; they meet on disk
    4  learning   decoding   exchange           the update step; the search for translations; other programs
       translation                              what becomes of a line, and how it is written
       survival                                 what must survive a translation: terms, URLs, placeholders, tags
    3  batching   model   evaluation            tensors; the Transformer; metrics
    2  text                                     sentences, tokenizer, prepared corpus
    1  output                                   a file that is gone on with after a kill
       console   processes                      talk to people; several processes under torchrun
       runtime   config   staging               the machine; the recipe; whole directories
    0  errors                                   what the user can mend
"""

__version__ = "0.1.0"
