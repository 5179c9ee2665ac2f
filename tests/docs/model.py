"""A model on loopback with the interface of OpenAI: says what it heard last.

python -m tests.docs.model PORT
"""

import json
import sys
from collections.abc import Iterator
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route


async def complete(request: Request) -> Response:
    """Answer a chat completion, streamed or not."""
    asked = await request.json()
    last = asked["messages"][-1]["content"]
    text = last if isinstance(last, str) else "".join(part.get("text", "") for part in last)
    said = {"role": "assistant", "content": f"You said: {text}"}
    answer = {"id": "1", "created": 1, "model": asked["model"]}
    if asked.get("stream"):
        return StreamingResponse(chunks(answer, said), media_type="text/event-stream")
    choice = {"index": 0, "message": said, "finish_reason": "stop"}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    return JSONResponse({**answer, "object": "chat.completion", "choices": [choice], "usage": usage})


def chunks(answer: dict[str, Any], said: dict[str, str]) -> Iterator[str]:
    """The events of a streamed completion."""
    for delta, end in ((said, None), ({}, "stop")):
        choice = {"index": 0, "delta": delta, "finish_reason": end}
        yield f"data: {json.dumps({**answer, 'object': 'chat.completion.chunk', 'choices': [choice]})}\n\n"
    yield "data: [DONE]\n\n"


if __name__ == "__main__":
    routes = [Route("/v1/chat/completions", complete, methods=["POST"])]
    uvicorn.run(Starlette(routes=routes), host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
