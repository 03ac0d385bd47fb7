"""Pages run through Streamlit's AppTest, and what stands on them as text."""

from __future__ import annotations

import json
from html import unescape
from pathlib import Path
from re import sub
from typing import Any

from streamlit.testing.v1 import AppTest

ROOT = Path(__file__).resolve().parents[2]


def opened(page: str = "explore", session: dict[str, Any] | None = None, **query: str) -> AppTest:
    """A browser session on a page, come by a link."""
    app = AppTest.from_file(str(ROOT / "app" / "main.py"), default_timeout=60)
    for key, value in query.items():
        app.query_params[key] = value
    for key, value in (session or {}).items():
        app.session_state[key] = value
    app.run()
    if page != "explore":
        app.switch_page(f"../pages/{page}.py").run()
    return app


def texts(app: AppTest) -> str:
    """Everything a person reads on the page in Streamlit's own elements and in HTML, tags left out, a line each."""
    lines = []
    for element in app.main:
        for name in ("label", "value", "text"):
            try:
                value = getattr(element, name)
            except (AttributeError, KeyError, ValueError, TypeError):
                continue
            if isinstance(value, str):
                plain = unescape(sub(r"<[^>]+>", " ", value)) if element.type == "html" else value
                lines.append(sub(r"\\(.)", r"\1", plain))
    return "\n".join(lines)


def alerts(app: AppTest) -> list[str]:
    """Messages about what was given."""
    found = [element.value for element in app.get("html") if 'role="alert"' in element.value]
    return [unescape(sub(r"<[^>]+>", "\n", value)).strip() for value in found]


def components(app: AppTest, name: str) -> list[dict[str, Any]]:
    """The data sent to each component of a name ("chart", "table", "graph") on the page."""
    protos = [element.proto for element in app.get("bidi_component")]
    found = [json.loads(proto.json) for proto in protos if proto.component_name.endswith(f"planscope.{name}")]
    return [{**json.loads(data[0]), **data[1]} if isinstance(data, list) else data for data in found]


def tables(app: AppTest) -> list[list[list[str]]]:
    """Rows of texts of every table of ours."""
    return [data["texts"] for data in components(app, "table")]
