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
    beside = [message for form in components(app, "form") for message in form["messages"].values()]
    found = [element.value for element in app.get("html") if 'role="alert"' in element.value]
    return beside + [unescape(sub(r"<[^>]+>", "\n", value)).strip() for value in found]


def components(app: AppTest, name: str) -> list[dict[str, Any]]:
    """The data sent to each component of a name ("chart", "table", "graph", "form") on the page."""
    protos = [element.proto for element in app.get("bidi_component")]
    found = [json.loads(proto.json) for proto in protos if proto.component_name.endswith(f"planscope.{name}")]
    return [{**json.loads(data[0]), **data[1]} if isinstance(data, list) else data for data in found]


def tables(app: AppTest) -> list[list[list[str]]]:
    """Rows of texts of every table of ours."""
    return [data["texts"] for data in components(app, "table")]


def fields(app: AppTest) -> dict[str, str]:
    """What the page puts into the fields of its forms, by name."""
    return {name: text for form in components(app, "form") for name, text in form["texts"].items()}


def fill(app: AppTest, edition: str = "", **changed: str) -> AppTest:
    """Change fields of one form and run, by the message that a browser sends: all texts, of the edition that was
    drawn, or of one before it. (AppTest has no way of its own to operate a component.)"""
    drawn = enumerate(components(app, "form"))
    (number, form) = next(one for one in drawn if changed.keys() <= one[1]["texts"].keys())
    return tell(app, number, {"edition": edition or form["edition"], "texts": {**form["texts"], **changed}})


def tell(app: AppTest, number: int, typed: Any) -> AppTest:
    """Run with this as what a browser tells of the form of this number on the page."""
    forms = [e.proto for e in app.get("bidi_component") if e.proto.component_name.endswith("planscope.form")]
    states = app._tree.get_widget_states()
    states.widgets.add(id=forms[number].id, json_value=json.dumps({"typed": typed}))
    return app._run(states)
