"""List the models at a gateway on this host, as a client would.

Request: ``url`` (http://address:port), and ``key``, "" for none. Answer: ``models``, their names.
"""

from __future__ import annotations

import json
import sys
import urllib.error
import urllib.request
from typing import Any

ANSWER_LIMIT = 10.0  # s


def main() -> None:
    """Answer the request on standard input."""
    print(json.dumps(list_models(json.loads(sys.stdin.readline()))))


def list_models(request: dict[str, Any]) -> dict[str, Any]:
    """Return the names that the gateway lists, or why it lists none."""
    headers = {"Authorization": f"Bearer {request['key']}"} if request["key"] else {}
    url = f"{request['url']}/v1/models"
    asked = urllib.request.Request(url, headers=headers)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(asked, timeout=ANSWER_LIMIT) as reply:
            content = json.load(reply)
        return {"models": [str(model["id"]) for model in content["data"]]}
    except urllib.error.HTTPError as error:
        return {"error": f"{url} answered {error.code}", "hint": None}
    except (OSError, ValueError, LookupError, TypeError) as error:
        return {"error": f"{url} returned no list of models: {error}", "hint": None}


if __name__ == "__main__":
    main()
