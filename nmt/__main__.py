"""Entry point of `nmt` and of `python -m nmt`: handle Ctrl-C, then import the rest, which takes a noticeable time."""

import os
import select
import signal


def _exit_interrupted(*_: object) -> None:
    """Signal handler: end the process at once with a message, unless the reader of stderr has stopped reading."""
    try:
        if select.select([], [2], [], 0)[1]:
            if os.isatty(2) and os.environ.get("TERM") != "dumb":
                os.write(2, b"\r\x1b[2K\x1b[?25h")  # erase ^C and a progress bar, which hides the cursor
            os.write(2, b"error: interrupted\n")
    finally:
        os._exit(130)


def main() -> None:
    """Run the command line."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # a background job of a shell script ignores it
        signal.signal(signal.SIGINT, _exit_interrupted)
    from nmt.cli import main as run_command_line

    run_command_line()


if __name__ == "__main__":
    main()
