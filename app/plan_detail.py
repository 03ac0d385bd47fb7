"""The chosen plan: what it is, its raw samples, and the file that hands it over."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from html import escape

import pandas as pd
import streamlit as st

from app.chart_view import prepared, render_chart
from app.graph_view import facts_html
from app.judged import Judged
from app.passport import passport_html
from app.plan_facts import plan_facts
from app.sampled import REGIME_WORDS, samples_frame
from app.samples_chart import samples_figure, samples_table
from app.table_view import render_table
from app.theme import fmt_us
from engine.bundles.export import bundle, default_plan, file_name
from engine.graph.errors import InvalidInput
from engine.records.plan import PlanRecord, Status
from engine.records.run import RunRecord
from engine.records.timings import Regime
from engine.records.wording import several
from engine.runs.store import StoreError


@dataclass(frozen=True)
class Shown:
    """A run as the page shows it. ``version`` changes when its content does; ``judged``: who wins; ``blob`` gives a
    serialized plan by its SHA-256."""

    run: RunRecord
    version: object
    judged: Judged
    frame: pd.DataFrame
    blob: Callable[[str], bytes]

    @property
    def cache_key(self) -> tuple[str, str]:
        """What a figure made of it may be kept under."""
        return self.run.id, repr((self.version, self.judged.constraints))


def default_key(shown: Shown) -> str:
    """The plan that is shown where nobody chose one: the winner; else the one that would be handed over, else any."""
    if winner := shown.judged.winner:
        return winner
    try:
        return default_plan(shown.run)[0].key
    except InvalidInput:  # none that could be handed over: look at a failure
        return shown.run.plans[0].key if shown.run.plans else ""


def render_plan(shown: Shown, plan: PlanRecord, regime: Regime) -> None:
    """Draw the plan's details."""
    render_download(shown, plan)
    facts = plan_facts(shown.run, plan, shown.judged)
    st.html(facts_html(plan.plan_name, facts) + passport_html(shown.run, plan))
    if chart := _samples(*shown.cache_key, plan.key, regime, plan):
        render_chart(chart, key="samples")
        _render_samples_table(plan, regime)


def _render_samples_table(plan: PlanRecord, regime: Regime) -> None:
    """The chart of samples as a table, folded away, and not made before anybody asks for it."""
    panel = st.expander("The samples as a table", key="samples-panel", on_change="rerun")
    if panel.open and plan.timings is not None:
        with panel:
            render_table(samples_table(samples_frame(plan.timings), regime).prepared(), key="samples-table")


@st.cache_resource(show_spinner=False, max_entries=512)
def _samples(run_id: str, version: str, key: str, regime: Regime, _plan: PlanRecord) -> str | None:
    """The chart of a plan's raw samples, ready to send; None where there are none."""
    samples = _plan.timings.of(regime) if _plan.timings is not None else None
    if _plan.timings is None or samples is None:
        return None
    figure = samples_figure(samples_frame(_plan.timings), regime)
    each = "of one execution" if samples.executions == 1 else f"the mean of {samples.executions} executions"
    said = f"{several(samples.count, 'raw sample')}, {REGIME_WORDS[regime]}, each {each}"
    return None if figure is None else prepared(figure, f"{said}; median {fmt_us(samples.median_us)}")


def render_download(shown: Shown, plan: PlanRecord) -> None:
    """The button, beside the one cuDNN version that the file loads in; or why there is none."""
    version = shown.run.environment.cudnn_backend
    reason = _no_download(plan)
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.download_button(
            "Download plan",
            data=lambda: plan_bundle(shown, plan),
            file_name=file_name(shown.run, plan),
            mime="application/zip",
            icon=":material/download:",
            type="primary",
            on_click="ignore",
            disabled=bool(reason),
            key="download-plan",
        )
        words = escape(reason or f"loads in cuDNN {version} only")
        st.html(f'<span class="ps-faint">{words}</span>', width="content")


def _no_download(plan: PlanRecord) -> str:
    if plan.status is Status.LISTED:
        return "This plan is listed, not built."
    if plan.status is not Status.OK:
        return f"This plan ended as {str(plan.status).replace('_', ' ')}: it cannot be handed over."
    return "" if plan.blob_sha256 else "Its serialized form was not kept."


def plan_bundle(shown: Shown, plan: PlanRecord) -> bytes:
    """The file that hands the plan over."""
    try:
        return bundle(shown.run, plan, shown.blob(plan.blob_sha256 or ""))
    except StoreError as error:
        # Streamlit shows what a download raises; this says what to do.
        raise RuntimeError(f"{error} Plan or sweep this graph again, then download.") from error
