"""Where text of a client or of the model stands in a log: one shape for each kind of line, as vLLM and proxies write it.

A shape is a function of the text that gives one or more lines. Wordings and quoting are those of vLLM 0.4 to 0.33.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from urllib.parse import quote

_T = "10-08 20:36:41"
_ENGINE = f"(EngineCore_DP0 pid=17) ERROR {_T} [core.py:708] "

Shape = Callable[[str], str]


def _info(place: str, process: str = "(APIServer pid=1) ") -> str:
    return f"{process}INFO {_T} [{place}] "


def _error(place: str, process: str = "(APIServer pid=1) ") -> str:
    return f"{process}ERROR {_T} [{place}] "


def _warning(place: str, process: str = "(APIServer pid=1) ") -> str:
    return f"{process}WARNING {_T} [{place}] "


def _prefixed(prefix: str, text: str) -> str:
    """A message of several lines, each behind the record's prefix (vLLM's NewlineFormatter)."""
    return "\n".join(prefix + line for line in text.split("\n"))


def _flat(text: str) -> str:
    return " ".join(text.split("\n"))


_TRACEBACK = """Traceback (most recent call last):
  File "/opt/venv/lib/python3.12/site-packages/vllm/entrypoints/openai/serving_chat.py", line 230, in create_chat_completion
    ) = await self._preprocess_chat(
        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^
"""
_ASGI = """ERROR:    Exception in ASGI application
Traceback (most recent call last):
  File "/opt/venv/lib/python3.12/site-packages/uvicorn/protocols/http/httptools_impl.py", line 409, in run_asgi
    result = await app(  # type: ignore[func-returns-value]
  File "/opt/venv/lib/python3.12/site-packages/vllm/entrypoints/openai/api_server.py", line 620, in create_chat_completion
    generator = await handler.create_chat_completion(request, raw_request)
"""
_PREPROCESS = _error("serving_chat.py:231")

SHAPES: dict[str, Shape] = {
    # Requests
    "received-v0": lambda t: f"INFO {_T} async_llm_engine.py:553] Received request cmpl-1: prompt: {t!r}, sampling_params: SamplingParams(n=1, best_of=1), prompt_token_ids: [1, 2], lora_request: None.",
    "received-logger": lambda t: f"INFO {_T} [logger.py:43] Received request chatcmpl-1: prompt: {t!r}, params: SamplingParams(n=1, prompt_logprobs=None), prompt_token_ids: None, prompt_embeds shape: None, lora_request: None.",
    "received-process": lambda t: _info("logger.py:40") + f"Received request chatcmpl-1: prompt: {t!r}, params: SamplingParams(n=1), prompt_token_ids: None, lora_request: None, prompt_adapter_request: None.",
    "received-id": lambda t: _info("logger.py:40") + f"Received request {_flat(t)}: prompt: 'hi', params: SamplingParams(n=1), prompt_token_ids: None, lora_request: None.",
    "received-stop": lambda t: _info("logger.py:40") + f"Received request chatcmpl-1: prompt: 'hi', params: SamplingParams(n=1, stop={[t]!r}, prompt_logprobs=None), prompt_token_ids: None, lora_request: None.",
    "received-guided": lambda t: _info("logger.py:40") + f"Received request chatcmpl-1: prompt: 'hi', params: SamplingParams(n=1, guided_decoding=GuidedDecodingParams(json=None, regex={t!r}, choice=None)), prompt_token_ids: None, lora_request: None.",
    "received-lora": lambda t: _info("request_logger.py:66") + f"Received request chatcmpl-1: params: SamplingParams(n=1), lora_request: LoRARequest(lora_name={t!r}, lora_int_id=1, lora_path={t!r}).",
    "request-details": lambda t: f"(APIServer pid=1) DEBUG {_T} [request_logger.py:56] Request chatcmpl-1 details: prompt: {t!r}, prompt_token_ids: [1], prompt_embeds shape: None.",
    "request-json-body": lambda t: _info("request_logger.py:84") + "Request chatcmpl-1 JSON body: " + json.dumps({"model": "m", "messages": [{"role": "user", "content": t}]}),
    "added-id": lambda t: _info("async_llm.py:261") + f"Added request {_flat(t)}.",
    "aborted-id": lambda t: _info("async_llm.py:411") + f"Aborted request {_flat(t)}.",
    "request-aborted-id": lambda t: _info("async_llm.py:318") + f"Request {_flat(t)} aborted.",
    "request-failed-id": lambda t: _info("async_llm.py:330") + f"Request {_flat(t)} failed (bad request).",
    "request-failed-input": lambda t: _info("async_llm.py:637") + f"Request chatcmpl-1 failed (input error): {_flat(t)}.",
    "request-internal-id": lambda t: _error("serving.py:204") + f"Request {_flat(t)} failed with an internal error during generation",
    "finished-id": lambda t: f"INFO {_T} async_llm_engine.py:124] Finished request {_flat(t)}.",
    # Responses
    "generated": lambda t: f"INFO {_T} [logger.py:59] Generated response chatcmpl-1: output: {t!r}, output_token_ids: None, finish_reason: stop",
    "generated-process": lambda t: _info("logger.py:71") + f"Generated response chatcmpl-1: output: {t!r}, output_token_ids: [5, 6], finish_reason: length",
    "generated-streaming": lambda t: _info("logger.py:71") + f"Generated response chatcmpl-1 (streaming delta): output: {t!r}, output_token_ids: None, finish_reason: None",
    "generated-complete": lambda t: _info("request_logger.py:119") + f"Generated response chatcmpl-1 (streaming complete): output: {t!r}, finish_reason: streaming_complete",
    "generated-double-quoted": lambda t: _info("logger.py:71") + "Generated response chatcmpl-1: output: " + repr("it's " + t) + ", output_token_ids: None, finish_reason: stop",
    "response-body": lambda t: _prefixed(_info("log_response.py:141"), "response_body={" + json.dumps({"choices": [{"message": {"content": t}}]}) + "}"),
    "response-body-raw": lambda t: _prefixed(_info("log_response.py:141"), "response_body={" + t + "}"),
    "response-streaming": lambda t: _info("log_response.py:120") + f"response_body={{streaming_complete: content={t!r}, chunks=3}}",
    "response-streaming-0-10": lambda t: _prefixed(_info("api_server.py:1542"), f"response_body={{streaming_complete: content='{t}', chunks=3}}"),
    # Refused requests
    "error-info": lambda t: _error("serving_chat.py:167") + f"Error with model error=ErrorInfo(message={f'The model `{t}` does not exist.'!r}, type='NotFoundError', param=None, code=404)",
    "error-info-0-33": lambda t: _error("serving.py:280") + f"Error with model error=ErrorInfo(message={f'The model `{t}` does not exist.'!r}, type='NotFoundError', param='model', code=404)",
    "error-object": lambda t: f"ERROR {_T} serving_chat.py:115] Error with model object='error' message={f'The model `{t}` does not exist.'!r} type='NotFoundError' param=None code=404",
    "error-response": lambda t: _error("serving_completion.py:117") + f"Error with model ErrorResponse(object='error', message={f'The model `{t}` does not exist.'!r}, type='NotFoundError', param=None, code=404)",
    "error-message-free": lambda t: _error("serving_chat.py:167") + f"Error with model error=ErrorInfo(message={t!r}, type='BadRequestError', param=None, code=400)",
    "model-404-printed": lambda t: json.dumps({"error": {"message": f"The model `{t}` does not exist.", "type": "NotFoundError", "param": "model", "code": 404}}),
    "error-in-stream": lambda t: "data: " + json.dumps({"error": {"message": f"The model `{t}` does not exist.", "type": "NotFoundError", "param": None, "code": 404}}),
    "model-404-exception": lambda t: f"openai.NotFoundError: Error code: 404 - {{'error': {{'message': {f'The model `{t}` does not exist.'!r}, 'type': 'NotFoundError', 'code': 404}}}}",
    "ignored-fields": lambda t: _warning("protocol.py:71") + f"The following fields were present in the request but ignored: {{{t!r}}}",
    "ignored-parse-context": lambda t: _warning("protocol.py:414") + f"Ignoring unknown parse_context fields {[t]!r} at output_mode='text'",
    "too-long": lambda t: _error("serving_completion.py:120") + f"ValueError: prompt is too long: {t!r}",
    "exception-caught-id": lambda t: _error("exception.py:17") + f"Exception caught. Request id: {_flat(t)}",
    "http-exception-id": lambda t: _error("http.py:19") + f"HTTPException caught. Request id: {_flat(t)}",
    "validation-caught-id": lambda t: _error("validation.py:152") + f"RequestValidationError caught. Request id: {_flat(t)}",
    "messages-error": lambda t: _prefixed(_error("api_router.py:76"), f"Error in create_messages: {t}"),
    "cohere-error": lambda t: _prefixed(_error("api_router.py:145"), f"Error in /cohere/v2/chat: {t}"),
    "realtime-error": lambda t: _prefixed(_error("connection.py:77"), f"Error handling event: {t}"),
    "reasoning-effort": lambda t: _warning("serving.py:179") + f"Anthropic thinking.type=disabled maps to reasoning_effort={t!r}",
    # Pydantic
    "validation-input-value": lambda t: _ASGI + f"pydantic_core._pydantic_core.ValidationError: 1 validation error for ChatCompletionRequest\nmessages\n  Input should be a valid list [type=list_type, input_value={t!r}, input_type=str]\n    For further information visit https://errors.pydantic.dev/2.11/v/list_type",
    "validation-value-error": lambda t: _ASGI + f"pydantic_core._pydantic_core.ValidationError: 1 validation error for CompletionRequest\n  Value error, {_flat(t)} [type=value_error, input_value={{'model': 'm'}}, input_type=dict]",
    "validation-field": lambda t: _ASGI + f"pydantic_core._pydantic_core.ValidationError: 1 validation error for ChatCompletionRequest\n{_flat(t)}\n  Extra inputs are not permitted [type=extra_forbidden, input_value=1, input_type=int]",
    "validation-prefixed": lambda t: _prefixed(_error("validation.py:152"), _TRACEBACK + f"fastapi.exceptions.RequestValidationError: [{{'type': 'list_type', 'loc': ('body', 'messages'), 'msg': 'Input should be a valid list', 'input': {t!r}}}]"),
    "validation-1": lambda t: _ASGI + f"fastapi.exceptions.RequestValidationError: 1 validation error:\n  {{'type': 'missing', 'loc': ('body', 'model'), 'msg': 'Field required', 'input': {{'prompt': {t!r}}}}}",
    "fastapi-input": lambda t: f"INFO:     10.0.0.5:40012 - {{'detail': [{{'type': 'int_parsing', 'loc': ['body', 'max_tokens'], 'msg': 'Input should be a valid integer', 'input': {t!r}}}]}}",
    # Templates
    "preprocess": lambda t: _prefixed(_PREPROCESS, "Error in preprocessing prompt inputs\n" + _TRACEBACK + f"ValueError: Unknown part type: {_flat(t)}"),
    "preprocess-multi-line": lambda t: _prefixed(_PREPROCESS, "Error in preprocessing prompt inputs\n" + _TRACEBACK + f"ValueError: Invalid role\n{t}"),
    "template-error": lambda t: _prefixed(_PREPROCESS, "Error in preprocessing prompt inputs\n" + _TRACEBACK + f"jinja2.exceptions.TemplateError: Unexpected role {t!r}, roles must alternate"),
    "template-error-raw": lambda t: _prefixed(_PREPROCESS, "Error in preprocessing prompt inputs\n" + _TRACEBACK + f"jinja2.exceptions.TemplateError: {t}"),
    "template-undefined": lambda t: _prefixed(_PREPROCESS, "Error in preprocessing prompt inputs\n" + _TRACEBACK + f"jinja2.exceptions.UndefinedError: {t!r} is undefined"),
    "template-asgi": lambda t: _ASGI + f"jinja2.exceptions.TemplateError: {t}",
    "template-key": lambda t: _prefixed(_PREPROCESS, "Error in preprocessing prompt inputs\n" + _TRACEBACK + f"KeyError: {t!r}"),
    # Tools and reasoning
    "tool-extract": lambda t: _prefixed(_error("granite_tool_parser.py:98"), f"Error in extracting tool call from response {t}"),
    "tool-stream": lambda t: _prefixed(_error("granite_tool_parser.py:255"), f"Error trying to handle streaming tool call: {t}"),
    "tool-parse": lambda t: _prefixed(_error("serving_chat.py:1200"), f"Error trying to parse tool call from {t}"),
    "tool-output": lambda t: _prefixed(_error("phi4mini_tool_parser.py:70"), f"Failed to parse function calls from model output: {t}. Error: x"),
    "chat-template": lambda t: _prefixed(_warning("api_server.py:946"), f"Using supplied chat template: {t}\nIt is different from official chat template 'm'."),
    "kv-handshake": lambda t: _prefixed(_error("nixl_connector.py:723"), f"Handshake with {_flat(t)} failed\n" + _TRACEBACK + "RuntimeError: bent"),
    "kv-bootstrap-answer": lambda t: _prefixed(_error("mooncake_connector.py:1430"), f"Error registering engine_id='8' with bootstrap server: {t}"),
    "tool-name": lambda t: _warning("qwen3coder_tool_parser.py:122") + f"Tool '{_flat(t)}' is not defined in the tools list.",
    "tool-value": lambda t: _warning("qwen3coder_tool_parser.py:156") + f"Parsed value '{_flat(t)}' of parameter 'n' is not an integer in tool 'f', degenerating to string.",
    "tool-no-name": lambda t: _warning("llama4_pythonic_tool_parser.py:74") + f"No tool named '{_flat(t)}'.",
    "tool-details": lambda t: _prefixed(_warning("glm4_moe_tool_parser.py:203"), f"Failed to parse tool call details from: {t}"),
    "tool-regex": lambda t: _prefixed(f"(APIServer pid=1) DEBUG {_T} [pythonic_tool_parser.py:88] ", f"Regex timeout occurred when matching user input: {t}"),
    "tool-exception": lambda t: _prefixed(_error("hermes_tool_parser.py:149"), "Error in extracting tool call from response.\n" + _TRACEBACK.replace("serving_chat.py", "tool_parsers/hermes_tool_parser.py") + f"json.decoder.JSONDecodeError: Expecting value: {_flat(t)}"),
    "tool-muse": lambda t: _warning("muse_tool_parser.py:360") + f"Muse: emitted tool name {t!r} does not match any registered tool; passing through unchanged.",
    "harmony": lambda t: _prefixed(_error("serving_chat.py:900"), _TRACEBACK + f"openai_harmony.HarmonyError: unexpected tokens remaining in message header: {[t]!r}"),
    # Structured output
    "grammar": lambda t: _prefixed(_error("serving_chat.py:300"), _TRACEBACK + f"ValueError: Invalid grammar specification: {_flat(t)}"),
    "regex": lambda t: _prefixed(_error("serving_chat.py:300"), _TRACEBACK + f"ValueError: Failed to transform regex into a grammar: {_flat(t)}"),
    "json-schema": lambda t: _prefixed(_error("serving_completion.py:170"), _TRACEBACK + f"ValueError: Invalid JSON grammar specification: {json.dumps({'type': t})}"),
    "grammar-structural": lambda t: _prefixed(_error("serving_chat.py:300"), _TRACEBACK + f"ValueError: Invalid structural tag: {_flat(t)}"),
    # Adapters
    "lora-loaded": lambda t: _info("serving_models.py:162") + f"Loaded new LoRA adapter: name '{_flat(t)}', path '{_flat(t)}'",
    "lora-removed": lambda t: _info("serving_models.py:180") + f"Removed LoRA adapter: name '{_flat(t)}'",
    "lora-resolved": lambda t: _info("serving_models.py:258") + f"Resolved and loaded LoRA adapter '{_flat(t)}' using resolver",
    "lora-failed": lambda t: _warning("serving_models.py:343") + f"Failed to load LoRA '{_flat(t)}' resolved by r: {_flat(t)}. ",
    "lora-missing": lambda t: _prefixed(_error("serving_models.py:150"), _TRACEBACK + f"ValueError: Loading lora {_flat(t)} failed: No adapter found for {_flat(t)}"),
    # Media
    "media-url": lambda t: _prefixed(_PREPROCESS, "Error in preprocessing prompt inputs\n" + _TRACEBACK + f"aiohttp.client_exceptions.ClientResponseError: 404, message='Not Found', url='https://media.example/{quote(t)}'"),
    "media-url-raw": lambda t: _prefixed(_PREPROCESS, "Error in preprocessing prompt inputs\n" + _TRACEBACK + f"ValueError: Invalid 'image_url': {_flat(t)}"),
    "media-data-uri": lambda t: _prefixed(_PREPROCESS, "Error in preprocessing prompt inputs\n" + _TRACEBACK + f"ValueError: Only base64 data URLs are supported for now: data:{_flat(t)}"),
    "media-path": lambda t: _prefixed(_PREPROCESS, "Error in preprocessing prompt inputs\n" + _TRACEBACK + f"FileNotFoundError: [Errno 2] No such file or directory: {t!r}"),
    "media-requests": lambda t: _prefixed(_PREPROCESS, "Error in preprocessing prompt inputs\n" + _TRACEBACK + f"requests.exceptions.ConnectionError: HTTPSConnectionPool(host={t!r}, port=443): Max retries exceeded with url: /{_flat(t)}"),
    "media-domain": lambda t: _prefixed(_PREPROCESS, "Error in preprocessing prompt inputs\n" + _TRACEBACK + f"ValueError: The URL must be from one of the allowed domains: []. Input URL domain: {_flat(t)}"),
    # Records of modules that handle requests, whose wording no entry of the table has
    "module-adapter": lambda t: _error("serving_models.py:201") + f"The lora adapter '{_flat(t)}' has already been loaded.",
    "module-template": lambda t: _error("chat_utils.py:1001") + f"ValueError: The supplied chat template ({_flat(t)}) looks like a file path, but it failed to be opened.",
    "module-type": lambda t: _error("serving_chat.py:241") + f"TypeError: can only concatenate str to {_flat(t)}",
    "module-parser": lambda t: _error("pythonic_tool_parser.py:151") + f"SyntaxError: invalid syntax {_flat(t)}",
    "module-trace": lambda t: _warning("tracing.py:120") + f"Received a request with trace context: {_flat(t)}",
    # HTTP
    "uvicorn-path": lambda t: f'INFO:     10.0.0.5:40012 - "GET /{quote(t)} HTTP/1.1" 404 Not Found',
    "uvicorn-query": lambda t: f'INFO:     10.0.0.5:40012 - "GET /v1/models?q={_flat(t)} HTTP/1.1" 200 OK',
    "uvicorn-process": lambda t: f'(APIServer pid=1) INFO:     10.0.0.5:40012 - "POST /{_flat(t)} HTTP/1.1" 404 Not Found',
    "uvicorn-warning": lambda t: f"WARNING:  Invalid HTTP request received. {_flat(t)}",
    "nginx": lambda t: f'10.0.0.5 - - [08/Oct/2026:20:36:41 +0000] "POST /v1/chat/completions HTTP/1.1" 404 123 "-" "{_flat(t)}"',
    "nginx-path": lambda t: f'10.0.0.5 - - [08/Oct/2026:20:36:41 +0000] "GET /?q={_flat(t)} HTTP/1.1" 404 123 "-" "curl/8.0"',
    "nginx-error": lambda t: f'2026/10/08 20:36:41 [error] 31#31: *7 upstream prematurely closed connection, client: 10.0.0.5, server: _, request: "POST /{_flat(t)} HTTP/1.1", upstream: "http://127.0.0.1:8000/", host: "{_flat(t)}"',
    "envoy": lambda t: f'[2026-10-08T20:36:41.000Z] "POST /v1/chat/completions HTTP/1.1" 404 - 12 123 4 3 "-" "{_flat(t)}" "id-1" "api.example" "10.0.0.9:8000"',
    "litellm": lambda t: f"litellm.exceptions.NotFoundError: OpenAIException - The model `{_flat(t)}` does not exist.",
    "litellm-debug": lambda t: f"20:36:41 - LiteLLM:DEBUG: utils.py:100 - messages: {[{'role': 'user', 'content': t}]!r}",
    "headers": lambda t: f"(APIServer pid=1) DEBUG {_T} [api_server.py:900] Request headers: {{'user-agent': {t!r}, 'x-request-id': {t!r}}}",
    "otel": lambda t: f"(APIServer pid=1) DEBUG {_T} [otel.py:90] Span attributes: {{'gen_ai.request.id': {t!r}, 'gen_ai.prompt.0.content': {t!r}}}",
    # Scripts
    "offline": lambda t: f"Prompt: {t!r}, Generated text: {t!r}",
    "offline-raw": lambda t: f"Prompt: 'The capital of France is', Generated text: '{t}'",
    "offline-lines": lambda t: f"Prompt:    {t!r}\nOutput:    {t!r}",
    "offline-output": lambda t: f"Generated text: {t}",
    "chat-print": lambda t: f"User: {t}\nAssistant: {t}",
    "chat-messages": lambda t: f"messages=[{{'role': 'user', 'content': {t!r}}}]",
    "request-output": lambda t: f"RequestOutput(request_id=0, prompt={t!r}, prompt_token_ids=[1], outputs=[CompletionOutput(index=0, text={t!r}, token_ids=[1])])",
    "batch-json": lambda t: json.dumps({"custom_id": "r-1", "method": "POST", "url": "/v1/chat/completions", "body": {"model": t, "messages": [{"role": "user", "content": t}]}}),
    "curl": lambda t: "$ curl http://localhost:8000/v1/completions -d " + "'" + json.dumps({"model": "m", "prompt": t.replace("'", "")}) + "'",
    # Lists of arguments, documents and calls that a client quotes
    "generated-list": lambda t: f"INFO {_T} [logger.py:59] Generated response chatcmpl-1: output: {('CMD ' + json.dumps(_flat(t).split()))!r}, output_token_ids: None, finish_reason: stop",
    "generated-yaml": lambda t: _prefixed(_info("log_response.py:141"), "response_body={services:\n  vllm:\n    image: vllm/vllm-openai\n    command: " + _flat(t) + "\n}"),
    "engine-dump": lambda t: _ENGINE.replace("core.py:708", "dump_input.py:69") + f"Dumping input data for V1 LLM engine (v0.10.2) with scheduler output: NewRequestData(req_id={t!r},prompt_token_ids=[1],sampling_params=SamplingParams(stop={[t]!r}))",
    # Other programs around a server, and what a person prints of its answers
    "aborted-several": lambda t: _info("async_llm.py:420") + f"Aborted request(s) {_flat(t)}.",
    "proxy-router": lambda t: f"20:36:41 - LiteLLM Router:ERROR: router.py:100 - litellm.acompletion(model={t}) Exception {t}",
    "proxy-exception": lambda t: f"litellm.BadRequestError: Hosted_vllmException - {_flat(t)}",
    "webui-payload": lambda t: f"2026-10-08 20:36:41.000 | INFO | open_webui.routers.openai:generate:100 - payload: {t}",
    "router-body": lambda t: f"2026-10-08 20:36:41 INFO vllm_router::server: request body: {t}",
    "router-session": lambda t: f"[2026-10-08 20:36:41,000] INFO: Routing request {_flat(t)} to http://10.0.0.1:8000 at 1.0 (request.py:100:vllm_router)",
    "serve-failed": lambda t: f"(ServeReplica:default:LLMServer pid=5) ERROR 2026-10-08 20:36:41,000 default_LLMServer a1 c3 -- Request failed: {_flat(t)}",
    "answer-stream": lambda t: 'data: {"id":"c","choices":[{"delta":{"content":"' + _flat(t) + '"}}]}',
    "answer-object": lambda t: '{"id":"chatcmpl-1","choices":[{"message":{"role":"assistant","content":"' + _flat(t) + '"}}]}',
    "metric-label": lambda t: f'vllm:request_success_total{{model_name="{_flat(t)}"}} 1.0',
    "client-data": lambda t: f"> curl http://localhost:8000/v1/chat/completions -d '{{\"model\": \"{_flat(t)}\"}}'",
    "adapter-download": lambda t: _info("utils.py:222") + f"Downloading LoRA {_flat(t)} from the hub",
    "audio-language": lambda t: _error("speech.py:55") + f"ValueError: Unsupported language: {_flat(t)!r}",
    "grammar-parser": lambda t: _error("core.py:55") + f"RuntimeError: [20:36:41] /project/cpp/grammar_parser.cc:100: EBNF parser error at line 1, column 1: {_flat(t)}",
    "template-rejected": lambda t: _prefixed(_info("hf.py:839"), f"Chat template rejected the request: Unexpected message role: {t}"),
    "grammar-of-lines": lambda t: _prefixed(_error("core.py:1537"), f"RuntimeError: EBNF parser error at line 2 column 1: Expect rule name in:\n{t}"),
    "kv-load-failed": lambda t: _error("scheduler.py:3417") + ("Failing 1 request(s) due to KV load failure (failure_policy=fail, 512 "
                                                               f"tokens affected). Request IDs: {{{_flat(t)!r}}}"),
    "kv-parameters": lambda t: _info("mooncake_connector.py:1066") + f"Got invalid KVTransferParams: {{'remote_host': {t!r}}}. This request will not utilize KVTransfer",
    "kv-bootstrap": lambda t: _error("mooncake_connector.py:2482") + f"Failed to connect to bootstrap server http://10.0.0.1:80/{_flat(t)} (ConnectError)",
    "media-fetched": lambda t: _info("connections.py:220") + f"HTTP fetch failed for http://10.0.0.1/{_flat(t)} (attempt 1/3, 5s): timeout -- retrying in 1.000s",
    "media-identifier": lambda t: _info("scheduler.py:1762") + f"Encoder cache entry for multimodal identifier {t!r} holds 5 embeddings, but request a input 0 expects 7.",
    "request-preprocessed": lambda t: _error("core.py:2056") + f"Unexpected error pre-processing request chatcmpl-{_flat(t)}",
    "tool-withheld": lambda t: _error("utils.py:1262") + f"Tool call arguments {_flat(t)} do not end with expected withheld suffix '}}'",
    "kv-peer-session": lambda t: _error("session.py:360") + f"P2PSession 10.0.9.9:7000;{_flat(t)}: error handling message 'a' (count=1): 'b'",
    "logging-arguments": lambda t: f"(APIServer pid=1) Arguments: ({t!r},)",
    "forwarded-address": lambda t: f'INFO:     {_flat(t)}:0 - "GET /health HTTP/1.1" 200 OK',
    "websocket": lambda t: f"INFO:     ('10.0.3.7', 51022) - \"WebSocket /v1/realtime?model={_flat(t)}\" [accepted]",
    "answer-object-with-blanks": lambda t: '{"id": "vllm-1", "custom_id": ' + repr(_flat(t)) + "}",
    "tool-arguments": lambda t: _info("utils.py:587") + f"Unsupported AST node type in tool call arguments: Name(id={t!r})",
    "kv-transfer": lambda t: _error("core.py:90") + f"ValueError: kv_transfer_params {{'remote_host': {t!r}}} is invalid",
}
