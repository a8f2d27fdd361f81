"""The report: one HTML file of what was recorded on GPUs and what ran on this machine; and the same figures as files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import resources
from pathlib import Path

from gpuheap import __version__
from gpuheap.environment import now
from gpuheap.errors import UserError
from gpuheap.paths import Layout
from gpuheap.report.recorded import Recording, find_recordings
from gpuheap.results import replace_file
from gpuheap.suites import Suite, load_suites
from gpuheap.views import case_views

OVERVIEW_SERIES = 9  # as many names as fit beside the lines


def write_report(layout: Layout, path: Path, further: Sequence[Path] = ()) -> Path:
    """Writes the page. Raises UserError for a table that is not in the format, and for a path that cannot be written."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    from gpuheap.report.page import gpu_section, simulated_section

    suites = _quick_first(load_suites(layout))
    on_gpus, simulated = find_recordings(layout, further)
    environment = Environment(
        loader=PackageLoader("gpuheap.report", ""), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    files = resources.files("gpuheap.report")
    html = environment.get_template("report.html.j2").render(
        gpus=[gpu_section(recording, suites) for recording in on_gpus],
        simulated=[simulated_section(recording, suites) for recording in simulated],
        version=__version__,
        date=now().replace("T", " ").replace("Z", " UTC"),
        style=Markup((files / "report.css").read_text(encoding="utf-8")),
        script=Markup((files / "report.js").read_text(encoding="utf-8")),
        safe=Markup,
    )
    return _write(path, html)


def write_figures(layout: Layout, folder: Path, further: Sequence[Path] = ()) -> Iterator[Path]:
    """Writes a file for each case and GPU, and `quick.svg`, the overview of the first GPU that has the quick suite.

    Gives each path as it is written.
    """
    from gpuheap.report.charts import charts_of
    from gpuheap.report.figures import case_file

    suites = _quick_first(load_suites(layout))
    on_gpus, _ = find_recordings(layout, further)
    if not on_gpus:
        raise UserError(f"no GPU results in {layout.shown(layout.results)}: figures show measured times only")
    overview_written = False
    for recording in on_gpus:
        for view in case_views(recording.rows, suites):
            charts = [chart for chart in charts_of(view) if any(series.marks for series in chart.series)]
            if charts:
                yield _write(folder / recording.folder.name / f"{view.suite}-{view.name}.svg", case_file(charts, recording.name))
        picture = None if overview_written else _overview(recording, suites)
        if picture is not None:
            overview_written = True
            yield _write(folder / "quick.svg", picture)


def _overview(recording: Recording, suites: dict[str, Suite]) -> str | None:
    from gpuheap.report.charts import charts_of, cut
    from gpuheap.report.figures import overview_file

    views = {view.name: view for view in case_views(recording.rows, suites) if view.suite == "quick"}
    if "alloc_single" not in views:
        return None
    lines = next((chart for chart in charts_of(views["alloc_single"]) if chart.metric.name == "malloc_us" and chart.axis is not None), None)
    dots = (
        next((chart for chart in charts_of(views["churn"]) if chart.metric.name == "kernel_us" and chart.axis is None), None)
        if "churn" in views
        else None
    )
    if lines is None:
        return None
    lines, dots = cut(lines, OVERVIEW_SERIES), dots and cut(dots, OVERVIEW_SERIES)
    return overview_file(
        lines, dots, f"Allocation inside kernels, {recording.name}", "median time of one kernel, logarithmic; lower is better"
    )


def _quick_first(suites: dict[str, Suite]) -> dict[str, Suite]:
    return dict(sorted(suites.items(), key=lambda pair: (pair[0] != "quick", pair[0])))


def _write(path: Path, text: str) -> Path:
    try:
        replace_file(path, text.encode())
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from None
    return path
