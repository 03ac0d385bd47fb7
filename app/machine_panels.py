"""What the System page shows: this machine, the libraries it would run with, what to mend, and who works on what."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from app.table_view import Cell, Column, Row, Table
from app.theme import NOTHING, fmt_bytes
from engine.jobs.snapshots import JobSnapshot
from engine.machine.libraries import LibraryReport
from engine.records.environment import GpuInfo


def render_findings(report: LibraryReport, gpus: Sequence[GpuInfo]) -> None:
    """What is missing or does not belong together, each with the command that mends it; says so where nothing is."""
    for library in report.problems:
        st.error(f"**{library.name}**: {library.problem}", icon=":material/build:")
        if library.remedy:
            st.code(library.remedy, language="shell", wrap_lines=True)
    if not gpus and not report.deviceless_complete and report.cudnn_backend:
        st.warning(
            f"cuDNN {report.cudnn_backend} lists fewer plans for a GPU that is not in the machine than on that "
            "GPU itself: 9.28 and later are complete. Lists made here with this version say so too.",
            icon=":material/playlist_remove:",
        )
        st.code("make run", language="shell")
    if not report.problems:
        st.success("Every library a plan needs is here and of one version.", icon=":material/check_circle:")


def render_gpus(gpus: Sequence[GpuInfo]) -> None:
    """The GPUs that a sweep can use; without one, what is possible all the same."""
    if not gpus:
        st.info(
            "No NVIDIA GPU is visible here (NVML lists none that CUDA_VISIBLE_DEVICES leaves). Plans can be listed and "
            "built for a named GPU, and recorded runs opened; measuring needs a GPU.",
            icon=":material/memory:",
        )
        return
    rows = [
        {
            "GPU": gpu.name,
            "compute capability": gpu.compute_capability,
            "SMs": gpu.sm_count,
            "memory": fmt_bytes(gpu.memory_bytes),
            "driver": gpu.driver or NOTHING,
            "UUID": gpu.uuid or NOTHING,
        }
        for gpu in gpus
    ]
    st.dataframe(pd.DataFrame(rows), hide_index=True)


def libraries_table(report: LibraryReport) -> Table:
    """One row a library: its version, how that is known, whether it is fit, and where it lies."""
    rows = [
        (
            library.name,
            library.version or NOTHING,
            library.known_by,
            f"✗ {library.problem}" if library.problem else "✓ loads",
            library.path or NOTHING,
        )
        for library in report.libraries
    ]
    columns = tuple(map(Column, ("library", "version", "known from", "state", "path")))
    return Table("Libraries a plan needs", columns, tuple(Row(row[0], tuple(map(Cell, row))) for row in rows))


def versions_frame(report: LibraryReport, driver: str | None) -> pd.DataFrame:
    """What has a version of its own besides the libraries."""
    versions = {
        "cuDNN backend": report.cudnn_backend,
        "cuDNN frontend": report.cudnn_frontend,
        "torch": report.torch,
        "NVIDIA driver": driver or "none",
        "CUDA of libcuda": next((x.version for x in report.libraries if x.name == "libcuda"), None) or "none",
        "Python": report.python,
        "Streamlit": st.__version__,
    }
    return pd.DataFrame({"part": list(versions), "version": [v or "not installed" for v in versions.values()]})


def jobs_frame(jobs: Sequence[JobSnapshot]) -> pd.DataFrame:
    """One row a job, those that run or wait first."""
    rows = [
        {
            "state": f"waits behind {job.position}" if job.position else job.state.value,
            "work": f"{job.kind}: {job.pipeline}",
            "for": f"{job.target.gpu_name} ({job.target.source.value})",
            "progress": job.fraction,
            "now": job.message,
            "elapsed (s)": round(job.elapsed_s, 1),
            "asked at (UTC)": f"{job.submitted_at:%Y-%m-%d %H:%M:%S}",
        }
        for job in jobs
    ]
    return pd.DataFrame(rows)
