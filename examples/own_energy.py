"""An energy written by hand in Python, and a constraint of one's own."""

import cold


def sure(y: cold.SoftSequence):
    """Prefer soft sequences that have made up their mind: minus the mean entropy of their tokens."""
    return (y.log_probs.exp() * y.log_probs).sum(-1).mean(-1)


lm = cold.load("smollm2")
story = cold.Context(lm, left="It was a cold winter night.", right="They slept well.", temperature=0.5)
fluency = cold.Fluency(story, reduction=cold.mean, detach=True)
future = cold.Future(story, reduction=cold.mean)
energy = 0.5 * fluency + 0.4 * future + 0.1 * cold.Function(sure)

found = cold.sample(energy, length=10, samples=4, steps=60, seed=1)
for index in found.order:
    sample = found.samples[index]
    print(f"{sample.energy:6.2f}  {sample.text}")
