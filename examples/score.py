"""A constraint is any function of a soft sequence that returns one number per row; higher is better."""

import cold


def early(y: cold.SoftSequence):
    """Be sure of the first words: minus the entropy of the first half of the tokens."""
    log_probs = y.log_probs[:, : y.length // 2]
    return (log_probs.exp() * log_probs).sum(-1).mean(-1)
