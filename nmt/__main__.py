"""`python -m nmt`, the form in which torchrun starts the commands."""

import os
import sys

from nmt.cli import main


def main_of_many() -> None:
    """Run the command line as one of torchrun's processes, and leave without taking anything down.

    Threads of torch.distributed may still be there at the end; a process that takes them down now and then aborts
    ("terminate called without an active exception"), and torchrun would call the whole training failed.
    """
    code: object = 0
    try:
        main()
    except SystemExit as end:
        code = end.code
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))


if __name__ == "__main__":
    main_of_many() if "TORCHELASTIC_RUN_ID" in os.environ else main()
