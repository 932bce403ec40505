"""Running it, pure: columns in, columns and state out; no clock, no files, no Spark."""
