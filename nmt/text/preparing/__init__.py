"""From text files to a prepared corpus: `preparation` has the steps."""
