"""The report: an HTML file of the results recorded on GPUs and of those of this machine; and its figures and tables as files for papers."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from importlib import resources
from pathlib import Path

from gpuheap import __version__
from gpuheap.answers.views import CaseView, case_views
from gpuheap.catalogue import ordered
from gpuheap.errors import UserError
from gpuheap.files import check_no_input, replace_file
from gpuheap.formats.suites import Suite, load_suites
from gpuheap.judging.printed import PrintedValue, load_printed
from gpuheap.paths import Layout
from gpuheap.report.recorded import Recording, find_recordings
from gpuheap.running.environment import now, spoken

OVERVIEW_SERIES = 9  # the number of names that fit at the ends of the lines
LARGEST_PAGE = 1_500_000  # in bytes; in a larger report each suite has a page of its own


def write_report(layout: Layout, path: Path, further: Sequence[Path] = ()) -> Path:
    """Writes the page and returns its path. If it is larger than LARGEST_PAGE, each suite gets a page in a folder with the page's name, without suffix.

    Raises UserError for a table that is not in the format, and for a path that cannot be written.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    from gpuheap.report.inline import marker_symbols
    from gpuheap.report.page import GpuSection, gpu_section, simulated_section
    from gpuheap.report.pages import first_page, suite_pages
    from gpuheap.report.tables import pieces

    suites = _quick_first(load_suites(layout))
    on_gpus, simulated = find_recordings(layout, further)
    check_no_input(path, "--output", (file for recording in (*on_gpus, *simulated) for file in recording.folder.iterdir()))
    printed = _printed(layout)
    environment = Environment(
        loader=PackageLoader("gpuheap.report", ""), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    files = resources.files("gpuheap.report")
    template = environment.get_template("report.html.j2")
    machines = [simulated_section(recording, suites) for recording in simulated]

    def page(gpus: Sequence[GpuSection], first: str = "") -> str:
        return template.render(
            gpus=gpus,
            simulated=[] if first else machines,
            first=first,
            version=__version__,
            date=spoken(now()),
            style=Markup((files / "report.css").read_text(encoding="utf-8")),
            script=Markup((files / "report.js").read_text(encoding="utf-8")),
            safe=Markup,
            symbols=Markup(marker_symbols()),
            pieces=pieces,
        )

    remedy = "name another file with --output"
    sections = [gpu_section(recording, suites, printed) for recording in on_gpus]
    html = page(sections)
    # A device or a pipe cannot have a folder next to it, so it gets everything as one page.
    if len(html.encode()) > LARGEST_PAGE and sections and (path.is_file() or not path.exists()):
        folder = path.with_name(path.stem if path.suffix else f"{path.name}-suites")
        for name, section in suite_pages(sections):
            _write(folder / name, page([section], f"../{path.name}"), remedy)
        html = page([first_page(section, folder.name) for section in sections])
    return _write(path, html, remedy)


def write_figures(layout: Layout, folder: Path, further: Sequence[Path] = (), only: Collection[str] | None = None) -> Iterator[Path]:
    """Writes for each case and GPU an SVG and a PDF file, the tables as LaTeX, and `quick.svg`, the overview of the quick suite.

    With `only`, writes just the SVG files of these names, as `survey-init`, and `quick.svg`. Yields each path once it is written. Raises UserError if
    there are no results of a GPU.
    """
    from gpuheap.report.charts import charts_of
    from gpuheap.report.figures import case_file, case_pdf

    suites = _quick_first(load_suites(layout))
    on_gpus, _ = find_recordings(layout, further)
    if not on_gpus:
        raise UserError(f"no GPU results in {layout.shown(layout.results)}: figures show measured times only")
    overview_written = False
    printed = _printed(layout)
    for recording in on_gpus:
        of_gpu = folder / recording.folder.name
        views = case_views(recording.rows, suites)
        for view in views:
            name = f"{view.suite}-{view.name}"
            if only is not None and name not in only:
                continue
            charts = charts_of(view, printed)
            if charts:
                yield _write(of_gpu / f"{name}.svg", case_file(charts, recording.name))
                if only is None:
                    yield _write(of_gpu / f"{name}.pdf", case_pdf(charts, recording.name))
        if only is None:
            for name, text in _latex_tables(recording, views):
                yield _write(of_gpu / f"{name}.tex", text)
        picture = None if overview_written else _overview(recording, suites)
        if picture is not None:
            overview_written = True
            yield _write(folder / "quick.svg", picture)


def _latex_tables(recording: Recording, views: list[CaseView]) -> Iterator[tuple[str, str]]:
    """The report's tables by file name: for each suite the headline medians, the best allocators and the time-outs, and for each case all points."""
    from gpuheap.answers.patterns import best_per_pattern
    from gpuheap.report.latex import best_table, grid_table
    from gpuheap.report.tables import points_table, summary_table, timeouts_table, traits_of

    traits = traits_of(recording)
    for suite in dict.fromkeys(view.suite for view in views):
        of_suite = [view for view in views if view.suite == suite]
        names = ordered(name for view in of_suite for name in view.allocators)
        where = f"suite {suite}, {recording.name}"
        yield f"{suite}-summary", grid_table(summary_table(of_suite, names, traits), f"Medians, {where}", f"{suite}-summary")
        patterns = best_per_pattern(of_suite, traits)
        if patterns:
            caption = f"The best allocator for each pattern and how far ahead of the next it is, {where}"
            yield f"{suite}-best", best_table(patterns, caption, f"{suite}-best")
        timeouts = timeouts_table(of_suite, names, traits)
        if timeouts is not None:
            yield f"{suite}-timeouts", grid_table(timeouts, f"Points that ran out of time, {where}", f"{suite}-timeouts")
        for view in of_suite:
            label = f"{suite}-{view.name}"
            yield label, grid_table(points_table(view, traits), f"{view.name}: medians, {where}", label)


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


def _printed(layout: Layout) -> tuple[PrintedValue, ...]:
    """The numbers that papers print; none if the checkout holds none."""
    return load_printed(layout) if layout.claims.is_dir() else ()


def _quick_first(suites: dict[str, Suite]) -> dict[str, Suite]:
    return dict(sorted(suites.items(), key=lambda pair: (pair[0] != "quick", pair[0])))


def _write(path: Path, content: str | bytes, remedy: str = "name another folder with --figures") -> Path:
    replace_file(path, content, remedy)
    return path
