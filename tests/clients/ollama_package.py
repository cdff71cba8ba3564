"""The ollama package: list, show, ps, chat, generate, tools, formats, errors."""
import json
import os

import ollama

client = ollama.Client(host=os.environ["QUIRE_URL"],
                       headers={"Authorization": "Bearer " + os.environ["QUIRE_KEY"]})
HELLO = [{"role": "user", "content": "Say hello."}]
GREEDY = {"temperature": 0, "num_predict": 16}

assert client.list().models[0].model == "smollm2:latest"
assert client.show("smollm2").details.family == "llama"
assert client.ps().models[0].model == "smollm2:latest"

whole = client.chat(model="smollm2:latest", messages=HELLO, options=GREEDY)
assert whole.message.content and whole.done and whole.eval_count > 0 and whole.prompt_eval_count > 0
text = "".join(part.message.content or "" for part in
               client.chat(model="smollm2", messages=HELLO, options=GREEDY, stream=True))
assert text == whole.message.content
generated = client.generate(model="smollm2", prompt="Say hello.", options=GREEDY)
assert generated.response == text
raw = client.generate(model="smollm2", prompt="Once upon a time", raw=True, options=GREEDY)
assert raw.response

schema = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"],
          "additionalProperties": False}
held = client.chat(model="smollm2", messages=HELLO, format=schema, options={"num_predict": 100})
assert isinstance(json.loads(held.message.content)["ok"], bool)


def get_weather(city: str) -> str:
    """The weather in a city.

    Args:
      city: The city
    """
    return "sunny"


assert client.chat(model="smollm2", messages=HELLO, tools=[get_weather], options=GREEDY).message is not None
try:
    client.chat(model="no-such-model", messages=HELLO)
    raise AssertionError("an unknown model was accepted")
except ollama.ResponseError as error:
    assert error.status_code == 404, error
