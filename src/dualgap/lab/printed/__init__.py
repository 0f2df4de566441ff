"""The algorithms as the texts print them, misprints and all: for the studies alone, in plain NumPy, next to the corrected ones."""
