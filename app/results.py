"""A run's results: what it comes to, its charts, its plans, and the chosen one."""

from __future__ import annotations

from typing import Any

import streamlit as st

from app import session
from app.chart_view import drawing, render_chart
from app.charts import accuracy_figure, build_figure, timings_figure
from app.demanding import render_demands
from app.findings import findings_html
from app.frames import frame_csv
from app.headline import headline, headline_html
from app.judged import plan_of
from app.links import View
from app.notices import escaped
from app.plan_detail import Shown, default_key, render_plan
from app.plan_table import PlanTable, plan_table, render_plans
from app.readings import accuracy_summary, build_summary, timings_summary
from app.sampled import REGIME_WORDS, baseline_times
from app.theme import STATUS_STYLES, Provenance, fmt_us
from engine.records.run import RunKind
from engine.records.timings import Regime

VIEW_WORDS = {View.TIME: "Time", View.CLOSE: "Near the best", View.ERROR: "Error", View.BUILD: "Build and load"}
_NOTHING = {
    View.TIME: "planned, not measured: no plan of this list was timed.",
    View.CLOSE: "planned, not measured: no plan of this list was timed.",
    View.ERROR: "planned, not measured: no plan of this list was run, so none was checked against the reference.",
    View.BUILD: "no plan of this list was built.",
}


def render_headline(shown: Shown, origin: Provenance) -> None:
    """Where the numbers come from, a sentence, and the few numbers that matter."""
    if shown.judged.verdicts:
        render_demands(shown.judged.constraints)
    st.html(_headline(*shown.cache_key, shown, origin))
    if shown.run.refusal is not None:
        st.error(escaped(shown.run.refusal.message), icon=":material/block:")
        for reason in shown.run.refusal.reasons:
            st.markdown(f"- {escaped(reason)}")


@st.fragment
def render_results(shown: Shown) -> None:
    """Charts, the table and the chosen plan; choosing runs only this again."""
    if not shown.run.plans:
        return
    state = session.state()
    key = state.plan if plan_of(shown.run, state.plan) else default_key(shown)
    measured = shown.run.kind is RunKind.SWEEP
    view = state.view if measured else View.BUILD
    left, right = st.columns([0.64, 0.36], gap="medium")
    with left:
        if measured:
            view, regime = _controls(shown)
        else:
            regime = Regime.HOT
        _chart(shown, view, regime, key)
        _table(shown, key)
    with right:
        _plan_choice(shown, key)
        if plan := plan_of(shown.run, key):
            render_plan(shown, plan, regime)
    session.write()


def _controls(shown: Shown) -> tuple[View, Regime]:
    """Which chart, and which of the timings that were taken."""
    state, taken = session.state(), list(shown.judged.verdicts) or [Regime.HOT]
    wanted = state.regime if state.regime in taken else Regime.HOT
    session.follow("view", state.view)
    session.follow("regime", wanted)
    with st.container(horizontal=True):
        view = st.segmented_control(
            "Chart", list(View), format_func=VIEW_WORDS.__getitem__, key="view", required=True, on_change=_changed
        )
        regime = st.segmented_control(
            "Timing",
            taken,
            format_func=REGIME_WORDS.__getitem__,
            key="regime",
            required=True,
            on_change=_changed,
        )
    if absent := [REGIME_WORDS[regime] for regime in Regime if regime not in taken]:
        st.caption(f"Not measured in this run: {', '.join(absent)}.")
    return View(view or View.TIME), Regime(regime or wanted)


def _changed() -> None:
    # None is what a browser sends that has just drawn a control anew; the next run then sets it right.
    state = session.state()
    view, regime = st.session_state["view"] or state.view, st.session_state["regime"] or state.regime
    session.change(view=View(view), regime=Regime(regime))


def _chart(shown: Shown, view: View, regime: Regime, key: str) -> None:
    figure = _drawing(*shown.cache_key, view, regime, shown)
    if figure is None:
        st.info(_NOTHING[view])
        return
    render_chart(figure, key=f"chart-{view}", label=figure["label"], selected=key, on_pick=_pick)


@st.cache_resource(show_spinner=False, max_entries=128)
def _drawing(run_id: str, version: str, view: View, regime: Regime, _shown: Shown) -> dict[str, Any] | None:
    """A chart ready to send, made once per change of the run."""
    frame, baseline = _shown.frame, baseline_times(_shown.run)
    if view in (View.TIME, View.CLOSE):
        figure = timings_figure(frame, regime=regime, baseline=baseline, close=view is View.CLOSE)
        label = timings_summary(frame, regime=regime, baseline=baseline)
    elif view is View.ERROR:
        figure, label = accuracy_figure(frame, regime=regime), accuracy_summary(frame)
    else:
        figure, label = build_figure(frame, regime=regime), build_summary(frame)
    return None if figure is None else {**drawing(figure), "label": label}


@st.cache_resource(show_spinner=False, max_entries=64)
def _headline(run_id: str, version: str, _shown: Shown, origin: Provenance) -> str:
    said = headline_html(headline(_shown.run, _shown.judged), origin)
    return said + findings_html(_shown.run, _shown.judged)


@st.cache_resource(show_spinner=False, max_entries=32)
def _plan_table(run_id: str, version: str, _shown: Shown) -> PlanTable:
    return plan_table(_shown.frame)


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
    return words


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
    render_plans(_plan_table(*shown.cache_key, shown), key="plans", selected=key, on_pick=_pick)


def _pick(key: str) -> None:
    session.change(plan=key)
