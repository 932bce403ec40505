"""Trying a program out: simulate it tick by tick, ask why, test it. At the rim; the engine itself knows none of it."""
