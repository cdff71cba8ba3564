"""LangChain's ChatOpenAI: invoke, stream, tools, structured output."""
import os

from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

model = ChatOpenAI(model="smollm2", base_url=os.environ["QUIRE_URL"] + "/v1", api_key=os.environ["QUIRE_KEY"],
                   temperature=0, max_tokens=64, max_retries=0)
answer = model.invoke("Say hello.")
assert answer.content
assert answer.usage_metadata["output_tokens"] > 0
assert "".join(part.content for part in model.stream("Say hello.")) == answer.content


@tool
def get_weather(city: str) -> str:
    """The weather in a city."""
    return "sunny in " + city


called = model.bind_tools([get_weather], tool_choice="get_weather").invoke("Weather in Oslo?")
assert called.tool_calls[0]["name"] == "get_weather", called
held = model.with_structured_output(
    {"title": "mood", "type": "object", "properties": {"mood": {"type": "string", "enum": ["good", "bad"]}},
     "required": ["mood"], "additionalProperties": False}, method="json_schema").invoke("How are you?")
assert held["mood"] in ("good", "bad"), held
