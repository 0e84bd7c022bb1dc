"""Failures of requests: tool calls, grammars, images, and the parsers of answers."""

from __future__ import annotations

from sparkfleet.doctor.signatures.row import FailureRole, Signature

ROWS = (
    Signature(
        id="request-too-long",
        pattern=(
            r"This model's maximum context length is (?P<most>\d{1,9}) tokens\."
            r"|prompt \(length \d{1,9}\) (?:is longer than the maximum model length of"
            r"|plus the number of requested output tokens \(at least 1\) is longer)"
            r"|max_tokens must be at least 1, got -\d"
        ),
        cause=(
            "A request was refused: its messages and the tokens that it asks for (max_tokens) are "
            "more than max-model-len. The engine continues to serve."
        ),
        fix=(
            "Raise max-model-len in vllm_args (`{task:recipes.fit} RECIPE` says what the memory "
            "holds), or shorten the messages, or ask for fewer tokens."
        ),
        source="vllm-project/vllm#20409; vllm-project/vllm#4667; ogx-ai/ogx#4534",
        fallback=True,
        leads_to=("request-not-served",),
        sample=(
            "ValueError: This model's maximum context length is 16384 tokens. However, you "
            "requested 122946 tokens (112946 in the messages, 10000 in the completion)."
        ),
        near_miss="Using max model len 16384",
    ),
    Signature(
        id="mistral-tool-call-id",
        pattern=(
            r"[Tt]ool call id\b.{0,200}must be a-z, A-Z, 0-9, with a length of 9"
            r"|[Tt]ool call IDs should be alphanumeric strings with length 9"
        ),
        cause=(
            "A client sent a tool call whose id is not nine letters and digits, which Mistral's "
            "models demand. The ids are those of the client, or of another model before."
        ),
        fix=(
            "Make the client send ids of nine letters and digits, or set chat-template in "
            "vllm_args to vLLM's examples/tool_chat_template_mistral.jinja, which shortens them "
            "(with tokenizer-mode: hf)."
        ),
        source="vllm-project/vllm PR#12332; karthink/gptel#1203",
        fallback=True,
        leads_to=("chat-template-failed", "request-not-served"),
        sample=(
            "mistral_common.exceptions.InvalidFunctionCallException: Tool call id was call_1 but "
            "must be a-z, A-Z, 0-9, with a length of 9."
        ),
        near_miss="Tool call id was abcdefghi",
    ),
    Signature(
        id="mistral-template-refused",
        pattern=(
            r"chat_template is not supported for Mistral tokenizers"
            r"|Kwargs \[(?P<names>[^\]\n]{1,200})\] are not supported by `MistralCommon"
            r"|Cannot set `(?:add_generation_prompt|continue_final_message)` to True (?:when|,)"
        ),
        cause=(
            "A request sets what Mistral's own tokenizer does not take: a chat template, its "
            "keywords (chat_template_kwargs, reasoning_effort), or an answer as the last message."
        ),
        fix=(
            "Make the client leave it out, or set tokenizer-mode: hf and a chat-template in "
            "vllm_args. For reasoning_effort use an image with a newer vLLM and mistral-common."
        ),
        source="vllm-project/vllm#38560; Alishahryar1/free-claude-code#130",
        fallback=True,
        leads_to=("request-not-served", "model-files-unread"),
        sample="ValueError: chat_template is not supported for Mistral tokenizers.",
        near_miss="Using a chat_template for Mistral tokenizers",
    ),
    Signature(
        id="parser-of-another-family",
        pattern=(
            r"(?:[Tt]ool |reasoning )[Pp]arser could not locate [^\n]{1,100}? in the tokenizer"
            r"|ToolParser could not locate [^\n]{1,100}? in the tokenizer"
            r"|\w parser could not locate the tool call token in the tokenizer"
            r"|RuntimeError: \w{1,40}ReasoningParser reasoning parser"
        ),
        cause=(
            "The parser for tool calls or reasoning is for another family of models: the model's "
            "tokenizer does not have the words that it looks for."
        ),
        fix=(
            "Set tool-call-parser or reasoning-parser in vllm_args to what the model's card names, "
            "or remove it."
        ),
        source="vllm-project/vllm#9304; vllm-project/vllm#19729; vllm-project/recipes#515",
        leads_to=("engine-start-failed",),
        sample=(
            "RuntimeError: Gemma4ReasoningParser reasoning parser could not locate think start/end "
            "tokens in the tokenizer!"
        ),
        near_miss="Tool parser could not parse the arguments",
    ),
    Signature(
        id="tool-call-unread",
        pattern=(
            r"Error (?:in )?extracting tool calls? from|Error extracting tool calls: "
            r"|Error trying to handle streaming tool call"
        ),
        cause=(
            "The parser for tool calls could not read what the model wrote; the client gets it as "
            "text. The parser is for another model, or the model wrote no valid call."
        ),
        fix=(
            "Set tool-call-parser in vllm_args to what the model's card names (qwen3_coder for "
            "Qwen3-Coder, not hermes), with the chat template that belongs to it, or use a newer "
            "image."
        ),
        source="vllm-project/vllm#26561; vllm-project/vllm#17790; vllm-project/vllm#10589",
        role=FailureRole.SYMPTOM,
        fallback=True,
        leads_to=("request-not-served",),
        sample="Error in extracting tool call from response.",
        near_miss="Extracted a tool call from response.",
    ),
    Signature(
        id="grammar-refused",
        pattern=(
            r"(?:ValueError|ValidationError): Grammar error: (?P<what>.{1,200})"
            r"|JSON schema contains features not supported by xgrammar"
            r"|Failed to transform (?:json schema|regex|choices|grammar) into"
            r"|Invalid (?:JSON )?grammar specification|backend does not support grammar specificat"
        ),
        cause="A request's response_format or tool has a schema that the grammar backend refuses.",
        fix=(
            "Take out of the schema what the line names (format, pattern, minLength and the like), "
            "or set another backend in structured-outputs-config of vllm_args (xgrammar, guidance, "
            "outlines): each knows other parts of JSON Schema."
        ),
        source="z-lab/paroquant#31; vllm-project/vllm#16321",
        fallback=True,
        leads_to=("request-not-served",),
        sample="ValueError: Grammar error: Unknown format: uri",
        near_miss="Compiled grammar without error",
    ),
    Signature(
        id="grammar-out-of-step",
        pattern=(
            r"Failed to advance FSM for request|grammar rejected tokens \["
            r"|[Gg]rammar matcher .{0,60}(?:terminated|rejected)"
        ),
        cause=(
            "The grammar of a structured answer or tool call did not follow what the model wrote; "
            "the request fails or hangs. Speculative decoding, reasoning and asynchronous "
            "scheduling cause it in some releases."
        ),
        fix=(
            "Use an image with a newer vLLM; until then start without speculative-config, or with "
            "no-async-scheduling: true in vllm_args, or another backend in "
            "structured-outputs-config (guidance)."
        ),
        source="vllm-project/vllm#29379; vllm-project/vllm#53181; vllm-project/vllm#22513",
        role=FailureRole.SYMPTOM,
        fallback=True,
        sample=(
            "Failed to advance FSM for request cmpl-4eb6 for tokens 4913. Please file an issue."
        ),
        near_miss="Compiled grammar for request cmpl-4eb6",
    ),
    Signature(
        id="api-of-another-task",
        pattern=(
            r"The model does not support (?P<api>Embeddings|Pooling|Score|Rerank\w{0,12}"
            r"|Classification|Chat Completions|Completions|Responses|Tokenization|Transcriptions"
            r"|Translations) API|object has no attribute 'pooler'"
        ),
        cause="A client asks for what the model was not started for: text, or vectors and scores.",
        fix=(
            "For embeddings, ranking and scores set runner: pooling in vllm_args (with convert: "
            "embed or classify for a model that writes text); for text remove runner and convert."
        ),
        source="QwenLM/Qwen3-Embedding#12; QwenLM/Qwen3-VL#988",
        fallback=True,
        leads_to=("request-not-served", "step-failed"),
        sample="The model does not support Embeddings API",
        near_miss="The model supports the Embeddings API",
    ),
    Signature(
        id="images-above-limit",
        pattern=(
            r"At most (?P<most>\d{1,4}) (?P<kind>image|video|audio)\(s\) may be provided in one"
            r"|in [`']--limit-mm-per-prompt[`'], but passed \d{1,4} \w{1,12} items"
        ),
        cause="A request has more images, videos or sounds than limit-mm-per-prompt allows.",
        fix=(
            "Raise limit-mm-per-prompt in vllm_args (a mapping: image: 8); older releases allow "
            "one. Clients such as agents send the images of all turns again."
        ),
        source="vllm-project/vllm#9739; bytedance/UI-TARS-desktop#23; xorbitsai/inference#3054",
        fallback=True,
        leads_to=("request-not-served",),
        sample="ValueError: At most 1 image(s) may be provided in one request.",
        near_miss="limit_mm_per_prompt allows 1 image",
    ),
    Signature(
        id="image-placeholders",
        pattern=(
            r"Attempted to assign [^\n]{0,200}?\d{1,9} multimodal tokens to \d{1,9} placeholders"
            r"|Expected there to be \d{1,9} prompt (?:updates|replacements|placeholders) "
            r"corresponding to \d{1,9} \w{1,20} items?"
        ),
        cause=(
            "The prompt does not have as many places for images, video or sound as the request "
            "needs."
        ),
        fix=(
            "Send images by /v1/chat/completions, which writes the places; a client or a "
            "chat-template in vllm_args must not write them itself. If it fails at the start, the "
            "processor's files are of another version: stage them from the original model."
        ),
        source="vllm-project/vllm#18572; verl-project/verl#841; unslothai/unsloth#2430",
        leads_to=("request-not-served", "step-failed"),
        sample=(
            "ValueError: Attempted to assign 25 + 25 + 25 = 75 multimodal tokens to 147 "
            "placeholders"
        ),
        near_miss="Assigned 75 multimodal tokens",
    ),
    Signature(
        id="image-processor-failed",
        pattern=r"Failed to apply (?P<processor>\w{1,80}) on data=",
        cause=(
            "{processor} of transformers could not prepare an image, video or sound; the exception "
            "before this line says why. At the start it is vLLM's own trial with a dummy."
        ),
        fix=(
            "Use an image whose transformers is the one that vLLM was released with (engine_pip "
            "must not replace it), and stage the processor's files of the original model. For text "
            "alone set `limit-mm-per-prompt` to 0 for each kind."
        ),
        source="vllm-project/vllm#50706; vLLM's multimodal/processing/context.py, 0.28.0",
        role=FailureRole.SYMPTOM,
        leads_to=("engine-start-failed", "request-not-served"),
        sample="ValueError: Failed to apply PixtralProcessor on data={'text': '[IMG]'}",
        near_miss="Applied PixtralProcessor on data",
    ),
)
