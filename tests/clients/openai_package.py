"""The openai package: chat, streams, tools, formats, responses, errors by class."""
import json
import os

import openai

client = openai.OpenAI(base_url=os.environ["QUIRE_URL"] + "/v1", api_key=os.environ["QUIRE_KEY"],
                       max_retries=0)
HELLO = [{"role": "user", "content": "Say hello."}]
WEATHER = [{"type": "function", "function": {
    "name": "get_weather", "description": "The weather in a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string", "enum": ["Oslo", "Rome"]}},
                   "required": ["city"], "additionalProperties": False}}}]


def expect(error_class, **request):
    try:
        client.chat.completions.create(**request)
    except error_class as error:
        return error
    raise AssertionError(f"{error_class.__name__} was expected")


# Models.
assert [model.id for model in client.models.list()] == ["smollm2"]
assert client.models.retrieve("smollm2").id == "smollm2"

# A chat, whole and streamed.
whole = client.chat.completions.create(model="smollm2", messages=HELLO, temperature=0, max_tokens=16)
assert whole.choices[0].message.content
assert whole.choices[0].finish_reason in ("stop", "length")
assert whole.usage.total_tokens == whole.usage.prompt_tokens + whole.usage.completion_tokens
stream = client.chat.completions.create(model="smollm2", messages=HELLO, temperature=0, max_tokens=16,
                                        stream=True, stream_options={"include_usage": True})
text, usage = "", None
for chunk in stream:
    for choice in chunk.choices:
        text += choice.delta.content or ""
    usage = chunk.usage or usage
assert text == whole.choices[0].message.content, (text, whole.choices[0].message.content)
assert usage.completion_tokens == whole.usage.completion_tokens
assert usage.prompt_tokens_details.cached_tokens > 0

# Choices, seeds, log-probabilities, stops.
many = client.chat.completions.create(model="smollm2", messages=HELLO, n=2, seed=1, max_tokens=8,
                                      logprobs=True, top_logprobs=2)
assert len(many.choices) == 2
assert len(many.choices[0].logprobs.content[0].top_logprobs) == 2

# A tool that must be called, whole and streamed, and its result.
called = client.chat.completions.create(model="smollm2", messages=HELLO, tools=WEATHER,
                                        tool_choice="required", parallel_tool_calls=False)
call = called.choices[0].message.tool_calls[0]
assert called.choices[0].finish_reason == "tool_calls"
assert call.function.name == "get_weather"
assert json.loads(call.function.arguments)["city"] in ("Oslo", "Rome")
answer = client.chat.completions.create(
    model="smollm2", max_tokens=16, tools=WEATHER,
    messages=[*HELLO, called.choices[0].message,
              {"role": "tool", "tool_call_id": call.id, "content": "sunny, 21 degrees"}])
assert answer.choices[0].message is not None
with client.chat.completions.stream(
        model="smollm2", messages=HELLO, tools=WEATHER, parallel_tool_calls=False,
        tool_choice={"type": "function", "function": {"name": "get_weather"}}) as events:
    final = events.get_final_completion()
assert final.choices[0].message.tool_calls[0].function.name == "get_weather"

# JSON by a schema.
held = client.chat.completions.create(
    model="smollm2", messages=HELLO, max_tokens=200,
    response_format={"type": "json_schema", "json_schema": {"name": "mood", "schema": {
        "type": "object", "properties": {"mood": {"type": "string", "enum": ["good", "bad"]}},
        "required": ["mood"], "additionalProperties": False}}})
assert json.loads(held.choices[0].message.content)["mood"] in ("good", "bad")

# Text completions.
legacy = client.completions.create(model="smollm2", prompt=["Once upon", "The sea"], max_tokens=4, logprobs=2)
assert [choice.index for choice in legacy.choices] == [0, 1]
assert len(legacy.choices[0].logprobs.tokens) == 4

