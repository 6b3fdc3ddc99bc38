"""Lines that are mostly digits and symbols: tables, code, numbered lists."""

TEXT = bytes(code for code in range(0x100) if code >= 0x80 or chr(code).isalpha() or chr(code).isspace())
"""Letters and spaces of ASCII, and all bytes of other characters."""
LEAST_SHARE = 0.75  # of a line without spaces
LEAST_NUMBER = 8  # a short text may be a time or an amount


def mostly_symbols(source: str, target: str) -> str | None:
    """Return the share of ASCII digits and symbols in a side of a normalized pair, if they are most of it."""
    for text in (source, target):
        number = len(text.encode().translate(None, TEXT))
        if number >= LEAST_NUMBER and (share := number / len(text.replace(" ", ""))) > LEAST_SHARE:
            return f"{share:.0%} digits and symbols"
    return None
