"""Text in, text out: `from nmt import Translator`; lines and documents, from a file or a stream into another."""
