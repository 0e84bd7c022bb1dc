"""Prompts of a given length that no cache has seen; pure but for chance."""

from __future__ import annotations

import random
from dataclasses import dataclass

# Short words that a tokenizer has whole; what they say together does not matter
WORDS = (  # noqa: SIM905 - a line of words reads better than a list
    "time year people way day man thing woman life child world school state family student group "
    "country problem hand part place case week company system program question work government "
    "number night point home water room mother area money story fact month lot right study book"
).split()
TASK = "Explain how a steam engine works."
FEW, MANY = 4, 32  # words, of the two prompts that tell how long others become


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptLength:
    """How many tokens a prompt has without words, and how many a word adds."""

    base: float
    word: float

    def count_words(self, tokens: int) -> int:
        """Return how many words make a prompt of about `tokens`."""
        return max(1, round((tokens - self.base) / self.word))


def estimate_prompt_length(few: int, many: int) -> PromptLength:
    """Return the length of prompts from the tokens that those of FEW and MANY words had."""
    word = max(many - few, 1) / (MANY - FEW)
    return PromptLength(base=few - FEW * word, word=word)


def generate_prompt(word_count: int) -> str:
    """Return a prompt of so many words, drawn anew each time: the prefix cache has none of it."""
    chosen = random.choices(WORDS, k=word_count)  # noqa: S311 - for variety, not for secrecy
    return f"{random.getrandbits(32):08x} {' '.join(chosen)}\n\n{TASK}"
