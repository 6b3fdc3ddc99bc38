"""The server of `nmt serve`: LibreTranslate's interface over HTTP, batches of many clients' requests, and a page."""
