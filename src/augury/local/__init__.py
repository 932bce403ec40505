"""The engine in this process: events from files and memory in, complex events as lines out."""
