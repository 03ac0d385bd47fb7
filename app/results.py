"""A run's results: what it comes to, its charts, its plans, and the chosen one."""

from __future__ import annotations

from functools import lru_cache

import plotly.graph_objects as go
import streamlit as st

from app import session
from app.chart_view import prepared, render_chart
from app.charts import accuracy_figure, build_figure, picked_key, timings_figure
from app.demanding import render_demands
from app.findings import findings_html
from app.form_view import Field, followed, following, render_fields
from app.form_view import prepared as prepared_fields
from app.frames import frame_csv
from app.headline import headline, headline_html
from app.judged import plan_of
from app.links import View
from app.notices import distinct, escaped, render_errors
from app.plan_detail import Shown, default_key, render_plan
from app.plan_table import plan_table
from app.readings import accuracy_summary, build_summary, timings_summary
from app.sampled import REGIME_WORDS, baseline_times
from app.table_view import render_table
from app.theme import CHART_CONFIG, STATUS_STYLES, Provenance, fmt_us
from engine.graph.errors import FieldError
from engine.records.run import RunKind, RunStatus
from engine.records.timings import Regime

_CUT_SHORT = {
    RunStatus.CANCELLED: "was cancelled",
    RunStatus.FAILED: "failed",
    RunStatus.INTERRUPTED: "was interrupted",
}
VIEW_WORDS = {View.TIME: "Time", View.CLOSE: "Near the best", View.ERROR: "Error", View.BUILD: "Build and load"}
_NOTHING = {
    View.TIME: "planned, not measured: no plan of this list was timed.",
    View.CLOSE: "planned, not measured: no plan of this list was timed.",
    View.ERROR: "planned, not measured: no plan of this list was run, so none was checked against the reference.",
    View.BUILD: "no plan of this list was built.",
}
_NO_SUCH_PLAN = (
    "there is no such plan among these.",
    "Another is shown instead: choose one in the chart or the table.",
)


def render_headline(shown: Shown, origin: Provenance) -> None:
    """Where the numbers come from, a sentence, the few numbers that matter, and what is demanded of the winner."""
    st.html(_headline(*shown.cache_key, shown, origin))
    if shown.judged.verdicts:
        render_demands(shown.judged.constraints)
    run = shown.run
    if run.kind is RunKind.SWEEP and run.status in _CUT_SHORT:
        reason = escaped(run.message or "no reason is known")
        st.warning(f"This sweep {_CUT_SHORT[run.status]}: {reason}", icon=":material/warning:")
    if shown.run.refusal is not None:
        st.error(escaped(shown.run.refusal.message), icon=":material/block:")
        for reason in shown.run.refusal.reasons:
            if reason not in shown.run.refusal.message:
                st.markdown(f"- {escaped(reason)}")


@st.fragment
def render_results(shown: Shown) -> None:
    """Charts, the table and the chosen plan; choosing runs only this again."""
    if not shown.run.plans:
        return
    state = session.state()
    key = state.plan if plan_of(shown.run, state.plan) else default_key(shown)
    if state.plan not in ("", key):
        render_errors([FieldError("plan", state.plan, *_NO_SUCH_PLAN)])
    measured = shown.run.kind is RunKind.SWEEP
    left, right = st.columns([0.64, 0.36], gap="medium")
    with left:
        view, regime, zoomed = _controls(shown, measured)
        _chart(shown, view, regime, key)
        if zoomed:
            _zoom(shown, view, regime, key)
        _table(shown, key)
    with right:
        _plan_choice(shown, key)
        if plan := plan_of(shown.run, key):
            render_plan(shown, plan, regime)
    session.write()


def _controls(shown: Shown, measured: bool) -> tuple[View, Regime, bool]:
    """Which chart, which of the timings that were taken, and whether to see it larger. Of plans that were only built
    there is one."""
    state, taken = session.state(), list(shown.judged.verdicts) or [Regime.HOT]
    view, regime = (state.view, state.regime) if measured else (View.BUILD, Regime.HOT)
    regime = regime if regime in taken else Regime.HOT
    now = {"view": str(view), "regime": str(regime)} if measured else {}
    pressed = render_fields(
        _choices(tuple(taken) if measured else ()),
        key="choice",
        edition=following("choice", now),
        texts=now,
        on_change=_changed,
    )
    return view, regime, pressed == "zoom"


