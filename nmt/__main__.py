"""Entry point of `nmt` and of `python -m nmt`."""

import os


def main() -> None:
    """Run the command line."""
    try:
        from nmt.cli import main as run_command_line

        run_command_line()
    except KeyboardInterrupt as error:  # during the imports, or a second time
        os.write(2, b"error: interrupted\n")
        os._exit(128 + (error.args or (2,))[0])


if __name__ == "__main__":
    main()
