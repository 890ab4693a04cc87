"""What `make demo` shows: a real language model bridges two sentences, rewrites an ending, uses given words."""

import time

import torch

import cold

torch.set_num_threads(2)
start = time.monotonic()
lm = cold.load("smollm2")
print(f"{lm.name}: {sum(p.numel() for p in lm.model.parameters()) / 1e6:.0f} M parameters on {lm.device}\n")


def show(title: str, given: str, found: cold.Decoding) -> None:
    print(f"{title}\n  {given}")
    texts = [found.samples[index].text for index in found.order]  # best first
    for number, text in enumerate(dict.fromkeys(texts)):
        alike = f"   ({texts.count(text)} of {len(texts)} samples)" if texts.count(text) > 1 else ""
        print(f"  {'  ' if number else '->'} {text}{alike}")
    print(f"     energy {found.best.energy:.2f}; {time.monotonic() - start:.0f} s so far\n", flush=True)


words = ["hand", "sink", "soap", "wash"]
show("A sentence with given words", ", ".join(words), cold.lexical(words, lm))

left, right = "I wanted to buy a car.", "The dealer agreed and I purchased the car!"
show("A sentence between two others", f"{left} ... {right}", cold.abductive(left, right, lm))

context = "Peyton and Tom played football often. Peyton always won for many years."
ending = "Peyton never gave up and kept practicing."
show("A new ending for a changed story", f"{context} (it was: {ending})", cold.counterfactual(context, ending, lm))

print("More: .venv/bin/cold --help")
