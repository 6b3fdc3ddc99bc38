"""From text files to a prepared corpus: `preparation` lists the stages."""
