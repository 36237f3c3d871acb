"""The laboratory: what reproduces, measures and shows. Nobody outside it and the command line imports it."""
