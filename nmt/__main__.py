"""`python -m nmt` is `nmt`, and so torchrun can start it."""

from nmt.cli import main

main()