# Responses.
response = client.responses.create(model="smollm2", input="Say hello.", temperature=0, max_output_tokens=16)
assert response.output_text
pieces = []
with client.responses.stream(model="smollm2", input="Say hello.", temperature=0, max_output_tokens=16) as events:
    for event in events:
        if event.type == "response.output_text.delta":
            pieces.append(event.delta)
assert "".join(pieces) == response.output_text

# Stored responses: going on, branches, what was asked, deletion.
GREEDY = {"model": "smollm2", "temperature": 0, "max_output_tokens": 16}
first = client.responses.create(input="My name is Ada.", **GREEDY)
assert client.responses.retrieve(first.id).output_text == first.output_text
second = client.responses.create(input="What is my name?", previous_response_id=first.id, **GREEDY)
branch = client.responses.create(input="Count to three.", previous_response_id=first.id, **GREEDY)
assert second.previous_response_id == branch.previous_response_id == first.id
assert second.usage.input_tokens_details.cached_tokens > 0
whole = client.responses.create(store=False, **GREEDY, input=[
    {"role": "user", "content": "My name is Ada."}, *first.output,
    {"role": "user", "content": "What is my name?"}])
assert whole.output_text == second.output_text, (whole.output_text, second.output_text)
asked = client.responses.input_items.list(second.id)
assert [item.content[0].text for item in asked] == ["What is my name?"]
client.responses.delete(branch.id)
try:
    client.responses.retrieve(branch.id)
    raise AssertionError("a deleted response was found")
except openai.NotFoundError as error:
    assert branch.id in str(error)
with client.responses.stream(input="And mine?", previous_response_id=second.id, **GREEDY) as events:
    final = [event for event in events][-1].response  # completed, or cut off by the maximum
assert client.responses.retrieve(final.id).output_text == final.output_text

# Conversations: items, metadata, pages, responses that go on with them.
talk = client.conversations.create(metadata={"topic": "names"},
                                   items=[{"role": "user", "content": "My name is Ada."}])
assert talk.object == "conversation" and talk.metadata["topic"] == "names"
told = client.responses.create(input="What is my name?", conversation=talk.id, **GREEDY)
assert told.conversation.id == talk.id
client.conversations.items.create(talk.id, items=[{"role": "user", "content": "Thank you."}])
listed = list(client.conversations.items.list(talk.id, order="asc", limit=2))  # two pages
assert [item.role for item in listed] == ["user", "user", "assistant", "user"]
assert listed[2].content[0].text == told.output_text
assert client.conversations.items.retrieve(listed[3].id, conversation_id=talk.id).id == listed[3].id
client.conversations.items.delete(listed[3].id, conversation_id=talk.id)
assert len(list(client.conversations.items.list(talk.id))) == 3
assert client.conversations.update(talk.id, metadata={"topic": "none"}).metadata["topic"] == "none"
assert client.conversations.retrieve(talk.id).metadata["topic"] == "none"
assert client.conversations.delete(talk.id).deleted

# Errors by class.
assert expect(openai.BadRequestError, model="smollm2", messages=[]).body["param"] == "messages"
assert expect(openai.NotFoundError, model="no-such-model", messages=HELLO).body["code"] == "model_not_found"
too_long = expect(openai.BadRequestError, model="smollm2",
                  messages=[{"role": "user", "content": "word " * 20000}])
assert too_long.body["code"] == "context_length_exceeded"
assert "maximum context length is" in too_long.body["message"]
image = expect(openai.BadRequestError, model="smollm2", messages=[{"role": "user", "content": [
    {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]}])
assert image.body["param"].startswith("messages[0].content")
stranger = openai.OpenAI(base_url=os.environ["QUIRE_URL"] + "/v1", api_key="wrong", max_retries=0)
try:
    stranger.models.list()
    raise AssertionError("a wrong key was accepted")
except openai.AuthenticationError as error:
    assert error.body["code"] == "invalid_api_key"