@lru_cache(maxsize=32)
def _choices(taken: tuple[Regime, ...]) -> str:
    charts = Field("view", "Chart", "choice", tuple((str(view), VIEW_WORDS[view]) for view in View))
    timings = Field("regime", "Timing", "choice", tuple((str(regime), REGIME_WORDS[regime]) for regime in taken))
    return prepared_fields([*([charts, timings] if taken else []), Field("zoom", "Zoom", "button")])


def _changed() -> None:
    told = followed("choice")
    if told:
        session.change(view=View(told["view"]), regime=Regime(told["regime"]))


def _chart(shown: Shown, view: View, regime: Regime, key: str) -> None:
    chart = _prepared(*shown.cache_key, view, regime, shown)
    if chart is None:
        st.info(_NOTHING[view])
        return
    render_chart(chart, key=f"chart-{view}", selected=key, on_pick=_pick)


@st.cache_resource(show_spinner=False, max_entries=128)
def _prepared(run_id: str, version: str, view: View, regime: Regime, _shown: Shown) -> str | None:
    """A chart ready to send, made once per change of the run."""
    figure = _figure(_shown, view, regime)
    return None if figure is None else prepared(figure, _label(_shown, view, regime))


def _figure(shown: Shown, view: View, regime: Regime, selected: str | None = None) -> go.Figure | None:
    if view in (View.TIME, View.CLOSE):
        baseline, close = baseline_times(shown.run), view is View.CLOSE
        return timings_figure(shown.frame, regime=regime, baseline=baseline, selected=selected, close=close)
    draw = accuracy_figure if view is View.ERROR else build_figure
    return draw(shown.frame, regime=regime, selected=selected)


def _label(shown: Shown, view: View, regime: Regime) -> str:
    if view in (View.TIME, View.CLOSE):
        return timings_summary(shown.frame, regime=regime, baseline=baseline_times(shown.run))
    return accuracy_summary(shown.frame) if view is View.ERROR else build_summary(shown.frame)


@st.dialog("Zoom, pan, keep as a picture", width="large")
def _zoom(shown: Shown, view: View, regime: Regime, key: str) -> None:
    """The same chart by plotly itself, which takes seconds to start in a browser: only for who asks for it."""
    figure = _figure(shown, view, regime, key)
    if figure is None:
        return
    label = _label(shown, view, regime)
    picked = picked_key(
        st.plotly_chart(
            figure, key="zoomed", config=CHART_CONFIG, on_select="rerun", selection_mode="points", alt=label
        )
    )
    st.caption(escaped(label))
    if picked and picked != key:
        _pick(picked)
        st.rerun()


@st.cache_resource(show_spinner=False, max_entries=64)
def _headline(run_id: str, version: str, _shown: Shown, origin: Provenance) -> str:
    said = headline_html(headline(_shown.run, _shown.judged), origin)
    return said + findings_html(_shown.run, _shown.judged)


@st.cache_resource(show_spinner=False, max_entries=32)
def _plan_table(run_id: str, version: str, _shown: Shown) -> str:
    return plan_table(_shown.frame).prepared()


def _plan_choice(shown: Shown, key: str) -> None:
    """The list of plans: the same choice as a click in the chart or a row of the table."""
    words = _plan_words(*shown.cache_key, shown)
    session.follow("plan", key)
    st.selectbox(
        "Plan",
        list(words),
        format_func=words.__getitem__,
        key="plan",
        on_change=lambda: _pick(st.session_state["plan"]),
    )


@st.cache_resource(show_spinner=False, max_entries=32)
def _plan_words(run_id: str, version: str, _shown: Shown) -> dict[str, str]:
    frame = _shown.frame
    columns = (frame[name].tolist() for name in ("key", "plan_name", "status", "hot_median_us"))
    words = {}
    for key, name, status, us in zip(*columns, strict=True):
        words[key] = f"{name} · {fmt_us(us) if us == us else STATUS_STYLES[status].text}"
    return distinct(words)


def _table(shown: Shown, key: str) -> None:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        st.html(f"<b>All {len(shown.frame)} plans</b>", width="content")
        st.download_button(
            "CSV",
            data=lambda: frame_csv(shown.frame),
            file_name=f"{shown.run.pipeline}-{shown.run.id[:8]}.csv",
            mime="text/csv",
            icon=":material/table:",
            on_click="ignore",
            key="csv",
            help="Every column, numbers in full precision",
        )
    render_table(_plan_table(*shown.cache_key, shown), key="plans", selected=key, on_pick=_pick)


def _pick(key: str) -> None:
    session.change(plan=key)
