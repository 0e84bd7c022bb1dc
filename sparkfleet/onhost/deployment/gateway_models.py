"""List the models at a gateway on this host, as a client would.

Request: ``url`` (http://address:port), and ``key``, "" for none. Answer: ``models``, their names.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from sparkfleet.onhost.shared.vitals import ask_endpoint

OK = 200
ANSWER_LIMIT = 10.0  # seconds


def main() -> None:
    """Answer the request on standard input."""
    print(json.dumps(list_models(json.loads(sys.stdin.readline()))))


def list_models(request: dict[str, Any]) -> dict[str, Any]:
    """Return the names that the gateway lists, or why it lists none."""
    headers = {"Authorization": f"Bearer {request['key']}"} if request["key"] else {}
    url = f"{request['url']}/v1/models"
    answer = ask_endpoint(request["url"], "/v1/models", patience=ANSWER_LIMIT, headers=headers)
    if answer.status not in (0, OK):
        return {"error": f"{url} answered {answer.status}", "hint": None}
    try:
        content = json.loads(answer.text) if answer.status else {}
        return {"models": [str(model["id"]) for model in content["data"]]}
    except (ValueError, LookupError, TypeError, RecursionError) as failure:
        error = answer.error or failure
        return {"error": f"{url} returned no list of models: {error}", "hint": None}


if __name__ == "__main__":
    main()
