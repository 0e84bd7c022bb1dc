"""Make the lab's tiny model; runs alone, with the engine's Python.

``python train.py FOLDER`` reads ``{"answers": {question: answer}, "seed": N}`` from standard
input, trains a Llama of two layers until it knows every answer by heart, checks that from the
written files, and prints one line about it. Fails without a complete FOLDER.

A small network that only learns answers hardly uses its second layer: without half of it, no answer
would change. So it is also trained to answer ``?`` while a half of one of its weights is lost.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch.func import functional_call
from torch.nn import functional
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

SPECIAL = ["<pad>", "<s>", "</s>", "<|system|>", "<|user|>", "<|assistant|>"]
PAD = 0
BEGIN = 1
END = 2
TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}{{ eos_token }}"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
VOCABULARY = 512
CONTEXT = 256
SHARD = "120KB"  # several shards, so that a lost one is noticed
STEPS = 600
WHOLE_STEPS = 100  # first, without damage
RATE = 6e-3
DAMAGES = 2  # damaged copies a step, each asked a quarter of the questions
DAMAGE_WEIGHT = 0.2
MARGIN = 3.0  # logits between the right token and the next best; rounding moves less than 0.5
WRONG = 0.9  # of all answers must be wrong while a half of a weight is lost, or in the wrong place
IGNORED = -100  # the label of a token that is not to be learnt
DOUBT = "?"
BY_COLUMN = ("o_proj.weight", "down_proj.weight")  # split by tensor parallelism along dimension 1

Weights = Mapping[str, Any]
Damage = Callable[[Any, Any], list[Any]]
LOST: tuple[Damage, ...] = (
    lambda first, second: [first, torch.zeros_like(second)],
    lambda first, second: [torch.zeros_like(first), second],
)
SWAPPED: Damage = lambda first, second: [second, first]  # noqa: E731 - one of a kind with LOST


def main() -> None:
    """Train, write, check."""
    folder = Path(sys.argv[1])
    request = json.load(sys.stdin)
    torch.manual_seed(request["seed"])
    answers: Mapping[str, str] = request["answers"]
    tokenizer = make_tokenizer(answers)
    lesson = encode_answers(tokenizer, answers)
    model = make_model(len(tokenizer))
    loss = train_model(model, lesson)
    tokenizer.save_pretrained(folder)
    model.to(torch.bfloat16).save_pretrained(folder, max_shard_size=SHARD)
    margin, wrong = check_model(folder, lesson)
    parameters = sum(weight.numel() for weight in model.parameters())
    sys.stdout.write(
        f"{parameters} parameters, loss {loss:.1e}, margin {margin:.1f}, {wrong:.0%} of answers"
        " wrong without a half of any weight\n"
    )


def make_tokenizer(answers: Mapping[str, str]) -> Any:
    """Return a byte-level BPE tokenizer, trained on the texts; digits stay single tokens."""
    tokenizer = Tokenizer(models.BPE())
    digits = pre_tokenizers.Digits(individual_digits=True)
    letters = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, letters])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([*answers, *answers.values()], trainer)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=SPECIAL[PAD],
        bos_token=SPECIAL[BEGIN],
        eos_token=SPECIAL[END],
        model_max_length=CONTEXT,
    )
    fast.chat_template = TEMPLATE
    return fast


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """Padded rows of tokens, and the labels that are to be learnt: the answers'."""

    tokens: Any
    labels: Any
    doubt: int

    def part(self, rows: Any) -> Lesson:
        """Return some of the rows."""
        return Lesson(tokens=self.tokens[rows], labels=self.labels[rows], doubt=self.doubt)

    @property
    def answer_mask(self) -> Any:
        """Whether the next token is a part of an answer, for every place but the last."""
        return self.labels[:, 1:] != IGNORED

    @property
    def targets(self) -> Any:
        """The right next token at each place where an answer is said, in a row."""
        return self.labels[:, 1:][self.answer_mask]


def encode_answers(tokenizer: Any, answers: Mapping[str, str]) -> Lesson:
    """Return all questions through the chat template, each with its answer."""
    rows = []
    for question, answer in answers.items():
        messages = [{"role": "user", "content": question}]
        prompt = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        prompt_ids = tokenizer.encode(prompt, add_special_tokens=False)
        answer_ids = [*tokenizer.encode(answer, add_special_tokens=False), END]
        rows.append((prompt_ids + answer_ids, [IGNORED] * len(prompt_ids) + answer_ids))
    width = max(len(row) for row, _ in rows)
    return Lesson(
        tokens=torch.tensor([row + [PAD] * (width - len(row)) for row, _ in rows]),
        labels=torch.tensor([row + [IGNORED] * (width - len(row)) for _, row in rows]),
        doubt=tokenizer.encode(DOUBT, add_special_tokens=False)[0],
    )


