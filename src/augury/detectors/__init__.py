"""EVENTS FROM THE WORLD: sources that are polled or followed, buffers that tell what is new, and what feeds engines.

`run` runs detectors; `opening` makes them of what a program says; a module per kind of source reads it.
"""
