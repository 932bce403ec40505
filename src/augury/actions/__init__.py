"""Carrying out actions: what waits in an outbox is handed to executors until each is done, or a dead letter.

`binding` says which executor an action has, `deliver` does the work, and each kind of executor is a module. Nothing is
imported here.
"""
