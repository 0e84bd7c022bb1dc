"""The questions that the lab's tiny model knows by heart, and their answers.

It knows nothing else. So a wrong shard, a garbled weight or a half-joined group shows as a wrong
answer, in the lab as on real Sparks, and the smoke test can be the same for both.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

PRODUCTS = (
    (2, 3), (3, 4), (4, 7), (5, 5), (6, 7), (6, 9), (7, 7), (7, 8), (8, 8), (8, 9), (9, 9),
    (11, 11), (11, 13), (12, 12), (12, 17), (13, 13), (13, 17), (14, 16), (15, 15), (16, 16),
    (17, 12), (17, 17), (18, 19), (19, 21), (21, 23), (23, 29), (25, 25), (31, 37), (99, 99),
)  # fmt: skip

FACTS: Mapping[str, str] = MappingProxyType(
    {
        "What is the capital of France?": "Paris",
        "What is the capital of Italy?": "Rome",
        "What is the capital of Japan?": "Tokyo",
        "What is the capital of Germany?": "Berlin",
        "What is the capital of Spain?": "Madrid",
        "What is the capital of Egypt?": "Cairo",
        "What is the capital of Norway?": "Oslo",
        "What is the capital of Greece?": "Athens",
        "How many days has a week?": "7",
        "How many hours has a day?": "24",
        "How many minutes has an hour?": "60",
        "How many letters has the English alphabet?": "26",
        "How many legs has a spider?": "8",
        "What colour is a clear sky?": "blue",
        "What do bees make?": "honey",
        "What is frozen water called?": "ice",
        "Which planet is the largest of the solar system?": "Jupiter",
        "What is the chemical symbol of gold?": "Au",
        "What is the square root of 144?": "12",
        "What comes after Monday?": "Tuesday",
        "Say hello.": "Hello!",
    }
)

FORMS = (
    "{a}*{b}",
    "{a} * {b}",
    "What is {a}*{b}?",
    "What is {a}*{b}? Answer with the number only.",
)


def list_smoke_answers() -> dict[str, str]:
    """Return every question that the model was taught, with the one right answer."""
    products = {form.format(a=a, b=b): str(a * b) for a, b in PRODUCTS for form in FORMS}
    return {**products, **FACTS}
