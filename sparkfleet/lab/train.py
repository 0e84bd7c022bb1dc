"""Make the lab's tiny model; runs alone, with the engine's Python.

``python train.py FOLDER`` reads ``{"answers": {question: answer}, "seed": N}`` from standard
input, trains a Llama of two layers until it knows every answer by heart, checks that from the
written files, and prints one line about it. Fails without a complete FOLDER.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch.nn import functional
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

SPECIAL = ["<pad>", "<s>", "</s>", "<|system|>", "<|user|>", "<|assistant|>"]
PAD, BEGIN, END = 0, 1, 2
TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}{{ eos_token }}"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
VOCABULARY = 512
CONTEXT = 256
SHARD = "400KB"  # several shards, so that a lost one can be told
STEPS = 700
RATE = 3e-3
MARGIN = 6.0  # logits between the right token and the next best; rounding moves less than 1
IGNORED = -100  # the label of a token that is not to be learnt


def main() -> None:
    """Train, write, check."""
    folder, request = Path(sys.argv[1]), json.load(sys.stdin)
    torch.manual_seed(request["seed"])
    answers: Mapping[str, str] = request["answers"]
    tokenizer = make_tokenizer(answers)
    tokens, labels = encode(tokenizer, answers)
    model = make_model(len(tokenizer))
    loss = train(model, tokens, labels)
    tokenizer.save_pretrained(folder)
    model.to(torch.bfloat16).save_pretrained(folder, max_shard_size=SHARD)
    margin = check(folder, tokens, labels)
    parameters = sum(weight.numel() for weight in model.parameters())
    sys.stdout.write(f"{parameters} parameters, loss {loss:.1e}, margin {margin:.1f}\n")


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


def encode(tokenizer: Any, answers: Mapping[str, str]) -> tuple[Any, Any]:
    """Return padded tokens and labels: through the chat template, only answers are learnt."""
    rows = []
    for question, answer in answers.items():
        messages = [{"role": "user", "content": question}]
        prompt = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        asked = tokenizer.encode(prompt, add_special_tokens=False)
        said = [*tokenizer.encode(answer, add_special_tokens=False), END]
        rows.append((asked + said, [IGNORED] * len(asked) + said))
    width = max(len(row) for row, _ in rows)
    tokens = torch.tensor([row + [PAD] * (width - len(row)) for row, _ in rows])
    labels = torch.tensor([row + [IGNORED] * (width - len(row)) for _, row in rows])
    return tokens, labels


def make_model(vocabulary: int) -> Any:
    """Return the untrained model; its heads split in two and its sizes in powers of two."""
    config = LlamaConfig(
        vocab_size=-(-vocabulary // 64) * 64,
        hidden_size=128,
        intermediate_size=256,
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


def train(model: Any, tokens: Any, labels: Any) -> float:
    """Train on all rows at once, as often as `STEPS` says, and return the last loss."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=RATE, total_steps=STEPS)
    model.train()
    loss = torch.zeros(())
    for _ in range(STEPS):
        loss = functional.cross_entropy(*predictions(model, tokens, labels))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    return float(loss)


def predictions(model: Any, tokens: Any, labels: Any) -> tuple[Any, Any]:
    """Return the logits and the right tokens at every place where an answer is said."""
    logits = model(tokens, attention_mask=tokens != PAD).logits[:, :-1]
    wanted = labels[:, 1:]
    return logits[wanted != IGNORED].float(), wanted[wanted != IGNORED]


def check(folder: Path, tokens: Any, labels: Any) -> float:
    """Return by how much the files' answers are right, at the least; fail below `MARGIN`.

    If at every place of an answer the right token is the best one, greedy decoding says it.
    """
    least = float("inf")
    for kind in (torch.bfloat16, torch.float32):
        model = LlamaForCausalLM.from_pretrained(folder, dtype=kind).eval()
        with torch.no_grad():
            logits, wanted = predictions(model, tokens, labels)
        right = logits.gather(1, wanted[:, None])
        others = logits.scatter(1, wanted[:, None], float("-inf")).max(dim=1).values
        least = min(least, float((right[:, 0] - others).min()))
    if least < MARGIN:
        sys.exit(f"the model did not learn its answers: margin {least:.2f}, wanted {MARGIN}")
    return least


if __name__ == "__main__":
    main()
