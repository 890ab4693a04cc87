"""Prompting: an instruction-tuned LM is asked for the sentence, once per sample, and the best answer is selected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from cold.baselines.left_only import LeftOnly
from cold.lm.model import LanguageModel
from cold.lm.prefix import Prefix
from cold.text.problems import Example, Problems
from cold.text.words import forms


@dataclass(frozen=True)
class Prompt:
    """Asks in the LM's own chat form where its tokenizer has one, in plain lines elsewhere."""

    sampler: LeftOnly = field(default_factory=lambda: LeftOnly(top_p=0.9))

    def __call__(self, problems: Problems, reverse: LanguageModel | None, seeds: Sequence[int]) -> list[str]:
        asked = [ask(problems.lm, instruction(example)) for example in problems.examples]
        return [text.strip('"“”') for text in self.sampler.behind(Prefix.of(problems.lm, asked), seeds)]


def instruction(example: Example) -> str:
    """The task in words."""
    if example.words:
        words = ", ".join(forms(word)[0] for word in example.words)
        return f"Write one sentence that contains all of these words: {words}."
    if example.right:
        return (
            f"Here are the first and the last sentence of a story.\nFirst: {example.left}\nLast: {example.right}\n"
            "Write the one sentence that stands between them."
        )
    if example.ending:
        return (
            f"A story begins: {example.left}\nIts old next sentence no longer fits: {example.ending}\n"
            "Rewrite that sentence with as few changes as possible so that it fits."
        )
    return f"Write the next sentence of this story.\n{example.left}"


def ask(lm: LanguageModel, text: str) -> list[int]:
    """Token ids of the question, up to where the answer begins."""
    if getattr(lm.tokenizer, "chat_template", None):
        turn = [{"role": "user", "content": text}]
        filled = lm.tokenizer.apply_chat_template(turn, tokenize=False, add_generation_prompt=True)
        return list(lm.tokenizer.encode(filled, add_special_tokens=False))
    return [lm.separator, *lm.encode(f"{text}\n\n")]