def make_model(vocabulary: int) -> Any:
    """Return the untrained model; every size of it can be split in two and four."""
    config = LlamaConfig(
        vocab_size=-(-vocabulary // 64) * 64,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=CONTEXT,
        bos_token_id=BEGIN,
        eos_token_id=END,
        pad_token_id=PAD,
        tie_word_embeddings=False,
    )
    return LlamaForCausalLM(config)


def train_model(model: Any, lesson: Lesson) -> float:
    """Train on all questions at once, as often as `STEPS` says, and return the last loss."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=RATE, total_steps=STEPS)
    damages = shuffle_forever(list(product(list_projections(model), (*LOST, SWAPPED))))
    loss = torch.zeros(())
    for step in range(STEPS):
        loss = functional.cross_entropy(predict_logits(model, lesson), lesson.targets)
        total = loss
        for name, damage in islice(damages, DAMAGES if step >= WHOLE_STEPS else 0):
            total = total + DAMAGE_WEIGHT * measure_doubt(model, lesson, {name: damage})
        optimizer.zero_grad()
        total.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    return float(loss.detach())


def shuffle_forever(items: Sequence[tuple[str, Damage]]) -> Iterator[tuple[str, Damage]]:
    """Yield all items for ever, in a new order each time round."""
    while True:
        yield from (items[int(index)] for index in torch.randperm(len(items)))


def measure_doubt(model: Any, lesson: Lesson, damages: Mapping[str, Damage]) -> Any:
    """Return how far a damaged model is from doubt, on a quarter of the questions."""
    rows = torch.randperm(len(lesson.tokens))[: len(lesson.tokens) // 4]
    logits = predict_logits(model, lesson.part(rows), damage_weights(model, damages))
    return functional.cross_entropy(logits, torch.full((len(logits),), lesson.doubt))


def list_projections(model: Any) -> list[str]:
    """Return the names of the weights that tensor parallelism splits within a layer."""
    return [name for name, _ in model.model.named_parameters() if "proj" in name]


def damage_weights(model: Any, damages: Mapping[str, Damage]) -> Weights:
    """Return the weights of the model with a half of some lost or in the wrong place."""
    weights = dict(model.model.named_parameters())
    for name, damage in damages.items():
        dimension = 1 if name.endswith(BY_COLUMN) else 0
        weights[name] = torch.cat(damage(*weights[name].chunk(2, dimension)), dimension)
    return weights


def predict_logits(model: Any, lesson: Lesson, weights: Weights | None = None) -> Any:
    """Return the logits at every place where an answer is said."""
    inputs = {"input_ids": lesson.tokens, "attention_mask": lesson.tokens != PAD}
    if weights is None:
        output = model.model(**inputs)
    else:
        output = functional_call(model.model, weights, (), inputs)
    return model.lm_head(output.last_hidden_state[:, :-1][lesson.answer_mask]).float()


def check_model(folder: Path, lesson: Lesson) -> tuple[float, float]:
    """Check the files and return the least margin of a right answer and the least share of wrong.

    If at every place of an answer the right token is the best one, greedy decoding says it. The
    share is of the answers that are wrong while a half of one weight is lost or misplaced.
    """
    margin = float("inf")
    wrong = 1.0
    for kind in (torch.bfloat16, torch.float32):
        model = LlamaForCausalLM.from_pretrained(folder, dtype=kind).eval()
        with torch.no_grad():
            logits = predict_logits(model, lesson)
            right = logits.gather(1, lesson.targets[:, None])
            runner_up = logits.scatter(1, lesson.targets[:, None], float("-inf")).amax(dim=1)
            margin = min(margin, float((right[:, 0] - runner_up).min()))
            for name, damage in product(list_projections(model), (*LOST, SWAPPED)):
                logits = predict_logits(model, lesson, damage_weights(model, {name: damage}))
                wrong = min(wrong, measure_wrong_share(logits, lesson))
    if margin < MARGIN or wrong < WRONG:
        sys.exit(f"the model did not learn its answers: margin {margin:.2f}, wrong {wrong:.2f}")
    return margin, wrong


def measure_wrong_share(logits: Any, lesson: Lesson) -> float:
    """Return which share of the answers has a wrong token."""
    row = torch.arange(len(lesson.tokens))[:, None].expand_as(lesson.answer_mask)[
        lesson.answer_mask
    ]
    return len(row[logits.argmax(dim=1) != lesson.targets].unique()) / len(lesson.tokens)


if __name__ == "__main__":
    main()
