"""A campaign against false proofs: random problems, deliberately extreme, whose certificates are judged in exact fractions.

    PYTHONPATH=tests python -m campaign --seconds 300          # make fuzz SECONDS=300
    PYTHONPATH=tests python -m campaign --seed 4711            # one case again

`cases` draws a case from a seed, `kinds` runs it, `judge` compares what was claimed with exact values, `attempts` reduces a case that
fails.
"""
