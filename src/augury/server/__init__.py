"""ENGINES AND DETECTORS OVER HTTP: thin, one module per noun.

A handler reads a request, calls the library, and answers; it holds no rule of its own.
"""
