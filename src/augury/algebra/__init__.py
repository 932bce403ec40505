"""What to detect: the meaning of programs as values, apart from their text and from how they are run."""
