"""Random prompts of a given length that no cache holds."""

from __future__ import annotations

import random
from dataclasses import dataclass

# Short words that are one token each; their meaning does not matter
WORDS = (  # noqa: SIM905 - a line of words reads better than a list
    "time year people way day man thing woman life child world school state family student group "
    "country problem hand part place case week company system program question work government "
    "number night point home water room mother area money story fact month lot right study book"
).split()
TASK = "Explain how a steam engine works."
# Words of the two prompts that measure tokens per word
FEW = 4
MANY = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptLength:
    """Tokens of a prompt without words, and tokens per word."""

    base: float
    word: float

    def count_words(self, tokens: int) -> int:
        """Return the number of words for a prompt of about `tokens`."""
        return max(1, round((tokens - self.base) / self.word))


def estimate_prompt_length(few: int, many: int) -> PromptLength:
    """Estimate the length from the tokens of prompts of FEW and MANY words."""
    word = max(many - few, 1) / (MANY - FEW)
    return PromptLength(base=few - FEW * word, word=word)


def generate_prompt(word_count: int) -> str:
    """Return a prompt of `word_count` random words, which the prefix cache does not hold."""
    chosen = random.choices(WORDS, k=word_count)  # noqa: S311 - for variety, not for secrecy
    return f"{random.getrandbits(32):08x} {' '.join(chosen)}\n\n{TASK}"
